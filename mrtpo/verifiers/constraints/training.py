"""The 29 kinds of IF-RLVR's training data beside IFEval's, under their names in open-instruct.

Source: Pyatkin et al., Generalizing Verifiable Instruction Following (arXiv 2507.02833), IFEvalG of
allenai/open-instruct. They are checked as there, except that keywords are texts and no regular
expressions, and that sentences are NLTK's.
"""

from __future__ import annotations

from mrtpo.verifiers.constraints import (
    training_copies,
    training_layout,
    training_places,
    training_words,
)
from mrtpo.verifiers.constraints.kinds import Kind

_MODULES = (training_copies, training_layout, training_places, training_words)
KINDS: dict[str, Kind] = {id: kind for module in _MODULES for id, kind in module.KINDS.items()}
