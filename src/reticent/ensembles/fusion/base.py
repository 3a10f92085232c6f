"""The base of fused ensembles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from reticent._arrays import Bools, Floats, Ints
from reticent.ensembles.fusion.encoding import Encoded
from reticent.ensembles.output_steps import (
    output_steps,
    probability_steps,
    sure_output_steps,
    sure_probability_steps,
)
from reticent.estimators import NO_BALLOT

#: Pairs of row and model whose answer is too close to call from the arrays.
Doubts = tuple[Ints, Ints]

# A sigmoid or a softmax and the sum of its values err by a few roundoffs per label;
# this is sixteen times as much.
_LINK_ROUNDOFF = 2.0**-49


class Fused(ABC):
    """Sums over models from their scores, and arrays for storage without pickle.

    Attributes
    ----------
    shards : ndarray of int of shape (n_models,)
        The shard of each model.
    labels : ndarray of int of shape (n_models, max(2, n_scores))
        The public label index of each score.
    scalars : mapping of str to type
        The fields that are not arrays.
    """

    shards: Ints
    labels: Ints
    scalars: ClassVar[Mapping[str, type]] = {}

    @abstractmethod
    def tally(self, encoded: Encoded, n_classes: int) -> tuple[Ints, Doubts]:
        """Count the votes on rows that are not refused, except doubtful ones.

        Returns
        -------
        counts : ndarray of int of shape (n_rows, n_classes)
            Votes for each label.
        doubts : (ndarray of int, ndarray of int)
            Rows and models of the votes that were not counted.
        """

    @abstractmethod
    def scored(self, encoded: Encoded) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield chunks of rows: their start, their scores, and the errors of these.

        Scores are rows x models x scores. The models' own are within the errors
        (rows x models, or rows x 1).
        """

    @abstractmethod
    def settled_scores(self, values: Any, rows: Ints, model: int) -> Floats:
        """Return one model's scores on given rows (rows x scores).

        The result for a row depends only on that row and that model, to the last bit.
        """

    def settle(self, values: Any, rows: Ints, models: Ints) -> Ints:
        """Return the votes of models on rows, computed from the arrays alone."""
        ballots = np.empty(len(rows), dtype=np.int64)
        for model in np.unique(models):
            mine = models == model
            scores = self.settled_scores(values, rows[mine], int(model))
            if scores.shape[1] == 1:
                winners = (scores[:, 0] > 0).astype(np.int64)
            else:
                winners = scores.argmax(axis=1)
            ballots[mine] = self.labels[model, winners]
        return ballots

    @property
    def _averages(self) -> bool:
        """Whether scores are probabilities already."""
        return False

    def probability_sums(self, encoded: Encoded, n_classes: int) -> tuple[Ints, Doubts]:
        """Add up class probabilities in whole steps, except doubtful ones.

        Returns
        -------
        sums : ndarray of int of shape (n_rows, n_classes)
            Sums over the models that are not in doubt about the row.
        doubts : (ndarray of int, ndarray of int)
            Rows and models that were not counted.
        """
        sums = np.zeros((encoded.values.shape[0], n_classes), dtype=np.int64)
        doubts = []
        with np.errstate(all="ignore"):
            for start, scores, errors in self.scored(encoded):
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
    ) -> tuple[Ints, Doubts]:
        """Add up clipped outputs in whole steps, except doubtful ones.

        Returns
        -------
        sums : ndarray of int of shape (n_rows,)
            Sums over the models that are not in doubt about the row.
        doubts : (ndarray of int, ndarray of int)
            Rows and models that were not counted.
        """
        sums = np.zeros(encoded.values.shape[0], dtype=np.int64)
        doubts = []
        with np.errstate(all="ignore"):
            for start, scores, errors in self.scored(encoded):
                steps, sure = sure_output_steps(scores[..., 0], errors, bounds)
                kept = steps if sure.all() else steps * sure
                sums[start : start + len(steps)] = kept.sum(axis=1)
                doubts.append((start, sure))
        return sums, found_doubts(doubts)

    def settle_probabilities(
        self, values: Any, rows: Ints, model: int, n_classes: int
    ) -> Ints:
        """Return one model's probabilities in steps, computed from the arrays alone."""
        scores = self.settled_scores(values, rows, model)
        one = slice(model, model + 1)
        given = self._aligned(np.ascontiguousarray(scores[:, None]), n_classes, one)
        return probability_steps(given[:, 0])

    def settle_outputs(
        self, values: Any, rows: Ints, model: int, bounds: tuple[float, float]
    ) -> Ints:
        """Return one model's outputs in steps, computed from the arrays alone."""
        scores = self.settled_scores(values, rows, model)
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
        self, scores: Floats, n_classes: int, some: slice = slice(None)
    ) -> Floats:
        """Return the probabilities of public labels from the scores of some models."""
        labels = self.labels[some]
        models, columns = np.nonzero(labels != NO_BALLOT)
        given = scores if self._averages else _probabilities(scores)
        aligned = np.zeros((len(given), len(labels), n_classes))
        aligned[:, models, labels[models, columns]] = given[:, models, columns]
        return aligned


def found_doubts(chunks: list[tuple[int, Bools]]) -> Doubts:
    """Return rows and models that are not sure in some chunk (rows x models)."""
    rows, models = [np.arange(0)], [np.arange(0)]
    for start, sure in chunks:
        if not sure.all():
            unsure_rows, unsure_models = np.nonzero(~sure)
            rows.append(unsure_rows + start)
            models.append(unsure_models)
    return np.concatenate(rows), np.concatenate(models)


def _kept(steps: Ints, sure: Bools) -> Ints:
    return steps if sure.all() else steps * sure[..., None]


def _probabilities(scores: Floats) -> Floats:
    if scores.shape[2] == 1:
        second = expit(scores[..., 0])
        return np.stack([1 - second, second], axis=-1)
    return np.asarray(softmax(scores, axis=-1))
