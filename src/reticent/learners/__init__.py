"""Release: models that are themselves private, and may be shared."""

from reticent.learners.optimal import (
    OptimalAlgorithm,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)

__all__ = [
    "OptimalAlgorithm",
    "best_epsilon",
    "optimal_learner",
    "optimal_predictor",
    "worst_excess",
]
