"""Hypothesis classes and their exact oracles.

Each class lists the labelings of a point set (`project`), minimises weighted mistakes
with weights of either sign (`minimise`), and knows its VC dimension and growth
function.
"""

from reticent.hypotheses.base import MAX_LABELINGS, HypothesisClass, Minimum, Projection
from reticent.hypotheses.conjunctions import Conjunction, Conjunctions
from reticent.hypotheses.covers import cover_of, net_error
from reticent.hypotheses.dimensions import sauer_shelah
from reticent.hypotheses.finite import FiniteClass, FiniteProjection, Member
from reticent.hypotheses.halfspaces import Halfspaces, LayeredHalfspace
from reticent.hypotheses.intervals import Intervals, IntervalUnion
from reticent.hypotheses.linear import ConvexMinimum, LinearBall, LinearFunction
from reticent.hypotheses.losses import (
    ConvexLoss,
    HuberLoss,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)
from reticent.hypotheses.oracles.costs import COST_TOTAL_BITS, Costs, signed_costs
from reticent.hypotheses.oracles.points import distinct_rows, point_matrix
from reticent.hypotheses.oracles.separation import Halfspace
from reticent.hypotheses.oracles.solver_output import without_solver_output
from reticent.hypotheses.oracles.sorted_columns import SortedColumns, Tally
from reticent.hypotheses.own_functions import runs_own_functions
from reticent.hypotheses.rectangles import Rectangle, Rectangles
from reticent.hypotheses.stumps import Stump, Stumps
from reticent.hypotheses.thresholds import Threshold, Thresholds

__all__ = [
    "COST_TOTAL_BITS",
    "MAX_LABELINGS",
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
    "cover_of",
    "distinct_rows",
    "net_error",
    "point_matrix",
    "runs_own_functions",
    "sauer_shelah",
    "signed_costs",
    "without_solver_output",
]
