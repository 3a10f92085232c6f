"""Conjunctions of binary features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Bools, Ints
from reticent.errors import InvalidParameterError
from reticent.hypotheses.base import (
    MAX_LABELINGS,
    Minimum,
    ProgrammedClass,
    Projection,
)
from reticent.hypotheses.dimensions import sauer_shelah
from reticent.hypotheses.oracles.costs import Costs, signed_costs
from reticent.hypotheses.oracles.integer_programs import (
    ConstraintRows,
    coarse_costs,
    require_proof,
    solve,
)
from reticent.hypotheses.oracles.labelings import distinct_labelings, ones_cost, pack
from reticent.hypotheses.oracles.points import binary_matrix, distinct_rows

# For more labelings than this, an integer program finds the minimum faster.
_ENUMERATED = 100_000


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Label 1 where all `positive` features are 1 and all `negated` ones are 0."""

    positive: tuple[int, ...]
    negated: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Conjunctions(ProgrammedClass[Conjunction]):
    """Conjunctions of literals over binary features; no literal at all is constant 1.

    Parameters
    ----------
    n_features : int, optional
        How many features the points have. If left out, every call takes it from its
        points; the VC dimension and the growth function need it (see :meth:`on`).
    negations : bool, default=True
        Whether a feature may appear negated. Then constant 0 belongs to the class, as a
        contradiction.
    method : {"auto", "enumerate", "milp"}, default="auto"
        How `minimise` works: by listing all labelings, or by an integer program with a
        proven gap of zero. ``"auto"`` lists up to 100,000 labelings.
    time_limit : float, default=inf
        Seconds for the integer program; without a proof by then, SolverError.

    Notes
    -----
    The representative of a labeling has *every* literal that is true on all its ones.
    Representatives are sorted by labeling, 0 before 1, point after point. The integer
    program breaks ties in its own way, deterministically, as a function of the point
    set and the cost of each point.

    The VC dimension is the number of features [1]_, except that one feature with
    negations has dimension 2.

    References
    ----------
    .. [1] T. Natschläger, M. Schmitt, "Exact VC-dimension of Boolean monomials",
       Information Processing Letters 59 (1996).

    Examples
    --------
    >>> X = [[1, 1, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1]]
    >>> Conjunctions(negations=False).minimise(X, [1, 0, 0, 1]).hypothesis
    Conjunction(positive=(0, 1), negated=())
    """

    negations: bool = True

    @property
    def vc_dimension(self) -> int:
        """The number of features; 2 for one feature with negations."""
        d = self._declared()
        return 2 if d == 1 and self.negations else d

    def project(self, X: ArrayLike) -> ConjunctionProjection:
        """Return one representative for each labeling of the points in `X`."""
        points, _ = distinct_rows(binary_matrix(X, self.n_features))
        packed = self._labelings(points, MAX_LABELINGS)
        if packed is None:
            raise InvalidParameterError(
                f"project would list more than {MAX_LABELINGS} labelings; use fewer "
                "points or features."
            )
        return ConjunctionProjection(points, self._closures(points, packed))

    def predict(self, hypothesis: Conjunction, X: ArrayLike) -> NDArray[np.uint8]:
        """Return 1 for the rows on which every literal is true."""
        rows = binary_matrix(X, self.n_features)
        kept = rows[:, list(hypothesis.positive)].all(axis=1)
        broken = rows[:, list(hypothesis.negated)].any(axis=1)
        return np.asarray(kept & ~broken, dtype=np.uint8)

    def minimise(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None
    ) -> Minimum[Conjunction]:
        """Minimise weighted mistakes by listing labelings or by integer programming."""
        rows = binary_matrix(X, self.n_features)
        costs = signed_costs(y, weights, len(rows))
        points, where = distinct_rows(rows)
        ones = costs.gathered(where, len(points))
        packed, exact = None, costs.exact
        if self.method != "milp":
            limit = _ENUMERATED if self.method == "auto" else MAX_LABELINGS
            packed = self._labelings(points, limit)
        if packed is None and self.method == "enumerate":
            raise InvalidParameterError(
                f"method='enumerate' would list more than {MAX_LABELINGS} labelings; "
                "use method='milp'."
            )
        if packed is not None:
            values = ones_cost(packed, len(points), ones)
            best = packed[[int(np.argmin(values))]]
        else:
            label, proved = self._solve(points, ones)
            best, exact = pack(label[np.newaxis, :]), exact and proved
        value = int(ones_cost(best, len(points), ones)[0])
        record = self._closures(points, best)[0]
        return Minimum(_conjunction(record), costs.value(value), exact)

    def _literals(self, points: Bools) -> Bools:
        """Return the truth of each literal at each point, literals by points."""
        return np.concatenate([points.T, ~points.T]) if self.negations else points.T

    def _closures(self, points: Bools, packed: NDArray[np.uint8]) -> NDArray[Any]:
        """Return for each labeling all the literals that are true on its ones."""
        d = points.shape[1]
        fields = [("positive", np.bool_, (d,)), ("negated", np.bool_, (d,))]
        records = np.zeros(len(packed), dtype=fields)
        for index, literal in enumerate(pack(self._literals(points))):
            name = "positive" if index < d else "negated"
            records[name][:, index % d] = ~(packed & ~literal).any(axis=1)
        return records

    def _solve(self, points: Bools, ones: Ints) -> tuple[Bools, bool]:
        """Return labels of a proven minimiser at `points`, and if costs were exact.

        A binary variable says whether a literal is taken, a continuous one is the label
        of a point; only the inequality that the sign of its cost pushes against is
        needed.
        """
        cost, exact = coarse_costs(ones)
        false = ~self._literals(points)
        n_literals, n_points = false.shape
        rows = ConstraintRows(n_literals + n_points)
        for i in np.flatnonzero(cost):
            broken = np.flatnonzero(false[:, i])
            if cost[i] > 0:  # the label is 1 unless a broken literal is taken
                at = np.append(broken, n_literals + i)
                rows.add(0, at, -1.0, -1.0)
            elif len(broken):  # the label is 0 if a broken literal is taken
                each = np.arange(len(broken))
                rows.add(
                    np.concatenate([each, each]),
                    np.append(broken, np.full(len(broken), n_literals + i)),
                    1.0,
                    np.ones(len(broken)),
                )
        objective = np.concatenate([np.zeros(n_literals), cost])
        integrality = np.arange(len(objective)) < n_literals
        box = np.zeros(len(objective)), np.ones(len(objective))
        solution = solve(objective, rows, integrality.astype(int), box, self.time_limit)
        taken = solution.x[:n_literals] > 0.5
        label = np.logical_not(false[taken].any(axis=0))
        require_proof(int(cost @ label), solution.bound)
        return label, exact

    def _labelings(self, points: Bools, limit: int) -> NDArray[np.uint8] | None:
        """Intersect literals in all ways, packed and sorted; None beyond `limit`."""
        found = pack(np.ones((1, len(points)), dtype=bool))
        for literal in pack(self._literals(points)):
            found = distinct_labelings(np.concatenate([found, found & literal]))
            if len(found) > limit:
                return None
        return found

    def _growth(self, m: int) -> int:
        d = self._declared()
        members = 3**d + 1 if self.negations else 2**d
        return min(members, sauer_shelah(m, self.vc_dimension))


