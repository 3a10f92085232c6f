"""Fitting predictors over shards on tables that arrive in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from reticent._sklearn import fit_context
from reticent.ensembles import RowSpool
from reticent.errors import InvalidDataError, InvalidParameterError, ReticentError
from reticent.estimators import Labels, checked_labels, checked_targets
from reticent.mechanisms import RandomSource, noise_source
from reticent.prediction.sharded.base import ShardedPredictor
from reticent.prediction.sharded.counts import ShardChoice
from reticent.prediction.sharded.training import Task, ensemble_of_spooled


class BatchFitting(ShardedPredictor, ABC):
    """Adds `fit_batches` to a predictor over shards.

    Subclasses say what is predicted (`_task`), how strong one answer's noise is
    (`_strength`), and how a trained ensemble becomes the fitted state (`_finish`).
    """

    @fit_context(prefer_skip_nested_validation=False)
    def fit_batches(
        self,
        batches: Iterable[tuple[Any, ...]],
        scratch: str | PathLike[str] | None = None,
    ) -> Self:
        """Train as `fit` does, on a table that need not fit in memory.

        Rows pass through temporary files, once as they arrive and once sorted by
        shard; then shards are read and trained one after the other. Memory holds one
        batch, some shards, the models and, while units are dealt, 16 bytes a unit
        (and the ids themselves, if there are any).

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, units)
            Matrices of numbers with their labels or targets, and the ids of their
            rows' units if rows are not units of their own. Read once. See
            `reticent.schemas.read_batches` and `Encoder` for files.
        scratch : path, default=None
            A folder on a disk with room for twice the rows; None is the system's
            folder for temporary files. The rows lie there in files that have no name
            and vanish with the process, but unencrypted.

        Guarantee
        ---------
        That of `fit`: with the same rows, in the same order, and the same
        randomness, all models are the same to the last bit.
        """
        task = self._task()
        with RowSpool(scratch) as spool:
            for number, batch in enumerate(batches, start=1):
                self._spool(spool, batch, number, task)
            if not spool.n_rows:
                raise InvalidDataError("there are no rows. Give at least one batch.")
            source = noise_source(self.random_state)
            n_labels = len(task) if isinstance(task, Labels) else 1
            choice = self._choose(spool.n_units, n_labels, self._strength(task))
            rows = spool.deal(choice.n_shards, source)
            ensemble = ensemble_of_spooled(self, rows, source, task)
        self._finish(ensemble, task, rows.n_units, choice, source)
        return self

    def _spool(self, spool: RowSpool, batch: Any, number: int, task: Task) -> None:
        if not (isinstance(batch, tuple) and len(batch) in (2, 3)):
            raise InvalidDataError(
                f"batch {number} must be a tuple (X, y) or (X, y, units); got "
                f"{type(batch).__name__}."
            )
        X, y, *units = batch
        if not (isinstance(X, np.ndarray) and X.dtype.kind in "biuf"):
            raise InvalidDataError(
                f"batch {number} needs a matrix of numbers; got {type(X).__name__}. "
                "Encode rows with Encoder(schema).transform, or fit in memory."
            )
        try:
            X = self._rows(X, reset=number == 1)
            goals = _goals(task, y)
            check_consistent_length(X, goals)
        except ReticentError:
            raise
        except ValueError as error:
            raise InvalidDataError(f"batch {number}: {error}") from None
        spool.append(X, goals, units[0] if units else None)

    @abstractmethod
    def _task(self) -> Task:
        """Return the public labels, or bounds, once all parameters are checked."""

    @abstractmethod
    def _strength(self, task: Task) -> float:
        """Return the epsilon that the noise of one answer is comparable to."""

    @abstractmethod
    def _finish(
        self,
        ensemble: Any,
        task: Task,
        n_units: int,
        choice: ShardChoice,
        source: RandomSource,
    ) -> None:
        """Keep the ensemble and issue the certificate."""


def declared_labels(classes: Any) -> Labels:
    """Return the public labels, which batches cannot be asked for in advance."""
    if classes is None:
        raise InvalidParameterError(
            "classes=None would have to be read from all batches. Declare the public "
            "labels with classes=[...]."
        )
    return checked_labels(classes, np.asarray(classes))[0]


def _goals(task: Task, y: Any) -> NDArray[np.float64]:
    if isinstance(task, Labels):
        _, values = checked_labels(task.classes, y)
        return task.indices(values).astype(np.float64)
    return np.clip(checked_targets(y), *task)
