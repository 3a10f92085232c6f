"""Stored linear models that were released privately: their answers are free."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError, ModelFileError
from reticent.estimators import ReleasedLinearClassifier, ReleasedLinearRegressor
from reticent.guarantees import Certificate, ReplaceOne, Sample, Scope, ZeroOut
from reticent.learners import StudentClassifier
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.kinds import Packed, register_kind


class StoredLinearClassifier(ReleasedLinearClassifier):
    """A released classifier without its learner: it predicts, and that is all."""

    def fit(self, X: Any, y: Any) -> Any:
        """Refuse: the learner is not stored."""
        raise no_learner()


class StoredLinearRegressor(ReleasedLinearRegressor):
    """A released regressor without its learner: it predicts, and that is all."""

    def fit(self, X: Any, y: Any) -> Any:
        """Refuse: the learner is not stored."""
        raise no_learner()


def no_learner() -> InvalidParameterError:
    """Return the error of fitting what was stored without its learner."""
    return InvalidParameterError(
        "a stored release cannot be fitted again: it holds coefficients, not the "
        "learner. Fit a learner of reticent.learners."
    )


def _coefficients(
    packed: Packed, n_features: int, n_scores: int, certificate: Certificate[Any]
) -> dict[str, Any]:
    """Return the fitted attributes that all linear models have, after checks."""
    n_units = check_release(packed.parameters, certificate)
    if set(packed.arrays) != {"coefficients", "intercepts"}:
        raise ModelFileError("a released model has coefficients and intercepts.")
    weights, shifts = packed.arrays["coefficients"], packed.arrays["intercepts"]
    if not (
        weights.dtype == shifts.dtype == np.float64
        and weights.shape == (n_scores, n_features)
        and shifts.shape == (n_scores,)
        and np.isfinite(weights).all()
        and np.isfinite(shifts).all()
    ):
        raise ModelFileError(
            "the coefficients do not fit the encoder and the label; "
            f"n_features={n_features} and n_scores={n_scores} are needed."
        )
    # A search also has a score, which is not about the coefficients.
    dimensions = [
        c.parameter("dimension") for c in certificate.walk() if c.scope is Scope.MODEL
    ]
    if any(
        isinstance(dimension, int) and dimension < np.count_nonzero(weights)
        for dimension in dimensions
    ):
        raise ModelFileError(
            "the certificate is about fewer coefficients than the model has; it "
            "belongs to another model."
        )
    return {
        "coef_": weights,
        "intercept_": shifts,
        "n_features_in_": n_features,
        "n_units_": n_units,
        "certificate_": certificate,
    }


def check_release(facts: Any, certificate: Certificate[Any]) -> int:
    """Return the number of units; refuse a certificate that is not of this release."""
    if certificate.scope is not Scope.MODEL:
        raise ModelFileError(
            "a released model needs a certificate of the model; this one is about "
            f"{certificate.scope}."
        )
    n_units = read.count(facts, "n_units")
    _check_ties(facts, n_units, certificate)
    return n_units


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
    if not (
        isinstance(relation, ReplaceOne | ZeroOut | Sample) and relation.n == n_units
    ):
        raise ModelFileError(
            f"n_units={n_units} of the model is not what its certificate is about: "
            f"{relation}."
        )


def identity_of_fit(fitted: Any) -> dict[str, Any]:
    """Return what names the fit of a release, as a fact.

    Two fits may release the same numbers: students that were taught the same labels, or
    draws from a short list. By its identity the second is another model, and is charged
    too. It is drawn when the model is first stored: the fit itself releases nothing but
    its numbers. Models of earlier versions have none.
    """
    known = vars(fitted).setdefault("identity_", secrets.token_hex(16))
    return {} if known is None else {"identity": known}


def apart_from_identity(packed: Packed) -> tuple[Packed, dict[str, Any]]:
    """Undo `identity_of_fit`: return the other facts, and the fitted attribute."""
    facts = dict(packed.parameters)
    known = read.identity(facts) if "identity" in facts else None
    facts.pop("identity", None)
    return Packed(facts, packed.arrays), {"identity_": known}


def _arrays(fitted: Any, encoder: Encoder) -> dict[str, Floats]:
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
        return Packed(facts | identity_of_fit(fitted), _arrays(fitted, encoder))

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> Any:
        """Put it together."""
        packed, known = apart_from_identity(packed)
        names = {"certificate", "classes", "labels", "n_units"}
        read.exactly(packed.parameters, names)
        classes = read.fitted_classes(encoder.schema, packed.parameters)
        n_scores = 1 if len(classes) == 2 else len(classes)
        found = _coefficients(packed, encoder.n_features, n_scores, certificate)
        return self._model({**found, **known, "classes_": classes})

    def _model(self, fitted: dict[str, Any]) -> Any:
        """Return the model with these fitted attributes."""
        model = StoredLinearClassifier()
        model.__dict__.update(fitted)
        return model


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
        facts = {
            "classes": fitted.classes_.tolist(),
            "n_units": int(fitted.n_units_),
        }
        return Packed(facts | identity_of_fit(fitted), _arrays(student, encoder))

    def _model(self, fitted: dict[str, Any]) -> StudentClassifier:
        model = StudentClassifier(None, None)
        model.student_ = LogisticRegression()
        model.student_.__dict__.update(fitted)
        model.__dict__.update(fitted)
        return model


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
                "the model's bounds are not those of the label. Fit with the label's."
            )
        facts = {"n_units": int(fitted.n_units_)} | identity_of_fit(fitted)
        return Packed(facts, _arrays(fitted, encoder))

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> StoredLinearRegressor:
        """Put it together."""
        packed, known = apart_from_identity(packed)
        read.exactly(packed.parameters, {"certificate", "n_units"})
        found = _coefficients(packed, encoder.n_features, 1, certificate)
        model = StoredLinearRegressor()
        model.__dict__.update(found, **known)
        model.bounds_ = read.bounds_of(encoder.schema)
        return model


register_kind(ReleasedClassifierKind())
register_kind(ReleasedRegressorKind())
register_kind(StudentKind())
