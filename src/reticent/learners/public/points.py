"""Checks of public unlabelled rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from reticent._arrays import Floats
from reticent._numbers import whole
from reticent.errors import InvalidDataError
from reticent.learners.selection.candidates import refuse_training_rows


def check_public(owner: str, public: Any, X: Any) -> None:
    """Refuse a fit without public rows, or with the training rows in their place."""
    if public is None:
        raise InvalidDataError(
            f"public=None; {owner} needs public unlabelled rows: fit(X, y, public=Z)."
        )
    refuse_training_rows("public rows", public, X)


def public_rows(owner: str, public: Any, X: Any, n_features: int) -> Floats:
    """Return public rows as numbers, or say what is missing."""
    check_public(owner, public, X)
    rows = check_array(public, dtype=np.float64, input_name="public")
    if rows.shape[1] != n_features:
        raise InvalidDataError(
            f"public rows have {rows.shape[1]} features; the private ones have "
            f"{n_features}."
        )
    return np.asarray(rows)


def first_rows(owner: str, public: Any, n_public: int | None) -> Any:
    """Return the first `n_public` public rows, or all of them for None.

    Fewer than asked for are refused: the accuracy that a plan promises needs
    that many.
    """
    if public is None or n_public is None:
        return public
    count = whole(owner, "n_public", n_public)
    rows = np.asarray(public)
    if not len(rows) >= count:
        raise InvalidDataError(
            f"public has {len(rows)} rows; n_public={count} needs at least as many. "
            "Give more, or lower n_public."
        )
    return rows[:count]
