"""Curves behind composition: tight totals of many equal or mixed steps.

Everything here is numbers in, numbers out, rounded up; `compose` turns it into
certificates.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from scipy.special import betainc
from scipy.stats import binom

from reticent._arrays import Floats
from reticent._numbers import up
from reticent._search import last_that_holds
from reticent.guarantees.convert import sigmoid

#: Kind ("pure", also with a delta, or "range"), epsilon, delta, count.
Step: TypeAlias = tuple[str, float, float, int]

# Cells of the grid that the smallest step's loss range is divided into; a power of
# two, so that this step falls on the grid exactly.
_CELLS = 256
# One step, and all of them together, span at most this many cells each way; beyond,
# the grid widens.
_MOST_CELLS_EACH = 2**15
_MOST_CELLS = 2**23
# Composition by Fourier transform is off by about 1e-16 per step, times the logarithm
# of the length; the tails that are cut are far smaller.
_FOURIER_DOUBT = 1e-13
# Up to this many atoms of a loss are summed one by one.
_FEW_ATOMS = 1024


def _tail_doubt(count: int) -> float:
    """Return how far SciPy's incomplete beta function may be off, relatively.

    Compared with 60 digits: 1e-12 up to a million, 4e-10 at 1e12. The
    rounding of the success probability adds an error like the root of the count.
    """
    return 1e-10 + 2e-13 * math.sqrt(count)


def pure_delta(epsilon: float, step: float, count: int) -> float:
    """Return the delta at total `epsilon` of `count` steps of pure `step`, rounded up.

    The worst pair for pure DP is randomized response, so the loss of `count` steps is
    ``(2X - count) step`` with `X` binomial (Kairouz, Oh, Viswanath 2015, Thm 3.3).
    An atom whose loss is close to `epsilon` adds almost nothing, on either side.
    """
    least = math.floor((epsilon / step + count) / 2 * (1 - 1e-15))
    doubt = _tail_doubt(count)
    if count - least <= _FEW_ATOMS:
        # One by one: the difference of tails below would cancel near the largest loss.
        start = max(0, least - max(0, count - _FEW_ATOMS))
        losses, masses = (part[start:] for part in _largest_losses(step, count))
        shares = -np.expm1(np.minimum(0.0, epsilon - losses))
        rounding = 1e-15 * (1 + step * count)
        return float((masses * (shares + rounding)).sum()) * (1 + doubt)
    # The tail of a binomial law is an incomplete beta function.
    above = float(betainc(least + 1, count - least, sigmoid(step))) * (1 + doubt)
    if epsilon > 700:
        return above
    below = float(betainc(least + 1, count - least, sigmoid(-step))) * (1 - doubt)
    return max(0.0, above - math.exp(epsilon) * below)


@lru_cache(maxsize=64)
def _largest_losses(step: float, count: int) -> tuple[Floats, Floats]:
    """Return the largest losses of `count` pure steps and their probabilities."""
    hits = np.arange(max(0, count - _FEW_ATOMS), count + 1)
    losses = np.asarray((2.0 * hits - count) * step, dtype=np.float64)
    return losses, np.asarray(binom.pmf(hits, count, sigmoid(step)), dtype=np.float64)


def pure_epsilon(step: float, count: int, delta: float) -> float:
    """Return the total epsilon of `count` pure steps at `delta`, rounded up."""
    if step == 0:
        return 0.0
    most = up(step * count)
    if not math.isfinite(most):
        return math.inf

    def enough(epsilon: float) -> bool:  # delta falls in epsilon
        return pure_delta(epsilon, step, count) <= delta

    if enough(0.0):
        return 0.0
    return up(last_that_holds(enough, most, 0.0, halvings=64))


def delta_left(delta: float, slack: float, count: int) -> float:
    """Return the `left` with ``1 - delta = (1 - slack)^count (1 - left)``, or less.

    In decimals, because the two sides agree to many digits.
    """
    with localcontext() as context:
        context.prec = 60
        context.Emin, context.Emax = -99999, 99999
        kept = (1 - Decimal(repr(slack))).ln() * count
        left = 1 - ((1 - Decimal(repr(delta))).ln() - kept).exp()
        return math.nextafter(float(left), -math.inf)


def range_masses(step: float, cells: int) -> Floats:
    """Return the loss distribution of a bounded-range step on a grid, rounded up.

    The worst pair has ``Q`` uniform on [0, 1] and ``dP/dQ = c/(c + (1-c)x)^2`` with
    ``c = exp(-step)``: odds move by ``exp(step)``. Its curve is ``delta(l) =
    (1 - e^{(l-step)/2})^2 / (1 - c)`` for losses `l` between ``-step`` and `step`.
    Straight lines (in ``e^l``) between the points of a grid, with `cells` cells on each
    side, lie above it and belong to these masses at the points.
    """
    width = step / cells
    lifted = np.exp((np.arange(-cells, cells + 1) * width - step) / 2)
    masses = 2 * lifted
    masses[0], masses[-1] = lifted[0], lifted[-1]
    return masses * (math.tanh(width / 4) / -math.expm1(-step))


def _distribution(step: Step, grid: float) -> Any:
    """Return one step's worst loss distribution, for dp_accounting to compose."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    kind, epsilon, slack, _ = step
    cells = math.ceil(epsilon / grid)
    wider = cells * grid  # a larger epsilon is a weaker promise
    if kind == "pure":
        sure = 1 - slack
        atoms = {
            -cells: sure * sigmoid(-wider),
            cells: sure * sigmoid(wider),
        }
        if cells == 0:
            atoms = {0: sure}
    else:
        masses = range_masses(wider, cells)
        atoms = dict(zip(range(-cells, cells + 1), masses.tolist(), strict=True))
    return privacy_loss_distribution.PrivacyLossDistribution(
        pld_pmf.create_pmf(atoms, grid, slack, pessimistic_estimate=True)
    )


