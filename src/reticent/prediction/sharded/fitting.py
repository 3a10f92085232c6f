"""Fitting predictors over shards, on tables in memory or in batches."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length

from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import (
    RowSpool,
    Task,
    check_base_estimator,
    train_ensemble,
    train_ensemble_spooled,
)
from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    ReticentError,
    ShardFailureWarning,
)
from reticent.estimators import (
    Labels,
    Partition,
    UnitIds,
    checked_labels,
    checked_targets,
    partition_rows,
    unit_positions,
)
from reticent.mechanisms import RandomSource, noise_source
from reticent.prediction.law import LawfulPredictor, blank_of
from reticent.prediction.sharded.accepted_cells import (
    takes_missing,
    takes_numbers_only,
)
from reticent.prediction.sharded.base import (
    ShardLaw,
    TableForm,
    TrainedShards,
    checked_table,
)
from reticent.prediction.sharded.counts import ShardChoice, choose_shards
from reticent.prediction.sharded.expectation import Expectation


class ShardedPredictor(LawfulPredictor, ABC):
    """A predictor that trains one model per shard.

    Subclasses set the constructor parameters `estimator`, `epsilon`, `n_shards`,
    `public_types`, `random_state`, `n_jobs` and `verbose`. They say what is predicted
    (`_task`, `_targets`), check the parameters of answers before anything is trained
    (`_plan`), and make the law (`_law`).

    Guarantee
    ---------
    What a shard's model is, and what it says to a query, is a function of the shard's
    rows and of public facts, to the bit. Public are the parameters, the number of
    rows and units, the kind of container (array, sparse matrix, frame of pandas or
    polars), the number of columns, their names and order; types are read off each
    shard's own cells (`reticent.estimators.tables`). Whether a query is refused is a
    function of the query and of public facts.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "classes": ["array-like", None],
        "n_shards": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "public_types": ["boolean"],
        "verbose": ["verbose"],
    }

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Train one model per shard and issue the certificate; nothing is released.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
            The sensitive rows, in whatever form the base pipeline takes.
        y : array-like of shape (n_rows,)
            Their labels, or their targets, which are clipped to the bounds.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to: all rows of a unit
            are protected together. None makes every row a unit.
        """
        check_base_estimator(self.estimator, "predict")
        X = self._rows(X, reset=True)
        task, targets = self._targets(y)
        check_consistent_length(X, targets)
        _, n_units = unit_positions(units, X.shape[0])
        source = noise_source(self.random_state)
        plan = self._plan(task, n_units, source)
        choice = self._choose(n_units, task, plan)
        partition = self._deal(X, units, choice.n_shards, source)
        # As secret as the rows: it says which of them were trained on together.
        self.shard_of_row_ = partition.shard_of_row
        ensemble = train_ensemble(
            self.estimator,
            X,
            targets,
            partition,
            source,
            task,
            public_types=bool(self.public_types),
            n_jobs=self.n_jobs,
            verbose=bool(self.verbose),
        )
        return self._finish(ensemble, partition.n_units, source, task, plan, choice)

    @fit_context(prefer_skip_nested_validation=False)
    def fit_batches(
        self,
        batches: Iterable[tuple[Any, ...]],
        scratch: str | PathLike[str] | None = None,
    ) -> Self:
        """Train as `fit` does, on a table that need not fit in memory.

        Rows pass through temporary files, once as they arrive and once sorted by
        shard; then shards are read and trained one after the other. Memory holds one
        batch, some shards, the models and, while units are dealt, 16 bytes per unit
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
        check_base_estimator(self.estimator, "predict")
        task = self._task()
        with RowSpool(scratch) as spool:
            for number, batch in enumerate(batches, start=1):
                self._spool(spool, batch, number, task)
            if not spool.n_rows:
                raise InvalidDataError("there are no rows. Give at least one batch.")
            source = noise_source(self.random_state)
            plan = self._plan(task, spool.n_units, source)
            choice = self._choose(spool.n_units, task, plan)
            rows = spool.deal(choice.n_shards, source)
            ensemble = train_ensemble_spooled(
                self.estimator,
                rows,
                source,
                task,
                n_jobs=self.n_jobs,
                verbose=bool(self.verbose),
            )
        return self._finish(ensemble, rows.n_units, source, task, plan, choice)

    @classmethod
    def from_law(cls, law: ShardLaw) -> Self:
        """Return the fitted predictor that answers by a law.

        It answers as the predictor whose `fit` made the law. A law does not hold what
        was needed for training alone, so all constructor parameters are None.
        """
        model = object.__new__(cls)
        model.__dict__.update(dict.fromkeys(cls._get_param_names()))
        model.__dict__.update(vars(law.form.blank))
        model._adopt(law, ShardChoice(law.n_shards, "as the law has it"))
        model.shard_errors_ = {}
        return model

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
            targets = _numbers(task, y)
            check_consistent_length(X, targets)
        except ReticentError:
            raise
        except ValueError as error:
            raise InvalidDataError(f"batch {number}: {error}") from None
        spool.append(X, targets, units[0] if units else None)

    def _deal(
        self, X: MatrixLike, units: UnitIds, n_shards: int, source: RandomSource
    ) -> Partition:
        """Deal the units of `X` to shards, by position alone."""
        return partition_rows(X.shape[0], n_shards, source, units=units)

    def _choose(self, n_units: int, task: Task, plan: Any) -> ShardChoice:
        """Choose the number of shards, and warn if it leaves answers near chance."""
        labels = len(task.classes) if isinstance(task, Labels) else 1
        choice = self._counted(n_units, labels, plan)
        self.expectation_ = Expectation.of(
            lambda shards: self._best_answer(plan, shards, labels),
            shards=choice.n_shards,
            labels=labels,
        )
        self.expectation_.warn(self.epsilon, n_units)
        return choice

    def _counted(self, n_units: int, n_labels: int, plan: Any) -> ShardChoice:
        return choose_shards(
            self.n_shards,
            n_units=n_units,
            n_labels=n_labels,
            epsilon=self.epsilon,
            estimator=self.estimator,
        )

    def _rows(self, X: MatrixLike, *, reset: bool) -> MatrixLike:
        """Check the shape of rows; leave their content to the base pipeline.

        Numbers in arrays must be finite unless the base estimator takes missing
        values; what is inside a data frame is for its pipeline to judge.
        """
        return checked_table(
            self,
            X,
            takes_missing(self.estimator),
            public_types=bool(self.public_types),
            reset=reset,
        )

    def _finish(
        self,
        ensemble: Any,
        n_units: int,
        source: RandomSource,
        task: Task,
        plan: Any,
        choice: ShardChoice,
    ) -> Self:
        """Make the law of what was trained, with its certificate."""
        labels = task if isinstance(task, Labels) else None
        trained = TrainedShards(
            ensemble=ensemble,
            n_units=n_units,
            source=source,
            form=TableForm(
                blank_of(self),
                takes_missing(self.estimator),
                takes_numbers_only(self.estimator) and not self.public_types,
            ),
            classes=None if labels is None else labels.classes,
            labels_from_data=labels is not None and self.classes is None,
            frozen=ensemble.frozen,
        )
        self._adopt(self._law(trained, plan), choice)
        self.shard_errors_ = dict(ensemble.failures)
        _warn_of_failures(self.shard_errors_, choice.n_shards)
        return self

    def _adopt(self, law: ShardLaw, choice: ShardChoice) -> None:
        """Take a law as the fitted state."""
        relation: Any = law.certificate.relation
        self.law_ = law
        self.ensemble_ = law.ensemble
        self.n_units_ = relation.n
        self.n_shards_ = choice.n_shards
        self.shard_choice_ = choice
        if law.classes is not None:
            self.classes_ = law.classes

    @abstractmethod
    def _task(self) -> Task:
        """Return the declared labels, or the bounds."""

    @abstractmethod
    def _targets(self, y: Any) -> tuple[Task, NDArray[Any]]:
        """Return labels or bounds, and what to learn: places of labels, or numbers."""

    @abstractmethod
    def _plan(self, task: Task, n_units: int, source: RandomSource) -> Any:
        """Settle how answers are drawn: a mistake must not cost a run of training."""

    @abstractmethod
    def _best_answer(self, plan: Any, shards: int, labels: int) -> float:
        """Return `Expectation.best` for a number of shards."""

    @abstractmethod
    def _law(self, trained: TrainedShards, plan: Any) -> ShardLaw:
        """Return the law of answers from trained models."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every answer draws fresh noise
        # A blank, which checks the columns of queries, has no estimator.
        tags.input_tags.allow_nan = takes_missing(getattr(self, "estimator", None))
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags


class ShardedClassifier(ClassifierMixin, ShardedPredictor):
    """A predictor over shards that answers with labels; sets `classes` too."""

    def _task(self) -> Labels:
        if self.classes is None:
            raise InvalidParameterError(
                "classes=None would have to be read from all batches. Declare the "
                "public labels with classes=[...]."
            )
        return checked_labels(self.classes, np.asarray(self.classes))[0]

    def _targets(self, y: Any) -> tuple[Task, NDArray[Any]]:
        labels, values = checked_labels(self.classes, y)
        return labels, labels.indices(values)


def _warn_of_failures(errors: dict[int, str], n_shards: int) -> None:
    """Tell the curator that at least half of the shards have no model.

    Kinds of errors are named, not their messages: those may quote a record.
    """
    if 2 * len(errors) < n_shards:
        return
    kinds = Counter(reason.split(":")[0] for reason in errors.values())
    named = ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common(3))
    warnings.warn(
        ShardFailureWarning(
            f"{len(errors)} of {n_shards} shards could not be trained: {named}. They "
            "cast fixed votes, so answers say little. shard_errors_ has the "
            "messages, for you only: they may quote records. Fewer shards leave each "
            "more rows."
        ),
        stacklevel=6,
    )


def _numbers(task: Task, y: Any) -> NDArray[np.float64]:
    """Return what to learn from a batch, as numbers that a file holds."""
    if isinstance(task, Labels):
        _, values = checked_labels(task.classes, y)
        return task.indices(values).astype(np.float64)
    return np.clip(checked_targets(y), *task)
