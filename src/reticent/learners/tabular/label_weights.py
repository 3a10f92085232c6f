"""Weights of labels: declared, or such that all labels count the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent._numbers import positive
from reticent.errors import InvalidParameterError
from reticent.estimators import Rounds, UnitRows, noisy_label_shares

# The share of a unit's budget that counting labels takes.
_LABEL_SHARE = 0.005
# No label counts less than this share of the one that counts most.
_LEAST_WEIGHT = 1e-3


def label_weights(
    given: Mapping[Any, float] | str | None, classes: NDArray[Any]
) -> Floats | str | None:
    """Return one positive number per label, in order; keep "balanced" and None."""
    if not isinstance(given, Mapping):
        return given
    known = classes.tolist()
    if set(given) != set(known):
        raise InvalidParameterError(
            f"class_weight needs one positive number for each label of {known}; got "
            f"labels {list(given)}."
        )
    return np.array(
        [positive("PrivateTabularClassifier", "class_weight", given[k]) for k in known]
    )


def weighted(rows: UnitRows, rounds: Rounds, weights: Floats | str | None) -> UnitRows:
    """Return rows with the weight of their label, at most one.

    Parameters
    ----------
    rows : UnitRows
        The rows. With one score, its target is 1 for the second label.
    rounds : Rounds
        The rounds in which units pay for counting labels.
    weights : ndarray, "balanced" or None
        One number per label. "balanced" counts the labels, with noise.
    """
    if weights is None:
        return rows
    if isinstance(weights, str):
        shares = noisy_label_shares(rows, rounds, share=_LABEL_SHARE)
        weights = np.asarray(1 / np.maximum(shares, 1 / rows.n_units))
    least = np.full(len(weights), _LEAST_WEIGHT)
    found = np.maximum(weights / weights.max(), least)
    place = rows.targets.argmax(axis=0)
    if len(rows.targets) == 1:
        place = rows.targets[0].astype(np.intp)
    return replace(rows, weights=found[place])
