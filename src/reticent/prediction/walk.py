"""Private predictions on a line without shards: the projected walk (P4)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from reticent._arrays import Bools
from reticent._numbers import positive, probability, whole
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent._text import one_of
from reticent.estimators import UnitIds, require_one_row_per_unit, two_labels
from reticent.guarantees import (
    PUBLIC_LABELS,
    Assumption,
    BoundedRange,
    Certificate,
    Conclusion,
    PureDP,
    rule,
)
from reticent.mechanisms import (
    Response,
    noise_source,
    sigmoid_certificate,
    sigmoid_response,
    two_step_certificate,
    two_step_response,
)
from reticent.prediction.law import AnswerLaw, LawfulPredictor, blank_of
from reticent.prediction.ordered import (
    ORDERS,
    ColumnForm,
    ordered_column,
    table_column,
)

# Twice this, plus a step of the same size, fits into 32 bits.
_LONGEST_REACH = 1 << 29


@rule(
    "P4",
    name="projected walk",
    statement="one replaced unit moves the clipped walk by at most 2, one added or "
    "removed unit by at most 1, at every query",
    source="S1 Fig. 1 and Lemma 5.2, ties in one step",
    takes=(PureDP, BoundedRange),
    gives=(PureDP, BoundedRange),
    same_kind=True,
)
def projected_walk(
    premise: Certificate[Any], *, labels_from_data: bool
) -> Conclusion[Any]:
    """Carry the promise of a response over to the rows behind its walk."""
    return Conclusion(
        premise.guarantee,
        premise.relation,
        premise.scope,
        Assumption.collect((PUBLIC_LABELS, labels_from_data)),
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class WalkLaw(AnswerLaw):
    """The law of a label, given the position of the walk at a query."""

    column: ColumnForm  # where queries stand in the order
    rule: str  # how the position becomes a label: "two-step" or "sigmoid"
    epsilon: float  # what one answer costs
    reach: int  # the bound of the walk
    # The distinct values and the position from each one on. Not private.
    values: NDArray[Any]
    positions: NDArray[np.int32]

    def check(self, X: MatrixLike) -> None:
        """Refuse cells of another kind than the declared order has."""
        self.column.queries(X)

    def response(self, X: MatrixLike) -> Response:
        """Return the exact law of the answers: not private."""
        place = np.searchsorted(self.values, self.column.queries(X), side="right")
        # Before the first value the walk has not begun.
        positions = np.where(place > 0, self.positions[place - 1], 0)
        law: Any = two_step_response if self.rule == "two-step" else sigmoid_response
        return law(positions, self.epsilon, bound=self.reach)


@dataclass(eq=False, repr=False)
class ProjectedWalkClassifier(ClassifierMixin, LawfulPredictor):
    r"""Binary classifier on one ordered feature whose every answer is private.

    It learns thresholds and unions of intervals on any ordered domain: unbounded
    numbers, dates, strings. No private *model* for thresholds on the line exists;
    private *answers* do.

    Going through the distinct values of the feature in order, a walk steps by the
    balance of labels there and is kept within ``[-T, T]``. The answer at a query
    depends on the walk's position at the last value not above it.

    Parameters
    ----------
    epsilon : float
        Privacy cost of one predicted label.
    feature : int or str, default=0
        The column that is used.
    rule : {"two-step", "sigmoid"}, default="two-step"
        How the position becomes a label. "two-step" never errs more often, and far from
        a threshold about half as often; "sigmoid" is of bounded range, so that many
        answers cost less.
    order : {"numbers", "text", "dates"}, default="numbers"
        What the column holds; declared, because one cell could change what it looks
        like. Numbers are compared as floats of 64 bits, dates by the microsecond. A
        unit whose cell is of another kind takes no step.
    error : float, default=0.05
        Accuracy to aim for; sets the reach ``T = ceil(2 ln(2/error) / epsilon)``, at
        most 2^29.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    relation : {"replace-one", "add-remove"}, default="replace-one"
        Which neighbours the certificate is about.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises.
    classes_ : ndarray of shape (2,)
        The public labels, sorted.
    n_units_ : int
        Number of privacy units.
    reach_ : int
        The bound `T` of the walk; public.
    values_, positions_ : ndarray
        The distinct values and the walk's position from each one on. Not private:
        never release them.

    Guarantee
    ---------
    One answer is `epsilon`-DP under replacement of one unit. *Proof.* A clipped step
    ``v -> clip(v + s)`` never moves two positions further apart, and all examples at
    one value take one step; so a unit that is taken away moves every later position by
    at most 1, and so does one that is put in elsewhere. What a cell is depends on that
    cell and the declared order alone. Stepping through ties one by one would break
    this: the data give no order inside a tie.

    Notes
    -----
    With ``n >= 2 (k + 2) T / error`` examples and `k` ends of intervals the expected
    error is at most ``e^epsilon (Opt + error)``.

    References
    ----------
    :cite:`DworkFeldman2018`, Sec. 5; THEOREMS P4.

    Examples
    --------
    >>> import numpy as np
    >>> heights = np.linspace(140, 200, 600)[:, None]
    >>> tall = (heights[:, 0] > 180).astype(int)
    >>> model = ProjectedWalkClassifier(epsilon=1.0, classes=[0, 1])
    >>> print(model.fit(heights, tall).certificate_.headline())
    1-DP for one answer, replace one unit of 600; proved
    """

    epsilon: float = 1.0
    feature: int | str = 0
    _: KW_ONLY
    rule: str = "two-step"
    order: str = "numbers"
    error: float = 0.05
    classes: ArrayLike | None = None
    relation: str = "replace-one"
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "feature": [str, Interval(Integral, 0, None, closed="left")],
        "rule": [StrOptions({"two-step", "sigmoid"})],
        "order": [StrOptions(set(ORDERS))],
        "error": [Interval(Real, 0, 1, closed="neither")],
        "classes": ["array-like", None],
        "relation": [StrOptions({"replace-one", "add-remove"})],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Sort, walk, and issue the certificate; nothing is released.

        Parameters
        ----------
        X : array or data frame of shape (n_units, n_features)
            One row per unit; only the column `feature` is used.
        y : array-like of shape (n_units,)
            Two labels.
        units : array-like of shape (n_units,), default=None
            Ids of units, all different: the walk counts one example per unit.
        """
        cells = table_column(self, X, self.feature, reset=True)
        labels, y = two_labels("The projected walk", self.classes, cells, y)
        n = len(cells)
        require_one_row_per_unit("the projected walk", units, n)
        epsilon = positive("ProjectedWalkClassifier", "epsilon", self.epsilon)
        error = probability("ProjectedWalkClassifier", "error", self.error)
        source = noise_source(self.random_state)
        rule = str(self.rule)
        premise = self._premise(rule, epsilon, n, source.seeded)
        # A shorter reach is private too. The longest leaves room for sums in 32 bits.
        reach = math.ceil(min(2 * math.log(2 / error) / epsilon, _LONGEST_REACH))
        column = ColumnForm(blank_of(self), self.feature, str(self.order))
        values, fits = ordered_column(cells, column.order, column.name)
        # Numbers are compared; looking each label up would take longer than a sort.
        numbers = y.dtype.kind in "biuf"
        ones = np.asarray(y == labels.classes[1] if numbers else labels.indices(y) == 1)
        distinct, steps = _balances(values, ones if fits.all() else ones[fits])
        self.law_: WalkLaw = WalkLaw(
            certificate=projected_walk(premise, labels_from_data=self.classes is None),
            source=source,
            classes=labels.classes,
            column=column,
            rule=rule,
            epsilon=epsilon,
            reach=reach,
            values=distinct,
            positions=clipped_walk(steps, reach),
        )
        self.classes_ = self.law_.classes
        self.n_units_ = n
        self.reach_ = reach
        self.values_, self.positions_ = self.law_.values, self.law_.positions
        return self

    def _premise(
        self, rule: str, epsilon: float, n: int, seeded: bool
    ) -> Certificate[Any]:
        """Certify one response to a walk, for the relation that was asked for."""
        one_of("rule", rule, "two-step", "sigmoid")
        certify: Any = (
            two_step_certificate if rule == "two-step" else sigmoid_certificate
        )
        one_of("relation", self.relation, "replace-one", "add-remove")
        size = n if self.relation == "replace-one" else None
        certificate: Certificate[Any] = certify(epsilon=epsilon, n=size, seeded=seeded)
        return certificate

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # one feature is all it looks at
        tags.input_tags.string = True
        return tags


