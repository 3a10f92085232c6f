"""Release: models that are themselves private, and may be shared.

Linear learners share their `fit` and their predictions: see `ReleasedLinearClassifier`
and `ReleasedLinearRegressor` in `reticent.estimators`.
"""

from reticent.learners.linear.best_subset import BestSubsetRegressor
from reticent.learners.linear.fourier_features import FourierFeatures
from reticent.learners.linear.log_concave import (
    LogConcaveClassifier,
    LogConcaveRegressor,
)
from reticent.learners.linear.noisy_gradient import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
)
from reticent.learners.linear.objective_noise import (
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
)
from reticent.learners.linear.output_noise import (
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
)
from reticent.learners.meta.high_confidence import HighConfidence
from reticent.learners.meta.resampling import Resampled, Subsampled
from reticent.learners.public.bounds import regularized_excess_at_most
from reticent.learners.public.cover import PublicCoverClassifier
from reticent.learners.public.perturbed_erm import PerturbedERMClassifier
from reticent.learners.public.regularized import (
    RegularizedERMClassifier,
    RegularizedERMRegressor,
)
from reticent.learners.public.rrspm import RRSPMClassifier
from reticent.learners.public.rspm import RSPMClassifier
from reticent.learners.public.separator_bounds import (
    ExcessErrorBound,
    rrspm_error_at_most,
)
from reticent.learners.public.student import StudentClassifier
from reticent.learners.public.teaching_sets import identification_set, teaching_size
from reticent.learners.search.search import PrivateSearch
from reticent.learners.selection.exponential import ExponentialMechanismClassifier
from reticent.learners.selection.optimal import (
    OptimalAlgorithm,
    best_epsilon,
    optimal_learner,
    optimal_predictor,
    worst_excess,
)
from reticent.learners.selection.perfect_generalization import (
    PerfectlyGeneralizingClassifier,
    perfect_sample_size,
)
from reticent.learners.tabular.base import PrivateTabular
from reticent.learners.tabular.private_tabular import (
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.learners.tabular.random_partitions import RandomPartitions

__all__ = [
    "BestSubsetRegressor",
    "ExcessErrorBound",
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
    "PrivateSearch",
    "PrivateTabular",
    "PrivateTabularClassifier",
    "PrivateTabularRegressor",
    "PublicCoverClassifier",
    "RRSPMClassifier",
    "RSPMClassifier",
    "RandomPartitions",
    "RegularizedERMClassifier",
    "RegularizedERMRegressor",
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
