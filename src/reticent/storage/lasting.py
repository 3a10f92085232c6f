"""Predictors whose answers last: their records as codes, and what was released (P10).

What units have spent since the fit is not here: it is in the ledger's log. A model out
of a file therefore only continues its log. If it had one when it was stored, the file
names it; if not, it begins where the model's total is charged (`charge_release`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.estimators import (
    RELATIONS,
    CodedColumns,
    RoundBudget,
)
from reticent.guarantees import Certificate
from reticent.mechanisms import SystemSource
from reticent.prediction import (
    Axis,
    Lessons,
    LocalLaw,
    ManyLabels,
    Metric,
    Numbers,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
    QuestionPlan,
    SplitLaw,
    TwoLabels,
    Votes,
    begin_storing,
    only_continue,
)
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.kinds import Packed, register_kind
from reticent.storage.partitions import (
    PARTITION_ARRAYS,
    pack_partitions,
    unpack_partitions,
)

_SHARED = {
    "client_share",
    "columns",
    "constant_time",
    "delta",
    "identity",
    "labels_from_data",
    "lessons",
    "log",
    "logistic",
    "mu",
    "plan",
    "relation",
}
# Earlier versions learned other things from answers.
_FORMER_LESSONS = 34
_ARRAYS = {"codes", "expected", "fitted", "grid", "grid_bins", "metric", "said", "unit"}


class NeighborsKind:
    """How local predictors are stored.

    A subclass names the predictor and its votes.
    """

    name: str
    predictor: ClassVar[type[Any]]
    settings: ClassVar[set[str]] = set()

    @property
    def covers(self) -> str:
        """What can be stored, for messages."""
        return self.predictor.__name__

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a fitted predictor of this kind."""
        return isinstance(fitted, self.predictor)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart, unless it has answered outside a ledger."""
        law: LocalLaw = fitted.law_
        if isinstance(law, SplitLaw):
            raise InvalidParameterError(
                "the rows of this model are with workers. Store the model that was "
                "split; it keeps its rows."
            )
        if len(law.columns) != encoder.n_features:
            raise ModelFileError(
                f"the model takes {len(law.columns)} columns, the encoder makes "
                f"{encoder.n_features}. Pass the encoder that encoded the rows."
            )
        mark = begin_storing(law.identity)
        promised = law.certificate
        facts = {
            "client_share": law.client_share,
            "columns": law.columns.as_list(),
            "constant_time": law.constant_time,
            "delta": promised.parameter("delta"),
            "identity": law.identity,
            "labels_from_data": promised.premises[0].parameter("labels_from_data"),
            "lessons": law.lessons.as_list(),
            "log": None if mark is None else mark.hex(),
            "logistic": law.model is not None and law.model.logistic,
            "mu": law.budget.mu,
            "plan": list(astuple(law.plan)),
            "relation": law.budget.relation,
        }
        arrays: dict[str, NDArray[Any]] = {
            "codes": law.codes,
            "unit": law.unit,
            "said": law.votes.said_by,
            "expected": law.votes.expected,
            "fitted": law.fitted,
            "metric": law.metric.squares,
            "grid": np.array([axis.column for axis in law.axes], dtype=np.int64),
            "grid_bins": np.concatenate(
                [np.zeros(0, np.int64), *(axis.bin_of_code for axis in law.axes)]
            ),
        }
        if law.model is not None:
            arrays |= pack_partitions(law.model)
        return Packed(facts | self._settings_of(law), arrays)

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> Any:
        """Return the predictor that was stored; it answers through its ledger alone.

        Its certificate is derived again, from the parameters by which it draws.
        """
        # Models of earlier versions do not say where their log is.
        given, arrays = {"log": None, **packed.parameters}, packed.arrays
        read.exactly(given, _SHARED | self.settings)
        if not (set(arrays) == _ARRAYS or set(arrays) == _ARRAYS | PARTITION_ARRAYS):
            raise ModelFileError("these are not the arrays of a local predictor.")
        columns = CodedColumns.from_list(given["columns"])
        _check_rows(arrays, columns)
        if given["relation"] not in RELATIONS:
            raise ModelFileError(
                f"parameter 'relation' must be one of {', '.join(RELATIONS)}."
            )
        budget = RoundBudget(read.number(given, "mu"), given["relation"])
        fitted = arrays["fitted"]
        model = None
        if "values" in arrays:
            logistic = read.flag(given, "logistic")
            model = unpack_partitions(arrays, columns, logistic=logistic)
        law = LocalLaw(
            certificate=budget.certificate(
                n=len(fitted),
                delta=read.number(given, "delta"),
                scope="interface",
                labels_from_data=read.flag(given, "labels_from_data"),
                seeded=False,
            ),
            source=SystemSource(),
            classes=self._classes(given, encoder),
            identity=read.identity(given),
            columns=columns,
            codes=arrays["codes"],
            unit=arrays["unit"],
            votes=self._votes(given, arrays, encoder),
            metric=Metric(columns, _checked_metric(arrays["metric"], columns)),
            axes=_unpacked_grid(arrays, columns),
            model=model,
            budget=budget,
            plan=_plan(given, alone=model is not None),
            fitted=fitted,
            lessons=_lessons(given),
            client_share=read.number(given, "client_share"),
            constant_time=read.flag(given, "constant_time"),
        )
        only_continue(law.identity, read.log_mark(given))
        return self._predictor(law)

    def _predictor(self, law: LocalLaw) -> Any:
        found = self.predictor()
        found.law_ = law
        found.n_units_ = len(law.fitted)
        found.local_ = law.plan.wanted > 0
        found.n_features_in_ = len(law.columns)
        if law.classes is not None:
            found.classes_ = law.classes
        return found

    def _settings_of(self, law: LocalLaw) -> dict[str, Any]:
        raise NotImplementedError  # by each kind

    def _classes(
        self, given: Mapping[str, Any], encoder: Encoder
    ) -> NDArray[Any] | None:
        raise NotImplementedError  # by each kind

    def _votes(
        self, given: Mapping[str, Any], arrays: Mapping[str, Any], encoder: Encoder
    ) -> Votes:
        raise NotImplementedError  # by each kind


class NeighborsClassifierKind(NeighborsKind):
    """How `PrivateNeighborsClassifier` is stored."""

    name = "neighbors-classifier"
    predictor = PrivateNeighborsClassifier
    settings: ClassVar[set[str]] = {"classes", "labels"}

    def _settings_of(self, law: LocalLaw) -> dict[str, Any]:
        return {"classes": [] if law.classes is None else law.classes.tolist()}

    def _classes(self, given: Mapping[str, Any], encoder: Encoder) -> NDArray[Any]:
        return read.fitted_classes(encoder.schema, given)

    def _votes(
        self, given: Mapping[str, Any], arrays: Mapping[str, Any], encoder: Encoder
    ) -> Votes:
        said, n_labels = arrays["said"], len(given["classes"])
        wanted = np.dtype(np.int8 if n_labels == 2 else np.int16)
        if not (said.dtype == wanted and _within(said, n_labels)):
            raise ModelFileError("the labels of the records are not those declared.")
        if n_labels == 2:
            return TwoLabels(said, arrays["expected"])
        return ManyLabels(said, arrays["expected"], n_labels)


class NeighborsRegressorKind(NeighborsKind):
    """How `PrivateNeighborsRegressor` is stored."""

    name = "neighbors-regressor"
    predictor = PrivateNeighborsRegressor
    settings: ClassVar[set[str]] = {"clip"}

    def _settings_of(self, law: LocalLaw) -> dict[str, Any]:
        votes: Any = law.votes
        return {"clip": votes.clip}

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart, if its bounds are those of the schema."""
        votes: Any = fitted.law_.votes
        if (votes.low, votes.high) != read.bounds_of(encoder.schema):
            raise InvalidParameterError(
                "the model's bounds are not those of the label. Fit with the label's."
            )
        return super().pack(fitted, encoder)

    def _classes(self, given: Mapping[str, Any], encoder: Encoder) -> None:
        return None

    def _votes(
        self, given: Mapping[str, Any], arrays: Mapping[str, Any], encoder: Encoder
    ) -> Votes:
        said = arrays["said"]
        if not (said.dtype == np.float64 and (np.abs(said) <= 1).all()):
            raise ModelFileError("the targets of the records are not within bounds.")
        low, high = read.bounds_of(encoder.schema)
        return Numbers(said, arrays["expected"], low, high, read.number(given, "clip"))


