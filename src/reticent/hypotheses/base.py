"""The interface of all hypothesis classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._text import one_of
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses.dimensions import checked_count, sauer_shelah
from reticent.hypotheses.oracles.costs import Costs, signed_costs

H = TypeVar("H")

# Ten million representatives take a few hundred megabytes; larger lists are refused.
# Raise it when memory grows.
MAX_LABELINGS = 10_000_000


@dataclass(frozen=True, slots=True)
class Minimum(Generic[H]):
    """A hypothesis with the fewest weighted mistakes, and how many these are."""

    hypothesis: H  #: the minimiser
    value: int | float  #: its weighted mistakes; an int if the weights were integers
    #: True if the weights were used as given. False if they were too fine for exact
    #: sums and were rounded first; the hypothesis is then exact for the rounded ones.
    exact: bool = True


class Projection(Sequence[H], ABC):
    """One representative per labeling of a point set.

    Depends on the *set* of points alone: not on their order, multiplicity or labels.
    Indexing gives a hypothesis; `hypotheses` holds all of them as a structured array.

    Attributes
    ----------
    points : ndarray
        The distinct points in lexicographic order.
    hypotheses : ndarray
        The representatives, one record each.
    """

    def __init__(self, points: NDArray[Any], hypotheses: NDArray[Any]) -> None:
        self.points = points
        self.hypotheses = hypotheses

    def __len__(self) -> int:
        return len(self.hypotheses)

    @overload
    def __getitem__(self, index: int) -> H: ...
    @overload
    def __getitem__(self, index: slice) -> list[H]: ...
    def __getitem__(self, index: int | slice) -> H | list[H]:
        if isinstance(index, slice):
            return [self._hypothesis(record) for record in self.hypotheses[index]]
        return self._hypothesis(self.hypotheses[index])

    def __iter__(self) -> Iterator[H]:
        return (self._hypothesis(record) for record in self.hypotheses)

    @cached_property
    def labels(self) -> NDArray[np.uint8]:
        """The labelings: representatives by `points`, computed when first asked for."""
        return self.predict(self.points)

    def mistakes(
        self, X: Any, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Count the weighted mistakes of every representative on labelled data.

        Parameters
        ----------
        X : array-like
            Data points; they need not be the projected ones.
        y : array-like of 0 and 1
            Their labels.
        weights : array-like, optional
            Weights of either sign; one each if left out.

        Returns
        -------
        ndarray
            In the order of `hypotheses`. Integers, exact, if the weights are integers.
        """
        rows = self._rows(X)
        if y is None:
            raise InvalidDataError(
                "mistakes needs y, one label in {0, 1} per row of X."
            )
        costs = signed_costs(y, weights, len(rows))
        return costs.values(self._cost_of_ones(rows, costs))

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""

    @abstractmethod
    def _rows(self, X: Any) -> NDArray[Any]:
        """Validate data points."""

    @abstractmethod
    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        """Add up, for every representative, the costs where it says 1."""

    @abstractmethod
    def _hypothesis(self, record: Any) -> H:
        """Turn one record into a hypothesis."""


class HypothesisClass(ABC, Generic[H]):
    """A set of functions from points to {0, 1} with exact oracles.

    Ties are broken by the order of :meth:`project`: among all minimisers,
    :meth:`minimise` returns the first representative, unless a class says otherwise.
    """

    @property
    @abstractmethod
    def vc_dimension(self) -> int:
        """Size of the largest point set on which every labeling occurs."""

    @abstractmethod
    def project(self, X: ArrayLike) -> Projection[H]:
        """Return one representative for each labeling of the points in `X`.

        Never refuses `m` points of the class's domain for being too many to list if
        ``growth(m)`` is at most `MAX_LABELINGS`.
        """

    @abstractmethod
    def predict(self, hypothesis: H, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label that `hypothesis` gives to each row of `X`."""

    @abstractmethod
    def minimise(
        self, X: Any, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Minimum[H]:
        r"""Minimise :math:`\sum_i w_i [h(x_i) \ne y_i]` exactly, for signed weights."""

    @abstractmethod
    def on(self, n_features: int) -> Self:
        """Return this class for points with `n_features` features, or refuse."""

    def growth(self, m: int | None = None, *, points: ArrayLike | None = None) -> int:
        """Count labelings: exactly on given `points`, at most on any `m` points.

        Parameters
        ----------
        m : int, optional
            Number of points, wherever they are. The result is the growth function
            where a closed form is known, else an upper bound (Sauer-Shelah).
        points : array-like, optional
            Give these instead of `m` for the exact number of labelings of the set.
        """
        if (m is None) == (points is None):
            raise InvalidParameterError(
                "growth needs either a number of points m or the points themselves."
            )
        if points is not None:
            return self._count(points)
        return self._growth(checked_count("m", m, at_least=0))

    def consistent(self, X: ArrayLike, labels: ArrayLike) -> H:
        """Return the representative with these labels at `X`.

        It depends on the points and these labels alone, so it can replace any
        hypothesis that agrees with it there (M4). Labels that no hypothesis has are
        refused.
        """
        found = self.minimise(X, labels)
        if found.value != 0:
            raise InvalidDataError("no hypothesis of this class has these labels at X.")
        return found.hypothesis

    def _count(self, points: ArrayLike) -> int:
        return len(self.project(points))

    def _growth(self, m: int) -> int:
        return sauer_shelah(m, self.vc_dimension)


@dataclass(frozen=True, slots=True)
class ClassOfFeatures(HypothesisClass[H]):
    """A class whose VC dimension depends on the number of features.

    Parameters
    ----------
    n_features : int, optional
        How many features the points have. If left out, every call takes it from its
        points; the VC dimension and the growth function need it (see :meth:`on`).
    """

    n_features: int | None = None

    def __post_init__(self) -> None:
        if self.n_features is not None:
            checked_count("n_features", self.n_features, at_least=1)

    def on(self, n_features: int) -> Self:
        """Return this class for points with `n_features` features."""
        if self.n_features not in (None, n_features):
            raise InvalidDataError(
                f"got n_features={n_features}; this class has {self.n_features}."
            )
        return replace(self, n_features=n_features)

    def _declared(self) -> int:
        if self.n_features is None:
            name = type(self).__name__
            raise InvalidParameterError(
                f"n_features=None: the VC dimension and the growth function of {name} "
                f"depend on it. Use {name}(n_features=...)."
            )
        return self.n_features


@dataclass(frozen=True, slots=True)
class ProgrammedClass(ClassOfFeatures[H]):
    """A class that is minimised by enumeration or by an integer program.

    Parameters
    ----------
    method : {"auto", "enumerate", "milp"}, default="auto"
        How `minimise` works.
    time_limit : float, default=inf
        Seconds for the integer program; without a proof by then, SolverError.
    """

    method: str = field(default="auto", kw_only=True)
    time_limit: float = field(default=math.inf, kw_only=True)

    def __post_init__(self) -> None:
        ClassOfFeatures.__post_init__(self)
        one_of("method", self.method, "auto", "enumerate", "milp")
        if not self.time_limit > 0:
            raise InvalidParameterError(
                f"time_limit={self.time_limit!r} is not possible; seconds > 0 are "
                "needed."
            )


def refuse_long_list(count: int, advice: str) -> None:
    """Raise if a list of `count` representatives would not fit in memory."""
    if count > MAX_LABELINGS:
        raise InvalidParameterError(
            f"project would list {count} labelings, more than {MAX_LABELINGS}; {advice}"
        )
