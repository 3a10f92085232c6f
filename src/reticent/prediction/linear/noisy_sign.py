"""The sign of a noisy score as a label: exact laws, and one exact draw (P3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from reticent._arrays import Floats, Ints
from reticent.mechanisms import (
    GridLaw,
    GridNoise,
    IntervalArithmetic,
    RandomSource,
    Response,
    TwoSidedResponse,
    draw_below,
    exact_products,
    exact_rate,
    normal_tail_bounds,
)

# Scores are clipped at this many scales of the noise, which never moves two of them
# further apart. Beyond, a Gaussian tail is below 1e-270, which a float represents
# poorly.
_FARTHEST = 35.0
# The same for Laplace noise, whose scale is a million steps of the grid or more.
_MOST_STEPS = 2**32
# SciPy's normal tail is good to about 1e-13 of its size down there; taken tenfold.
_DOUBT = 2.0**-39


def noisy_sign(scores: Floats, noise: GridNoise, *, reach: float) -> Response:
    r"""Return the law of the sign of scores plus noise, label 1 for positive ones.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of queries, whose move the noise was calibrated to.
    noise : GridNoise
        Laplace or Gaussian noise.
    reach : float
        Public bound on the size of a score.

    Guarantee
    ---------
    What the noise's certificate promises for the noisy scores: signs are
    post-processing. Scores are first rounded to the noise's grid. With Laplace noise
    of scale `b` the label against the sign of `s` has probability
    :math:`e^{-|s|/b}/2`, with Gaussian noise :math:`\Phi(-|s|/b)`; so one Bernoulli
    draw is enough, and no noise has to be drawn. (For discrete Laplace noise, zero
    counting as a fair coin, the probability is the same.)
    """
    response = noise.response(scores)
    steps = response.steps
    if noise.law is GridLaw.GAUSSIAN:
        return GaussianSignResponse(steps, response.scale_in_steps)
    # A rate just below 1/scale, so that its products with steps are exact.
    bound = min(math.ceil(reach / noise.grid) + 1, _MOST_STEPS)
    rate = exact_rate(1 / response.scale_in_steps, bound=bound)
    far = np.minimum(np.abs(steps), bound)
    return TwoSidedResponse(
        minority=(steps < 0).astype(np.int64),
        exponents=exact_products(far, rate),
        between=np.zeros(len(steps), dtype=bool),
        step=1.0,
    )


@dataclass(frozen=True, eq=False, repr=False)
class GaussianSignResponse(Response):
    r"""Label 1 with probability :math:`\Phi(k/b)`, the sign of `k` plus noise."""

    steps: Ints  # scores `k` in steps of a public grid
    scale: float  # scale `b` of the noise, in steps

    @property
    def n_labels(self) -> int:
        """Number of labels: two."""
        return 2

    def __len__(self) -> int:
        return len(self.steps)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        chance = ndtr(-self._far() / self.scale)
        low, high = chance * (1 - _DOUBT), np.minimum(chance * (1 + _DOUBT), 1.0)

        def refine(index: int, bits: int) -> tuple[int, int]:
            return normal_tail_bounds(self._exact(index), bits)

        minority = (self.steps < 0).astype(np.int64)
        return minority ^ ~draw_below(low, high, refine, source)

    def _far(self) -> Floats:
        return np.minimum(np.abs(self.steps), math.floor(_FARTHEST * self.scale))

    def _exact(self, index: int) -> Fraction:
        return Fraction(int(self._far()[index])) / Fraction(self.scale)

    def _log_probabilities(self) -> Floats:
        far = self._far() / self.scale
        pair = np.stack([log_ndtr(-far), log_ndtr(far)], axis=1)
        return np.where((self.steps < 0)[:, None], pair[:, ::-1], pair)

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        x = self._exact(row)
        bits = arithmetic.precision + math.ceil(x * x) + 64
        low, high = (Fraction(end, 1 << bits) for end in normal_tail_bounds(x, bits))
        tail = arithmetic.between(arithmetic.real(low), arithmetic.real(high))
        logs = [arithmetic.log(tail), arithmetic.log(1 - tail)]
        return logs[::-1] if self.steps[row] < 0 else logs
