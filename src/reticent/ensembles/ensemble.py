"""Votes and averages over the models of all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from reticent._arrays import Ints
from reticent._sklearn import MatrixLike
from reticent.ensembles.fusion.base import Doubts
from reticent.ensembles.fusion.encoding import Encoded
from reticent.ensembles.fusion.fusion import FusedModels, Fusion, fuse
from reticent.ensembles.model_answers import (
    model_ballots,
    model_outputs,
    model_probabilities,
    n_rows,
)
from reticent.ensembles.output_steps import output_steps, probability_steps
from reticent.errors import InvalidParameterError
from reticent.estimators import NO_BALLOT, Columns, Labels, check_bounds, fixed_ballots

# Answers of this many models per worker are held at once before they are added up.
_ANSWERS_PER_WORKER = 8

#: Models as arrays, with the batch as they read it.
_Answering: TypeAlias = list[tuple[Fusion, Encoded]]
#: Answers of one of these models from encoded rows, some of them.
_Settle: TypeAlias = Callable[[FusedModels, Any, Ints, int], Ints]


class _Ensemble:
    """The base of voting and averaging ensembles.

    Fitted models, votes and averages are as secret as the records; the rooms that use
    them add noise.
    """

    def __init__(
        self,
        models: Sequence[Any],
        columns: Columns,
        *,
        labels: Labels | None,
        fusion: Fusion | None,
        only_arrays: bool,
        frozen: bool,
        n_jobs: int | None,
    ) -> None:
        self.models = tuple(models)
        self.n_shards = len(self.models)  # failed ones included; public
        self.columns = columns
        self.frozen = frozen
        self.n_jobs = n_jobs
        #: What failed shards raised while they were trained, for the curator only.
        self.failures: dict[int, str] = {}
        if fusion is not None:
            only_arrays = all(self.models[shard] is None for shard in fusion.shards)
        self._only_arrays = only_arrays
        groups = () if fusion or only_arrays else fuse(self.models, labels)
        #: The largest group of models as arrays; None if no model is.
        self.fusion = groups[0] if groups else fusion
        self._other_fusions = groups[1:]
        self._unfused_known: dict[tuple[bool, ...], tuple[Ints, Ints]] = {}

    def _fusions(self) -> tuple[Fusion, ...]:
        return () if self.fusion is None else (self.fusion, *self._other_fusions)

    def _encoded(
        self, X: MatrixLike, fused: bool, *, probabilities: bool = False
    ) -> _Answering:
        """Encode a batch for the arrays; models of none of them are asked one by one.

        Whether a shard answers through arrays depends on how the ensemble was made, on
        the batch, and on the shard's own model, never on the models of others. Models
        that exist only as arrays answer every batch, and so do shards without a model:
        nobody may see which shards could be trained.
        """
        fusions = self._fusions()
        if probabilities and not all(f.models.gives_probabilities for f in fusions):
            fused = False  # by their kind, which all models share
        if self._only_arrays:
            if not fused:
                raise InvalidParameterError(
                    "these models are held as arrays only: they answer with fused=True."
                )
            return [(fusion, fusion.encode(X)) for fusion in fusions]
        suited = [fusion for fusion in fusions if fused and fusion.suits(X)]
        encoded = [(fusion, fusion.encode(X)) for fusion in suited]
        return [pair for pair in encoded if pair[0].reproduces_models(pair[1])]

    def _unfused(self, answering: _Answering) -> tuple[Ints, Ints]:
        """Return the shards without a model, and those to be asked one by one.

        Remembered: counting them each time took a tenth of a draw.
        """
        used = [fusion for fusion, _ in answering]
        key = tuple(fusion in used for fusion in self._fusions())
        if key not in self._unfused_known:
            others = np.ones(self.n_shards, dtype=bool)
            for fusion in used:
                others[fusion.shards] = False
            shards = np.flatnonzero(others)
            failed = np.array([self.models[s] is None for s in shards], dtype=bool)
            self._unfused_known[key] = shards[failed], shards[~failed]
        return self._unfused_known[key]

    def _settled_doubts(
        self,
        fusion: Fusion,
        encoded: Encoded,
        doubts: Doubts,
        ask: Callable[[int], Ints],
        settle: _Settle,
    ) -> Iterator[tuple[Ints, Ints]]:
        """Yield doubtful rows of the batch with the answer of the model in question.

        Models are asked about the whole batch: the last bits of a product may depend on
        the number of rows. Models that exist only as arrays decide row by row.
        """
        rows, places = doubts
        for place in np.unique(places):
            mine = rows[places == place]
            asked = encoded.rows[mine]
            if self._only_arrays:
                yield asked, settle(fusion.models, encoded.values, mine, int(place))
            else:
                yield asked, ask(int(fusion.shards[place]))[asked]

    def _each(
        self, ask: Callable[[int], NDArray[Any]], shards: Iterable[Any]
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield shards with the answers of their models, asked in parallel."""
        todo = [int(shard) for shard in shards]
        if self.n_jobs in (None, 1):
            yield from ((shard, ask(shard)) for shard in todo)
            return
        workers = Parallel(n_jobs=self.n_jobs, require="sharedmem")
        size = _ANSWERS_PER_WORKER * abs(self.n_jobs)
        for start in range(0, len(todo), size):
            group = todo[start : start + size]
            answers = workers(delayed(ask)(shard) for shard in group)
            yield from zip(group, answers, strict=True)

    def _add_steps(
        self,
        sums: Ints,
        answering: _Answering,
        ask: Callable[[int], Ints],
        unsaid: Ints,
        add_up: Callable[[FusedModels, Encoded], tuple[Ints, Doubts]],
        settle: _Settle,
    ) -> Ints:
        """Add the answers of all shards in whole steps.

        `unsaid` is what a shard adds whose model is missing or refuses the row.
        """
        for fusion, encoded in answering:
            given, doubts = add_up(fusion.models, encoded)
            refused = np.ones(len(sums), dtype=bool)
            refused[encoded.rows] = False
            sums[refused] += len(fusion.shards) * unsaid
            sums[encoded.rows] += given
            for rows, steps in self._settled_doubts(
                fusion, encoded, doubts, ask, settle
            ):
                sums[rows] += steps
        failed, others = self._unfused(answering)
        sums += len(failed) * unsaid
        for _, steps in self._each(ask, others):
            sums += steps
        return sums


