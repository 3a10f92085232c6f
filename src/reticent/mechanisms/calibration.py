"""Calibrate noise on a grid to a sensitivity and a privacy target (G5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reticent._numbers import probability
from reticent._search import slightly_larger
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import (
    Certificate,
    Sensitivity,
    gaussian_noise,
    gaussian_ratio,
    laplace_noise,
)
from reticent.mechanisms.additive import (
    GridNoise,
    checked_grid,
    gaussian_noise_analytic,
    round_to_grid,
)
from reticent.mechanisms.sampling.gaussian_grid import ROUNDING_VARIANCE
from reticent.mechanisms.sampling.grid_noise import GridLaw, checked_scale
from reticent.mechanisms.sampling.inputs import checked_epsilon

# A noise scale is at least this many steps of the default grid, so that rounding
# values to it costs about a millionth of the scale.
_STEPS_IN_SCALE = 2.0**20


def calibrate_laplace(
    premise: Certificate[Sensitivity],
    *,
    epsilon: float,
    dimension: int = 1,
    grid: float | None = None,
    on_grid: bool = False,
    seeded: bool = False,
) -> GridNoise:
    """Return Laplace noise that makes a bounded move epsilon-private.

    Parameters
    ----------
    premise : Certificate of a Sensitivity
        How far one unit moves the vector in l1.
    epsilon : float
        Privacy cost of releasing one noisy vector.
    dimension : int, default=1
        Numbers in the vector.
    grid : float, default=None
        Public grid step, a power of two. None takes a millionth of the noise.
    on_grid : bool, default=False
        Whether values are multiples of the grid already, so that rounding is free.
    seeded : bool, default=False
        Whether the noise will come from a seed.

    Guarantee
    ---------
    ``PureDP(epsilon)`` or less, by rules G5-grid and G5-laplace.
    """
    epsilon = checked_epsilon("Laplace noise", epsilon)
    step = _grid(grid, _move(premise).l1 / epsilon)
    rounded = round_to_grid(
        premise, grid=step, dimension=dimension, on_grid=on_grid, seeded=seeded
    )

    def certify(scale: float) -> Certificate[Any] | None:
        found = laplace_noise(rounded, scale=scale)
        return found if found.guarantee.epsilon <= epsilon else None

    return _noise(GridLaw.LAPLACE, rounded, rounded.guarantee.l1 / epsilon, certify)


def calibrate_gaussian(
    premise: Certificate[Sensitivity],
    *,
    epsilon: float,
    delta: float,
    dimension: int = 1,
    grid: float | None = None,
    on_grid: bool = False,
    seeded: bool = False,
) -> GridNoise:
    """Return Gaussian noise that makes a bounded move (epsilon, delta)-private.

    Parameters
    ----------
    premise : Certificate of a Sensitivity
        How far one unit moves the vector in l2.
    epsilon, delta : float
        Privacy cost of releasing one noisy vector.
    dimension, grid, on_grid, seeded
        As for `calibrate_laplace`.

    Guarantee
    ---------
    ``ApproxDP(epsilon, delta)`` by rules G5-grid and G5-gaussian-analytic. Many
    releases compose better through `calibrate_gaussian_zcdp`.
    """
    epsilon = checked_epsilon("Gaussian noise", epsilon)
    ratio = gaussian_ratio(epsilon, probability("Gaussian noise", "delta", delta))
    step = _grid(grid, _move(premise).l2 / ratio)
    rounded = round_to_grid(
        premise, grid=step, dimension=dimension, on_grid=on_grid, seeded=seeded
    )

    def certify(scale: float) -> Certificate[Any] | None:
        try:
            return gaussian_noise_analytic(
                rounded, scale=scale, grid=step, epsilon=epsilon, delta=delta
            )
        except RuleError:
            return None

    continuous = rounded.guarantee.l2 / ratio / step
    least = math.sqrt(continuous**2 + ROUNDING_VARIANCE) * step
    return _noise(GridLaw.GAUSSIAN, rounded, least, certify)


def calibrate_gaussian_zcdp(
    premise: Certificate[Sensitivity],
    *,
    rho: float,
    dimension: int = 1,
    grid: float | None = None,
    on_grid: bool = False,
    seeded: bool = False,
) -> GridNoise:
    """Return Gaussian noise that makes a bounded move rho-zCDP.

    Parameters
    ----------
    premise : Certificate of a Sensitivity
        How far one unit moves the vector in l2.
    rho : float
        Cost of releasing one noisy vector.
    dimension, grid, on_grid, seeded
        As for `calibrate_laplace`.

    Guarantee
    ---------
    ``ZCDP(rho)`` or less, by rules G5-grid and G5-gaussian.
    """
    rho = checked_epsilon("Gaussian noise (as rho)", rho)
    step = _grid(grid, _move(premise).l2 / math.sqrt(2 * rho))
    rounded = round_to_grid(
        premise, grid=step, dimension=dimension, on_grid=on_grid, seeded=seeded
    )

    def certify(scale: float) -> Certificate[Any] | None:
        found = gaussian_noise(rounded, scale=scale)
        return found if found.guarantee.rho <= rho else None

    least = rounded.guarantee.l2 / math.sqrt(2 * rho)
    return _noise(GridLaw.GAUSSIAN, rounded, least, certify)


def _noise(
    law: GridLaw,
    rounded: Certificate[Sensitivity],
    scale: float,
    certify: Callable[[float], Certificate[Any] | None],
) -> GridNoise:
    """Return noise of the first scale, a little above the given one, that certifies."""
    if not 0 < scale < math.inf:
        raise InvalidParameterError(
            f"noise needs a positive, finite scale; got scale={scale!r}. Check the "
            "sensitivity and the privacy parameters."
        )
    public: dict[str, Any] = dict(rounded.details)
    checked_scale(scale / public["grid"])
    found = slightly_larger(scale, certify)
    if found is None:
        raise InvalidParameterError(
            f"no noise scale near {scale!r} reaches the target; use a finer grid."
        )
    return GridNoise(
        law=law,
        grid=public["grid"],
        scale=found[0],
        dimension=public["dimension"],
        on_grid=public["on_grid"],
        certificate=found[1],
    )


def _move(premise: Any) -> Sensitivity:
    guarantee = getattr(premise, "guarantee", None)
    if not isinstance(guarantee, Sensitivity):
        raise RuleError(
            f"noise is calibrated to a certificate of a Sensitivity; got {guarantee!r}."
        )
    return guarantee


def _grid(grid: float | None, scale: float) -> float:
    if grid is not None:
        return checked_grid(grid)
    if not 2.0**-500 <= scale <= 2.0**500:
        raise InvalidParameterError(
            f"noise needs a scale between 2^-500 and 2^500; got scale={scale!r}. A "
            "sensitivity of zero needs no noise."
        )
    return 2.0 ** math.floor(math.log2(scale / _STEPS_IN_SCALE))
