"""Release: models that are themselves private, and may be shared."""

from reticent.learners.cover import PublicCoverClassifier
from reticent.learners.exponential import ExponentialMechanismClassifier
from reticent.learners.noisy_gradient import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
)
from reticent.learners.optimal import (
    OptimalAlgorithm,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)
from reticent.learners.perfect import (
    PerfectlyGeneralizingClassifier,
    perfect_sample_size,
)

__all__ = [
    "ExponentialMechanismClassifier",
    "NoisyGradientClassifier",
    "NoisyGradientRegressor",
    "OptimalAlgorithm",
    "PerfectlyGeneralizingClassifier",
    "PublicCoverClassifier",
    "best_epsilon",
    "optimal_learner",
    "optimal_predictor",
    "perfect_sample_size",
    "worst_excess",
]
