"""Finite classes, given as a list of hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses.base import HypothesisClass, Minimum, Projection
from reticent.hypotheses.dimensions import sauer_shelah
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.labelings import first_of_each, ones_cost, pack
from reticent.hypotheses.oracles.points import distinct_rows, point_matrix

Predictor = Callable[[Floats], ArrayLike]


@dataclass(frozen=True, slots=True)
class Member:
    """The hypothesis at this position of the class."""

    index: int


class FiniteClass(HypothesisClass[Member]):
    """Finitely many hypotheses: functions, or rows of a table of labels.

    Parameters
    ----------
    predictors : sequence of callables
        Each takes rows (a float matrix) and returns a label in {0, 1} for each. They
        must be fixed in advance, and the label of a row must depend on that row alone:
        certificates assume it (ROWWISE_QUERIES). They are called with one row at a
        time.

    Notes
    -----
    The representative of a labeling is the first member that has it, and ties go to the
    first member.

    Examples
    --------
    >>> table = FiniteClass.from_table([[0.0], [1.0]], [[0, 0], [0, 1], [1, 1]])
    >>> table.minimise([0.0, 1.0, 1.0], [1, 1, 0])
    Minimum(hypothesis=Member(index=2), value=1, exact=True)
    >>> table.vc_dimension
    1
    """

    def __init__(self, predictors: Sequence[Predictor]) -> None:
        self.predictors = tuple(predictors)
        self._table: _Table | None = None
        if not self.predictors:
            raise InvalidParameterError("a FiniteClass needs at least one predictor.")

    def __repr__(self) -> str:
        return f"FiniteClass({len(self.predictors)} predictors)"

    @classmethod
    def from_table(cls, points: ArrayLike, labels: ArrayLike) -> FiniteClass:
        """Build a class on a finite domain, one row of labels per hypothesis.

        Parameters
        ----------
        points : array-like
            The domain: distinct points, rows by features.
        labels : array-like of 0 and 1
            Hypotheses by points. Equal rows are allowed and stay separate members.
        """
        given = point_matrix(points)
        table = np.asarray(labels)
        if table.ndim != 2 or table.shape[1] != len(given) or len(table) == 0:
            raise InvalidDataError(
                f"labels has shape {table.shape}; hypotheses by points, with "
                f"{len(given)} points, are needed."
            )
        domain, where = distinct_rows(given)
        if len(domain) != len(given):
            raise InvalidDataError("points has repeated rows; list each point once.")
        if not ((table == 0) | (table == 1)).all():
            raise InvalidDataError("labels must hold only 0 and 1.")
        values = np.empty(table.shape, dtype=np.uint8)
        values[:, where] = table
        kept = _Table(domain, values)
        made = cls([partial(kept.row, index) for index in range(len(values))])
        made._table = kept
        return made

    def __len__(self) -> int:
        return len(self.predictors)

    @property
    def is_table(self) -> bool:
        """Whether the class was built from a table of labels."""
        return self._table is not None

    @property
    def vc_dimension(self) -> int:
        """Exact for a table; for functions the upper bound ``log2`` of their number."""
        most = len(self).bit_length() - 1
        if self._table is None:
            return most
        return _largest_shattered(np.unique(self._table.labels, axis=0), most)

    def on(self, n_features: int) -> Self:
        """Return this class; a table refuses points of another dimension."""
        if self._table is not None and self._table.domain.shape[1] != n_features:
            raise InvalidDataError(
                f"got n_features={n_features}; the table's points have "
                f"{self._table.domain.shape[1]}."
            )
        return self

    def project(self, X: ArrayLike) -> FiniteProjection:
        """Return the first member for each labeling of the points in `X`."""
        points, _ = distinct_rows(point_matrix(X))
        first = first_of_each(pack(self._labels(points)))
        members = np.zeros(len(first), dtype=[("index", np.int64)])
        members["index"] = first
        return FiniteProjection(self, points, members)

    def presort(self, X: ArrayLike) -> LabelledByAll:
        """Label rows by every member once, to count mistakes many times."""
        points, where = distinct_rows(point_matrix(X))
        return LabelledByAll(pack(self._labels(points)), len(points), where)

    def predict(self, hypothesis: Member, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the labels of one member."""
        return self._labels(point_matrix(X), [hypothesis.index])[0]

    def minimise(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Minimum[Member]:
        """Minimise weighted mistakes by trying every member."""
        rows = point_matrix(X)
        costs = signed_costs(y, weights, len(rows))
        points, where = distinct_rows(rows)
        values = ones_cost(
            pack(self._labels(points)), len(points), costs.gathered(where, len(points))
        )
        best = int(np.argmin(values))
        return Minimum(Member(best), costs.value(int(values[best])), costs.exact)

    def _growth(self, m: int) -> int:
        return min(len(self), sauer_shelah(m, self.vc_dimension))

    def _labels(
        self, rows: Floats, members: Sequence[int] | None = None
    ) -> NDArray[np.uint8]:
        if self._table is not None:
            found = self._table.labels[:, self._table.positions(rows)]
            return found if members is None else found[list(members)]
        chosen = range(len(self)) if members is None else members
        return np.stack([_labels_by_row(self.predictors[i], rows) for i in chosen])


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Labels on a finite domain, which is sorted."""

    domain: Floats
    labels: NDArray[np.uint8]

    def row(self, index: int, rows: Floats) -> NDArray[np.uint8]:
        found: NDArray[np.uint8] = self.labels[index, self.positions(rows)]
        return found

    def positions(self, rows: Floats) -> NDArray[np.intp]:
        """Find each row in the domain."""
        if rows.shape[1] != self.domain.shape[1]:
            raise InvalidDataError(
                f"X has {rows.shape[1]} features; the table's points have "
                f"{self.domain.shape[1]}."
            )
        everything, where = distinct_rows(np.concatenate([self.domain, rows]))
        if len(everything) != len(self.domain):
            raise InvalidDataError("X has points that are not in the table's domain.")
        # The domain is sorted, so its i-th point is the i-th distinct row.
        return where[len(self.domain) :]


@dataclass(frozen=True, slots=True, eq=False)
class MemberTally:
    """The weighted mistakes of every member of a class."""

    mistakes: NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class LabelledByAll:
    """The labels that every member of a class gives to rows."""

    labels: NDArray[np.uint8]  # of the distinct rows; packed
    n_points: int  # how many of them there are
    where: NDArray[np.intp]  # the distinct row at each row

    def tally(self, y: ArrayLike, weights: ArrayLike | None = None) -> MemberTally:
        """Count the weighted mistakes of every member."""
        costs = signed_costs(y, weights, len(self.where))
        ones = costs.gathered(self.where, self.n_points)
        return MemberTally(costs.values(ones_cost(self.labels, self.n_points, ones)))


class FiniteProjection(Projection[Member]):
    """One member per labeling of a point set; the records have `index`."""

    def __init__(
        self, family: FiniteClass, points: NDArray[Any], hypotheses: NDArray[Any]
    ) -> None:
        super().__init__(points, hypotheses)
        self._family = family

    def mistakes(
        self, X: Any, y: ArrayLike | None = None, weights: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Count weighted mistakes; also takes a tally as `X`."""
        if isinstance(X, MemberTally):
            return np.asarray(X.mistakes[self.hypotheses["index"]])
        return super().mistakes(X, y, weights)

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        return self._family._labels(point_matrix(X), self.hypotheses["index"].tolist())

    def _rows(self, X: Any) -> Floats:
        return point_matrix(X, self.points.shape[1])

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        distinct, where = distinct_rows(rows)
        ones = costs.gathered(where, len(distinct))
        return ones_cost(pack(self.predict(distinct)), len(distinct), ones)

    def _hypothesis(self, record: Any) -> Member:
        return Member(int(record["index"]))


def _labels_by_row(predictor: Predictor, rows: Floats) -> NDArray[np.uint8]:
    """Return the label of each row, asked for in a call of its own.

    In one call for all rows the rounding of a matrix product depends on how many rows
    there are, so an honest rule's label of one row would tell something about others.
    """
    # Each call gets a copy, so that no function changes the rows of the next one.
    said = [predictor(rows[i : i + 1].copy()) for i in range(len(rows))]
    try:
        labels = np.array(said) if said else np.zeros((0, 1))
    except ValueError:  # answers of several shapes
        labels = np.zeros((0, 0))
    if labels.shape != (len(rows), 1) or not ((labels == 0) | (labels == 1)).all():
        raise InvalidDataError(
            "a predictor returned something else than one label in {0, 1} for one row."
        )
    return labels[:, 0].astype(np.uint8)


def _largest_shattered(table: NDArray[np.uint8], most: int) -> int:
    """Grow shattered sets point by point; each needs all its subsets shattered."""
    shattered: set[tuple[int, ...]] = {()}
    for size in range(1, most + 1):
        candidates = {
            (*chosen, point)
            for chosen in shattered
            for point in range(chosen[-1] + 1 if chosen else 0, table.shape[1])
        }
        powers = 2 ** np.arange(size)
        larger = {
            chosen
            for chosen in candidates
            if all(part in shattered for part in combinations(chosen, size - 1))
            and len(np.unique(table[:, chosen] @ powers)) == 2**size
        }
        if not larger:
            return size - 1
        shattered = larger
    return most