@lru_cache(maxsize=256)
def pld_epsilon(steps: tuple[Step, ...], delta: float) -> float:
    """Return the total epsilon at `delta` through privacy loss distributions.

    The parameters must be fixed in advance. Infinity if the steps' own deltas, or
    rounding, leave nothing of `delta`.
    """
    lossy = [step for step in steps if step[1] > 0 or step[2] > 0]
    if not lossy:
        return 0.0
    taken = sum(count for *_, count in lossy)
    safe = delta * (1 - 1e-6) - _FOURIER_DOUBT * taken
    own = -math.expm1(sum(count * math.log1p(-slack) for *_, slack, count in lossy))
    finest = min((epsilon for _, epsilon, _, _ in lossy if epsilon > 0), default=1.0)
    largest = max(epsilon for _, epsilon, _, _ in lossy)
    span = sum(epsilon * count for _, epsilon, _, count in lossy)
    grid = max(finest / _CELLS, largest / _MOST_CELLS_EACH, span / _MOST_CELLS)
    if not (own < safe and span < 700 * _MOST_CELLS and grid > 1e-300):
        return math.inf
    total = None
    for step in lossy:
        part = _distribution(step, grid)
        part = part.self_compose(step[3]) if step[3] > 1 else part
        total = part if total is None else total.compose(part)
    try:
        found = float(total.get_epsilon_for_delta(safe))  # type: ignore[union-attr]
    except OverflowError:
        return math.inf
    # A point of the grid may lie a last digit below the loss that it stands for.
    found = up(found + 1e-9 + 1e-15 * span)
    # A transform that overflows can return any number; a total below what one group of
    # steps is certain to cost is wrong.
    surely = max(
        pure_epsilon(epsilon if kind == "pure" else epsilon / 2, count, delta)
        for kind, epsilon, _, count in lossy
    )
    return found if found >= surely * (1 - 1e-6) - 1e-6 else math.inf