class ClassifierEnsemble(_Ensemble):
    """The classifiers of all shards.

    Parameters
    ----------
    models : sequence
        One fitted classifier per shard, None where fitting failed.
    columns : Columns
        The columns they were fitted on.
    classes : array-like
        The public labels.
    fusion : Fusion, default=None
        The models as arrays. None fuses them if their kind allows it.
    only_arrays : bool, default=False
        Whether models, were there any, would be held as arrays only.
    frozen : bool, default=False
        Whether parts of what was trained came already fitted.
    n_jobs : int, default=None
        Threads that ask models which are not fused, as in joblib.

    Guarantee
    ---------
    Every shard casts exactly one vote on every row, and its vote depends on its own
    model only. Where the model is missing, raises or answers with a label that is
    not public, the vote is the fixed one: shard ``s`` votes for label ``s mod K``. So
    a change of one model moves at most one vote from one label to another, and
    no error or warning depends on a model. Votes are the same whether fused or not.
    """

    def __init__(
        self,
        models: Sequence[Any],
        columns: Columns,
        classes: Any,
        *,
        fusion: Fusion | None = None,
        only_arrays: bool = False,
        frozen: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.labels = Labels(classes)
        self._n_classes = len(self.labels.classes)
        self._fixed = fixed_ballots(len(models), self._n_classes)
        super().__init__(
            models,
            columns,
            labels=self.labels,
            fusion=fusion,
            only_arrays=only_arrays,
            frozen=frozen,
            n_jobs=n_jobs,
        )

    def votes(self, X: MatrixLike, *, fused: bool = True) -> Ints:
        """Count the shards that vote for each label.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_rows, n_features)
            The queries.
        fused : bool, default=True
            Whether to answer through arrays where that is possible.

        Returns
        -------
        ndarray of int of shape (n_rows, n_classes)
            Votes, `n_shards` in each row.
        """
        X = self.columns.read(X)
        counts = np.zeros((n_rows(X), self._n_classes), dtype=np.int64)
        answering = self._encoded(X, fused)
        for fusion, encoded in answering:
            self._add_tally(counts, X, fusion, encoded)
        failed, others = self._unfused(answering)
        counts += self._fixed_counts(failed)
        if len(others):
            self._add_ballots(counts, X, others)
        return counts

    def _add_tally(
        self, counts: Ints, X: MatrixLike, fusion: Fusion, encoded: Encoded
    ) -> None:
        """Add the votes of all models of a group."""
        tally, doubts = fusion.models.tally(encoded, self._n_classes)
        if len(tally) == len(counts):
            counts += tally
        else:
            refused = np.ones(len(counts), dtype=bool)
            refused[encoded.rows] = False
            counts[encoded.rows] += tally
            counts[refused] += self._fixed_counts(fusion.shards)
        if len(doubts[0]):
            for rows, ballots in self._settled_doubts(
                fusion,
                encoded,
                doubts,
                lambda shard: self._ballots(shard, X),
                lambda models, values, own, place: models.settle(
                    values, own, np.full(len(own), place)
                ),
            ):
                counts[rows, ballots] += 1

    def probability_sums(self, X: MatrixLike, *, fused: bool = True) -> Ints:
        """Add up the class probabilities of all shards, in whole steps.

        Parameters
        ----------
        X, fused
            As for `ClassifierEnsemble.votes`.

        Returns
        -------
        ndarray of int of shape (n_rows, n_classes)
            Sums that add up to ``n_shards * OUTPUT_STEPS`` in each row.

        Guarantee
        ---------
        Each shard adds a point of the simplex, the uniform one where its model
        fails, that depends on its own model only: a change of one model moves the
        sums by at most ``2 * OUTPUT_STEPS`` in l1 norm. Sums of whole numbers do not
        depend on their order. They are the same whether fused or not.
        """
        X = self.columns.read(X)
        n_classes = self._n_classes

        def ask(shard: int) -> Ints:
            given = model_probabilities(self.models[shard], X, self.labels)
            return probability_steps(given)

        return self._add_steps(
            np.zeros((n_rows(X), n_classes), dtype=np.int64),
            self._encoded(X, fused, probabilities=True),
            ask,
            probability_steps(np.full(n_classes, np.nan)),
            lambda models, encoded: models.probability_sums(encoded, n_classes),
            lambda models, *rows: models.settle_probabilities(*rows, n_classes),
        )

    def _fixed_counts(self, shards: Ints) -> Ints:
        return np.bincount(self._fixed[shards], minlength=self._n_classes)

    def _ballots(self, shard: int, X: MatrixLike) -> Ints:
        ballots = model_ballots(self.models[shard], X, self.labels)
        return np.where(ballots == NO_BALLOT, self._fixed[shard], ballots)

    def _add_ballots(self, counts: Ints, X: MatrixLike, shards: Iterable[Any]) -> None:
        everyone = np.arange(len(counts))
        for _, ballots in self._each(lambda shard: self._ballots(shard, X), shards):
            counts[everyone, ballots] += 1


class RegressorEnsemble(_Ensemble):
    """The regressors of all shards, with outputs clipped to public bounds.

    Parameters
    ----------
    bounds : (float, float)
        Public bounds on the outputs.
    models, columns, fusion, only_arrays, frozen, n_jobs
        As for `ClassifierEnsemble`.
    """

    def __init__(
        self,
        models: Sequence[Any],
        columns: Columns,
        bounds: tuple[float, float],
        *,
        fusion: Fusion | None = None,
        only_arrays: bool = False,
        frozen: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.bounds = check_bounds(bounds)
        super().__init__(
            models,
            columns,
            labels=None,
            fusion=fusion,
            only_arrays=only_arrays,
            frozen=frozen,
            n_jobs=n_jobs,
        )

    def output_sums(self, X: MatrixLike, *, fused: bool = True) -> Ints:
        """Add up the clipped outputs of all shards, in steps of the public range.

        Parameters
        ----------
        X, fused
            As for `ClassifierEnsemble.votes`.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            Sums between 0 and ``n_shards * OUTPUT_STEPS``. The average output is
            ``low + (high - low) * sums / (n_shards * OUTPUT_STEPS)``.

        Guarantee
        ---------
        Each shard adds between 0 and ``OUTPUT_STEPS``, half of it where its model
        fails, and this depends on its own model only: a change of one model moves a sum
        by at most ``OUTPUT_STEPS``. Sums of whole numbers do not depend on their order.
        They are the same whether fused or not.
        """
        X = self.columns.read(X)

        def ask(shard: int) -> Ints:
            return output_steps(model_outputs(self.models[shard], X), self.bounds)

        return self._add_steps(
            np.zeros(n_rows(X), dtype=np.int64),
            self._encoded(X, fused),
            ask,
            output_steps(np.array(np.nan), self.bounds),
            lambda models, encoded: models.output_sums(encoded, self.bounds),
            lambda models, *rows: models.settle_outputs(*rows, self.bounds),
        )
