"""Flip labels at random: from a stable or nearly private answer to a private one.

The certificates are those of the rules G3 (`flip_stable`), G3k (`replace_stable`) and
G4 (`flip_private`) in `reticent.guarantees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats, Ints
from reticent._numbers import probability, whole
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.mechanisms.response import Response
from reticent.mechanisms.sampling.exact import draw_bernoulli
from reticent.mechanisms.sampling.inputs import whole_numbers
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.listening import audible
from reticent.mechanisms.sampling.randomness import RandomSource


@audible("flip")
def flip_labels(labels: ArrayLike, p: float, source: RandomSource) -> Ints:
    """Flip each of many binary labels with probability exactly `p`.

    Parameters
    ----------
    labels : array-like of 0 and 1
        Labels to flip, independently.
    p : float
        Probability, below 1/2, read as the exact binary fraction.
    source : RandomSource
        Where bits come from.
    """
    p = _flip_probability(p)
    values = _indices(labels, 2)
    return values ^ draw_bernoulli(np.full(values.shape, p), source)


@audible("replace")
def replace_labels(
    labels: ArrayLike, p: float, source: RandomSource, *, n_labels: int
) -> Ints:
    """Replace each label by a uniform one with probability exactly `p`.

    Parameters
    ----------
    labels : array-like of int
        Indices below `n_labels`.
    p : float
        Probability; the uniform label may be the same one.
    source : RandomSource
        Where bits come from.
    n_labels : int
        Number of labels.
    """
    p = probability("replace_labels", "p", p)
    n_labels = whole("replace_labels", "n_labels", n_labels, least=2)
    values = _indices(labels, n_labels)
    uniform = source.below(np.full(values.shape, n_labels, dtype=np.uint64))
    replaced = draw_bernoulli(np.full(values.shape, p), source)
    return np.where(replaced, uniform.astype(np.int64), values)


@dataclass(frozen=True, eq=False, repr=False)
class FlippedResponse(Response):
    """The law of another response's label after flipping."""

    base: Response  #: the law before
    p: float  #: Two labels: probability of the other label. More: of a uniform one.
    uniform: bool  #: whether the label is replaced by a uniform one instead of flipped

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.base.n_labels

    def __len__(self) -> int:
        return len(self.base)

    def draw(self, source: RandomSource) -> Ints:
        """Draw one label per row, exactly from its law, with fresh randomness."""
        labels = self.base.draw(source)
        if self.uniform:
            return replace_labels(labels, self.p, source, n_labels=self.n_labels)
        return flip_labels(labels, self.p, source)

    def _mixture(self) -> tuple[Fraction, Fraction]:
        """Return `a` and `b` with new probability = a + b * old probability."""
        p = Fraction(self.p)
        return (p / self.n_labels, 1 - p) if self.uniform else (p, 1 - 2 * p)

    def _log_probabilities(self) -> Floats:
        floor, kept = (float(part) for part in self._mixture())
        with np.errstate(under="ignore"):
            return np.log(floor + kept * np.exp(self.base.log_probabilities))

    def _log_intervals(self, row: int, arithmetic: IntervalArithmetic) -> list[Any]:
        floor, kept = (arithmetic.real(part) for part in self._mixture())
        logs = self.base._log_intervals(row, arithmetic)
        return [arithmetic.log(floor + kept * arithmetic.exp(log)) for log in logs]


def flipped(response: Response, p: float) -> Response:
    """Return the law of a binary response whose label is flipped with probability `p`.

    Guarantee
    ---------
    By rule G3 if the response is stable, by rule G4 if it is (epsilon, delta)-DP.
    """
    if response.n_labels != 2:
        raise InvalidParameterError(
            f"flipping is for two labels; got {response.n_labels}. Use replaced()."
        )
    return FlippedResponse(response, _flip_probability(p), uniform=False)


def replaced(response: Response, p: float) -> Response:
    """Return the law of a response whose label becomes uniform with probability `p`.

    Guarantee
    ---------
    By rule G3k if the response is stable.
    """
    return FlippedResponse(response, probability("replaced", "p", p), uniform=True)


def _flip_probability(p: float) -> float:
    p = probability("flipping", "p", p)
    if not p < 0.5:
        raise InvalidParameterError(f"flipping needs p < 1/2; got p={p!r}.")
    return p


def _indices(labels: ArrayLike, n_labels: int) -> Ints:
    values = whole_numbers("labels", labels)
    if not ((values >= 0) & (values < n_labels)).all():
        raise InvalidDataError(f"labels must be indices below n_labels={n_labels}.")
    return values
