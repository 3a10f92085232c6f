"""Gaussian noise rounded to whole numbers: law and exact sampler (G24).

Rounding is post-processing, so on values that lie on the grid this noise promises
exactly what continuous Gaussian noise does, in every dimension and however rounds are
chosen. The discrete Gaussian law does not: its likelihood ratio is not Gaussian.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtri

from reticent.errors import InternalError
from reticent.mechanisms.sampling.exact import longer_prefixes
from reticent.mechanisms.sampling.fixed_point import normal_tail_bounds
from reticent.mechanisms.sampling.grid_noise import checked_scale
from reticent.mechanisms.sampling.inputs import whole_numbers
from reticent.mechanisms.sampling.listening import heard
from reticent.mechanisms.sampling.randomness import RandomSource

_V_BITS = 63
_LOW_BITS = np.uint64(2**_V_BITS - 1)
_BLOCK = 1 << 15

# SciPy's normal quantile has a relative error of a few 2^-52 (its own documentation
# says 7e-16); sixty times that is allowed for.
_QUANTILE_ERROR = 2.0**-45
# Below this the bits that are not drawn yet may matter; one draw in 256.
_DEEP = 2**55


def rounded_gaussian_law(k: ArrayLike, scale: float) -> NDArray[np.float64]:
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


@heard("rounded gaussian")
def draw_rounded_gaussian(
    location: ArrayLike, scale: float, source: RandomSource
) -> NDArray[np.int64]:
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
    drawn = np.empty(values.size, dtype=np.int64)
    for start in range(0, values.size, _BLOCK):
        words = source.words(min(_BLOCK, values.size - start))
        head = (words & _LOW_BITS).astype(np.int64)
        size, unsure = _sizes(head, scale)
        for index in unsure:
            size[index] = _settle(int(head[index]), scale, source)
        sign = words.view(np.int64) >> 63
        drawn[start : start + _BLOCK] = (size ^ sign) - sign
    return values + drawn.reshape(values.shape)


def _sizes(
    head: NDArray[np.int64], scale: float
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return sizes of noise for the first bits of V, and which of them are unsure.

    The quantile z of V/2 moves by at most ``sqrt(pi/2)/V`` times what V moves, because
    a tail is at most ``sqrt(pi/2)`` times the density. The bits that are not drawn yet
    move it by less than ``2 / head``; where `head` is at least 2^55, that vanishes
    beside the error of the quantile, and z is below 3.
    """
    z = -ndtri(np.maximum(head, 1) * 2.0 ** -(_V_BITS + 1))
    near = z * scale
    near += 0.5
    whole = np.floor(near)
    near -= whole
    doubt = 4 * scale * _QUANTILE_ERROR
    unsure = (near < doubt) | (near > 1 - doubt)
    deep = np.flatnonzero(head < _DEEP)
    first = head[deep]
    wide = scale * (_QUANTILE_ERROR * (1 + z[deep]) + 2 / np.maximum(first, 1))
    unsure[deep] = (near[deep] < wide) | (near[deep] > 1 - wide) | (first == 0)
    whole[unsure] = 0.0
    return whole.astype(np.int64), np.flatnonzero(unsure)


def _settle(head: int, scale: float, source: RandomSource) -> int:
    """Return the size of the noise for the V that starts with the bits of `head`."""
    for bits, drawn in longer_prefixes(head, _V_BITS, source):
        if not drawn:
            continue
        # Floats say where to look; what is returned was compared in whole numbers.
        z = -float(ndtri(max(drawn / (2 << bits), 5e-324)))
        reach = 2 + math.ceil(scale * (1 + z) * 2 * _QUANTILE_ERROR)
        low = max(0, math.floor(scale * z + 0.5) - reach)
        high = low + 2 * reach + 2
        while high - low > 1:
            middle = (low + high) // 2
            tail = _tail(middle, scale, bits)
            if drawn + 1 <= tail[0]:
                low = middle
            elif drawn >= tail[1]:
                high = middle
            else:
                break  # more bits are needed
        else:
            below = drawn + 1 <= _tail(low, scale, bits)[0]
            if below and drawn >= _tail(high, scale, bits)[1]:
                return low
    raise InternalError("a source of random bits ran dry.")


def _tail(size: int, scale: float, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits`` times the probability of a size >= `size`."""
    if size == 0:
        return 1 << bits, 1 << bits
    z = Fraction(2 * size - 1, 2) / Fraction(scale)
    if z * z > 2 * bits:
        return 0, 1  # the tail is below exp(-z^2 / 2) < 2^-bits
    return normal_tail_bounds(z, bits + 1)  # both tails
