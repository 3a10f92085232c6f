"""The membership game: training sets with and without one unit, and poison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.multiclass import type_of_target

from reticent._numbers import whole
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import AddRemove, Certificate, ReplaceOne

Train = Callable[[NDArray[Any], NDArray[Any]], Any]


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of the game, one per unit, and the training sets made from them."""

    # The rows and labels.
    X: NDArray[Any]
    y: NDArray[Any]
    n: int  # units of a training set, target and poison included
    # Units that the attacker contributed: copies of the target with another label.
    poison: int
    numeric: bool  # whether labels are numbers rather than classes

    def dataset(
        self,
        target: int,
        random: np.random.Generator,
        *,
        member: bool,
        relation: Any,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return a training set, with the target or without it.

        Without it, another unit of the pool takes its place, except under the
        add-remove relation.
        """
        others = np.delete(np.arange(len(self.X)), target)
        drawn = random.choice(others, self.n - self.poison, replace=False)
        base, stand_in = drawn[1:], drawn[:1]
        first = np.array([target]) if member else stand_in
        if not member and isinstance(relation, AddRemove):
            first = first[:0]
        copies = np.full(self.poison, target)
        rows = np.concatenate([first, copies, base])
        labels = self.y[rows]
        labels[len(first) : len(first) + self.poison] = self._other_label(target)
        return self.X[rows], labels

    def questions(
        self, target: int, nearby: int, random: np.random.Generator
    ) -> NDArray[Any]:
        """Return the target's row and rows that differ from it in one column."""
        rows = np.tile(self.X[target], (1 + nearby, 1))
        donors = random.integers(len(self.X), size=nearby)
        columns = random.integers(self.X.shape[1], size=nearby)
        rows[np.arange(1, nearby + 1), columns] = self.X[donors, columns]
        return np.asarray(rows)

    def _other_label(self, target: int) -> Any:
        mine = self.y[target]
        if self.numeric:
            low, high = self.y.min(), self.y.max()
            return high if mine - low < high - mine else low
        labels, counts = np.unique(self.y, return_counts=True)
        return labels[labels != mine][counts[labels != mine].argmax()]


def checked_pool(X: ArrayLike, y: ArrayLike, n: int | None, poison: int) -> Pool:
    """Return the pool, or refuse rows that no game can use."""
    rows, labels = np.asarray(X), np.asarray(y)
    if not (rows.ndim == 2 and labels.shape == (len(rows),)):
        raise InvalidDataError(
            f"X of shape {rows.shape} and y of shape {labels.shape} must be a matrix "
            "and one label per row."
        )
    numeric = type_of_target(labels) == "continuous"
    if len(np.unique(labels)) < 2:
        raise InvalidDataError("y must hold at least two different labels.")
    poison = whole("membership_inference", "poison", poison, least=0)
    size = len(rows) // 2 if n is None else whole("membership_inference", "n", n)
    if not poison + 2 <= size < len(rows) + poison:
        raise InvalidParameterError(
            f"n={size} with poison={poison} must be at least {poison + 2} and need "
            f"fewer rows than the {len(rows)} given."
        )
    return Pool(rows, labels, size, poison, numeric)


def training(model: Any) -> Train:
    """Return how a model is fitted: an estimator is cloned, a function is called."""
    if hasattr(model, "fit"):
        return lambda X, y: clone(model).fit(X, y)
    if callable(model):
        return model  # type: ignore[no-any-return]
    raise InvalidParameterError(
        f"model of type {type(model).__name__} must be an estimator with fit(), or a "
        "function that takes X, y and returns something with predict()."
    )


def promise_of(fitted: Any, method: str) -> Certificate[Any] | None:
    """Return a fitted model's certificate of one answer, or None.

    Probabilities have their own certificate, unless the whole model was released.
    """
    names = ["certificate_", "certificate"]
    if method == "predict_proba" and hasattr(fitted, "probability_certificate_"):
        names = ["probability_certificate_"]
    for name in names:
        found = getattr(fitted, name, None)
        if isinstance(found, Certificate):
            if not isinstance(found.relation, (ReplaceOne, AddRemove)):
                raise InvalidParameterError(
                    f"a promise about '{found.relation}' says nothing about "
                    "neighbouring datasets; membership inference needs one that does."
                )
            return found
    return None
