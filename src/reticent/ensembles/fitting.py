"""Fits one clone of the base estimator per shard, in parallel."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from reticent._arrays import Ints
from reticent._sklearn import MatrixLike, check_parameters, safe_indexing
from reticent.ensembles.model_answers import n_rows
from reticent.ensembles.process_generators import own_generators
from reticent.ensembles.spool import DealtRows
from reticent.ensembles.suppressed_output import (
    must_pass,
    without_streams,
    without_warnings,
)
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import (
    Columns,
    Partition,
    as_table,
    canonical_table,
    check_column_types,
    with_progress,
)
from reticent.mechanisms import RandomSource

# scikit-learn takes seeds below 2^32; other libraries read them as signed 32 bits.
_SEED_BOUND = np.uint64(2**31 - 1)

# How often fitting starts again without a single fitted shard in between: losing all
# workers three times in a row is not bad luck.
_ATTEMPTS = 3

# Shards per worker in one round, for backends that return results only at the end of a
# call: enough to keep all workers busy.
_ROUND = 8


@dataclass(frozen=True, slots=True, eq=False)
class FittedShards:
    """One fitted model per shard; everything in here is as secret as the records."""

    models: tuple[Any, ...]  #: the fitted clones, None where fitting failed
    #: What the failed shards raised, for the curator only: whether a shard fails may
    #: depend on one record.
    failures: Mapping[int, str]
    columns: Columns  #: the columns of the rows; public


def check_base_estimator(estimator: Any, *methods: str) -> None:
    """Refuse an estimator that could not be fitted on any records.

    Later failures are suppressed, because they may depend on a record. So mistakes that
    do not are found here: an object that is not an estimator, a class instead of an
    object, a missing method, a parameter outside its documented range.

    Parameters
    ----------
    estimator : object
        The unfitted base estimator or pipeline.
    *methods : str
        Methods that it must have besides `fit`.

    Raises
    ------
    InvalidParameterError
        With the reason, which never depends on records.
    """
    if inspect.isclass(estimator):
        raise InvalidParameterError(
            f"estimator={estimator.__name__} is a class. Pass an object: "
            f"{estimator.__name__}()."
        )
    for method in ("fit", *methods):
        if not callable(getattr(estimator, method, None)):
            raise InvalidParameterError(
                f"estimator={type(estimator).__name__}(...) has no method {method}. "
                "Pass a scikit-learn estimator or pipeline that has it."
            )
    try:
        clone(estimator, safe=False)
        check_parameters(estimator)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidParameterError(
            f"estimator={type(estimator).__name__}(...) cannot be fitted: {error}"
        ) from error


def fit_shards(
    estimator: Any,
    X: MatrixLike,
    y: Any,
    partition: Partition,
    source: RandomSource,
    *,
    public_types: bool = False,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> FittedShards:
    """Fit one clone of `estimator` on the rows of each shard.

    Shards are independent joblib tasks: ``joblib.parallel_config`` chooses processes,
    threads, Dask, Ray or Spark. Threads share the generators of `numpy.random` and
    `random`, so estimators that may draw from them take turns there.

    Parameters
    ----------
    estimator : object
        The base estimator or pipeline, unfitted; it is cloned, never changed.
    X : array, sparse matrix or data frame of shape (n_rows, n_features)
        The rows. Each shard sees its own in canonical form: numbers as float64, and
        columns with other cells as text or objects.
    y : array-like of shape (n_rows,)
        The labels or targets; their type is public.
    partition : Partition
        The shard of each row.
    source : RandomSource
        The source of the seeds of randomised base estimators.
    public_types : bool, default=False
        Whether types that cells do not show, such as categories with their levels, are
        public. If so they are kept, otherwise refused.
    n_jobs : int, default=None
        As in joblib.
    verbose : bool, default=False
        Whether to show a progress bar, if standard error is a terminal.

    Returns
    -------
    FittedShards
        The models, in the order of the shards.

    Guarantee
    ---------
    The model of a shard is a function of that shard's rows, of its own seeds and of
    public facts (the estimator, the container, names and order of columns). Every
    ``random_state`` parameter left None is set to a number drawn from `source` for
    this shard before any record is read. If the estimator may draw from the generators
    of the process (`numpy.random` and `random`), those are seeded with the number of
    the shard, and put back afterwards. An exception while a shard is fitted ends only
    that shard's fit; warnings and output are suppressed. If a worker dies, its shards
    are fitted again from the same rows and seeds. For base estimators that draw from
    any other generator, this holds in distribution, but a seed does not make them
    reproducible.
    """
    check_base_estimator(estimator)
    X = as_table(X)
    check_column_types(X, public_types=public_types)
    targets = np.asarray(y)
    if not n_rows(X) == len(targets) == len(partition.shard_of_row):
        raise InvalidDataError(
            f"X has {n_rows(X)} rows and y {len(targets)}; the partition deals "
            f"{len(partition.shard_of_row)}."
        )
    rows = partition.rows_by_shard()
    fitted = _fit_each(
        estimator,
        lambda shard: (
            canonical_table(safe_indexing(X, rows[shard]), public_types=public_types),
            targets[rows[shard]],
        ),
        partition.n_shards,
        source,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    return _collected(fitted, Columns.of(X, public_types=public_types))


def fit_spooled(
    estimator: Any,
    rows: DealtRows,
    source: RandomSource,
    *,
    labels: NDArray[Any] | None = None,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> FittedShards:
    """Fit one clone of `estimator` per shard on rows on disk.

    A shard is read when it is fitted, so that about two shards per worker are in memory
    at a time, besides the fitted models.

    Parameters
    ----------
    estimator, source, n_jobs, verbose
        As for `fit_shards`, whose guarantee holds here too.
    rows : DealtRows
        The rows by shard.
    labels : ndarray, default=None
        The public labels, if targets are places among them.
    """
    check_base_estimator(estimator)

    def shard_rows(shard: int) -> tuple[NDArray[Any], NDArray[Any]]:
        X, targets = rows.shard(shard)
        return canonical_table(X), targets if labels is None else labels[
            targets.astype(np.int64)
        ]

    fitted = _fit_each(
        estimator, shard_rows, rows.n_shards, source, n_jobs=n_jobs, verbose=verbose
    )
    return _collected(fitted, Columns(count=rows.n_columns, names=None))


def _fit_each(
    estimator: Any,
    shard_rows: Callable[[int], tuple[MatrixLike, NDArray[Any]]],
    n_shards: int,
    source: RandomSource,
    *,
    n_jobs: int | None,
    verbose: bool,
) -> list[tuple[Any, str | None]]:
    """Fit all shards; those lost with a dying worker are fitted again."""
    names = _unseeded_parameters(estimator)
    seeds = _draw_seeds(n_shards, len(names), source)
    fitted: list[tuple[Any, str | None]] = []

    def tasks() -> Iterator[Any]:
        for shard in range(len(fitted), n_shards):
            settings = dict(zip(names, seeds[shard].tolist(), strict=True))
            data = ShardData(*shard_rows(shard))
            yield delayed(_fit_one)(estimator, data, settings, shard)

    attempts = 0
    while len(fitted) < n_shards:
        done_before = len(fitted)
        shown = with_progress(
            tasks(),
            total=n_shards - done_before,
            label="fitting shards",
            stream=sys.stderr if verbose else None,
        )
        try:
            with without_streams, without_warnings, closing(_run(shown, n_jobs)) as run:
                for model in run:
                    fitted.append(model)
        except Exception:
            # Fits raise nothing, so workers were lost. Rows and seeds are still here,
            # so the missing shards are fitted again, with the same result.
            attempts = 1 if len(fitted) > done_before else attempts + 1
            if attempts >= _ATTEMPTS:
                raise
    return fitted


def _run(
    tasks: Iterator[Any], n_jobs: int | None
) -> Generator[tuple[Any, str | None], None, None]:
    """Yield results in the order of the tasks, early enough to be kept."""
    # A shard's rows are sent once, so memory-mapping them saves nothing, and a model
    # that keeps its rows would refer to a file that is soon deleted.
    settings: dict[str, Any] = {"n_jobs": n_jobs, "max_nbytes": None}
    backend, _ = get_active_backend()
    if backend.supports_return_generator:
        yield from Parallel(**settings, return_as="generator")(tasks)
        return
    # Ray's backend returns all results at the end, so it gets some shards at a time.
    size = _ROUND * effective_n_jobs(n_jobs)
    with Parallel(**settings) as workers:
        while some := list(islice(tasks, size)):
            yield from workers(some)


def _collected(fitted: list[tuple[Any, str | None]], columns: Columns) -> FittedShards:
    return FittedShards(
        models=tuple(model for model, _ in fitted),
        failures={shard: reason for shard, (_, reason) in enumerate(fitted) if reason},
        columns=columns,
    )


class ShardData:
    """A shard's rows and targets, as one argument of its task.

    Dask's backend moves large arrays to the memory of some worker before it runs the
    task; if that worker dies, the arrays and the task are lost. This object is not an
    array, so it stays with the task, which the scheduler keeps until there is a result.
    """

    __slots__ = ("X", "y")

    def __init__(self, X: MatrixLike, y: NDArray[Any]) -> None:
        self.X = X
        self.y = y


def _fit_one(
    estimator: Any, data: ShardData, settings: dict[str, int], shard: int
) -> tuple[Any, str | None]:
    with without_streams, without_warnings:
        model = clone(estimator, safe=False)
        if settings:
            model.set_params(**settings)
        try:
            with own_generators(model, shard):
                model.fit(data.X, data.y)
        except BaseException as error:  # (a failure may depend on one record)
            if must_pass(error):
                raise
            return None, f"{type(error).__name__}: {error}"
        return model, None


def _unseeded_parameters(estimator: Any) -> list[str]:
    """Return the names of the ``random_state`` parameters that are still None."""
    if not hasattr(estimator, "get_params"):
        return []
    return sorted(
        name
        for name, value in estimator.get_params(deep=True).items()
        if value is None and name.split("__")[-1] == "random_state"
    )


def _draw_seeds(n_shards: int, n_parameters: int, source: RandomSource) -> Ints:
    bounds = np.full(n_shards * n_parameters, _SEED_BOUND)
    return source.below(bounds).astype(np.int64).reshape(n_shards, n_parameters)
