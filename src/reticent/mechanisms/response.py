"""Responses: the exact law of an answer, to draw from and to audit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent._numbers import MPMATH_LOCK, whole
from reticent.mechanisms.sampling.categorical import draw_categorical
from reticent.mechanisms.sampling.intervals import (
    IntervalArithmetic,
    TooWideError,
    interval_arithmetic,
)
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource

_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)


class Response(ABC):
    """The exact law of one label per row, given the data and the queries.

    It is as secret as the data: release what `draw` returns, nothing else.

    Attributes
    ----------
    n_labels : int
        Number of labels.
    log_probabilities : ndarray of shape (n, n_labels)
        Natural logarithms, finite for every label and accurate however small.
    probabilities : ndarray of shape (n, n_labels)
        Their exponentials. No label is impossible, so what is too small for a float
        shows as the smallest one instead of zero.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "draw" in vars(cls):
            cls.draw = audible("label")(cls.draw)  # type: ignore[method-assign]

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _log_probabilities(self) -> Floats: ...

    @abstractmethod
    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]: ...

    @abstractmethod
    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""

    @cached_property
    def log_probabilities(self) -> Floats:
        """Natural logarithms of the probabilities, (n, n_labels)."""
        return frozen(self._log_probabilities())

    @cached_property
    def probabilities(self) -> Floats:
        """Probabilities of the labels, (n, n_labels)."""
        with np.errstate(under="ignore"):
            return frozen(np.maximum(np.exp(self.log_probabilities), _SMALLEST))

    def exact(self, row: int, *, bits: int = 64) -> list[tuple[Fraction, Fraction]]:
        """Return intervals that are certain to hold one row's log-probabilities.

        Parameters
        ----------
        row : int
            Which row.
        bits : int, default=64
            The intervals are at most ``2**-bits`` wide.
        """
        bits = whole("exact", "bits", bits)
        precision = bits + 64
        while True:
            ends = self._ends(row, precision)
            if ends and all(high - low <= Fraction(1, 2**bits) for low, high in ends):
                return ends
            precision *= 2

    def _ends(self, row: int, precision: int) -> list[tuple[Fraction, Fraction]]:
        with MPMATH_LOCK:
            try:
                intervals = self._log_intervals(row, interval_arithmetic(precision))
            except TooWideError:
                return []
            return [IntervalArithmetic.ends(interval) for interval in intervals]


def frozen(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array, made read-only."""
    values.setflags(write=False)
    return values


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxResponse(Response):
    """Labels with probabilities proportional to the exponentials of exact floats."""

    #: Shape (n, n_labels); finite floats, read as exact real numbers.
    log_weights: Floats

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.log_weights.shape[1])

    def __len__(self) -> int:
        return len(self.log_weights)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        return draw_categorical(self.log_weights, source)

    def _log_probabilities(self) -> Floats:
        lead = self.log_weights.argmax(axis=1)[:, None]
        gaps = self.log_weights - np.take_along_axis(self.log_weights, lead, axis=1)
        with np.errstate(under="ignore"):
            others = np.exp(gaps)
        # Leaving the leader out keeps the logarithm of its probability accurate.
        np.put_along_axis(others, lead, 0.0, axis=1)
        return np.asarray(gaps - np.log1p(others.sum(axis=1, keepdims=True)))

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        weights = [Fraction(weight) for weight in self.log_weights[row].tolist()]
        lead = max(weights)
        gaps = [arithmetic.real(weight - lead) for weight in weights]
        total = sum(arithmetic.exp(gap) for gap in gaps)
        return [gap - arithmetic.log(total) for gap in gaps]
