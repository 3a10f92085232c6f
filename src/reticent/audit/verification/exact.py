"""Exact verification of all answers over all neighbours of small datasets."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats
from reticent._numbers import whole
from reticent.audit.verification.agreement import (
    AnswerCheck,
    check_same_law,
    watched_law,
)
from reticent.audit.verification.losses import allowed, loss, surely_within
from reticent.errors import CannotJudgeError, InvalidParameterError
from reticent.guarantees import (
    AddRemove,
    Certificate,
    Guarantee,
    PureDP,
    ReplaceOne,
    Scope,
)

# More fits than this would take hours; a smaller domain shows the same.
_MOST_DATASETS = 50_000
# Laws as floats are good to about 1e-12; a pair this close to the promise is decided
# in interval arithmetic instead.
_DOUBT = 1e-9


@dataclass(frozen=True)
class Verification:
    """The outcome of `verify`."""

    holds: bool  #: whether no pair of neighbours exceeds the certificate
    guarantee: Guarantee  #: what was promised
    worst: float  #: the largest loss found, in the guarantee's own terms
    allowed: float  #: what the guarantee allows
    rigorous: bool  #: whether the decisive ratio was bounded in interval arithmetic
    #: How many were compared.
    datasets: int
    pairs: int
    #: The worst pair: dataset, neighbour, query and outcome.
    example: tuple[Any, Any, Any, Any]

    @property
    def tightness(self) -> float:
        """Share of the promise that is used up."""
        return self.worst / self.allowed if self.allowed > 0 else math.inf

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "IS VIOLATED"
        return (
            f"{self.guarantee} {verdict}: worst loss {self.worst:.6g} of "
            f"{self.allowed:.6g} ({100 * self.tightness:.1f} %) over {self.datasets} "
            f"datasets and {self.pairs} neighbouring pairs"
        )


Dataset = tuple[Any, ...]


@dataclass(frozen=True)
class Answered:
    """One dataset's certificate (if known), its response and its log-law."""

    certificate: Certificate[Any] | None
    response: Any
    logs: Floats


def verify(
    predictor_factory: Callable[[], Any],
    domain: Sequence[tuple[Any, Any]],
    n: int,
    *,
    queries: ArrayLike | None = None,
    symmetric: bool = False,
    claim: Guarantee | None = None,
    law: Callable[[Any, Any], Any] | None = None,
) -> Verification:
    """Check a certificate against every neighbour of every small dataset.

    Parameters
    ----------
    predictor_factory : callable
        Makes an unfitted predictor or learner of reticent. Give randomised deals and
        orders a seed, so that neighbours are compared under the same one.
    domain : sequence of (x, y)
        The possible units: a row (or a number) with its label.
    n : int
        Number of units of a dataset.
    queries : array-like, default=None
        Rows to ask a predictor; None asks every different row of the domain.
    symmetric : bool, default=False
        Whether the law does not depend on the order of units, so that multisets are
        enough.
    claim : Guarantee, default=None
        What to check; None checks each fitted `certificate_`.
    law : callable, default=None
        ``law(fitted, queries)`` returns the response to read; None calls
        ``fitted.response(queries)``, or ``fitted.response()`` for released models.

    Returns
    -------
    Verification
        With the worst pair that was found.

    Raises
    ------
    CannotJudgeError
        If a law differs in a second fit, if the fit uses randomness that is not seeded,
        or if `predict` does not draw from the law that `response` states. The last is
        checked where an answer is one draw.

    Guarantee
    ---------
    The law of every answer is computed, not sampled. Where the largest log-ratio is
    too near the promise for floats, it is bounded in interval arithmetic, to 26
    digits; a ratio that exceeds the promise there is a violation.

    Examples
    --------
    >>> from reticent.prediction import ProjectedWalkClassifier
    >>> report = verify(
    ...     lambda: ProjectedWalkClassifier(epsilon=1.0, error=0.9, classes=[0, 1]),
    ...     [(0, 0), (0, 1), (1, 0), (1, 1)], n=2, symmetric=True,
    ... )
    >>> report.holds, round(report.tightness, 3)
    (True, 1.0)
    """
    units = [(_row(x), y) for x, y in domain]
    n = whole("verify", "n", n)
    asked = _queries(units, queries)
    probe, _ = _fit(
        predictor_factory, tuple(range(len(units)))[:1] * n, units, asked, law
    )
    relation = _certificate(probe).relation
    if not isinstance(relation, (ReplaceOne, AddRemove)):
        raise CannotJudgeError(
            "cannot judge: verify knows neighbours that replace, add or remove a unit; "
            f"the promise is about others: {relation}."
        )
    sizes = (n,) if isinstance(relation, ReplaceOne) else (n - 1, n)
    count = sum(_how_many(len(units), size, symmetric) for size in sizes)
    if count > _MOST_DATASETS:
        raise InvalidParameterError(
            f"n={n} over a domain of {len(units)} units makes {count} datasets, more "
            f"than {_MOST_DATASETS}. Use a smaller domain or n."
        )
    answers = AnswerCheck()
    table = {
        data: _fit_twice(predictor_factory, data, units, asked, law, answers)
        for size in sizes
        for data in datasets_of(len(units), size, symmetric)
    }
    return compare(table, len(units), n, symmetric, relation, claim, units, asked)


