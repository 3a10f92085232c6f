"""Expected error without looking at data: learning curves, votes and noise.

Everything here is an *estimate* from a stated model, not a promise. The model:

- The error of a model trained on `m` rows is its limit (with unlimited data) plus an
  excess of ``0.08 (60/m)^b``, with ``b = 0.6`` by default.
- On a share of the queries, which is the limit, all shards err. On the others, a shard
  is right with a probability that varies from query to query by a Beta law of
  concentration 2, whose mean is given by the learning curve. Given this probability,
  votes are independent, and the mechanism determines the law of the answer.
- Releasing a linear model adds a multiple of the noise's norm per unit to its error, up
  to the error of chance.

The constants were measured on public tables (`benchmarks/studies/plan_curves.py` and
`release_accuracy.py`, which `release.py` has replaced).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import betaln, expit

from reticent._arrays import Floats

_EXCESS, _AT_ROWS = 0.08, 60.0
CONCENTRATION = 2.0
_STEEP = 700.0  # a larger exponent overflows and changes nothing
#: Numbers of shards that are tried; all odd, so that two labels never tie.
SHARDS = (
    1, 3, 5, 7, 9, 13, 17, 23, 31, 41, 55, 75, 101, 137, 185, 251, 339, 457, 617, 833,
    1125, 1519, 2051,
)  # fmt: skip
#: A model cannot learn from fewer rows than this.
FEWEST_ROWS = 20


def learning_excess(rows: float, exponent: float, room: float) -> float:
    """Return the error above its limit of a model trained on `rows` rows.

    Parameters
    ----------
    rows : float
        Number of rows.
    exponent : float
        How fast the excess falls.
    room : float
        Its maximum: the error of chance minus the limit.
    """
    return float(min(max(room, 0.0), _EXCESS * (_AT_ROWS / rows) ** exponent))


@lru_cache(maxsize=4096)
def vote_weights(shards: int, limit: float, excess: float) -> Floats:
    """Return the law of the number of right votes, over queries.

    Parameters
    ----------
    shards : int
        Number of voters.
    limit : float
        Share of queries on which all err.
    excess : float
        Error of one model above that share.
    """
    votes = np.arange(shards + 1)
    wrong = min(max(excess / (1 - limit), 1e-12), 1 - 1e-12)
    a, b = CONCENTRATION * (1 - wrong), CONCENTRATION * wrong
    log = (
        -np.log(shards + 1)
        - betaln(shards - votes + 1, votes + 1)
        + betaln(votes + a, shards - votes + b)
        - betaln(a, b)
    )
    weights = np.exp(log)
    weights *= (1 - limit) / weights.sum()
    weights[0] += limit
    weights.setflags(write=False)
    return np.asarray(weights)


def soft_right(shards: int, epsilon: float, labels: int) -> Floats:
    """Return the probability of the right answer by a soft vote, by right votes.

    All wrong votes are assumed to be for one label, the worst case.
    """
    right = np.arange(shards + 1)
    behind = np.minimum(epsilon / 2 * (shards - 2 * right), _STEEP)
    others = (labels - 2) * np.exp(-epsilon / 2 * right)
    return np.asarray(1 / (1 + np.exp(behind) + others))


def geometric_right(shards: int, epsilon: float) -> Floats:
    """Return the probability of the right answer by a geometric vote (odd `shards`)."""
    lead = np.abs(np.arange(shards + 1) - shards / 2) - 0.5
    minority = np.exp(-epsilon * lead) * expit(-epsilon)
    return np.asarray(
        np.where(np.arange(shards + 1) > shards / 2, 1 - minority, minority)
    )


def average_right(shards: int, epsilon: float) -> Floats:
    """Return the probability of the right answer drawn from a noisy average (P2)."""
    share = np.arange(shards + 1) / shards
    scale = 1 / (shards * epsilon)
    return np.asarray(
        share + scale / 2 * (np.exp(-share / scale) - np.exp(-(1 - share) / scale))
    )


def noisy_error(limit: float, chance: float, excess: float) -> float:
    """Return an error that grows by `excess` at first and ends at chance."""
    room = max(0.0, chance - limit)
    if room == 0:
        return limit
    return float(limit + room * -np.expm1(-excess / room))


def best_shards(rows: int, units: int, error_of: Any) -> tuple[int, float]:
    """Return the number of shards with the least error, and that error.

    Parameters
    ----------
    rows, units : int
        Numbers of rows and units in the data.
    error_of : callable
        Maps shards and rows per shard to the error.
    """
    tried = [
        (error_of(shards, rows // shards), shards)
        for shards in SHARDS
        if shards <= units and (rows // shards >= FEWEST_ROWS or shards == 1)
    ]
    error, shards = min(tried)
    return shards, float(error)
