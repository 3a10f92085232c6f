"""Gaussian noise rounded to whole numbers: law and exact sampler (G24).

Rounding is post-processing, so on values that lie on the grid this noise promises
exactly what continuous Gaussian noise does, in every dimension and however rounds are
chosen. The discrete Gaussian law does not: its likelihood ratio is not Gaussian.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtri

from reticent._arrays import Floats, Ints
from reticent.mechanisms.sampling.fixed_point import normal_tail_bounds
from reticent.mechanisms.sampling.grid_noise import checked_scale
from reticent.mechanisms.sampling.inputs import whole_numbers
from reticent.mechanisms.sampling.inversion import Inversion
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource

# SciPy's normal quantile has a relative error of a few 2^-52 (its own documentation
# says 7e-16); sixty times that is allowed for.
_QUANTILE_ERROR = 2.0**-45


def rounded_gaussian_law(k: ArrayLike, scale: float) -> Floats:
    r"""Return log-probabilities of rounded Gaussian noise.

    :math:`\Pr[k] = \Phi((k + 1/2)/\sigma) - \Phi((k - 1/2)/\sigma)`.

    Examples
    --------
    >>> float(np.exp(rounded_gaussian_law(np.arange(-99, 100), 2.0)).sum().round(9))
    1.0
    """
    scale = checked_scale(scale)
    size = np.abs(np.asarray(k, dtype=np.float64))
    # Both ends in the lower tail, where logarithms keep their digits.
    near, far = log_ndtr(-(size - 0.5) / scale), log_ndtr(-(size + 0.5) / scale)
    return np.asarray(near + np.log1p(-np.exp(far - near)))


@audible("rounded gaussian")
def draw_rounded_gaussian(
    location: ArrayLike, scale: float, source: RandomSource
) -> Ints:
    """Add independent Gaussian noise, rounded to whole numbers, to whole numbers.

    Parameters
    ----------
    location : array-like of int
        Values, at most 2^53 in size.
    scale : float
        Standard deviation of the noise before it is rounded.
    source : RandomSource
        Where bits come from.

    Guarantee
    ---------
    Each value gets noise of exactly the rounded law. With V uniform on [0, 1), the
    noise has at least the size `k` > 0 if ``V < 2 Pr[N(0, 1) > (k - 1/2)/scale]``, and
    a fair sign.
    """
    values = whole_numbers("location", location)
    scale = checked_scale(scale)
    noise = _rounded_gaussian(scale).draw(values.size, source)
    return values + noise.reshape(values.shape)


@lru_cache(maxsize=256)
def _rounded_gaussian(scale: float) -> Inversion:
    """Return the inversion by which rounded Gaussian noise is drawn.

    The quantile z of V/2 moves by at most ``sqrt(pi/2)`` times the share by which V
    moves, because a tail is at most ``sqrt(pi/2)`` times the density. It is below 3
    where V is at least 2^-8.
    """

    def place(v: Floats) -> Floats:
        near = ndtri(v * 0.5)
        near *= -scale
        near += 0.5
        return np.asarray(near)

    def tail(size: int, bits: int) -> tuple[int, int]:
        return _tail(size, scale, bits)

    return Inversion(scale, place, error=_QUANTILE_ERROR, slope=2.0, tail=tail)


def _tail(size: int, scale: float, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits`` times the probability of a size >= `size`."""
    if size == 0:
        return 1 << bits, 1 << bits
    z = Fraction(2 * size - 1, 2) / Fraction(scale)
    if z * z > 2 * bits:
        return 0, 1  # the tail is below exp(-z^2 / 2) < 2^-bits
    return normal_tail_bounds(z, bits + 1)  # both tails
