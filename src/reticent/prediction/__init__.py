"""Ask: private predictions from models that stay inside.

Every answer of a predictor is differentially private; `certificate_` says how, and
`PredictionInterface` keeps all answers within a budget.
"""

from reticent.prediction.answering import (
    DrawAt,
    PaidAnswers,
    answer,
    answer_async,
)
from reticent.prediction.averaging import PrivateAveragingClassifier
from reticent.prediction.averaging_regressor import (
    BoundedAnswers,
    PrivateAveragingRegressor,
)
from reticent.prediction.consensus import ConsensusInterface
from reticent.prediction.interface import PredictionInterface
from reticent.prediction.law import AnswerLaw
from reticent.prediction.queries import canonical_rows
from reticent.prediction.relabeling import RelabelingClassifier
from reticent.prediction.selection import StableSelectionClassifier
from reticent.prediction.selection_rules import plan_for_privacy
from reticent.prediction.sharded.base import over_shards
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.sums import sum_noise
from reticent.prediction.stable_linear import (
    StableLinearClassifier,
    StableLinearRegressor,
)
from reticent.prediction.voting import RULES, PrivateVotingClassifier, Vote, VotingLaw
from reticent.prediction.walk import ProjectedWalkClassifier

__all__ = [
    "RULES",
    "AnswerLaw",
    "BoundedAnswers",
    "ConsensusInterface",
    "DrawAt",
    "PaidAnswers",
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
    "Vote",
    "VotingLaw",
    "answer",
    "answer_async",
    "canonical_rows",
    "over_shards",
    "plan_for_privacy",
    "sum_noise",
]