def _certificate(answered: Answered) -> Certificate[Any]:
    if answered.certificate is None:
        raise InvalidParameterError("a program without a certificate needs a claim.")
    return answered.certificate


def _promised(answered: Answered) -> Guarantee:
    promised: Guarantee = _certificate(answered).guarantee
    return promised


def compare(
    table: dict[Dataset, Answered],
    n_units: int,
    n: int,
    symmetric: bool,
    relation: Any,
    claim: Guarantee | None,
    units: list[Any],
    asked: NDArray[Any],
) -> Verification:
    """Compare the laws of all neighbours in a table."""
    worst, pairs, rigorous = -1.0, 0, False
    example: tuple[Any, Any, Any, Any] = (None, None, None, None)
    holds, guarantee, limit = True, claim, 0.0
    decided: set[tuple[bytes, bytes]] = set()
    for data, near in _pairs(table, n_units, n, symmetric, relation):
        here, there = table[data], table[near]
        guarantee = claim or _promised(here)
        limit = allowed(guarantee)
        pairs += 1
        for query, (left, right) in enumerate(zip(here.logs, there.logs, strict=True)):
            used = loss(guarantee, left, right)
            # Equal laws occur many times; one decision is enough.
            laws = (left.tobytes(), right.tobytes())
            if used > limit - _DOUBT * max(1.0, limit) and laws not in decided:
                decided.add(laws)
                fine, sure = _decided(guarantee, here, there, query, used, limit)
                holds, rigorous = holds and fine, rigorous or sure
            if used > worst:
                worst = used
                shown = asked[query] if len(asked) > query else None
                with np.errstate(invalid="ignore"):
                    outcome = int(np.nanargmax(np.abs(left - right)))
                example = (_shown(data, units), _shown(near, units), shown, outcome)
    if guarantee is None:
        raise InvalidParameterError("verify found no pair of neighbours to compare.")
    return Verification(
        holds=holds,
        guarantee=guarantee,
        worst=max(worst, 0.0),
        allowed=limit,
        rigorous=rigorous,
        datasets=len(table),
        pairs=pairs,
        example=example,
    )


def _decided(
    guarantee: Guarantee,
    here: Answered,
    there: Answered,
    query: int,
    used: float,
    limit: float,
) -> tuple[bool, bool]:
    """Return whether a pair near the limit keeps it, and whether that is rigorous."""
    if used > limit + _DOUBT * max(1.0, limit):
        return False, False
    if not isinstance(guarantee, PureDP) or not hasattr(here.response, "exact"):
        return used <= limit * (1 + _DOUBT), False
    return surely_within(here.response, there.response, query, limit), True


def _pairs(
    table: dict[Dataset, Answered],
    n_units: int,
    n: int,
    symmetric: bool,
    relation: Any,
) -> Iterator[tuple[Dataset, Dataset]]:
    """Yield every dataset with every neighbour of it under the relation."""
    for data in table:
        if isinstance(relation, AddRemove):
            if len(data) == n - 1:
                for unit, place in product(range(n_units), range(n)):
                    larger = (*data[:place], unit, *data[place:])
                    yield data, tuple(sorted(larger)) if symmetric else larger
            continue
        for place, unit in product(range(len(data)), range(n_units)):
            if unit != data[place]:
                other = (*data[:place], unit, *data[place + 1 :])
                yield data, tuple(sorted(other)) if symmetric else other


def datasets_of(n_units: int, size: int, symmetric: bool) -> Iterator[Dataset]:
    """Yield every dataset, as numbers of its units."""
    if symmetric:
        return combinations_with_replacement(range(n_units), size)
    return product(range(n_units), repeat=size)


def _how_many(n_units: int, size: int, symmetric: bool) -> int:
    return math.comb(n_units + size - 1, size) if symmetric else n_units**size


def _fit_twice(
    make: Callable[[], Any],
    data: Dataset,
    units: list[Any],
    queries: NDArray[Any],
    law: Callable[[Any, Any], Any] | None,
    answers: AnswerCheck,
) -> Answered:
    """Fit; refuse a predictor without one law, or one that answers by another law."""
    again = partial(_fit, make, data, units, queries, law)
    found: Answered
    (found, model), (other, _) = watched_law(again), again()
    check_same_law(found.logs, other.logs)
    if law is None and _certificate(found).scope is not Scope.MODEL:
        answers.check(model, queries, found.logs)
    return found


def _fit(
    make: Callable[[], Any],
    data: Dataset,
    units: list[Any],
    queries: NDArray[Any],
    law: Callable[[Any, Any], Any] | None,
) -> tuple[Answered, Any]:
    X = np.array([units[unit][0] for unit in data])
    y = np.array([units[unit][1] for unit in data])
    model = make().fit(X, y)
    certificate: Certificate[Any] = model.certificate_
    if law is not None:
        response = law(model, queries)
    elif certificate.scope is Scope.MODEL:
        response = model.response()
    else:
        response = model.response(queries)
    logs = np.asarray(response.log_probabilities)
    return Answered(certificate, response, logs), model


def _row(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list, np.ndarray)) else (x,)


def _queries(units: list[Any], queries: ArrayLike | None) -> NDArray[Any]:
    if queries is not None:
        return np.asarray(queries)
    return np.array(sorted({x for x, _ in units}))


def _shown(data: Dataset, units: list[Any]) -> tuple[Any, ...]:
    return tuple(units[unit] for unit in data)
