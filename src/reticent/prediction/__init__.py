"""Ask: private predictions from models that stay inside.

Every answer of a predictor is differentially private; `certificate_` says how, and
`PredictionInterface` keeps all answers within a budget.
"""

from reticent.prediction.averaging import PrivateAveragingClassifier
from reticent.prediction.averaging_regressor import PrivateAveragingRegressor
from reticent.prediction.consensus import ConsensusInterface
from reticent.prediction.interface import PredictionInterface
from reticent.prediction.law import AnswerLaw
from reticent.prediction.relabeling import RelabelingClassifier
from reticent.prediction.selection import StableSelectionClassifier
from reticent.prediction.shards import ShardChoice
from reticent.prediction.stable_linear import (
    StableLinearClassifier,
    StableLinearRegressor,
)
from reticent.prediction.voting import PrivateVotingClassifier
from reticent.prediction.walk import ProjectedWalkClassifier

__all__ = [
    "AnswerLaw",
    "ConsensusInterface",
    "PredictionInterface",
    "PrivateAveragingClassifier",
    "PrivateAveragingRegressor",
    "PrivateVotingClassifier",
    "ProjectedWalkClassifier",
    "RelabelingClassifier",
    "ShardChoice",
    "StableLinearClassifier",
    "StableLinearRegressor",
    "StableSelectionClassifier",
]
