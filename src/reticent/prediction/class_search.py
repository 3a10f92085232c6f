"""Data and a class of hypotheses, prepared for selecting one query after query."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError
from reticent.hypotheses import HypothesisClass
from reticent.prediction.law import Locked


@dataclass(frozen=True, eq=False, repr=False)
class ClassSearch(Locked):
    """Data prepared for counting mistakes of many candidates, query after query.

    Attributes
    ----------
    hypotheses : HypothesisClass
        A copy of the class, for rows with the columns of `X`.
    X : ndarray of shape (n, d)
        A copy of the rows.
    data : tuple
        What a projection counts mistakes on.
    """

    hypotheses: Any
    X: NDArray[np.float64]
    data: tuple[Any, ...]

    @classmethod
    def of(
        cls, owner: str, hypotheses: Any, X: NDArray[Any], y: NDArray[np.int64]
    ) -> Self:
        """Copy and prepare rows and labels in {0, 1}."""
        if not isinstance(hypotheses, HypothesisClass):
            raise InvalidParameterError(
                f"hypotheses={hypotheses!r} of {owner} must be a class of "
                "reticent.hypotheses, such as Thresholds()."
            )
        family = deepcopy(hypotheses.on(X.shape[1]))
        rows = np.array(X)
        if hasattr(family, "presort"):
            return cls(family, rows, (family.presort(rows).tally(y),))
        return cls(family, rows, (rows, np.array(y)))

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.X)

    def rehearse(self, size: int) -> None:
        """Refuse, at fit, rows that the class does not take or cannot list.

        A query would come across them later, when failing would tell of a record.
        """
        first = self.hypotheses.project(self.X[:size])
        first.mistakes(*self.data)
        self.hypotheses.predict(first[0], self.X)

    def check_queries(self, rows: NDArray[np.float64]) -> None:
        """Refuse queries that the class does not take, which is public."""
        for row in rows:
            self.hypotheses.project(row[None, :])

    def candidates(
        self, subset: NDArray[np.int64]
    ) -> tuple[Any, NDArray[np.int64]] | None:
        """Return one representative per labeling of a subset, and their mistakes.

        None if the labelings of the subset's points cannot be listed: an error would
        tell of a record. That depends on the points of the subset alone.
        """
        try:
            found = self.hypotheses.project(self.X[subset])
            return found, np.asarray(found.mistakes(*self.data))
        except Exception:  # noqa: BLE001
            return None

    def said(self, hypothesis: Any, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return what a hypothesis says to rows; 0 to all of them if it cannot."""
        silent = np.zeros(len(rows), dtype=np.int64)
        if hypothesis is None:
            return silent
        try:
            return silent + self.hypotheses.predict(hypothesis, rows)
        except Exception:  # noqa: BLE001 - which hypothesis was drawn is private
            return silent


def all_subsets(n: int, size: int, most: int) -> Iterator[NDArray[np.int64]]:
    """Return all subsets of `size` of `n` units, or refuse more than `most`."""
    if math.comb(n, size) > most:
        raise InvalidParameterError(
            f"the exact law needs all subsets of {size} of n={n} units, more than "
            f"{most}. It is for small data; use predict."
        )
    return (np.array(chosen) for chosen in combinations(range(n), size))
