"""The failure probability that belongs to a confidence."""

from __future__ import annotations

from typing import Any

from reticent._numbers import exact, probability
from reticent.errors import InvalidParameterError


def failure_of(confidence: Any) -> float:
    """Return ``1 - confidence``, exact in decimals: 0.05 for 0.95.

    Examples
    --------
    >>> failure_of(0.95)
    0.05
    """
    value = probability("a bound", "confidence", confidence)
    failure = float(1 - exact(value))
    if not 0 < failure < 1:
        raise InvalidParameterError(
            f"confidence={confidence!r} is too close to 0 or 1."
        )
    return failure
