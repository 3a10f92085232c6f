"""Answers of one model at a time; every fused path must agree with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent._sklearn import MatrixLike, safe_indexing
from reticent.ensembles.process_generators import own_generators
from reticent.ensembles.suppressed_output import must_pass, without_warnings
from reticent.estimators import NO_BALLOT, Labels, canonical_table, unshared_copy

Answer = TypeVar("Answer")
Number = TypeVar("Number", np.int64, np.float64)

# What a model draws while it predicts is the same for every model and every question.
_SEED_OF_ANSWERS = 0


def model_ballots(model: Any, X: MatrixLike, labels: Labels) -> Ints:
    """Return the label index that `model` predicts for each row.

    It is `NO_BALLOT` where the model raised, or answered with a label that is not
    public. Errors and warnings of the model are suppressed.
    """

    def ask(rows: MatrixLike) -> Ints:
        return labels.indices(_one_per_row(model.predict(rows), rows))

    empty = np.full(n_rows(X), NO_BALLOT, dtype=np.int64)
    return empty if model is None else _fill(model, empty, ask, X)


def model_outputs(model: Any, X: MatrixLike) -> Floats:
    """Return the number that `model` predicts for each row, NaN where it fails."""

    def ask(rows: MatrixLike) -> Floats:
        return _one_per_row(model.predict(rows), rows).astype(np.float64)

    empty = np.full(n_rows(X), np.nan)
    return empty if model is None else _fill(model, empty, ask, X)


def model_probabilities(model: Any, X: MatrixLike, labels: Labels) -> Floats:
    """Return the class probabilities of `model` in the order of the public labels.

    A label that the model has not seen has probability 0. Rows where the model fails
    are NaN.
    """

    def ask(rows: MatrixLike) -> Floats:
        given = np.asarray(model.predict_proba(rows), dtype=np.float64)
        place = labels.indices(getattr(model, "classes_", labels.classes))
        if given.shape != (n_rows(rows), len(place)) or (place == NO_BALLOT).any():
            raise ValueError("not one probability for each public label")
        aligned = np.zeros((len(given), len(labels)))
        aligned[:, place] = given
        return aligned

    empty = np.full((n_rows(X), len(labels)), np.nan)
    return empty if model is None else _fill(model, empty, ask, X)


def n_rows(X: MatrixLike) -> int:
    """Return the number of rows of anything that scikit-learn accepts as a matrix."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def _one_per_row(answers: Any, X: MatrixLike) -> NDArray[Any]:
    answers = np.asarray(answers)
    if answers.shape == (n_rows(X), 1):
        answers = answers[:, 0]
    if answers.shape != (n_rows(X),):
        raise ValueError("not one answer for each row")
    return answers


def by_halves(
    ask: Callable[[MatrixLike], Answer], X: MatrixLike
) -> Iterator[tuple[Ints, Answer]]:
    """Yield groups of rows with what `ask` returns for them; drop rows that raise.

    An exception on many rows may be due to one, so the two halves are asked again:
    whether a row is answered does not depend on other rows. `X` is in canonical form,
    and `ask` gets copies, so that neither the next model nor the caller sees what it
    writes to them.
    """
    everything = np.arange(n_rows(X))
    pending = [everything]
    with without_warnings:
        while pending:
            rows = pending.pop()
            whole = len(rows) == len(everything)
            batch = X if whole else _some_rows(X, rows)
            try:
                answer = ask(unshared_copy(batch))
            except BaseException as error:  # a failure must not be seen from outside
                if must_pass(error):
                    raise
                if len(rows) > 1:
                    pending += np.array_split(rows, 2)
                continue
            yield rows, answer


def _fill(
    model: Any,
    answers: NDArray[Number],
    ask: Callable[[MatrixLike], NDArray[Number]],
    X: MatrixLike,
) -> NDArray[Number]:
    with own_generators(model, _SEED_OF_ANSWERS):
        for rows, answer in by_halves(ask, X):
            answers[rows] = answer
    return answers


def _some_rows(X: MatrixLike, rows: Ints) -> Any:
    # Types that cells do not show were dropped before, or are public.
    return canonical_table(safe_indexing(X, rows), public_types=True)
