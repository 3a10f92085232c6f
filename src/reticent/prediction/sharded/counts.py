"""How many shards: chosen from public quantities only, and explained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reticent._numbers import whole
from reticent.errors import InvalidParameterError, TooFewRecordsError

# Fitted to accuracy curves on public data sets (benchmarks/studies/ask_accuracy.py):
# with r shards that mostly agree, the wrong label has probability about
# exp(-eps r / 3), so a few multiples of 1/eps make the noise negligible; a handful more
# average out the variance of single models. Another choice changes accuracy, never
# privacy.
_LEAST = 6.0
_PER_EPSILON = 9.5
_PER_LABEL = 4.0
# An average carries noise of the target's range / (r eps), with no margin to hide it.
_PER_EPSILON_NUMBERS = 60.0
# Fewer units than this in a shard, and a model of that kind learns too little.
_UNITS_NEEDED = {"trees": 150, "linear": 60, "other": 100}


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
    """Return the number of shards asked for, or a good one for ``"auto"``.

    Parameters
    ----------
    n_shards : int or "auto"
        What the user asked for.
    n_units : int
        Number of privacy units.
    n_labels : int
        Number of labels; 1 for regression.
    epsilon : float
        Privacy cost of one answer.
    estimator : object
        The base estimator; only its kind matters.
    """
    if isinstance(n_shards, str) and n_shards == "auto":
        return _automatic(n_units, n_labels, epsilon, estimator_kind(estimator))
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
    if n_labels == 1:
        per_epsilon = _PER_EPSILON_NUMBERS
    else:
        per_epsilon = _PER_EPSILON + _PER_LABEL * math.log(n_labels / 2)
    wanted = math.ceil(_LEAST + per_epsilon / epsilon)
    needed = _UNITS_NEEDED[kind]
    affordable = max(1, n_units // needed)
    count = min(wanted, affordable, n_units)
    # An odd number of shards has no ties between two labels.
    count = count if count % 2 else max(1, count - 1)
    if wanted <= affordable:
        reason = (
            f"{count} shards: enough for the noise of epsilon={epsilon:g} to be small "
            f"beside {n_units // count} units for each {kind} model"
        )
    else:
        reason = (
            f"{count} shards: epsilon={epsilon:g} would like {wanted}, but each {kind} "
            f"model needs about {needed} of the {n_units} units"
        )
    return ShardChoice(count, reason)
