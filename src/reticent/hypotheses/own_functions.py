"""Which classes call functions that are not the library's."""

from __future__ import annotations

from typing import Any

from reticent.hypotheses.conjunctions import Conjunctions
from reticent.hypotheses.finite import FiniteClass
from reticent.hypotheses.halfspaces import Halfspaces
from reticent.hypotheses.intervals import Intervals
from reticent.hypotheses.rectangles import Rectangles
from reticent.hypotheses.stumps import Stumps
from reticent.hypotheses.thresholds import Thresholds

_LIBRARY = (Conjunctions, Halfspaces, Intervals, Rectangles, Stumps, Thresholds)


def runs_own_functions(family: Any) -> bool:
    """Return whether a class labels rows by code of the caller.

    Nothing then ensures that the label of a row depends on that row alone, so a
    certificate has to assume it. A subclass may label rows differently from its base.
    """
    if type(family) is FiniteClass:
        return not family.is_table
    return type(family) not in _LIBRARY
