"""Multi-reward RL post-training with each reward's credit on the tokens that earned it."""

__version__ = "0.1.0"
