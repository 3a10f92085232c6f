"""Stored linear models that were released privately: their answers are free."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from reticent.errors import InvalidParameterError, ModelFileError
from reticent.estimators import ReleasedLinearClassifier, ReleasedLinearRegressor
from reticent.guarantees import Certificate, ReplaceOne, Sample, Scope
from reticent.learners import StudentClassifier
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.kinds import Packed, register_kind


class ReleasedScores:
    """Scores of a released linear model on encoded rows."""

    def __init__(
        self, packed: Packed, n_features: int, certificate: Certificate[Any]
    ) -> None:
        if certificate.scope is not Scope.MODEL:
            raise ModelFileError(
                "a released model needs a certificate of the model; this one is about "
                f"{certificate.scope}."
            )
        self.certificate = certificate
        self.n_units = read.count(packed.parameters, "n_units")
        _check_ties(packed.parameters, self.n_units, certificate)
        arrays = packed.arrays
        if set(arrays) != {"coefficients", "intercepts"}:
            raise ModelFileError("a released model has coefficients and intercepts.")
        weights, shifts = arrays["coefficients"], arrays["intercepts"]
        if not (
            weights.dtype == shifts.dtype == np.float64
            and weights.ndim == 2
            and weights.shape == (len(shifts), n_features)
            and shifts.ndim == 1
            and np.isfinite(weights).all()
            and np.isfinite(shifts).all()
        ):
            raise ModelFileError("the coefficients do not fit the encoder.")
        dimensions = [c.parameter("dimension") for c in certificate.walk()]
        if any(
            isinstance(dimension, int) and dimension < np.count_nonzero(weights)
            for dimension in dimensions
        ):
            raise ModelFileError(
                "the certificate is about fewer coefficients than the model has; it "
                "belongs to another model."
            )
        self._weights, self._shifts = weights, shifts

    def scores(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one score a row and class, or one a row."""
        return np.asarray(X @ self._weights.T + self._shifts)


def _check_ties(facts: Any, n_units: int, certificate: Certificate[Any]) -> None:
    """Refuse a certificate that is not one of the release.

    Coefficients do not show what noise is in them. So `save_model` records the id of
    the fit's certificate, which pins every number and detail; a certificate whose
    scale or grid was changed afterwards is another one, even where its rule holds.
    """
    if certificate.id != facts["certificate"]:
        raise ModelFileError(
            "the certificate is not the one that the release was stored with. Save "
            "the model again."
        )
    relation = certificate.relation
    if not (isinstance(relation, ReplaceOne | Sample) and relation.n == n_units):
        raise ModelFileError(
            f"n_units={n_units} of the model is not what its certificate is about: "
            f"{relation}."
        )


class ReleasedLabels(ReleasedScores):
    """A stored released classifier."""

    def __init__(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> None:
        super().__init__(packed, encoder.n_features, certificate)
        listed = packed.parameters["classes"]
        self.classes: tuple[Any, ...] | None = read.stored_labels(
            encoder.schema, listed
        )
        wanted = 1 if len(listed) == 2 else len(listed)
        if len(self._shifts) != wanted:
            raise ModelFileError("the coefficients do not fit the classes.")

    def draw(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the place of the most likely label of each row."""
        scores = self.scores(X)
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        return np.asarray(scores.argmax(axis=1))


class ReleasedNumbers(ReleasedScores):
    """A stored released regressor."""

    classes: tuple[Any, ...] | None = None

    def __init__(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> None:
        super().__init__(packed, encoder.n_features, certificate)
        self._bounds = read.bounds_of(encoder.schema)
        if len(self._shifts) != 1:
            raise ModelFileError("a regressor has one row of coefficients.")

    def draw(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the predicted number of each row."""
        return np.clip(self.scores(X)[:, 0], *self._bounds)


def _arrays(fitted: Any, encoder: Encoder) -> dict[str, NDArray[np.float64]]:
    weights = np.atleast_2d(np.asarray(fitted.coef_, dtype=np.float64))
    if weights.shape[1] != encoder.n_features:
        raise ModelFileError(
            f"the model takes {weights.shape[1]} features, the encoder makes "
            f"{encoder.n_features}. Pass the encoder that encoded the training rows."
        )
    shifts = np.atleast_1d(np.asarray(fitted.intercept_, dtype=np.float64))
    return {"coefficients": weights, "intercepts": shifts}


class ReleasedClassifierKind:
    """How released linear classifiers are stored."""

    name = "released-linear-classifier"
    covers = "linear classifiers released by reticent.learners"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a released linear classifier."""
        return isinstance(fitted, ReleasedLinearClassifier)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        facts = {"classes": fitted.classes_.tolist(), "n_units": int(fitted.n_units_)}
        return Packed(facts, _arrays(fitted, encoder))

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> ReleasedLabels:
        """Put it together."""
        read.exactly(packed.parameters, {"certificate", "classes", "n_units"})
        return ReleasedLabels(packed, encoder, certificate)


class StudentKind(ReleasedClassifierKind):
    """How linear students of private answers are stored."""

    name = "linear-student"
    covers = "StudentClassifier with a linear student"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a student."""
        return isinstance(fitted, StudentClassifier)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart; only a linear model that knows all labels can be stored."""
        student = fitted.student_
        if not (
            isinstance(student, LogisticRegression)
            and np.array_equal(student.classes_, fitted.classes_)
        ):
            raise InvalidParameterError(
                f"this student, {type(student).__name__}(...), cannot be stored: it "
                "must be a LogisticRegression that was taught every label. Label more "
                "public rows, or raise epsilon."
            )
        facts = {"classes": fitted.classes_.tolist(), "n_units": int(fitted.n_units_)}
        return Packed(facts, _arrays(student, encoder))


class ReleasedRegressorKind:
    """How released linear regressors are stored."""

    name = "released-linear-regressor"
    covers = "linear regressors released by reticent.learners"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a released linear regressor."""
        return isinstance(fitted, ReleasedLinearRegressor)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        if tuple(fitted.bounds_) != read.bounds_of(encoder.schema):
            raise InvalidParameterError(
                "the model's bounds are not those of the label. Fit with these."
            )
        return Packed({"n_units": int(fitted.n_units_)}, _arrays(fitted, encoder))

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> ReleasedNumbers:
        """Put it together."""
        read.exactly(packed.parameters, {"certificate", "n_units"})
        return ReleasedNumbers(packed, encoder, certificate)


register_kind(ReleasedClassifierKind())
register_kind(ReleasedRegressorKind())
register_kind(StudentKind())
