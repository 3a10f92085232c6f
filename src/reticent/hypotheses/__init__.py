"""What can be learned: hypothesis classes and their exact oracles.

Each class lists the labelings of a point set (`project`), minimises weighted mistakes
with weights of either sign (`minimise`), and knows its VC dimension and growth
function.
"""

from reticent.hypotheses.base import HypothesisClass, Minimum, Projection
from reticent.hypotheses.columns import SortedColumns, Tally
from reticent.hypotheses.conjunctions import Conjunction, Conjunctions
from reticent.hypotheses.dimensions import sauer_shelah
from reticent.hypotheses.finite import FiniteClass, Member
from reticent.hypotheses.halfspaces import Halfspace, Halfspaces, LayeredHalfspace
from reticent.hypotheses.intervals import Intervals, IntervalUnion
from reticent.hypotheses.linear import ConvexMinimum, LinearBall, LinearFunction
from reticent.hypotheses.losses import (
    ConvexLoss,
    HuberLoss,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)
from reticent.hypotheses.rectangles import Rectangle, Rectangles
from reticent.hypotheses.stumps import Stump, Stumps
from reticent.hypotheses.thresholds import Threshold, Thresholds

__all__ = [
    "Conjunction",
    "Conjunctions",
    "ConvexLoss",
    "ConvexMinimum",
    "FiniteClass",
    "Halfspace",
    "Halfspaces",
    "HuberLoss",
    "HypothesisClass",
    "IntervalUnion",
    "Intervals",
    "LayeredHalfspace",
    "LinearBall",
    "LinearFunction",
    "LogisticLoss",
    "Member",
    "Minimum",
    "Projection",
    "Rectangle",
    "Rectangles",
    "SmoothedHingeLoss",
    "SortedColumns",
    "SquaredLoss",
    "Stump",
    "Stumps",
    "Tally",
    "Threshold",
    "Thresholds",
    "sauer_shelah",
]
