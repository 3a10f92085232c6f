"""What ensembles have in common once their models are arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from reticent.ensembles.labels import NO_BALLOT

#: Pairs of row and model whose vote is left to the model.
Doubts = tuple[NDArray[np.int64], NDArray[np.int64]]


class Scored(Protocol):
    """An ensemble that scores rows, in chunks."""

    shards: NDArray[np.int64]
    labels: NDArray[np.int64]

    def scores(self, values: Any) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield the scores (rows x models x scores) of chunk after chunk of rows."""
        ...


class Fused:
    """Probabilities from scores, and arrays for storage without pickle.

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

    def probabilities(
        self, values: Any, n_classes: int
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield class probabilities (rows x models x labels), chunk after chunk."""
        ensemble = cast("Scored", self)
        labels, n_models = ensemble.labels, len(ensemble.shards)
        models, columns = np.nonzero(labels != NO_BALLOT)
        for start, scores in ensemble.scores(values):
            given = scores if self._averages else _probabilities(scores)
            aligned = np.zeros((len(given), n_models, n_classes))
            aligned[:, models, labels[models, columns]] = given[:, models, columns]
            yield start, aligned

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


def _probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    if scores.shape[2] == 1:
        second = expit(scores[..., 0])
        return np.stack([1 - second, second], axis=-1)
    return np.asarray(softmax(scores, axis=-1))