def _within(values: NDArray[Any], n: int) -> bool:
    return not len(values) or bool(values.min() >= 0 and values.max() < n)


def _unit_after_unit(unit: NDArray[Any], n_units: int) -> bool:
    """Whether rows are ordered by unit; a unit that was erased has none."""
    return _within(unit, n_units) and bool((np.diff(unit) >= 0).all())


def _check_rows(arrays: Mapping[str, NDArray[Any]], columns: CodedColumns) -> None:
    """Refuse records that do not fit each other, or the columns."""
    codes, unit, fitted = arrays["codes"], arrays["unit"], arrays["fitted"]
    n_rows = len(codes)
    if not (
        codes.dtype == np.int16
        and codes.shape == (n_rows, len(columns))
        and unit.dtype == arrays["expected"].dtype == np.int64
        and fitted.dtype == np.uint32
        and unit.shape == arrays["said"].shape == (n_rows,)
        and arrays["expected"].shape in ((n_rows,), (0,))
        and fitted.ndim == 1
        and len(fitted) >= 1
        and _unit_after_unit(unit, len(fitted))
        and all(
            _within(codes[:, place], column.n_codes)
            for place, column in enumerate(columns.columns)
        )
    ):
        raise ModelFileError("the records of the model do not fit its columns.")


def _checked_metric(squares: NDArray[Any], columns: CodedColumns) -> NDArray[Any]:
    if not (
        squares.dtype == np.float64
        and squares.shape == (len(columns),)
        and (squares > 0).all()
        and np.isfinite(squares).all()
    ):
        raise ModelFileError("the metric of the model needs one number per column.")
    return squares


