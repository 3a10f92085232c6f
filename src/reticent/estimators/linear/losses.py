"""Convex losses by name, with the bounds on their derivatives that proofs use."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reticent._numbers import positive, up
from reticent._text import one_of
from reticent.hypotheses import (
    ConvexLoss,
    HuberLoss,
    LogisticLoss,
    SmoothedHingeLoss,
    SquaredLoss,
)

# Half a unit in the last place of 1.0.
ROUND_OFF = 2.0**-53


@dataclass(frozen=True)
class BoundedLoss:
    """A convex loss with bounds on its derivatives where it is used."""

    loss: ConvexLoss  #: value and derivatives for arrays
    #: The slope for one prediction and one target, as plain numbers.
    slope_at: Callable[[float, float], float]
    #: Bounds on the size of the first and the second derivative.
    slope: float
    curvature: float


def classification_loss(name: Any, width: Any) -> BoundedLoss:
    """Return the loss called "logistic" or "hinge", for labels 0 and 1."""
    if one_of("loss", name, "logistic", "hinge") == "logistic":
        return BoundedLoss(LogisticLoss(), _logistic_slope, 1.0, 0.25)
    width = positive("the smoothed hinge", "width", width)

    def hinge_slope(prediction: float, y: float) -> float:
        sign = 2.0 * y - 1.0
        return -sign * min(max(1.0 - sign * prediction, 0.0), width) / width

    return BoundedLoss(SmoothedHingeLoss(width), hinge_slope, 1.0, up(1 / width))


def regression_loss(name: Any, width: Any, reach: float) -> BoundedLoss:
    """Return the loss called "huber" or "squared", for targets in [-1, 1].

    `reach` bounds the size of predictions, which the slope of the square depends on.
    """
    if one_of("loss", name, "huber", "squared") == "squared":
        return BoundedLoss(SquaredLoss(0.5), _difference, up(reach + 1.0), 1.0)
    width = positive("Huber's loss", "width", width)

    def huber_slope(prediction: float, y: float) -> float:
        return min(max(prediction - y, -width), width)

    return BoundedLoss(HuberLoss(width), huber_slope, width, 1.0)


def _logistic_slope(prediction: float, y: float) -> float:
    sign = 2.0 * y - 1.0
    return -sign / (1.0 + math.exp(min(sign * prediction, 700.0)))


def _difference(prediction: float, y: float) -> float:
    return prediction - y


def automatic_regularization(
    lipschitz: float, radius: float, n: int, epsilon: float
) -> float:
    """Return S1's strength of the penalty for losses that are merely convex.

    It balances what the penalty costs in accuracy with the noise that it saves.
    """
    return 2 * lipschitz / (radius * math.sqrt(n * epsilon / (1 + epsilon)))
