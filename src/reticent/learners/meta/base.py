"""The base of learners that train other learners: units, clones, certificates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from reticent._arrays import Ints
from reticent._sklearn import MatrixLike, UnweightedEstimator, safe_indexing
from reticent.errors import InvalidParameterError
from reticent.estimators import UnitIds, checked_labels, unit_positions
from reticent.guarantees import Certificate, Scope
from reticent.mechanisms import RandomSource


class UnitTable:
    """Rows with their labels, grouped by unit; units can be taken in any order."""

    def __init__(self, X: MatrixLike, y: NDArray[Any], units: UnitIds) -> None:
        self.X, self.y = X, y
        self.with_units = units is not None
        self.positions, self.n_units = unit_positions(units, len(y))
        # Rows by unit, in the order of the table within each.
        self._order = np.argsort(self.positions, kind="stable")
        sizes = np.bincount(self.positions, minlength=self.n_units)
        self._ends = np.cumsum(sizes)

    def take(self, chosen: Ints) -> tuple[MatrixLike, Any, Any]:
        """Return rows, labels and new unit ids of these units, in this order.

        A unit that is chosen twice becomes two units.
        """
        if not self.with_units:
            return safe_indexing(self.X, chosen), self.y[chosen], None
        starts = np.concatenate([[0], self._ends])
        rows = [self._order[starts[unit] : starts[unit + 1]] for unit in chosen]
        ids = np.repeat(np.arange(len(chosen)), [len(part) for part in rows])
        index = np.concatenate(rows)
        return safe_indexing(self.X, index), self.y[index], ids


def _inner(method: str) -> Any:
    def check(model: Any) -> bool:
        return hasattr(getattr(model, "learner_", model.learner), method)

    return available_if(check)


class MetaLearner(UnweightedEstimator):
    """The base of learners that train another learner of this room.

    Subclasses set the constructor parameters `learner` and `random_state`. Once fitted,
    only the released model, `learner_`, depends on the data.
    """

    certificate_: Certificate[Any]

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the released model's predictions; costs nothing more."""
        check_is_fitted(self)
        self._rows(X, reset=False)
        return np.asarray(self.learner_.predict(X))

    @_inner("predict_proba")
    def predict_proba(self, X: MatrixLike) -> NDArray[Any]:
        """Return the released model's probabilities."""
        check_is_fitted(self)
        self._rows(X, reset=False)
        return np.asarray(self.learner_.predict_proba(X))

    @_inner("score")
    def score(self, X: MatrixLike, y: Any) -> float:
        """Return the released model's score on these rows."""
        check_is_fitted(self)
        return float(self.learner_.score(X, y))

    def _rows(self, X: MatrixLike, *, reset: bool) -> MatrixLike:
        if hasattr(X, "columns"):
            validate_data(self, X, skip_check_array=True, reset=reset)
            return X
        # Checked here on all rows, because a part could pass or fail on its own.
        takes = get_tags(self.learner).input_tags
        return validate_data(
            self,
            X,
            dtype=None if takes.string else "numeric",
            ensure_all_finite="allow-nan" if takes.allow_nan else True,
            reset=reset,
        )

    def _table(self, X: MatrixLike, y: Any, units: UnitIds) -> tuple[UnitTable, bool]:
        """Check the data; return it with whether labels are assumed public.

        All parts must know all labels, so those of `y` are passed to the learner.
        """
        check_learner(self.learner)
        rows = self._rows(X, reset=True)
        self._public: dict[str, Any] = {}
        assumed = False
        if is_classifier(self.learner):
            declared = self.learner.get_params().get("classes")
            labels, y = checked_labels(declared, y)
            self.classes_ = labels.classes
            if "classes" in self.learner.get_params():
                self._public = {"classes": labels.classes}
            assumed = declared is None
        else:
            y = column_or_1d(y, warn=True)
        check_consistent_length(rows, y)
        return UnitTable(rows, y, units), assumed

    def _fitted(self, table: UnitTable, chosen: Ints, source: RandomSource) -> Any:
        """Train a clone of the learner on these units, with its own randomness."""
        X, y, units = table.take(chosen)
        model = clone(self.learner).set_params(**self._public)
        if "random_state" in model.get_params() and (
            source.seeded or model.random_state is not None
        ):
            # Parts that share a seed would share their noise.
            seed = int(source.words(1)[0] >> np.uint64(33))
            model.set_params(random_state=seed)
        return model.fit(X, y) if units is None else model.fit(X, y, units=units)

    def _with_certificate(self, model: Any, n_units: int) -> Any:
        """Return a model that carries the certificate of all that led to it."""
        # What it cost alone, in whatever form, is no longer what it costs.
        for name, value in list(vars(model).items()):
            if isinstance(value, Certificate):
                delattr(model, name)
        model.certificate_ = self.certificate_
        model.n_units_ = n_units  # what the certificate is about
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            inner = get_tags(self.learner)
        except (AttributeError, TypeError):
            return tags
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        return tags


def check_learner(learner: Any) -> None:
    """Refuse what cannot be a learner of this room."""
    needed = ("fit", "predict", "get_params", "set_params")
    if isinstance(learner, type) or not all(hasattr(learner, m) for m in needed):
        raise InvalidParameterError(
            f"learner={learner!r} must be a learner of reticent.learners, not fitted."
        )


def privacy_of(model: Any) -> Certificate[Any]:
    """Return the privacy certificate of a released model, or refuse the model."""
    certificate = getattr(
        model, "privacy_certificate_", getattr(model, "certificate_", None)
    )
    return released(model, certificate)


def released(model: Any, certificate: Any) -> Certificate[Any]:
    """Return the certificate if it is about a model that may be shared."""
    if not isinstance(certificate, Certificate):
        raise InvalidParameterError(
            f"{type(model).__name__} has no certificate; use a learner of "
            "reticent.learners."
        )
    if certificate.scope is not Scope.MODEL:
        raise InvalidParameterError(
            f"the certificate of {type(model).__name__} is about {certificate.scope}, "
            "not about the model, so the model must not be released. Use a learner of "
            "reticent.learners."
        )
    return certificate
