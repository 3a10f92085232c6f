"""Individual accounting: what units have spent, and who may still contribute (G24)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats, Ints
from reticent._numbers import ceil_float, exact, positive, whole
from reticent.errors import InvalidParameterError

#: What a unit may spend in total, in steps. Costs are rounded up to whole steps.
FULL = 1 << 31
# Relative error of a cost in floating point: two products and a ceiling.
_SLACK = 1 + 2.0**-48


class UnitFilter:
    r"""What each unit has spent of a cap that is the same for all.

    Which units have used up their cap, and how many, is a secret: nothing here may be
    shown, and nothing that shapes a round may depend on it.

    Parameters
    ----------
    n_units : int
        Number of units.
    cap : float
        Bound on the sum over rounds of a unit's ``weight * (norm / scale)**2``:
        :math:`\mu^2` for zeroing one unit, :math:`\mu^2/2` for replacing one.
    spent : ndarray of shape (n_units,), dtype uint32, optional
        Where to continue from: an earlier value of `spent`.

    Attributes
    ----------
    spent : ndarray of shape (n_units,), dtype uint32
        What each unit has spent, in steps of which the cap has `FULL`.

    Guarantee
    ---------
    On every sequence of rounds, each unit's sum over the rounds in which `admit` let it
    contribute is at most `cap`. Costs are rounded up.
    """

    def __init__(
        self, n_units: int, cap: float, spent: NDArray[np.uint32] | None = None
    ) -> None:
        self.n_units = whole("UnitFilter", "n_units", n_units)
        self.cap = positive("UnitFilter", "cap", cap)
        if spent is None:
            spent = np.zeros(self.n_units, dtype=np.uint32)
        if spent.shape != (self.n_units,) or spent.dtype != np.uint32:
            raise InvalidParameterError(
                f"spent needs {self.n_units} numbers of type uint32; got {spent.dtype} "
                f"of shape {spent.shape}."
            )
        self.spent = spent

    def price(self, scale: float, weight: int) -> float:
        """Return the steps that a contribution of norm one costs, rounded up.

        Parameters
        ----------
        scale : float
            Standard deviation of the round's noise, in the unit of the norm.
        weight : {1, 2}
            2 under replace-one where contributions may point apart, else 1.
        """
        return _price(positive("UnitFilter", "scale", scale), weight, self.cap)

    def admit(
        self,
        units: Ints | slice,
        squares: Floats,
        price: float,
        reserve: Floats | float = 0.0,
    ) -> Bools:
        """Charge one round; return which units may contribute to it.

        Parameters
        ----------
        units : ndarray of int, or slice
            The units of this round, each at most once.
        squares : ndarray of float
            The squared norm of each unit's contribution, or more than that.
        price : float
            Steps for a squared norm of one, from `price`.
        reserve : float or ndarray of float, default=0.0
            Steps that a unit must have left afterwards: one number for all, or one for
            each.

        Returns
        -------
        ndarray of bool
            Which units can pay. Contributions of the others must be left out of this
            round.
        """
        before = self.spent[units].astype(np.int64)
        after = before + _steps(squares, price)
        speaks = after <= FULL - np.ceil(reserve)
        self.spent[units] = np.where(speaks, after, before)
        return np.asarray(speaks)

    def affords(
        self,
        units: NDArray[np.int64],
        squares: NDArray[np.float64],
        price: float,
        reserve: Floats | float,
    ) -> NDArray[np.bool_]:
        """Return which units could pay for a round and have enough left; charge nobody.

        Parameters
        ----------
        units, squares, price, reserve
            As for `admit`.
        """
        after = self.spent[units].astype(np.int64) + _steps(squares, price)
        return np.asarray(after <= FULL - np.ceil(reserve))


@lru_cache(maxsize=256)
def _price(scale: float, weight: int, cap: float) -> float:
    return ceil_float(Fraction(FULL) * weight / (exact(scale) ** 2 * exact(cap)))


def _steps(squares: NDArray[np.float64], price: float) -> NDArray[np.int64]:
    """Return costs in whole steps, rounded up; what is no number is beyond all caps."""
    steps = np.fmin(np.ceil(squares * price * _SLACK), FULL + 1.0)
    return np.asarray(steps.astype(np.int64))
