"""Checks of labels, answers and probabilities that are to be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidDataError, InvalidParameterError


def paired(truth: Any, answers: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels and answers as arrays of one length."""
    one, two = np.asarray(truth), np.asarray(answers)
    if one.ndim != 1 or one.shape != two.shape or not len(one):
        raise InvalidDataError(
            f"truth and answers must be lists of one length, at least 1; got shapes "
            f"{one.shape} and {two.shape}."
        )
    return one, two


def given_to_truth(truth: Any, probabilities: Any, classes: Any) -> NDArray[np.float64]:
    """Return the probability that was given to each row's own label."""
    labels, said = np.asarray(classes), np.asarray(probabilities, dtype=np.float64)
    own = np.asarray(truth)
    if said.shape != (len(own), len(labels)):
        raise InvalidParameterError(
            f"probabilities of shape {said.shape} must have a row per label of truth "
            f"({len(own)}) and a column per class ({len(labels)})."
        )
    known = own[:, None] == labels[None, :]
    return np.asarray(np.where(known, np.nan_to_num(said), 0.0).sum(axis=1))
