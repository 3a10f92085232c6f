"""Release: models that are themselves private, and may be shared."""

from reticent.learners.best_subset import BestSubsetRegressor
from reticent.learners.confident import HighConfidence
from reticent.learners.cover import PublicCoverClassifier
from reticent.learners.exponential import ExponentialMechanismClassifier
from reticent.learners.fourier_features import FourierFeatures
from reticent.learners.log_concave import LogConcaveClassifier, LogConcaveRegressor
from reticent.learners.noisy_gradient import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
)
from reticent.learners.objective_noise import (
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
)
from reticent.learners.optimal import (
    OptimalAlgorithm,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)
from reticent.learners.output_noise import (
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.learners.perfect import (
    PerfectlyGeneralizingClassifier,
    perfect_sample_size,
)
from reticent.learners.perturbed import PerturbedERMClassifier
from reticent.learners.public_bounds import regularized_excess_at_most
from reticent.learners.regularized import (
    RegularizedERMClassifier,
    RegularizedERMRegressor,
)
from reticent.learners.resampling import Resampled, Subsampled
from reticent.learners.rrspm import RRSPMClassifier
from reticent.learners.rspm import RSPMClassifier
from reticent.learners.separator_bounds import ReleaseError, rrspm_error_at_most
from reticent.learners.student import StudentClassifier
from reticent.learners.teaching import identification_set, teaching_size

__all__ = [
    "BestSubsetRegressor",
    "ExponentialMechanismClassifier",
    "FourierFeatures",
    "HighConfidence",
    "LogConcaveClassifier",
    "LogConcaveRegressor",
    "NoisyGradientClassifier",
    "NoisyGradientRegressor",
    "ObjectivePerturbationClassifier",
    "ObjectivePerturbationRegressor",
    "OptimalAlgorithm",
    "OutputPerturbationClassifier",
    "OutputPerturbationRegressor",
    "PerfectlyGeneralizingClassifier",
    "PerturbedERMClassifier",
    "PublicCoverClassifier",
    "RRSPMClassifier",
    "RSPMClassifier",
    "RegularizedERMClassifier",
    "RegularizedERMRegressor",
    "ReleaseError",
    "Resampled",
    "StudentClassifier",
    "Subsampled",
    "best_epsilon",
    "identification_set",
    "optimal_learner",
    "optimal_predictor",
    "perfect_sample_size",
    "regularized_excess_at_most",
    "rrspm_error_at_most",
    "teaching_size",
    "worst_excess",
]