class ConjunctionProjection(Projection[Conjunction]):
    """One conjunction per labeling of a point set; fields `positive`, `negated`."""

    def predict(self, X: ArrayLike) -> NDArray[np.uint8]:
        """Return the label of every representative at every row of `X`."""
        return self._labels(self._rows(X))

    def _labels(self, rows: Bools) -> NDArray[np.uint8]:
        # How many literals fail at each row: two small matrix products.
        positive = self.hypotheses["positive"].astype(np.float32)
        negated = self.hypotheses["negated"].astype(np.float32)
        failed = positive @ (~rows.T).astype(np.float32)
        failed += negated @ rows.T.astype(np.float32)
        return (failed == 0).astype(np.uint8)

    def _rows(self, X: Any) -> Bools:
        return binary_matrix(X, self.points.shape[1])

    def _cost_of_ones(self, rows: NDArray[Any], costs: Costs) -> NDArray[Any]:
        # Binary data have many equal rows: evaluate every distinct row once.
        distinct, where = distinct_rows(rows)
        ones = costs.gathered(where, len(distinct)).astype(np.float64)
        return self._labels(distinct) @ ones

    def _hypothesis(self, record: Any) -> Conjunction:
        return _conjunction(record)


def _conjunction(record: Any) -> Conjunction:
    return Conjunction(
        tuple(np.flatnonzero(record["positive"]).tolist()),
        tuple(np.flatnonzero(record["negated"]).tolist()),
    )
