"""Thresholds and intervals on one feature, decoded from one or two examples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.generalization.compression.scheme import (
    Candidate,
    LabelledRows,
    Labelling,
    Scheme,
    at_least,
    kept_rows,
)
from reticent.generalization.compression.side_information import BitReader
from reticent.mechanisms import RandomSource


class _LineScheme(Scheme):
    """A scheme that looks at one feature and keeps a fixed number of examples."""

    binary_only = True
    one_feature = True
    _natural: int

    def __init__(self, feature: int = 0) -> None:
        self.feature = feature

    def check(self) -> None:
        """Refuse a feature that is not a column number."""
        at_least(self, "feature", 0)

    def most(self, n_rows: int, n_features: int) -> int:
        """Return the number of ends."""
        if not self.feature < n_features:
            raise InvalidParameterError(
                f"feature={self.feature} needs more than n_features={n_features}."
            )
        return self._natural

    def most_bits(self, most: int) -> int:
        """Return 0: the labels of the ends say which side is which."""
        return 0

    def sizes(self, most: int) -> int:
        """Return the number of ends: every number from one up to it is possible."""
        return most

    def lower_most(self, natural: int, asked: int) -> int:
        """Refuse a cap below the number of ends."""
        if asked < natural:
            raise InvalidParameterError(
                f"max_kept={asked} is less than the {natural} examples that "
                f"{type(self).__name__} may keep; choose another scheme."
            )
        return natural


class ThresholdScheme(_LineScheme):
    """The best threshold on one feature, decoded from one example.

    Values up to the kept example's get its label, larger ones the other label.

    Parameters
    ----------
    feature : int, default=0
        Column to look at.

    Notes
    -----
    Among all thresholds, of either direction, the encoder finds one with the fewest
    mistakes. At its cut some example has the label of its own side, since otherwise a
    cut before it would be better. That example is kept, so its label says which side is
    which, and no side information is needed (S3 Thm 24).
    """

    _natural = 1

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield the threshold with the fewest mistakes."""
        column = data.X[:, self.feature]
        values, balance = _balances(column, data.y)
        gains = np.cumsum(balance)
        # Right of the cut counts for the other class, so the total drops out.
        cut = int(np.argmax(np.abs(2 * gains - gains[-1])))
        low_label = int(2 * gains[cut] > gains[-1])
        yield _candidate(data, column, [values[cut]], low_label, self)

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Return the threshold at the kept example."""
        _expect(kept, 1, 1)
        end, label, feature = kept.X[0, self.feature], int(kept.y[0]), self.feature
        return lambda X: np.where(X[:, feature] <= end, label, 1 - label)


class IntervalScheme(_LineScheme):
    """The best interval on one feature, decoded from its two ends.

    Values between the kept examples, ends included, get their label, the others the
    other label.

    Parameters
    ----------
    feature : int, default=0
        Column to look at.

    Notes
    -----
    The encoder finds an interval, around either label, with the fewest mistakes. Both
    ends fall on examples that have the label inside, since leaving out an end without
    such an example is better. If both ends are the same value, one example is kept.
    """

    _natural = 2

    def compress(
        self, data: LabelledRows, most: int, source: RandomSource
    ) -> Iterator[Candidate]:
        """Yield the best interval around each of the labels."""
        column = data.X[:, self.feature]
        values, balance = _balances(column, data.y)
        for label, sign in ((0, -1), (1, 1)):
            if not (data.y == label).any():
                continue
            first, last = _heaviest(sign * balance)
            inside = (column >= values[first]) & (column <= values[last])
            mine = column[inside & (data.y == label)]
            if len(mine):
                ends = [mine.min(), mine.max()]
                yield _candidate(data, column, ends, label, self)

    def decode(self, kept: LabelledRows, side: BitReader) -> Labelling:
        """Return the interval between the kept examples."""
        _expect(kept, 1, 2)
        ends, label, feature = kept.X[:, self.feature], int(kept.y[0]), self.feature
        low, high = float(ends.min()), float(ends.max())

        def labels(X: Floats) -> Ints:
            inside = (X[:, feature] >= low) & (X[:, feature] <= high)
            return np.where(inside, label, 1 - label)

        return labels


def _balances(column: Floats, y: Ints) -> tuple[Floats, Ints]:
    """Return the distinct values, and at each the number of ones minus zeros."""
    values, place = np.unique(column, return_inverse=True)
    signs = np.bincount(place, weights=2.0 * y - 1.0, minlength=len(values))
    return values, np.rint(signs).astype(np.int64)


def _heaviest(weights: Ints) -> tuple[int, int]:
    """Return the first and last place of a stretch with the largest sum."""
    sums = np.concatenate([[0], np.cumsum(weights)])
    lowest = np.minimum.accumulate(sums[:-1])
    last = int(np.argmax(sums[1:] - lowest))
    # The latest start with the lowest sum, so that the first value has positive weight.
    starts = np.flatnonzero(sums[: last + 1] == lowest[last])
    return int(starts[-1]), last


def _candidate(
    data: LabelledRows, column: Floats, ends: list[float], label: int, scheme: Scheme
) -> Candidate:
    """Keep one example of the label at each end."""
    own = data.y == label
    places = sorted({int(np.argmax(own & (column == end))) for end in ends})
    rows = np.array(places, dtype=np.int64)
    decoded = scheme.decode(data.take(rows), BitReader(""))
    return kept_rows(rows, data.mistakes(decoded(data.X)))


def _expect(kept: LabelledRows, least: int, most: int) -> None:
    if not least <= len(kept) <= most or len(np.unique(kept.y)) != 1:
        raise InvalidDataError(
            f"this scheme decodes {least} to {most} examples of one label; got "
            f"{len(kept)}."
        )
