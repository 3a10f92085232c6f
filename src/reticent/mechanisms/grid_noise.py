"""Whole-number noise: discrete Laplace and discrete Gaussian, laws and samplers.

Noise from the operating system is drawn by OpenDP's samplers, which are proved and
reviewed. OpenDP takes no seed, so experiments with one use the same algorithms
(Canonne, Kamath, Steinke 2020) on top of our exact Bernoulli draws.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidParameterError
from reticent.guarantees.numbers import positive
from reticent.mechanisms.exact import draw_bernoulli_exp, draw_exp
from reticent.mechanisms.inputs import whole_numbers
from reticent.mechanisms.listening import heard
from reticent.mechanisms.randomness import RandomSource

# Within these scales every draw fits in 64 bits but for a probability below
# exp(-2^10), where OpenDP saturates the noisy value: harmless post-processing.
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-20, 2.0**50


class GridLaw(Enum):
    """The law of whole-number noise."""

    LAPLACE = "discrete Laplace"
    GAUSSIAN = "discrete Gaussian"


def discrete_laplace_law(k: ArrayLike, scale: float) -> NDArray[np.float64]:
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


def discrete_gaussian_law(k: ArrayLike, scale: float) -> NDArray[np.float64]:
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
) -> NDArray[np.int64]:
    """Add independent discrete Laplace noise to whole numbers.

    Parameters
    ----------
    location : array-like of int
        Values, at most 2^53 in size.
    scale : float
        The noise has ``Pr[k]`` proportional to ``exp(-|k| / scale)``.
    source : RandomSource
        A system source draws through OpenDP; a seeded one draws here.
    """
    return _draw(GridLaw.LAPLACE, location, scale, source)


def draw_discrete_gaussian(
    location: ArrayLike, scale: float, source: RandomSource
) -> NDArray[np.int64]:
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


@heard("noise")
def _draw(
    law: GridLaw, location: ArrayLike, scale: float, source: RandomSource
) -> NDArray[np.int64]:
    values = whole_numbers("location", location)
    scale = checked_scale(scale)
    if not values.size:
        return values
    if source.seeded:
        seeded = _laplace if law is GridLaw.LAPLACE else _gaussian
        return values + seeded(values.size, scale, source).reshape(values.shape)
    noisy = _opendp(law, scale)(values.ravel().tolist())
    return np.array(noisy, dtype=np.int64).reshape(values.shape)


@lru_cache(maxsize=64)
def _opendp(law: GridLaw, scale: float) -> Any:
    # Imported here because loading the library takes a noticeable time.
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    domain = domains.vector_domain(domains.atom_domain(T="i64"))
    if law is GridLaw.LAPLACE:
        return measurements.make_laplace(domain, metrics.l1_distance(T="i64"), scale)
    return measurements.make_gaussian(domain, metrics.l2_distance(T="f64"), scale)


def _laplace(count: int, scale: float, source: RandomSource) -> NDArray[np.int64]:
    """Canonne, Kamath, Steinke 2020, Algorithm 2."""
    top, bottom = scale.as_integer_ratio()
    drawn = np.empty(count, dtype=np.int64)
    pending = np.arange(count)
    while pending.size:
        words = source.below(np.full(pending.size, top, dtype=np.uint64))
        part = words.astype(np.int64)
        fraction = _Ratio(part, top)
        kept = draw_exp(part / top, 2.0**-50, fraction, source)
        pending_kept, part = pending[kept], part[kept]
        size = (part + top * _geometric(part.size, source)) // bottom
        negative = source.words(part.size) >> np.uint64(63) == 1
        valid = ~(negative & (size == 0))  # zero would come up twice
        signed = np.where(negative, -size, size)
        drawn[pending_kept[valid]] = signed[valid]
        pending = np.concatenate([pending[~kept], pending_kept[~valid]])
    return drawn


class _Ratio:
    """The exact exponents ``part / top``."""

    def __init__(self, part: NDArray[np.int64], top: int) -> None:
        self._part, self._top = part, top

    def __call__(self, index: int) -> Fraction:
        return Fraction(int(self._part[index]), self._top)


def _geometric(count: int, source: RandomSource) -> NDArray[np.int64]:
    """Count successes of probability 1/e before the first failure."""
    successes = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        running = running[draw_bernoulli_exp(np.ones(running.size), source)]
        successes[running] += 1
    return successes


def _gaussian(count: int, scale: float, source: RandomSource) -> NDArray[np.int64]:
    """Canonne, Kamath, Steinke 2020, Algorithm 3."""
    width = math.floor(scale) + 1
    variance = Fraction(scale) ** 2
    drawn = np.empty(count, dtype=np.int64)
    pending = np.arange(count)
    while pending.size:
        proposal = _laplace(pending.size, float(width), source)

        def exact(index: int, proposal: NDArray[np.int64] = proposal) -> Fraction:
            return (abs(int(proposal[index])) - variance / width) ** 2 / (2 * variance)

        # Up to an exponent of 700 the distance is below 38 scales, known to
        # 160 * 2^-53 scales; the exponent then to 2^-40.
        distance = (np.abs(proposal) - scale * scale / width) / scale
        kept = draw_exp(distance**2 / 2, 2.0**-38, exact, source)
        drawn[pending[kept]] = proposal[kept]
        pending = pending[~kept]
    return drawn
