"""The two-sided response: a minority label whose probability falls in exact steps.

Both the geometric vote (P1) and the two-step walk (P4) answer like this, and it is
the optimal pure rule for a whole number that moves by one step of the staircase.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reticent._arrays import Bools, Floats, Ints
from reticent.mechanisms.response import Response
from reticent.mechanisms.sampling.exact import EXP_ERROR, draw_below, exp_interval
from reticent.mechanisms.sampling.fixed_point import exp_bounds
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.randomness import RandomSource


@dataclass(frozen=True, eq=False, repr=False)
class TwoSidedResponse(Response):
    """Two labels; the minority has probability ``exp(-exponent)`` times a base.

    The base is 1/2, or ``1/(1 + exp(step))`` in rows between two stairs.
    """

    minority: Ints  #: shape (n,); index (0 or 1) of the less likely label
    exponents: Floats  #: shape (n,); floats >= 0, exact
    between: Bools  #: which rows have the smaller base
    step: float  #: the epsilon of one stair, exact

    @property
    def n_labels(self) -> int:
        """Number of labels: two."""
        return 2

    def __len__(self) -> int:
        return len(self.minority)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        low, high = exp_interval(self.exponents)
        base = np.where(self.between, 1 / (1 + np.exp(min(self.step, 700.0))), 0.5)
        # Adding 1, dividing and multiplying add three roundings to exp's own error.
        low *= base * (1 - 2 * EXP_ERROR)
        high *= base * (1 + 2 * EXP_ERROR)
        if self.step > 700:
            low[self.between] = 0.0

        def refine(index: int, bits: int) -> tuple[int, int]:
            return self._bounds(index, bits)

        chosen = draw_below(low, high, refine, source)
        return self.minority ^ ~chosen

    def _bounds(self, index: int, bits: int) -> tuple[int, int]:
        """Return integers around ``2**bits`` times the minority's probability."""
        exponent, step = Fraction(float(self.exponents[index])), Fraction(self.step)
        if not self.between[index]:
            low, high = exp_bounds(exponent, bits)
            return low >> 1, (high + 1) >> 1
        # exp(-x)/(1 + exp(step)) = exp(-x - step)/(1 + exp(-step))
        low, high = exp_bounds(exponent + step, bits)
        other = exp_bounds(step, bits)
        one = 1 << bits
        return (low << bits) // (one + other[1]), -((-high << bits) // (one + other[0]))

    def _log_probabilities(self) -> Floats:
        base = np.where(self.between, -np.logaddexp(0.0, self.step), -np.log(2.0))
        small = base - self.exponents
        with np.errstate(under="ignore"):
            large = np.log1p(-np.exp(small))
        result = np.empty((len(self), 2))
        rows = np.arange(len(self))
        result[rows, self.minority] = small
        result[rows, 1 - self.minority] = large
        return result

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        odds = arithmetic.exp(arithmetic.real(Fraction(self.step)))
        base = 1 / (1 + odds) if self.between[row] else arithmetic.real(Fraction(1, 2))
        exponent = arithmetic.real(Fraction(float(self.exponents[row])))
        small = arithmetic.log(base) - exponent
        large = arithmetic.log(1 - base * arithmetic.exp(-exponent))
        return [small, large] if self.minority[row] == 0 else [large, small]
