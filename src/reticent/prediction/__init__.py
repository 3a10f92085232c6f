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
from reticent.prediction.budgets import promised_by, spent_so_far
from reticent.prediction.consensus import (
    ConsensusInterface,
    ShardConsensus,
    shards_for_consensus,
)
from reticent.prediction.interface import PredictionInterface
from reticent.prediction.lasting.answers import LastingAnswers, LastingReply
from reticent.prediction.lasting.evidence import EvidencePoint
from reticent.prediction.lasting.histories import (
    begin_log,
    begin_storing,
    check_log,
    log_account,
    only_continue,
)
from reticent.prediction.lasting.interface import UNLIMITED, LastingInterface
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.snapshots import Snapshot, SnapshotFile
from reticent.prediction.lasting.totals import (
    charge_total,
    total_charges,
    total_forms,
    total_key,
)
from reticent.prediction.law import AnswerInterface, AnswerLaw, LawfulPredictor, law_of
from reticent.prediction.linear.stable_linear import (
    StableLinearClassifier,
    StableLinearRegressor,
)
from reticent.prediction.neighbors.base import LocalPredictor
from reticent.prediction.neighbors.classifier import PrivateNeighborsClassifier
from reticent.prediction.neighbors.index import Axis
from reticent.prediction.neighbors.law import LocalAnswers, LocalLaw
from reticent.prediction.neighbors.local_units import QuestionPlan
from reticent.prediction.neighbors.metric import Metric
from reticent.prediction.neighbors.regressor import PrivateNeighborsRegressor
from reticent.prediction.neighbors.spending import Lessons, Spending
from reticent.prediction.neighbors.split import SplitLaw, split_over
from reticent.prediction.neighbors.votes import ManyLabels, Numbers, TwoLabels, Votes
from reticent.prediction.neighbors.workers import DaskWorkers, RayWorkers, UnitsWorkers
from reticent.prediction.queries import canonical_rows
from reticent.prediction.selection.relabeling import RelabelingClassifier
from reticent.prediction.selection.relabeling_rules import (
    plan_relabeling,
    relabeling_excess,
)
from reticent.prediction.selection.stable_selection import StableSelectionClassifier
from reticent.prediction.selection.stable_selection_rules import (
    plan_for_privacy,
    selection_excess,
)
from reticent.prediction.sharded.base import (
    ShardLaw,
    TableForm,
    TrainedShards,
    over_shards,
)
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.expectation import Expectation
from reticent.prediction.sharded.sums import SumNoise
from reticent.prediction.voting import (
    VOTE_RULES,
    PrivateVotingClassifier,
    VoteRule,
    VotingLaw,
)
from reticent.prediction.walk import ProjectedWalkClassifier

__all__ = [
    "UNLIMITED",
    "VOTE_RULES",
    "AnswerInterface",
    "AnswerLaw",
    "AverageLabelLaw",
    "AverageNumberLaw",
    "Axis",
    "BoundedAnswers",
    "ConsensusInterface",
    "DaskWorkers",
    "DrawAt",
    "EvidencePoint",
    "Expectation",
    "LastingAnswers",
    "LastingInterface",
    "LastingLaw",
    "LastingReply",
    "LawfulPredictor",
    "Lessons",
    "LocalAnswers",
    "LocalLaw",
    "LocalPredictor",
    "ManyLabels",
    "Metric",
    "Numbers",
    "PaidAnswers",
    "PredictionInterface",
    "PrivateAveragingClassifier",
    "PrivateAveragingRegressor",
    "PrivateNeighborsClassifier",
    "PrivateNeighborsRegressor",
    "PrivateVotingClassifier",
    "ProjectedWalkClassifier",
    "QuestionPlan",
    "RayWorkers",
    "RelabelingClassifier",
    "ShardChoice",
    "ShardConsensus",
    "ShardLaw",
    "Snapshot",
    "SnapshotFile",
    "Spending",
    "SplitLaw",
    "StableLinearClassifier",
    "StableLinearRegressor",
    "StableSelectionClassifier",
    "SumNoise",
    "TableForm",
    "TrainedShards",
    "TwoLabels",
    "UnitsWorkers",
    "VoteRule",
    "Votes",
    "VotingLaw",
    "answer",
    "answer_async",
    "begin_log",
    "begin_storing",
    "canonical_rows",
    "charge_total",
    "check_log",
    "label_noise",
    "law_of",
    "log_account",
    "only_continue",
    "over_shards",
    "plan_for_privacy",
    "plan_relabeling",
    "promised_by",
    "relabeling_excess",
    "selection_excess",
    "shards_for_consensus",
    "spent_so_far",
    "split_over",
    "total_charges",
    "total_forms",
    "total_key",
]
