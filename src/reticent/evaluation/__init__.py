"""How good a model is on sensitive rows, as private numbers with intervals."""

from reticent.evaluation.metric import PrivateMetric
from reticent.evaluation.metrics import Evaluation
from reticent.evaluation.sums import (
    UNIT_STEPS,
    NoisySums,
    in_steps,
    unit_counts,
    unit_sums,
)

__all__ = [
    "UNIT_STEPS",
    "Evaluation",
    "NoisySums",
    "PrivateMetric",
    "in_steps",
    "unit_counts",
    "unit_sums",
]
