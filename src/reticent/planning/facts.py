"""The public facts of a plan, known before anybody looks at the data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

from reticent._numbers import below_one, positive, whole
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget
from reticent.schemas import Encoder, NumericTarget, Schema

TASKS = ("classification", "regression")
#: Public knots of a numeric column's splines, as measured in the benchmarks.
KNOTS = 8
# Defaults where nothing is known, typical of the tables in the benchmarks: the error
# without privacy of boosted trees, and the additional error of additive and linear
# models.
_FLEXIBLE_ERROR = 0.10
_ADDITIVE_LOSS, _LINEAR_LOSS = 0.010, 0.025
_LEARNING_EXPONENT = 0.6
# Root mean square error as a share of the target's range.
_TYPICAL_SPREAD = 0.25


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The basis of a plan: public quantities, and guesses where nothing is known."""

    #: "classification" or "regression". Errors of regression are root mean squares,
    #: as a share of the target's public range.
    task: str
    n: int  #: number of rows
    #: The budget for everything together.
    epsilon: float
    delta: float
    queries: float  #: number of different queries; infinite if there is no limit
    alpha: float | None  #: error to be reached
    d: int  #: VC dimension for the lower bound; that of a linear model if left out
    #: Columns of the table, and labels of a classification.
    features: int
    labels: int
    #: Columns after encoding, plain and with splines.
    linear_columns: int
    spline_columns: int
    public: int  #: public rows without labels
    rows_per_unit: int  #: most rows that belong to one person
    #: Error without privacy of boosted trees, additive and linear models.
    flexible_error: float
    additive_error: float
    linear_error: float
    chance_error: float  #: error of the most frequent label, or of the mean
    #: How fast models learn: excess error falls like ``rows ** -exponent``.
    learning_exponent: float

    @property
    def units(self) -> int:
        """Number of privacy units."""
        return max(1, self.n // self.rows_per_unit)

    @property
    def budget(self) -> Budget:
        """The budget for everything together."""
        return Budget(self.epsilon, self.delta)

    @property
    def limited(self) -> bool:
        """Whether the number of queries is known."""
        return math.isfinite(self.queries)

    @property
    def classifies(self) -> bool:
        """Whether labels are predicted."""
        return self.task == "classification"


@dataclass
class PlanArguments:
    """The arguments of `plan`; `facts` checks them and fills in defaults."""

    task: Any
    n: Any
    epsilon: Any
    delta: Any
    queries: Any
    alpha: Any
    d: Any
    features: Any
    labels: Any
    public: Any
    rows_per_unit: Any
    base_accuracy: Any
    linear_accuracy: Any
    majority: Any
    learning_exponent: Any
    schema: Schema | None
    _columns: tuple[int, int] = field(default=(0, 0), init=False)

    def facts(self) -> Facts:
        """Return the facts, or refuse an invalid argument."""
        self._read_schema()
        one_of("task", self.task, *TASKS)
        n = whole("plan", "n", self.n)
        per_unit = whole("plan", "rows_per_unit", self.rows_per_unit)
        if not per_unit <= n:
            raise InvalidParameterError(
                f"rows_per_unit={per_unit} must be at most n={n}, the number of rows."
            )
        chance, errors = self._errors()
        features = whole("plan", "features", self.features)
        plain, splines = self._columns if self.schema else (features, features * KNOTS)
        return Facts(
            task=self.task,
            n=n,
            epsilon=positive("plan", "epsilon", self.epsilon),
            delta=below_one("plan", "delta", self.delta),
            queries=_number_of_queries(self.queries),
            alpha=None if self.alpha is None else _share("alpha", self.alpha),
            d=plain + 1 if self.d is None else whole("plan", "d", self.d),
            features=features,
            labels=self._n_labels(),
            linear_columns=plain,
            spline_columns=splines,
            public=0 if self.public in (None, 0) else self._public_rows(),
            rows_per_unit=per_unit,
            flexible_error=errors[0],
            additive_error=errors[1],
            linear_error=errors[2],
            chance_error=chance,
            learning_exponent=_LEARNING_EXPONENT
            if self.learning_exponent is None
            else positive("plan", "learning_exponent", self.learning_exponent),
        )

    def _read_schema(self) -> Self:
        """Take columns, labels and task from a schema; it is public."""
        schema = self.schema
        if schema is None:
            return self
        self.features = schema.n_columns
        self._columns = (
            Encoder(schema).n_features,
            Encoder(schema, basis="splines", knots=KNOTS).n_features,
        )
        if isinstance(schema.label, NumericTarget):
            self.task = "regression"
        elif schema.label is not None:
            self.labels = len(schema.classes)
        return self

    def _n_labels(self) -> int:
        if self.task == "regression":
            return 1
        labels = whole("plan", "labels", self.labels)
        if not labels >= 2:
            raise InvalidParameterError(
                f"labels={labels} must be at least 2; for a number to be predicted "
                "use task='regression'."
            )
        return labels

    def _public_rows(self) -> int:
        return whole("plan", "public", self.public)

    def _errors(self) -> tuple[float, tuple[float, float, float]]:
        """Return the error of chance, and those of flexible, additive, linear models.

        Unknown errors are typical values; none is worse than chance.
        """
        if self.majority is not None:
            chance = 1 - _share("majority", self.majority)
        elif self.task == "regression":
            chance = _TYPICAL_SPREAD
        else:
            # Labels are seldom equally frequent: 0.29 for two, 0.68 for ten.
            chance = 1 - self._n_labels() ** -0.5
        flexible = min(_FLEXIBLE_ERROR, chance / 2)
        linear: float | None = None
        if self.linear_accuracy is not None:
            linear = 1 - _share("linear_accuracy", self.linear_accuracy)
            flexible = min(flexible, linear)
        if self.base_accuracy is not None:
            flexible = 1 - _share("base_accuracy", self.base_accuracy)
        if linear is None:
            linear = min(flexible + _LINEAR_LOSS, (1 + flexible) / 2)
        chance = max(chance, flexible, linear)
        loss = _ADDITIVE_LOSS / _LINEAR_LOSS * max(0.0, linear - flexible)
        return chance, (flexible, min(linear, flexible + loss), linear)


def _share(name: str, value: Any) -> float:
    number = positive("plan", name, value)
    if not number < 1:
        raise InvalidParameterError(f"{name}={value!r} must be between 0 and 1.")
    return number


def _number_of_queries(value: Any) -> float:
    if value is None or (isinstance(value, float) and value == math.inf):
        return math.inf
    return whole("plan", "queries", value)
