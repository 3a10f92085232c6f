"""Public unlabelled rows, as a fit takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from reticent.errors import InvalidDataError
from reticent.learners.candidates import refuse_the_data


def public_rows(
    owner: str, public: Any, X: Any, n_features: int
) -> NDArray[np.float64]:
    """Return public rows as numbers, or say what is missing."""
    if public is None:
        raise InvalidDataError(
            f"public=None; {owner} needs public unlabelled rows: fit(X, y, public=Z)."
        )
    refuse_the_data("public rows", public, X)
    rows = check_array(public, dtype=np.float64, input_name="public")
    if rows.shape[1] != n_features:
        raise InvalidDataError(
            f"public rows have {rows.shape[1]} features; the private ones have "
            f"{n_features}."
        )
    return np.asarray(rows)
