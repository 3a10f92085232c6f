"""Whole-number noise: discrete Laplace and discrete Gaussian, laws and samplers.

One exact sampler serves every source of bits, the operating system's and a seed's
alike, so what tests draw is what is served. Laplace noise is drawn by inversion,
Gaussian noise from Laplace proposals (Canonne, Kamath, Steinke 2020, Algorithm 3).
OpenDP's samplers, which are proved and reviewed, are the oracle in the tests.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, Ints
from reticent._numbers import positive
from reticent.errors import InvalidParameterError
from reticent.mechanisms.sampling.exact import draw_exp
from reticent.mechanisms.sampling.fixed_point import exp_bounds, shifted_up
from reticent.mechanisms.sampling.inputs import whole_numbers
from reticent.mechanisms.sampling.inversion import Inversion
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource

# Within these scales every draw fits in 64 bits, except with a probability below
# exp(-2^10). There the noisy value is cut off at 2^62: harmless post-processing.
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-20, 2.0**50


class GridLaw(Enum):
    """The law of whole-number noise."""

    LAPLACE = "discrete Laplace"
    GAUSSIAN = "discrete Gaussian"


def discrete_laplace_law(k: ArrayLike, scale: float) -> Floats:
    r"""Return log-probabilities of the discrete Laplace law.

    :math:`\Pr[k] \propto e^{-|k|/\mathrm{scale}}` on the whole numbers.

    Examples
    --------
    >>> float(np.exp(discrete_laplace_law(np.arange(-99, 100), 2.0)).sum().round(9))
    1.0
    """
    scale = checked_scale(scale)
    normaliser = math.log(math.tanh(1 / (2 * scale)))
    return np.asarray(normaliser - np.abs(np.asarray(k, dtype=np.float64)) / scale)


def discrete_gaussian_law(k: ArrayLike, scale: float) -> Floats:
    r"""Return log-probabilities of the discrete Gaussian law.

    :math:`\Pr[k] \propto e^{-k^2/(2\,\mathrm{scale}^2)}` on the whole numbers.

    Examples
    --------
    >>> float(np.exp(discrete_gaussian_law(np.arange(-99, 100), 2.0)).sum().round(9))
    1.0
    """
    scale = checked_scale(scale)
    reduced = np.asarray(k, dtype=np.float64) / scale
    return np.asarray(-(reduced**2) / 2 - log_theta(scale))


def log_theta(scale: float, *, shift: float = 0.0) -> float:
    """Return the logarithm of ``sum over k of exp(-(k - shift)^2 / (2 scale^2))``.

    Directly for small scales; for large ones by Poisson's formula, whose terms
    ``exp(-2 (pi scale j)^2)`` vanish at once.
    """
    if scale < 1:
        near = [(k - shift) ** 2 for k in range(-50, 51)]
        least = min(near)
        others = sum(math.exp((least - d) / (2 * scale**2)) for d in near)
        return math.log(others) - least / (2 * scale**2)
    waves = 2 * sum(
        math.exp(-2 * (math.pi * scale * j) ** 2) * math.cos(2 * math.pi * j * shift)
        for j in (1, 2, 3)
    )
    return math.log(scale) + math.log(2 * math.pi) / 2 + math.log1p(waves)


def draw_discrete_laplace(
    location: ArrayLike, scale: float, source: RandomSource
) -> Ints:
    """Add independent discrete Laplace noise to whole numbers.

    Parameters
    ----------
    location : array-like of int
        Values, at most 2^53 in size.
    scale : float
        The noise has ``Pr[k]`` proportional to ``exp(-|k| / scale)``.
    source : RandomSource
        Where bits come from.
    """
    return _draw(GridLaw.LAPLACE, location, scale, source)


def draw_discrete_gaussian(
    location: ArrayLike, scale: float, source: RandomSource
) -> Ints:
    """Add independent discrete Gaussian noise to whole numbers.

    Parameters
    ----------
    location, source
        As for `draw_discrete_laplace`.
    scale : float
        The noise has ``Pr[k]`` proportional to ``exp(-k^2 / (2 scale^2))``.
    """
    return _draw(GridLaw.GAUSSIAN, location, scale, source)


def checked_scale(scale: Any) -> float:
    """Return a scale, in grid steps, for which the samplers are safe."""
    value = positive("noise on a grid", "scale", scale)
    if not _SMALLEST_SCALE <= value <= _LARGEST_SCALE:
        raise InvalidParameterError(
            f"noise on a grid needs 2^-20 <= scale <= 2^50 grid steps; got "
            f"scale={value!r}. Choose another grid."
        )
    return value


@audible("noise")
def _draw(
    law: GridLaw, location: ArrayLike, scale: float, source: RandomSource
) -> Ints:
    values = whole_numbers("location", location)
    scale = checked_scale(scale)
    if not values.size:
        return values
    noise = (
        _laplace(scale).draw(values.size, source)
        if law is GridLaw.LAPLACE
        else _gaussian(values.size, scale, source)
    )
    return values + noise.reshape(values.shape)


def _laplace(scale: float) -> Inversion:
    """Return the inversion by which discrete Laplace noise is drawn.

    With ``q = exp(-1/scale)`` the tails are 1 at 0 and ``2 q^k / (1 + q)`` at k, so V
    is below the tail where k is at most ``scale (ln(2 / (1 + q)) - ln V)``. Floats lose
    less than ``2^-50 (1 + y)`` of the bracket y: rounding V loses 2^-53, and the
    logarithm a few units in its last place. Where V is at least 2^-8, y is below 7.
    """
    top = math.log(2) - math.log1p(math.exp(-1 / scale))
    rate = 1 / Fraction(scale)

    def place(v: Floats) -> Floats:
        near = np.log(v)
        near -= top
        near *= -scale
        return near

    def tail(size: int, bits: int) -> tuple[int, int]:
        return _laplace_tail(size, rate, bits)

    return Inversion(scale, place, error=2.0**-48, slope=1.0, tail=tail)


def _laplace_tail(size: int, rate: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around ``2**bits`` times the probability of a size >= `size`."""
    if size == 0:
        return 1 << bits, 1 << bits
    fine = bits + 8
    low, high = exp_bounds(size * rate, fine)
    low_q, high_q = _steps_bounds(rate, fine)
    whole = 1 << fine
    below = (low << (fine + 1)) // (whole + high_q)
    above = -(-(high << (fine + 1)) // (whole + low_q))
    return below >> 8, min(1 << bits, shifted_up(above, 8))


# Laplace proposals of one release share their rate, and nearly always the bits.
_steps_bounds = lru_cache(maxsize=64)(exp_bounds)


# Proposals made at a time, so that their arrays stay in the processor's cache.
_MOST_PROPOSALS = 1 << 15


def _gaussian(count: int, scale: float, source: RandomSource) -> Ints:
    """Canonne, Kamath, Steinke 2020, Algorithm 3: keeps two proposals in three."""
    width = math.floor(scale) + 1
    proposals = _laplace(float(width))
    variance = Fraction(scale) ** 2
    centre = float(variance / width)
    drawn = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        # A few more than will be needed on average; never more than the cache holds.
        proposal = proposals.draw(
            min(_MOST_PROPOSALS, 16 + (count - filled) * 5 // 3), source
        )

        def exact(index: int, proposal: Ints = proposal) -> Fraction:
            return (abs(int(proposal[index])) - variance / width) ** 2 / (2 * variance)

        # Up to an exponent of 700 the distance is below 38 scales, known to
        # 160 * 2^-53 scales; the exponent then to 2^-40.
        distance = (np.abs(proposal) - centre) / scale
        kept = proposal[draw_exp(distance**2 / 2, 2.0**-38, exact, source)]
        kept = kept[: count - filled]
        drawn[filled : filled + len(kept)] = kept
        filled += len(kept)
    return drawn
