"""Guesses that a reusable holdout takes, and the answers that it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent.errors import InvalidParameterError


@dataclass(frozen=True, slots=True)
class HoldoutAnswer:
    """A reusable holdout's answer to one query or several."""

    #: The guess where it was close enough, else the holdout's own value; NaN for
    #: queries that came after the holdout had stopped.
    value: Any
    overfit: Any  #: whether the guess was off by more than the threshold
    #: Earlier answers that contradicted their guess; None if unknown.
    before: int | None = field(default=None, repr=False, compare=False)


def checked_guesses(guess: ArrayLike) -> NDArray[np.float64]:
    """Return guesses as numbers in [0, 1], or refuse them."""
    guesses = np.asarray(guess)
    if (
        guesses.dtype.kind not in "biuf"
        or guesses.ndim > 1
        or not guesses.size
        or not ((guesses >= 0) & (guesses <= 1)).all()
    ):
        raise InvalidParameterError(
            "guess must be a number in [0, 1], or a list of them, one per query."
        )
    return guesses.astype(np.float64)
