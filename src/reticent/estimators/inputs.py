"""Checks of rows, labels and targets before a fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from reticent._arrays import Floats
from reticent._sklearn import MatrixLike
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators.labels import Labels
from reticent.estimators.units import UnitIds, unit_positions


def needs_no_validation(model: Any, X: Any) -> bool:
    """Whether validation would return `X` unchanged.

    For a single row scikit-learn's validation takes longer than a matrix product with
    hundreds of models; finite floats of the right shape do not need it.
    """
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == model.n_features_in_
        and len(X) > 0
        and not hasattr(model, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def check_label_type(y: Any) -> None:
    """Refuse targets that cannot be labels.

    Whether scikit-learn also warns depends on how many labels occur, so on one unit.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_classification_targets(y)


def checked_labels(classes: Any, y: Any) -> tuple[Labels, NDArray[Any]]:
    """Return the public labels and `y`, which must contain no other.

    The labels are sorted; if left out, they are read from `y`.
    """
    y = column_or_1d(y, warn=True)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InvalidDataError("Input y contains NaN or infinity; labels must not.")
    check_label_type(y)
    known = np.unique(y if classes is None else np.asarray(classes))
    if classes is not None and len(known) != len(np.asarray(classes)):
        raise InvalidParameterError("classes must name each label once.")
    if len(known) < 2:
        raise InvalidDataError(
            f"a classifier needs at least two classes; got {len(known)} class. Declare "
            "the public labels with classes=[...]."
        )
    labels = Labels(known)
    if not _all_known(labels, y):
        # How many, never which: labels are values of records.
        unknown = int(np.count_nonzero(labels.indices(y) < 0))
        raise InvalidDataError(
            f"y has labels that are not in `classes`, in {unknown} of {len(y)} rows. "
            f"Declared were {_listed(known)}; declare all that can occur."
        )
    return labels, y


def two_labels(
    who: str, classes: Any, X: MatrixLike, y: Any, instead: str = ""
) -> tuple[Labels, NDArray[Any]]:
    """Return two public labels and `y`, one for each of the rows `X`."""
    labels, y = checked_labels(classes, y)
    check_consistent_length(X, y)
    if len(labels) != 2:
        raise InvalidParameterError(
            f"Only binary classification is supported. {who} got {len(labels)} "
            f"classes{instead}."
        )
    return labels, y


def _listed(labels: NDArray[Any]) -> str:
    """Return public labels as text; the first ten of many."""
    named = labels.tolist()
    more = [f"and {len(named) - 10} more"] if len(named) > 10 else []
    return ", ".join([*map(repr, named[:10]), *more])


def _all_known(labels: Labels, y: NDArray[Any]) -> bool:
    if y.dtype.kind not in "biuf" or len(labels) > 2:
        return bool((labels.indices(y) >= 0).all())
    first, second = labels.classes
    return bool(((y == first) | (y == second)).all())


def checked_targets(y: Any) -> Floats:
    """Return regression targets as finite floats."""
    values = column_or_1d(y, warn=True)
    values = check_array(values, ensure_2d=False, dtype=np.float64, input_name="y")
    return np.asarray(values)


def require_one_row_per_unit(owner: str, units: UnitIds, n: int) -> None:
    """Refuse units of several rows for a method that counts mistakes by row."""
    if units is not None and unit_positions(units, n)[1] != n:
        raise InvalidDataError(
            f"{owner} takes one row per unit; `units` repeats an id. Keep one row for "
            "each unit, or use PrivateVotingClassifier."
        )
