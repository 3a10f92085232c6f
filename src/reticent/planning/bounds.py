"""Error bounds of the papers with explicit constants, and the sizes they need."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from reticent._numbers import up
from reticent._search import geometric_mean, last_that_holds, smallest_whole
from reticent.guarantees import ApproxDP, stability

# The failure probability of bounds; our choice: it adds little to errors and to bounds.
_FAILURE = 0.001

# How a sample of m rows represents its distribution, for a class with at most growth(m)
# labelings of m points:
#
# - every hypothesis consistent with it has error <= a, except with probability
#   2 growth(2m) 2^(-a m / 2);
# - it is an a-net (hypotheses that agree on it differ on at most a), except with
#   probability 2 growth(2m)^2 2^(-a m / 2);
# - all empirical errors are within t of the true ones, except with probability
#   4 growth(2m) e^(-m t^2 / 8).


def log_growth(hypotheses: Any, m: int) -> float:
    """Return the logarithm of the growth function at `m` points."""
    return math.log(hypotheses.growth(m))


def consistent_size(hypotheses: Any, error: float, failure: float) -> int:
    """Return how many rows make every consistent hypothesis good."""
    return smallest_whole(
        lambda m: (
            math.log(2 / failure)
            + log_growth(hypotheses, 2 * m)
            - error * m / 2 * math.log(2)
            <= 0
        )
    )


def net_size(hypotheses: Any, error: float, failure: float) -> int:
    """Return how many rows are a net."""
    return smallest_whole(
        lambda m: (
            math.log(2 / failure)
            + 2 * log_growth(hypotheses, 2 * m)
            - error * m / 2 * math.log(2)
            <= 0
        )
    )


def uniform_gap(hypotheses: Any, n: int, failure: float) -> float:
    """Return how far any empirical error may be from the true one."""
    return math.sqrt(8 * (math.log(4 / failure) + log_growth(hypotheses, 2 * n)) / n)


def uniform_size(hypotheses: Any, gap: float, failure: float) -> int:
    """Return how many rows keep all empirical errors within `gap`."""
    return smallest_whole(lambda n: uniform_gap(hypotheses, n, failure) <= gap)


def vote_sizes(
    hypotheses: Any, error: float, failure: float, epsilon: float
) -> tuple[int, int]:
    """Return shards and rows for S1 Thm 4.1: error at most `error`, if realizable."""
    shards = math.ceil(6 * math.log(4 / error) / epsilon)
    return shards, shards * consistent_size(hypotheses, error / 4, failure / shards)


def average_sizes(
    hypotheses: Any, error: float, failure: float, epsilon: float
) -> tuple[int, int]:
    """Return shards and rows for S1 Cor. 4.7: excess at most `error`.

    The mean of the clipped noisy average is within half the noise's scale of the
    average, so ``1/(error epsilon)`` shards do.
    """
    shards = math.ceil(1 / (error * epsilon))
    rows = uniform_size(hypotheses, error / 4, failure / shards)
    return shards, shards * rows


def cover_bound(
    hypotheses: Any, n: int, public: int, epsilon: float, failure: float
) -> float:
    """Return the excess error of the exponential mechanism on a public cover (L4, L1).

    The public points are a net for some error, except with a probability of that error;
    choosing adds ``2 ln N / (epsilon n)``, and the population adds two uniform gaps.
    """
    chosen = 2 * log_growth(hypotheses, public) / (epsilon * n)
    gap = 2 * uniform_gap(hypotheses, n, failure)
    return 2 * net_error(hypotheses, public) + chosen + gap


def expected(bound: Callable[[float], float]) -> float:
    """Return a bound on the expected error from one that may fail.

    Where it fails, with a small probability, the error is at most one.

    Parameters
    ----------
    bound : callable
        Maps a probability of failure to the bound.
    """
    return min(1.0, up(bound(_FAILURE) + _FAILURE))


def walk_reach(error: float, epsilon: float) -> int:
    """Return where the walk of S1 Thm 5.3 is clipped."""
    return math.ceil(2 * math.log(2 / error) / epsilon)


def walk_size(ends: int, error: float, epsilon: float) -> int:
    """Return the rows of S1 Thm 5.3: expected error <= e^epsilon (Opt + error)."""
    return math.ceil(2 * (ends + 2) * walk_reach(error, epsilon) / error)


def walk_error(ends: int, n: int, epsilon: float) -> float:
    """Return the smallest error that S1 Thm 5.3 guarantees with `n` rows."""
    return _smallest_error(lambda error: walk_size(ends, error, epsilon) <= n)


def selection_bound(
    hypotheses: Any, n: int, plan: Any, failure: float, *, population: bool
) -> float:
    """Return the excess error that S2's Lemma 7 (and Thm 1) prove for a plan.

    The subset is a net for some `error`, except with a probability of that error; the
    exponential mechanism adds ``2 ln|H_T| / (exponent n)``; the population adds two
    uniform gaps. A flip adds its probability.
    """
    net = 2 * net_error(hypotheses, plan.subset)
    chosen = 2 * log_growth(hypotheses, plan.subset) / (plan.exponent * n)
    gap = 2 * uniform_gap(hypotheses, n, failure) if population else 0.0
    return float(plan.flip + (1 - 2 * plan.flip) * (net + chosen + gap))


def net_error(hypotheses: Any, m: int) -> float:
    """Return the smallest error for which `m` rows are a net, but for that chance."""

    def enough(error: float) -> bool:
        log_chance = (
            math.log(2)
            + 2 * log_growth(hypotheses, 2 * m)
            - error * m / 2 * math.log(2)
        )
        return log_chance <= math.log(error)

    return _smallest_error(enough)


def relabeling_bound(
    hypotheses: Any, n: int, model: Any, failure: float, error: float
) -> float:
    """Return the excess error that S2's Lemma 8 proves for a fitted P7 predictor.

    `error` is what the vote may add; the bound is infinite if there are too few shards,
    or too few rows per shard, for that.
    """
    shards, epsilon = model.n_shards_, model.law_.vote_epsilon
    enough_votes = shards >= 6 * math.log(4 / error) / epsilon
    rows = net_size(hypotheses, error / 4, failure / shards)
    if not (enough_votes and n // shards >= rows):
        return math.inf
    plan, flip = model.law_.plan, model.law_.flip
    net = 2 * net_error(hypotheses, plan.subset)
    chosen = plan.eta * log_growth(hypotheses, plan.subset)
    gap = 2 * uniform_gap(hypotheses, n, failure)
    return float(flip + (1 - 2 * flip) * (net + chosen + gap + error))


def erm_excess_loss(
    lipschitz: float, radius: float, n: int, epsilon: float, tolerance: float
) -> float:
    """Return the excess loss of S1 Cor. 4.11 with the constants that we certify.

    Half the penalty at the border, and stability ``2L^2/(lambda n)`` once for the
    sample and ``1/epsilon`` times for the noise: half of what S1 prints.
    """
    base = 2 * radius * lipschitz / math.sqrt(n * epsilon / (1 + epsilon))
    return base * (1 + tolerance)


def psgd_excess_loss(
    lipschitz: float, curvature: float, reach: float, radius: float, n: int, eps: float
) -> float:
    """Return the excess loss of S1 Cor. 4.13, with the noise of the true stability.

    `reach` bounds predictions; one unit moves them by ``2 reach / sqrt n``, twice what
    S1 prints, and the square of the noise counts.
    """
    noise = curvature * (2 * reach / (eps * math.sqrt(n))) ** 2
    return 2 * radius * lipschitz / math.sqrt(n) + noise


def lower_bound(d: int, n: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the error that every private predictor has by S2 Thm 4 (through G1).

    This holds for some distribution that a class of dimension `d` fits without error.
    The theorem never says more than 1/4.
    """
    return (d - 1) / (8 * stability(ApproxDP(epsilon, delta)) * n)


def _smallest_error(enough: Callable[[float], bool]) -> float:
    """Return the smallest error up to 1 that is enough, to one part in 10^9."""
    return last_that_holds(enough, 1.0, 1e-9, relative=1e-9, middle=geometric_mean)
