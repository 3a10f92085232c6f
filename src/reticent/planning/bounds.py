"""Error bounds of the papers with explicit constants."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

from reticent._numbers import up
from reticent._search import geometric_mean, last_that_holds
from reticent.errors import InvalidParameterError
from reticent.guarantees import ApproxDP, stability
from reticent.hypotheses import net_error
from reticent.prediction import (
    plan_for_privacy,
    plan_relabeling,
    relabeling_excess,
    selection_excess,
)

# The failure probability of bounds; our choice: it adds little to errors and to bounds.
_FAILURE = 0.001
# Tables have fewer rows than this.
_MOST_ROWS = 10**12

# How a sample of m rows represents its distribution, for a class with at most growth(m)
# labelings of m points:
#
# - it is an a-net (hypotheses that agree on it differ on at most a), except with
#   probability 2 growth(2m)^2 2^(-a m / 2);
# - all empirical errors are within t of the true ones, except with probability
#   4 growth(2m) e^(-m t^2 / 8).


def log_growth(hypotheses: Any, m: int) -> float:
    """Return the logarithm of the growth function at `m` points."""
    return math.log(hypotheses.growth(m))


def uniform_gap(hypotheses: Any, n: int, failure: float) -> float:
    """Return how far any empirical error may be from the true one."""
    return math.sqrt(8 * (math.log(4 / failure) + log_growth(hypotheses, 2 * n)) / n)


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
    selected = selection_excess(hypotheses, n, plan)
    gap = 2 * uniform_gap(hypotheses, n, failure) if population else 0.0
    return float(plan.flip + (1 - 2 * plan.flip) * (selected + gap))


def relabeled_vote_error(
    hypotheses: Any, n: int, epsilon: float, failure: float
) -> float:
    """Return the smallest error that S1 Thm 4.1 proves for the vote inside P7.

    The vote must succeed for all hypotheses that may have relabeled the data at once,
    so each shard is a net.
    """

    def enough(error: float) -> bool:
        shards = math.ceil(6 * math.log(4 / error) / epsilon)
        rows = n // shards
        if rows < 1:
            return False
        log_chance = (
            math.log(2 * shards / failure)
            + 2 * log_growth(hypotheses, 2 * rows)
            - error / 8 * rows * math.log(2)
        )
        return log_chance <= 0

    return _smallest_error(enough)


@lru_cache(maxsize=64)
def relabeling_wins_from(hypotheses: Any, epsilon: float, least: int) -> int | None:
    """Return from how many rows on P7's bound is a tenth below P6's, if ever.

    Each takes the best of a few flip probabilities. Every thousandfold of `least` is
    tried up to 10^12; None if it is at none of them.
    """
    n = max(10, least)
    while n <= _MOST_ROWS:
        kept = []
        for method in (_relabeling_at, _selection_at):
            found = [math.inf]
            for flip in (1e-3, 0.05):
                with suppress(InvalidParameterError):
                    error = method(hypotheses, n, epsilon, flip)
                    found.append(flip + (1 - 2 * flip) * error)
            kept.append(min(found))
        # Uniform gaps and the failure are the same for both.
        if kept[0] < 0.9 * min(kept[1], 1.0):
            return n
        n *= 1000
    return None


def _relabeling_at(hypotheses: Any, n: int, epsilon: float, flip: float) -> float:
    plan, _ = plan_relabeling(
        n, epsilon, flip, hypotheses, labels_from_data=False, seeded=False
    )
    vote = relabeled_vote_error(hypotheses, n, 1 / (plan.eta * n), _FAILURE)
    return relabeling_excess(hypotheses, plan) + vote


def _selection_at(hypotheses: Any, n: int, epsilon: float, flip: float) -> float:
    plan = plan_for_privacy(n, epsilon, flip, hypotheses)
    return selection_excess(hypotheses, n, plan)


def erm_excess_loss(
    lipschitz: float, radius: float, n: int, epsilon: float, tolerance: float
) -> float:
    """Return the excess loss of S1 Cor. 4.11 with the constants that we certify.

    Half the penalty at the border, and stability ``2L^2/(lambda n)`` once for the
    sample and ``1/epsilon`` times for the noise: half of what S1 prints.
    """
    base = 2 * radius * lipschitz / math.sqrt(n * epsilon / (1 + epsilon))
    return base * (1 + tolerance)


def lower_bound(d: int, n: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the error that every private predictor has by S2 Thm 4 (through G1).

    This holds for some distribution that a class of dimension `d` fits without error.
    The theorem never says more than 1/4.
    """
    return (d - 1) / (8 * stability(ApproxDP(epsilon, delta)) * n)


def _smallest_error(enough: Callable[[float], bool]) -> float:
    """Return the smallest error up to 1 that is enough, to one part in 10^9."""
    return last_that_holds(enough, 1.0, 1e-9, relative=1e-9, middle=geometric_mean)
