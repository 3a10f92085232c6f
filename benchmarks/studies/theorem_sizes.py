"""Sizes and errors of theorems that the studies measure and no plan needs.

Every hypothesis consistent with m rows has error at most a, except with probability
2 growth(2m) 2^(-a m / 2); `reticent.planning.bounds` has the other two inequalities.
"""

from __future__ import annotations

import math
from typing import Any

from reticent._search import smallest_whole
from reticent.planning import bounds


def consistent_size(hypotheses: Any, error: float, failure: float) -> int:
    """Return how many rows make every consistent hypothesis good."""
    return smallest_whole(
        lambda m: (
            math.log(2 / failure)
            + bounds.log_growth(hypotheses, 2 * m)
            - error * m / 2 * math.log(2)
            <= 0
        )
    )


def net_size(hypotheses: Any, error: float, failure: float) -> int:
    """Return how many rows are a net."""
    return smallest_whole(
        lambda m: (
            math.log(2 / failure)
            + 2 * bounds.log_growth(hypotheses, 2 * m)
            - error * m / 2 * math.log(2)
            <= 0
        )
    )


def uniform_size(hypotheses: Any, gap: float, failure: float) -> int:
    """Return how many rows keep all empirical errors within `gap`."""
    return smallest_whole(lambda n: bounds.uniform_gap(hypotheses, n, failure) <= gap)


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
    net = 2 * bounds.net_error(hypotheses, plan.subset)
    chosen = plan.eta * bounds.log_growth(hypotheses, plan.subset)
    gap = 2 * bounds.uniform_gap(hypotheses, n, failure)
    return float(flip + (1 - 2 * flip) * (net + chosen + gap + error))


def psgd_excess_loss(
    lipschitz: float, curvature: float, reach: float, radius: float, n: int, eps: float
) -> float:
    """Return the excess loss of S1 Cor. 4.13, with the noise of the true stability.

    `reach` bounds predictions; one unit moves them by ``2 reach / sqrt n``, twice what
    S1 prints, and the square of the noise counts.
    """
    noise = curvature * (2 * reach / (eps * math.sqrt(n))) ** 2
    return 2 * radius * lipschitz / math.sqrt(n) + noise
