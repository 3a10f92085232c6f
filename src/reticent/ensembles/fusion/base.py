"""The base of fused ensembles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from reticent.ensembles.fusion.encoding import Encoded
from reticent.ensembles.output_steps import (
    output_steps,
    probability_steps,
    sure_output_steps,
    sure_probability_steps,
)
from reticent.estimators import NO_BALLOT

#: Pairs of row and model whose answer is too close to call from the arrays.
Doubts = tuple[NDArray[np.int64], NDArray[np.int64]]

# A sigmoid or a softmax and the sum of its values err by a few roundoffs per label;
# this is sixteen times as much.
_LINK_ROUNDOFF = 2.0**-49

Scores = NDArray[np.float64]


class Scored(Protocol):
    """An ensemble that scores rows."""

    shards: NDArray[np.int64]
    labels: NDArray[np.int64]

    def scored(self, encoded: Encoded) -> Iterator[tuple[int, Scores, Scores]]:
        """Yield chunks of rows: their start, their scores, and the errors of these.

        Scores are rows x models x scores. The models' own are within the errors
        (rows x models, or rows x 1).
        """
        ...

    def settled_scores(
        self, values: Any, rows: NDArray[np.int64], model: int
    ) -> Scores:
        """Return one model's scores on given rows (rows x scores).

        The result for a row depends only on that row and that model, to the last bit.
        """
        ...


class Fused:
    """Sums over models from their scores, and arrays for storage without pickle.

    Attributes
    ----------
    scalars : mapping of str to type
        The fields that are not arrays.
    """

    scalars: ClassVar[Mapping[str, type]] = {}

    @property
    def _averages(self) -> bool:
        """Whether scores are probabilities already."""
        return False

    def probability_sums(
        self, encoded: Encoded, n_classes: int
    ) -> tuple[NDArray[np.int64], Doubts]:
        """Add up class probabilities in whole steps, except doubtful ones.

        Returns
        -------
        sums : ndarray of int of shape (n_rows, n_classes)
            Sums over the models that are not in doubt about the row.
        doubts : (ndarray of int, ndarray of int)
            Rows and models that were not counted.
        """
        ensemble = cast("Scored", self)
        sums = np.zeros((encoded.values.shape[0], n_classes), dtype=np.int64)
        doubts = []
        with np.errstate(all="ignore"):
            for start, scores, errors in ensemble.scored(encoded):
                given = self._aligned(scores, n_classes)
                # Scores that err by e move no sum of probabilities by more than e/2.
                off = np.broadcast_to(
                    errors + _LINK_ROUNDOFF * n_classes, given.shape[:2]
                )
                steps, sure = sure_probability_steps(given, off)
                sums[start : start + len(steps)] = _kept(steps, sure).sum(axis=1)
                doubts.append((start, sure))
        return sums, found_doubts(doubts)

    def output_sums(
        self, encoded: Encoded, bounds: tuple[float, float]
    ) -> tuple[NDArray[np.int64], Doubts]:
        """Add up clipped outputs in whole steps, except doubtful ones.

        Returns
        -------
        sums : ndarray of int of shape (n_rows,)
            Sums over the models that are not in doubt about the row.
        doubts : (ndarray of int, ndarray of int)
            Rows and models that were not counted.
        """
        ensemble = cast("Scored", self)
        sums = np.zeros(encoded.values.shape[0], dtype=np.int64)
        doubts = []
        with np.errstate(all="ignore"):
            for start, scores, errors in ensemble.scored(encoded):
                steps, sure = sure_output_steps(scores[..., 0], errors, bounds)
                kept = steps if sure.all() else steps * sure
                sums[start : start + len(steps)] = kept.sum(axis=1)
                doubts.append((start, sure))
        return sums, found_doubts(doubts)

    def settle_probabilities(
        self, values: Any, rows: NDArray[np.int64], model: int, n_classes: int
    ) -> NDArray[np.int64]:
        """Return one model's probabilities in steps, computed from the arrays alone."""
        scores = cast("Scored", self).settled_scores(values, rows, model)
        one = slice(model, model + 1)
        given = self._aligned(np.ascontiguousarray(scores[:, None]), n_classes, one)
        return probability_steps(given[:, 0])

    def settle_outputs(
        self,
        values: Any,
        rows: NDArray[np.int64],
        model: int,
        bounds: tuple[float, float],
    ) -> NDArray[np.int64]:
        """Return one model's outputs in steps, computed from the arrays alone."""
        scores = cast("Scored", self).settled_scores(values, rows, model)
        return output_steps(scores[:, 0], bounds)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as plain arrays, for storage without pickle."""
        names = [field.name for field in fields(cast("Any", self))]
        return {name: np.asarray(getattr(self, name)) for name in names}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild what `to_arrays` took apart."""
        names = [field.name for field in fields(cast("Any", cls))]
        values: dict[str, Any] = {name: arrays[name] for name in names}
        for name, kind in cls.scalars.items():
            values[name] = kind(values[name])
        return cls(**values)

    def _aligned(
        self, scores: Scores, n_classes: int, some: slice = slice(None)
    ) -> NDArray[np.float64]:
        """Return the probabilities of public labels from the scores of some models."""
        labels = cast("Scored", self).labels[some]
        models, columns = np.nonzero(labels != NO_BALLOT)
        given = scores if self._averages else _probabilities(scores)
        aligned = np.zeros((len(given), len(labels), n_classes))
        aligned[:, models, labels[models, columns]] = given[:, models, columns]
        return aligned


def found_doubts(chunks: list[tuple[int, NDArray[np.bool_]]]) -> Doubts:
    """Return rows and models that are not sure in some chunk (rows x models)."""
    rows, models = [np.arange(0)], [np.arange(0)]
    for start, sure in chunks:
        if not sure.all():
            unsure_rows, unsure_models = np.nonzero(~sure)
            rows.append(unsure_rows + start)
            models.append(unsure_models)
    return np.concatenate(rows), np.concatenate(models)


def _kept(steps: NDArray[np.int64], sure: NDArray[np.bool_]) -> NDArray[np.int64]:
    return steps if sure.all() else steps * sure[..., None]


def _probabilities(scores: Scores) -> NDArray[np.float64]:
    if scores.shape[2] == 1:
        second = expit(scores[..., 0])
        return np.stack([1 - second, second], axis=-1)
    return np.asarray(softmax(scores, axis=-1))
