"""How many shards: chosen from public quantities only, and explained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reticent._numbers import whole
from reticent.errors import InvalidParameterError, TooFewRecordsError

# Fitted to accuracy curves on public data sets (benchmarks/studies/shard_counts.py).
# Another choice changes accuracy, never privacy.
#
# Labels: with r shards that mostly agree, the wrong label has probability about
# exp(-eps r / 3), so a few multiples of 1/eps make the noise negligible; more where
# there are more labels to be mistaken for. What a shard loses by having fewer rows
# falls with their number, so large tables afford a few more.
_PER_EPSILON = 10.0
_PER_LABEL = 9.0
_PER_UNITS = 0.4
_USUAL_UNITS = 1000
# With fewer units than this in a shard, a vote of that kind says too little.
_UNITS_NEEDED = {"trees": 20, "linear": 9, "other": 14}
_BEND = 2
# Numbers: an average of r outputs loses about a r/n of its R2 to small shards, and
# (noise range / (r spread))^2 to noise; the sum is least at r ~ n^(1/3) (...)^(2/3).
_PER_NOISE = {"trees": 0.8, "linear": 1.0, "other": 0.9}
_SPREAD = 0.2
_UNITS_NEEDED_NUMBERS = 20


@dataclass(frozen=True)
class ShardChoice:
    """A number of shards and the reason for it.

    Both are functions of public quantities: the number of units and of labels,
    epsilon, and the kind of base estimator.
    """

    n_shards: int
    reason: str


def estimator_kind(estimator: Any) -> str:
    """Return "trees", "linear" or "other" for the last step of a pipeline."""
    last = estimator
    while hasattr(last, "steps") and last.steps:
        last = last.steps[-1][1]
    name = type(last).__name__
    if any(word in name for word in ("Tree", "Forest", "Boost", "LGBM", "XGB")):
        return "trees"
    linear = ("Linear", "Logistic", "Ridge", "Lasso", "ElasticNet", "SGD", "Perceptron")
    if any(word in name for word in linear):
        return "linear"
    return "other"


def choose_shards(
    n_shards: Any, *, n_units: int, n_labels: int, epsilon: float, estimator: Any
) -> ShardChoice:
    """Return the number of shards for labels: as asked, or a good one for ``"auto"``.

    `epsilon` is the cost of one answer. Of the base estimator only its kind matters.
    """
    if n_shards == "auto":
        return _automatic(n_units, n_labels, epsilon, estimator_kind(estimator))
    return _as_asked(n_shards, n_units)


def choose_shards_for_numbers(
    n_shards: Any, *, n_units: int, noise: float, spread: float | None, estimator: Any
) -> ShardChoice:
    """Return the number of shards for numbers: as asked, or a good one for ``"auto"``.

    `noise` is the standard deviation of the noise of one shard's answer, and `spread` a
    guess of that of the targets or None, both as a share of the range.
    """
    if n_shards != "auto":
        return _as_asked(n_shards, n_units)
    kind = estimator_kind(estimator)
    ratio = noise / math.sqrt(2) / (_SPREAD if spread is None else spread)
    # A very large ratio asks for as many shards as there can be.
    wanted = _PER_NOISE[kind] * n_units ** (1 / 3) * min(ratio, 1e12) ** (2 / 3)
    affordable = max(1, n_units // _UNITS_NEEDED_NUMBERS)
    count = min(max(1, round(wanted)), affordable)
    why = (
        f"balances noise against {n_units // count} of {n_units} units for each "
        f"{kind} model"
        if wanted <= affordable
        else f"the noise calls for {wanted:.0f}, but each {kind} model needs about "
        f"{_UNITS_NEEDED_NUMBERS} of the {n_units} units"
    )
    return ShardChoice(count, f"{count} shards: {why}")


def _as_asked(n_shards: Any, n_units: int) -> ShardChoice:
    if isinstance(n_shards, str):
        raise InvalidParameterError(
            f"n_shards={n_shards!r} must be 'auto' or a whole number >= 1."
        )
    count = whole("n_shards", "n_shards", n_shards)
    if not count <= n_units:
        raise TooFewRecordsError(
            f"n_shards={count} needs one unit per shard; got n_units={n_units}. Lower "
            "n_shards or add units."
        )
    return ShardChoice(count, f"{count} shards, as asked")


def _automatic(n_units: int, n_labels: int, epsilon: float, kind: str) -> ShardChoice:
    per_epsilon = _PER_EPSILON + _PER_LABEL * math.log(n_labels / 2)
    larger = _PER_UNITS * math.log(n_units / _USUAL_UNITS)
    wanted = max(1.0, per_epsilon / epsilon + larger)
    needed = _UNITS_NEEDED[kind]
    affordable = max(1, n_units / needed)
    # The smaller of the two, and somewhat less where they are close.
    between = (wanted**-_BEND + affordable**-_BEND) ** (-1 / _BEND)
    # The nearest odd number: then two labels cannot tie.
    count = 2 * math.floor(between / 2) + 1
    if wanted <= affordable:
        reason = (
            f"{count} shards: enough for the noise of epsilon={epsilon:g} to be "
            f"small, with {n_units // count} of {n_units} units for each {kind} model"
        )
    else:
        reason = (
            f"{count} shards: epsilon={epsilon:g} calls for {wanted:.0f}, but each "
            f"{kind} model needs about {needed} of the {n_units} units"
        )
    return ShardChoice(count, reason)
