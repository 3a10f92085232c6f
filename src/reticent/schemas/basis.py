"""Numeric columns as features: one number, one of several bins, or a spline basis.

Every basis is a function of the public range and of public knots. Every basis maps a
number to a vector of Euclidean norm at most one, and reaches one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy.interpolate import BSpline

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError
from reticent.schemas.columns import (
    Numeric,
    checked_number,
    plain_number,
    restored,
    transformed,
)

BASES = ("linear", "bins", "splines")
_DEGREE = 3


def inner_knots(name: str, spec: Numeric, knots: int | Sequence[float]) -> Floats:
    """Return the knots inside the range, in the column's own unit.

    A whole number asks for that many knots, evenly spread after the transform.
    """
    if isinstance(knots, bool) or not isinstance(knots, int | list | tuple):
        raise InvalidParameterError(
            f"knots of column {name!r} need a whole number or a list; got {knots!r}."
        )
    if isinstance(knots, int):
        if not 1 <= knots <= 1000:
            raise InvalidParameterError(
                f"knots={knots} of column {name!r} needs a whole number from 1 to 1000."
            )
        low, high = transformed(spec.transform, np.array([spec.low, spec.high]))
        places = np.linspace(low, high, knots + 2)[1:-1]
        found = restored(spec.transform, places)
    else:
        found = np.array([checked_number(f"knots of {name!r}", k) for k in knots])
    inside = (found > spec.low) & (found < spec.high)
    if not (len(found) > 0 and inside.all() and (np.diff(found) > 0).all()):
        raise InvalidParameterError(
            f"knots of column {name!r} need increasing numbers strictly between "
            f"{plain_number(spec.low)} and {plain_number(spec.high)}."
        )
    return found


class NumericFeatures:
    """How one numeric column becomes bins or splines.

    Parameters
    ----------
    name : str
        The column.
    spec : Numeric
        Its public range.
    basis : {"bins", "splines"}
        The kind of features.
    knots : int or sequence of float
        Knots inside the range, or their number.
    """

    def __init__(
        self, name: str, spec: Numeric, basis: str, knots: int | Sequence[float]
    ) -> None:
        self._spec = spec
        self._knots = inner_knots(name, spec, knots)
        self._spline: BSpline | None = None
        if basis == "splines":
            inner = scaled(spec, self._knots)
            clamped = np.pad(inner, _DEGREE + 1, constant_values=(0.0, 1.0))
            count = len(inner) + _DEGREE + 1
            self._spline = BSpline(clamped, np.eye(count), _DEGREE)
            self.names = [f"{name} spline {i}" for i in range(count)]
        else:
            edges = [f"{e:.6g}" for e in (spec.low, *self._knots.tolist(), spec.high)]
            self.names = [f"{name} in [{a}, {b})" for a, b in pairwise(edges)]
            self.names[-1] = self.names[-1][:-1] + "]"

    def values(self, numbers: Floats) -> Floats:
        """Return the features of numbers inside the range; zeros for NaN."""
        rows = np.flatnonzero(~np.isnan(numbers))
        out = np.zeros((len(numbers), len(self.names)), dtype=np.float64)
        if self._spline is None:
            bins = np.searchsorted(self._knots, numbers[rows], side="right")
            out[rows, bins] = 1.0
        else:
            values = self._spline(scaled(self._spec, numbers[rows]))
            # B-splines lie in [0, 1]; rounding may leave them slightly outside.
            out[rows] = np.clip(values, 0.0, 1.0)
        return out


def scaled(spec: Numeric, values: Floats) -> Floats:
    """Return values inside the range on [0, 1], after the transform."""
    low, high = transformed(spec.transform, np.array([spec.low, spec.high]))
    shares = (transformed(spec.transform, values) - low) / (high - low)
    return np.asarray(np.clip(shares, 0.0, 1.0), dtype=np.float64)
