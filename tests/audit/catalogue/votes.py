"""Mistakes around votes: factors, shards, labels, failures."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

from reticent.audit.verification.enumerating import verify_release
from reticent.audit.verification.exact import verify
from reticent.errors import ReticentError
from reticent.guarantees import BoundedRange, PureDP
from reticent.mechanisms import Response, geometric_vote, soft_vote
from reticent.prediction import PrivateVotingClassifier
from tests.audit.catalogue.control import Finding, verified

EPSILON = 1.0
# All units there are: a row, 0 or 1, with a label. Where rows do not matter, one is
# enough.
UNITS = list(product((0, 1), (0, 1)))
LABELS = UNITS[:2]
SHARDS = 3


def _tree() -> Any:
    return DecisionTreeClassifier(random_state=0)


def _voting(rule: str, kind: type = PrivateVotingClassifier) -> Any:
    # The deal's seed is fixed, so that neighbours are compared under the same deal.
    return kind(_tree(), EPSILON, (0, 1), SHARDS, rule, random_state=0)


def factor_two(broken: bool) -> Finding:
    """Vote with exp(eps votes) instead of exp(eps votes / 2)."""

    def law(model: Any, queries: Any) -> Response:
        votes = model.ensemble_.votes(queries)
        return soft_vote(votes, 2 * EPSILON if broken else EPSILON)

    return verified(verify(lambda: _voting("soft"), LABELS, SHARDS, law=law))


def bounded_range(broken: bool) -> Finding:
    """Account permute-and-flip as if it had bounded range."""
    rule = "permute-and-flip" if broken else "soft"
    claim = BoundedRange(EPSILON)
    return verified(verify(lambda: _voting(rule), LABELS, SHARDS + 1, claim=claim))


class DealtByContent(PrivateVotingClassifier):
    """Broken on purpose: a unit's shard follows from what the unit holds.

    For adding or removing a unit that would be right. A replaced unit leaves one
    shard and enters another.
    """

    def _deal(
        self, X: Any, units: Any, n_labels: int, epsilon: float
    ) -> tuple[Any, Any, Any]:
        partition, source, choice = super()._deal(X, units, n_labels, epsilon)
        partition.shard_of_row[:] = np.asarray(X)[:, 0].astype(int) % SHARDS
        return partition, source, choice


def content_shards(broken: bool) -> Finding:
    """Deal by a hash of the unit's content, under replace-one."""
    kind = DealtByContent if broken else PrivateVotingClassifier
    return verified(verify(lambda: _voting("geometric", kind), UNITS, SHARDS))


class SharedTeachers(PrivateVotingClassifier):
    """Broken on purpose: every model is trained on all the units."""

    def fit(self, X: Any, y: Any, units: Any = None) -> Any:
        """Train one model on everything; as many voters say the same."""
        super().fit(X, y, units)
        self._everything = clone(self.estimator).fit(X, y)
        return self

    def response(self, X: Any) -> Response:
        """Return the law of the vote."""
        said = np.asarray(self._everything.predict(X)).astype(int)
        votes: NDArray[np.int64] = SHARDS * (said[:, None] == np.arange(2))
        return geometric_vote(votes, EPSILON)

    def predict(self, X: Any) -> NDArray[Any]:
        """Draw from that law."""
        return np.asarray(self.classes_)[self.response(X).draw(self.law_.source)]


def shared_data(broken: bool) -> Finding:
    """Let teachers share data."""
    kind = SharedTeachers if broken else PrivateVotingClassifier
    return verified(verify(lambda: _voting("geometric", kind), LABELS, SHARDS))


def label_set(broken: bool) -> Finding:
    """Take the label set from the data."""
    classes = None if broken else (0, 1)

    def release(X: Any, y: Any) -> Any:
        model = PrivateVotingClassifier(_tree(), EPSILON, classes, 2, rule="soft")
        try:
            return int(model.fit(X, y).predict([[0]])[0])
        except ReticentError:
            return "refused"
        except ValueError:
            return "refused"

    claim = PureDP(EPSILON)
    return verified(verify_release(release, UNITS, 2, claim=claim, symmetric=True))


class Fragile(DecisionTreeClassifier):  # type: ignore[misc]
    """A learner that cannot stand one record."""

    def fit(self, X: Any, y: Any) -> Any:
        """Fail if there is a 1 labelled 1."""
        if ((np.asarray(X)[:, 0] == 1) & (np.asarray(y) == 1)).any():
            raise ValueError("no convergence")
        return super().fit(X, y)


def failing_record(broken: bool) -> Finding:
    """Let a failure that depends on a record reach the analyst."""

    def release(X: Any, y: Any) -> Any:
        if broken:
            try:
                Fragile(random_state=0).fit(X, y)
            except ValueError:
                return "failed"
        base = Fragile(random_state=0)
        model = PrivateVotingClassifier(base, EPSILON, (0, 1), 2, rule="geometric")
        return int(model.fit(X, y).predict([[0]])[0])

    claim = PureDP(EPSILON)
    return verified(verify_release(release, UNITS, 2, claim=claim, symmetric=True))
