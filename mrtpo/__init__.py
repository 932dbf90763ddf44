"""Multi-reward RL post-training with each reward's credit on the tokens that earned it."""

import os

__version__ = "0.1.0"

# Nothing leaves the machine unless the user asks for it, whichever library is imported first.
# One thread: measured faster than two for the small models of the default job, whose matrices are
# so small that threads mostly wait for each other.
for _name, _value in {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}.items():
    os.environ.setdefault(_name, _value)
