"""What can be learned: hypothesis classes and their exact oracles.

Each class lists the labelings of a point set (`project`), minimises weighted mistakes
with weights of either sign (`minimise`), and knows its VC dimension and growth
function.
"""

from reticent.hypotheses.base import LONGEST_LIST, HypothesisClass, Minimum, Projection
from reticent.hypotheses.conjunctions import Conjunction, Conjunctions
from reticent.hypotheses.dimensions import sauer_shelah
from reticent.hypotheses.finite import FiniteClass, FiniteProjection, Member
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
from reticent.hypotheses.oracles.costs import TOTAL_BITS, Costs, signed_costs
from reticent.hypotheses.oracles.points import distinct_rows, matrix
from reticent.hypotheses.oracles.silence import silent
from reticent.hypotheses.oracles.sorted_columns import SortedColumns, Tally
from reticent.hypotheses.rectangles import Rectangle, Rectangles
from reticent.hypotheses.stumps import Stump, Stumps
from reticent.hypotheses.thresholds import Threshold, Thresholds

__all__ = [
    "LONGEST_LIST",
    "TOTAL_BITS",
    "Conjunction",
    "Conjunctions",
    "ConvexLoss",
    "ConvexMinimum",
    "Costs",
    "FiniteClass",
    "FiniteProjection",
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
    "distinct_rows",
    "matrix",
    "sauer_shelah",
    "signed_costs",
    "silent",
]
