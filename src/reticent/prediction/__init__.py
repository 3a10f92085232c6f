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
from reticent.prediction.averaging import (
    AverageLabelLaw,
    PrivateAveragingClassifier,
    label_noise,
)
from reticent.prediction.averaging_regressor import (
    AverageNumberLaw,
    PrivateAveragingRegressor,
)
from reticent.prediction.bounded_answers import BoundedAnswers
from reticent.prediction.consensus import (
    ConsensusInterface,
    ShardConsensus,
    shards_for_consensus,
)
from reticent.prediction.interface import PredictionInterface
from reticent.prediction.law import AnswerInterface, AnswerLaw, law_of
from reticent.prediction.linear.stable_linear import (
    StableLinearClassifier,
    StableLinearRegressor,
)
from reticent.prediction.queries import canonical_rows
from reticent.prediction.selection.relabeling import RelabelingClassifier
from reticent.prediction.selection.stable_selection import StableSelectionClassifier
from reticent.prediction.selection.stable_selection_rules import plan_for_privacy
from reticent.prediction.sharded.base import (
    ShardLaw,
    TableForm,
    TrainedShards,
    over_shards,
)
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.sums import SumNoise
from reticent.prediction.voting import (
    VOTE_RULES,
    PrivateVotingClassifier,
    VoteRule,
    VotingLaw,
)
from reticent.prediction.walk import ProjectedWalkClassifier

__all__ = [
    "VOTE_RULES",
    "AnswerInterface",
    "AnswerLaw",
    "AverageLabelLaw",
    "AverageNumberLaw",
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
    "ShardConsensus",
    "ShardLaw",
    "StableLinearClassifier",
    "StableLinearRegressor",
    "StableSelectionClassifier",
    "SumNoise",
    "TableForm",
    "TrainedShards",
    "VoteRule",
    "VotingLaw",
    "answer",
    "answer_async",
    "canonical_rows",
    "label_noise",
    "law_of",
    "over_shards",
    "plan_for_privacy",
    "shards_for_consensus",
]