def _balances(
    values: NDArray[Any], ones: Bools
) -> tuple[NDArray[Any], NDArray[np.integer[Any]]]:
    """Return the distinct values in order, and the balance of labels at each.

    The values of either label are sorted by themselves and then merged, which is
    faster than sorting positions, or all values a second time.
    """
    fewer, more, sign = np.sort(values[ones]), np.sort(values[~ones]), 1
    if len(fewer) > len(more):
        fewer, more, sign = more, fewer, -1
    place = np.searchsorted(more, fewer, side="right")
    place += np.arange(len(fewer))
    steps = np.full(len(values), -sign, dtype=np.int8)
    steps[place] = sign
    merged = np.empty(len(values), dtype=values.dtype)
    merged[place] = fewer
    merged[steps == -sign] = more
    del fewer, more, place
    ends = np.append(merged[1:] != merged[:-1], True)
    if ends.all():
        return merged, steps
    starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
    return merged[ends], np.add.reduceat(steps, starts, dtype=np.int64)


def clipped_walk(steps: NDArray[np.integer[Any]], reach: int) -> NDArray[np.int32]:
    """Return ``v <- clip(v + step, -reach, reach)`` after each step, from 0.

    A run of clipped steps maps its start `v` to ``clip(v + sum, low, high)``, with
    `low` and `high` the images of both ends. So the walk is cut into about sqrt(n)
    runs that are advanced together: once from both ends, then, the starts being
    known, once more for the positions.
    """
    reach = whole("walk", "reach", reach)
    n = len(steps)
    if not n:
        return np.zeros(0, dtype=np.int32)
    runs = max(1, math.isqrt(n))
    length = -(-n // runs)
    padded = np.zeros(runs * length, dtype=np.int32)
    # Beyond twice the reach a step ends at the border in any case.
    most = min(2 * reach, int(np.iinfo(steps.dtype).max))
    np.clip(steps, -most, most, out=padded[:n], casting="unsafe")
    # One row per step, so that all runs advance by contiguous arithmetic.
    table = np.ascontiguousarray(padded.reshape(runs, length).T)
    low = np.full(runs, -reach, dtype=np.int32)
    high = np.full(runs, reach, dtype=np.int32)
    for row in table:
        np.clip(low + row, -reach, reach, out=low)
        np.clip(high + row, -reach, reach, out=high)
    totals = padded.reshape(runs, length).sum(axis=1, dtype=np.int64)
    starts = np.zeros(runs, dtype=np.int32)
    position = 0
    for run in range(runs):
        starts[run] = position
        position = int(min(max(position + totals[run], low[run]), high[run]))
    for row in table:
        np.clip(starts + row, -reach, reach, out=starts)
        row[:] = starts
    return np.ascontiguousarray(table.T).ravel()[:n]
