"""The interface of compression schemes: choose a few examples, decode from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidParameterError
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms import RandomSource

#: A decoded hypothesis: from rows to places in the list of classes.
Labelling: TypeAlias = Callable[[Floats], Ints]

# Estimators that draw inside `fit` are decoded with this seed, a public constant.
_DECODER_SEED = 0


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Labelled rows, with labels as places in the public list of classes."""

    X: Floats
    y: Ints
    n_classes: int

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Any) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.X[rows], self.y[rows], self.n_classes)

    def mistakes(self, labels: Ints) -> int:
        """Count where `labels` differ."""
        return int(np.count_nonzero(labels != self.y))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to compress the data, before its side information is written."""

    # Kept examples and bits of side information.
    n_kept: int
    n_bits: int
    mistakes: int  # mistakes of the decoded hypothesis on the data
    # Returns the positions of the kept examples and the side information.
    finish: Callable[[], tuple[Ints, str]]


def kept_rows(rows: Ints, mistakes: int) -> Candidate:
    """Return the candidate that keeps these rows and needs no side information."""
    return Candidate(len(rows), 0, mistakes, lambda: (rows, ""))


class Scheme(BaseEstimator, ABC):
    """A compression scheme: an encoder that sees the data, a decoder that does not.

    To write your own scheme, subclass this and pass it to `CompressionClassifier`.

    Attributes
    ----------
    binary_only : bool
        Whether only two classes are supported.
    one_feature : bool
        Whether hypotheses look at one feature only.

    Guarantee
    ---------
    The certificate holds for every encoder. It needs three properties of the decoder:
    it reads the examples as a set (it gets them in canonical order), it reads all side
    information from its reader, with bounds that follow from public numbers, and its
    parameters were fixed before the data were seen. For a scheme that is not the
    library's, and for an estimator that is given to one, it assumes the last of them
    (FIXED_DECODER).
    """

    binary_only: bool = False
    one_feature: bool = False

    @abstractmethod
    def most(self, n_rows: int, n_features: int) -> int:
        """Return how many examples the scheme may keep, from public numbers alone."""

    @abstractmethod
    def sizes(self, most: int) -> int:
        """Return how many numbers of kept examples are possible."""

    @abstractmethod
    def most_bits(self, most: int) -> int:
        """Return the longest side information for at most `most` kept examples."""

    @abstractmethod
    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield ways to compress the data to at most `most` examples; at least one."""

    @abstractmethod
    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Rebuild the hypothesis from kept examples in canonical order, and bits."""

    def check(self) -> None:
        """Refuse invalid parameters."""

    def lower_most(self, natural: int, asked: int) -> int:
        """Return a cap below the scheme's own, or refuse it."""
        return min(natural, asked)


def constant(label: int) -> Labelling:
    """Return the hypothesis that gives every row the same label."""
    return lambda X: np.full(len(X), label, dtype=np.int64)


def fitted(estimator: Any, kept: LabelledRows) -> Labelling:
    """Fit a clone of an estimator on a few examples, deterministically.

    If the estimator cannot be fitted on them, or if they have one class, the hypothesis
    is the most frequent label. An unset `random_state` is set to a public constant.
    """
    counts = np.bincount(kept.y, minlength=kept.n_classes)
    usual = constant(int(counts.argmax()))
    if np.count_nonzero(counts) < 2:
        return usual
    model = _settled(estimator)
    try:
        model.fit(kept.X, kept.y)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return usual
    return lambda X: np.asarray(model.predict(X)).astype(np.int64)


def _settled(estimator: Any) -> Any:
    model = clone(estimator)
    unset = {
        name: _DECODER_SEED
        for name, value in model.get_params(deep=True).items()
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return model.set_params(**unset)


def at_least(scheme: Scheme, name: str, least: int) -> int:
    """Return a whole-number parameter of a scheme or refuse it."""
    value = getattr(scheme, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not (whole and value >= least):
        raise InvalidParameterError(
            f"{type(scheme).__name__} needs a whole number {name} >= {least}; got "
            f"{name}={value!r}."
        )
    return int(value)
