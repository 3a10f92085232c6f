"""Stored models of tables that were released: their answers are free."""

from __future__ import annotations

from typing import Any, ClassVar

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.estimators import CodedColumns, PartitionModel
from reticent.guarantees import Certificate
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.kinds import Packed, register_kind
from reticent.storage.partitions import (
    PARTITION_ARRAYS,
    pack_partitions,
    unpack_partitions,
)
from reticent.storage.released import (
    apart_from_identity,
    check_release,
    identity_of_fit,
    no_learner,
)


class StoredTabularClassifier(PrivateTabularClassifier):
    """A released classifier without its records: it predicts, and that is all."""

    def fit(self, X: Any, y: Any, units: Any = None) -> Any:
        """Refuse: the learner is not stored."""
        raise no_learner()


class StoredTabularRegressor(PrivateTabularRegressor):
    """A released regressor without its records: it predicts, and that is all."""

    def fit(self, X: Any, y: Any, units: Any = None) -> Any:
        """Refuse: the learner is not stored."""
        raise no_learner()


class TabularKind:
    """How released models of tables are stored.

    Columns are not stored: they follow from the schema of the encoder.
    """

    name: str
    learner: ClassVar[type[Any]]
    logistic: ClassVar[bool]

    @property
    def covers(self) -> str:
        """What can be stored, for messages."""
        return self.learner.__name__

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a released model of this kind."""
        return isinstance(fitted, self.learner)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        if fitted.columns_ != _columns(encoder):
            raise InvalidParameterError(
                "the model's columns are not those of the schema. Fit with "
                "columns=list(schema.columns.values())."
            )
        facts = {"n_units": int(fitted.n_units_)} | identity_of_fit(fitted)
        return Packed(facts, pack_partitions(fitted.model_))

    def _released(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> dict[str, Any]:
        """Return the fitted attributes, after checks."""
        n_units = check_release(packed.parameters, certificate)
        if set(packed.arrays) != PARTITION_ARRAYS:
            raise ModelFileError("these are not the arrays of a released table model.")
        columns = _columns(encoder)
        return {
            "columns_": columns,
            "model_": unpack_partitions(packed.arrays, columns, logistic=self.logistic),
            "n_units_": n_units,
            "n_features_in_": len(columns),
            "certificate_": certificate,
        }


class TabularClassifierKind(TabularKind):
    """How `PrivateTabularClassifier` is stored."""

    name = "private-tabular-classifier"
    learner = PrivateTabularClassifier
    logistic = True

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        packed = super().pack(fitted, encoder)
        facts = {**packed.parameters, "classes": fitted.classes_.tolist()}
        return Packed(facts, packed.arrays)

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> Any:
        """Put it together."""
        packed, known = apart_from_identity(packed)
        names = {"certificate", "classes", "labels", "n_units"}
        read.exactly(packed.parameters, names)
        classes = read.fitted_classes(encoder.schema, packed.parameters)
        found = self._released(packed, encoder, certificate)
        _check_scores(found["model_"], 1 if len(classes) == 2 else len(classes))
        model = StoredTabularClassifier()
        model.__dict__.update(found, classes_=classes, **known)
        return model


class TabularRegressorKind(TabularKind):
    """How `PrivateTabularRegressor` is stored."""

    name = "private-tabular-regressor"
    learner = PrivateTabularRegressor
    logistic = False

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        if tuple(fitted.bounds_) != read.bounds_of(encoder.schema):
            raise InvalidParameterError(
                "the model's bounds are not those of the label. Fit with the label's."
            )
        return super().pack(fitted, encoder)

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> Any:
        """Put it together."""
        packed, known = apart_from_identity(packed)
        read.exactly(packed.parameters, {"certificate", "n_units"})
        found = self._released(packed, encoder, certificate)
        _check_scores(found["model_"], 1)
        model = StoredTabularRegressor()
        bounds = read.bounds_of(encoder.schema)
        model.__dict__.update(found, bounds_=bounds, **known)
        return model


def _columns(encoder: Encoder) -> CodedColumns:
    """Return the columns of the schema, which the encoder must leave as they are."""
    if encoder.style != "ordinal":
        raise InvalidParameterError(
            "a model of a table takes its columns as they are. Pass "
            "Encoder(schema, style='ordinal')."
        )
    columns = list(encoder.schema.columns.values())
    return CodedColumns.of(columns, len(columns))


def _check_scores(model: PartitionModel, n_scores: int) -> None:
    if len(model.values) != n_scores:
        raise ModelFileError(
            f"the model has {len(model.values)} scores; its label needs {n_scores}."
        )


register_kind(TabularClassifierKind())
register_kind(TabularRegressorKind())