def _unpacked_grid(
    arrays: Mapping[str, NDArray[Any]], columns: CodedColumns
) -> tuple[Axis, ...]:
    places, bins = arrays["grid"], arrays["grid_bins"]
    if not (places.ndim == bins.ndim == 1 and _within(places, len(columns))):
        raise ModelFileError("the grid of the model is not over its columns.")
    sizes = [columns.columns[place].n_codes for place in places.tolist()]
    ends = np.cumsum([0, *sizes])
    if len(bins) != ends[-1] or not _within(bins, 1 << 16):
        raise ModelFileError("the grid of the model is not over its columns.")
    return tuple(
        Axis(place, bins[start : start + size])
        for place, start, size in zip(places.tolist(), ends, sizes, strict=False)
    )


def _plan(given: Mapping[str, Any], *, alone: bool) -> QuestionPlan:
    """Return the plan; only where a model can answer alone is nobody asked."""
    found = given["plan"]
    if not (isinstance(found, list) and len(found) == len(fields(QuestionPlan))):
        raise ModelFileError("parameter 'plan' does not plan a question.")
    wanted, vote, count = ({"plan": value} for value in found)
    least = -math.ulp(0.0) if alone else 0.0
    return QuestionPlan(
        wanted=read.number(wanted, "plan", above=least),
        vote_scale=read.number(vote, "plan"),
        count_scale=read.number(count, "plan"),
    )


def _lessons(given: Mapping[str, Any]) -> Lessons:
    found, count = given["lessons"], Lessons.length()
    if isinstance(found, list) and len(found) == _FORMER_LESSONS:
        return Lessons()  # Nothing had been learned when the model was stored.
    if not (
        isinstance(found, list)
        and len(found) == count
        and all(type(value) in (int, float) for value in found)
        and np.isfinite(found).all()
    ):
        raise ModelFileError(f"parameter 'lessons' must have {count} numbers.")
    return Lessons(*found)


register_kind(NeighborsClassifierKind())
register_kind(NeighborsRegressorKind())
