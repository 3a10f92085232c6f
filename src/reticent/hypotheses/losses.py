"""Convex losses of one real prediction, with two derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import expit

from reticent._arrays import Floats
from reticent.errors import InvalidParameterError


@dataclass(frozen=True, slots=True)
class ConvexLoss(ABC):
    """A loss that is convex and continuously differentiable in the prediction.

    Its parameters are finite and positive.
    """

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 < value < np.inf:
                raise InvalidParameterError(
                    f"{name}={value!r} is not possible; a finite number > 0 is needed."
                )

    @abstractmethod
    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""

    @abstractmethod
    def slope(self, prediction: Floats, y: Floats) -> Floats:
        """Return the derivative in the prediction."""

    @abstractmethod
    def curvature(self, prediction: Floats, y: Floats) -> Floats:
        """Return a second derivative; on kinks of the slope any one-sided value."""


@dataclass(frozen=True, slots=True)
class SquaredLoss(ConvexLoss):
    """``scale * (prediction - y)**2``."""

    scale: float = 1.0

    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""
        return self.scale * (prediction - y) ** 2

    def slope(self, prediction: Floats, y: Floats) -> Floats:
        """Return the derivative in the prediction."""
        return 2 * self.scale * (prediction - y)

    def curvature(self, prediction: Floats, y: Floats) -> Floats:
        """Return the second derivative."""
        return np.full(prediction.shape, 2 * self.scale)


@dataclass(frozen=True, slots=True)
class HuberLoss(ConvexLoss):
    """Half the square up to `width`, a straight line beyond, times `scale`."""

    width: float = 1.0
    scale: float = 1.0

    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""
        size = np.abs(prediction - y)
        near = np.minimum(size, self.width)
        return self.scale * near * (size - near / 2)

    def slope(self, prediction: Floats, y: Floats) -> Floats:
        """Return the derivative in the prediction."""
        return self.scale * np.clip(prediction - y, -self.width, self.width)

    def curvature(self, prediction: Floats, y: Floats) -> Floats:
        """Return the second derivative, 0 outside the width."""
        return self.scale * (np.abs(prediction - y) <= self.width).astype(np.float64)


@dataclass(frozen=True, slots=True)
class LogisticLoss(ConvexLoss):
    """``scale * log(1 + exp(-margin))``, with margin ``(2 y - 1) * prediction``."""

    scale: float = 1.0

    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""
        return self.scale * np.logaddexp(0.0, -(2 * y - 1) * prediction)

    def slope(self, prediction: Floats, y: Floats) -> Floats:
        """Return the derivative in the prediction."""
        sign = 2 * y - 1
        found: Floats = -self.scale * sign * expit(-sign * prediction)
        return found

    def curvature(self, prediction: Floats, y: Floats) -> Floats:
        """Return the second derivative."""
        found: Floats = self.scale * expit(prediction) * expit(-prediction)
        return found


@dataclass(frozen=True, slots=True)
class SmoothedHingeLoss(ConvexLoss):
    """Hinge loss of the margin ``(2 y - 1) * prediction``, rounded over `width`."""

    width: float = 1.0
    scale: float = 1.0

    def value(self, prediction: Floats, y: Floats) -> Floats:
        """Return the loss of each prediction."""
        short = np.maximum(1 - (2 * y - 1) * prediction, 0.0)
        near = np.minimum(short, self.width)
        return self.scale * near * (short - near / 2) / self.width

    def slope(self, prediction: Floats, y: Floats) -> Floats:
        """Return the derivative in the prediction."""
        sign = 2 * y - 1
        short = np.clip(1 - sign * prediction, 0.0, self.width)
        return -self.scale * sign * short / self.width

    def curvature(self, prediction: Floats, y: Floats) -> Floats:
        """Return the second derivative, 0 outside the rounded part."""
        short = 1 - (2 * y - 1) * prediction
        inside = (short >= 0) & (short <= self.width)
        return self.scale / self.width * inside.astype(np.float64)
