"""Curves behind composition: tight totals of many equal or mixed steps.

Everything here is numbers in, numbers out, rounded up; `compose` turns it into
certificates.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import binom

from reticent._rounding import up
from reticent.guarantees.convert import sigmoid

# SciPy's binomial tails are good to about 1e-13; this is taken against us.
_TAIL_DOUBT = 1e-10
# What a composed privacy loss distribution may lose to the Fourier transform.
_PLD_DOUBT = 1e-12
# Cells of the grid that one step's loss range is divided into.
_PLD_CELLS = 200


def pure_delta(epsilon: float, step: float, count: int) -> float:
    """Return the delta at total `epsilon` of `count` steps of pure `step`.

    The worst pair for pure DP is randomized response, so the loss of `count` steps is
    ``(2X - count) step`` with `X` binomial (Kairouz, Oh, Viswanath 2015, Thm 3.3).
    """
    least = math.floor((epsilon / step + count) / 2 * (1 - 1e-15))
    above = float(binom.sf(least, count, sigmoid(step))) * (1 + _TAIL_DOUBT)
    if epsilon > 700:
        return above
    below = float(binom.sf(least, count, sigmoid(-step))) * (1 - _TAIL_DOUBT)
    return max(0.0, above - math.exp(epsilon) * below)


def pure_epsilon(step: float, count: int, delta: float) -> float:
    """Return the total epsilon of `count` pure steps at `delta`, rounded up."""
    low, high = 0.0, up(step * count)
    if step == 0 or pure_delta(low, step, count) <= delta:
        return 0.0
    # delta falls in epsilon; keep the side that is surely enough.
    for _ in range(64):
        middle = (low + high) / 2
        if pure_delta(middle, step, count) <= delta:
            high = middle
        else:
            low = middle
    return up(high)


def bounded_range_deltas(epsilons: Any, step: float) -> Any:
    """Return the delta curve of one bounded-range step at the given epsilons.

    The worst pair has ``Q`` uniform on [0, 1] and ``dP/dQ = c/(c + (1-c)x)^2`` with
    ``c = exp(-step)``: the loss exceeds `l` for ``x`` below a closed form.
    """
    c = math.exp(-step)
    levels = np.asarray(epsilons, dtype=float)
    inside = np.clip(levels, -step, step)
    x = np.clip((np.exp((-step - inside) / 2) - c) / -math.expm1(-step), 0.0, 1.0)
    above = np.minimum(1.0, x * np.exp((inside + step) / 2))
    return np.clip(above - np.exp(levels) * x, 0.0, 1.0)


@lru_cache(maxsize=256)
def pld_epsilon(
    steps: tuple[tuple[str, float, float, int], ...], delta: float
) -> float:
    """Return the total epsilon at `delta` through privacy loss distributions.

    `steps` are (kind, epsilon, delta, count); kinds are "pure" (also with a delta)
    and "range". The parameters must be fixed in advance.
    """
    from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution

    finest = min((epsilon for _, epsilon, _, _ in steps if epsilon > 0), default=0.0)
    if finest == 0.0:
        return 0.0
    grid = finest / _PLD_CELLS
    total = None
    for kind, epsilon, slack, count in steps:
        if epsilon == 0 and slack == 0:
            continue
        if kind == "pure":
            part = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, slack),
                value_discretization_interval=grid,
            )
        else:
            cells = math.ceil(epsilon / grid) + 1
            marks = np.arange(-cells, cells + 1)
            pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
                grid, marks, bounded_range_deltas(marks * grid, epsilon)
            )
            part = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        part = part.self_compose(count) if count > 1 else part
        total = part if total is None else total.compose(part)
    steps_taken = sum(count for _, _, _, count in steps)
    safe = delta * (1 - 1e-6) - _PLD_DOUBT * math.sqrt(steps_taken)
    if total is None or not safe > 0:
        return math.inf
    found = up(float(total.get_epsilon_for_delta(safe)) + 1e-9)
    # A Fourier transform that overflows can return any number; a total below what
    # one group of steps surely costs is no total.
    surely = max(
        pure_epsilon(epsilon if kind == "pure" else epsilon / 2, count, delta)
        for kind, epsilon, _, count in steps
    )
    return found if found >= surely * (1 - 1e-6) - 1e-6 else math.inf
