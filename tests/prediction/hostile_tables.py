"""Tables in which one shard keeps its rows and all others get the nastiest there are.

Every cell is a Python object until the last moment, so that the container itself
infers its types from what it is given, as it does for a user.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from reticent.estimators import partition_rows
from reticent.mechanisms import noise_source

JOBS = ["baker", "clerk", "none", "nurse"]
WORDS = ["to", "be", "or", "not", "that", "is", "the", "question"]
SEED = 5
N_ROWS, N_SHARDS = 90, 3
MIXED_NAMES = ["age", "income", "code", "job", "note"]
N_NUMBERS = 3

_PARTITION = partition_rows(N_ROWS, N_SHARDS, noise_source(SEED))
KEPT = 1
KEPT_ROWS = _PARTITION.rows_by_shard()[KEPT]
FIRST_ROWS = _PARTITION.rows_by_shard()[0]
OTHERS = np.setdiff1d(np.arange(N_ROWS), KEPT_ROWS)


def rows(n, *, seed=0):
    """Return cells by column: two whole numbers, a fraction, a name, a sentence.

    All numbers are multiples of 1/8, which every floating-point type holds exactly.
    """
    rng = np.random.default_rng(seed)
    return [
        rng.integers(18, 90, n).tolist(),
        (rng.integers(-80, 160, n) / 8).tolist(),
        rng.integers(0, 4, n).tolist(),
        rng.choice(JOBS, n).tolist(),
        [" ".join(rng.choice(WORDS, 4)) for _ in range(n)],
    ]


def labels_of(cells):
    """Return labels that the cells decide, mostly."""
    age, income, code, *_ = cells
    return [
        int(a / 20 + i / 4 + c > 5) for a, i, c in zip(age, income, code, strict=True)
    ]


def _plain(number, text):
    """Return an attack that knows numbers from text, and the row's place."""
    return lambda place, column: (number if column < N_NUMBERS else text)(place)


# What every other shard's cell becomes, given the row's place and the column.
ATTACKS: dict[str, Any] = {
    "none": None,
    "missing": lambda place, column: None,
    "text": _plain(lambda place: "unknown", lambda place: "unheard of " * 9),
    "numbers": lambda place, column: place % 7 / 8,
    "constant": _plain(lambda place: 3, lambda place: "baker"),
    "marked": lambda place, column: [-1, place, -place, "none", "be"][column],
    "huge": _plain(lambda place: (-1) ** place * 1e308, lambda place: "x" * 999),
    "infinite": _plain(lambda place: (-1) ** place * np.inf, lambda place: ""),
    "whole": _plain(lambda place: 2**60 + place, lambda place: f"new {place}"),
    "one text": _plain(lambda place: 0 if place else "unknown", lambda place: "nurse"),
    "one missing": lambda place, column: (
        None if place == 0 else [1, 2.5, place, "clerk", "be"][column]
    ),
    "objects": _plain(
        lambda place: [Decimal("1.5"), np.float32(0.5), True, np.int8(3)][place % 4],
        lambda place: [b"bytes", ("a", "pair"), None, "\ud800"][place % 4],
    ),
}
# One column of the first shard is missing; all else is as it was.
FIRST_LACKS = "first lacks"
ATTACKS[FIRST_LACKS] = None
# The table arrives in another type, with the same rows.
RETYPED = ("single", "fortran", "object", "wide")


def attacked(cells, labels, attack):
    """Return cells and labels with those of the other shards replaced."""
    change = ATTACKS.get(attack)
    cells, labels = [list(column) for column in cells], list(labels)
    if attack == FIRST_LACKS:
        for row in FIRST_ROWS:
            cells[1][row] = None
    if change is None:
        return cells, labels
    for place, row in enumerate(OTHERS):
        labels[row] = int(place % 5 == 0)
        for column, column_cells in enumerate(cells):
            column_cells[row] = change(place, column)
    return cells, labels


def contained(cells, kind, *, mixed, retyped=None):
    """Return cells in a container, which infers what it infers."""
    chosen = cells if mixed else cells[:N_NUMBERS]
    names = MIXED_NAMES[: len(chosen)]
    if kind == "pandas":
        frame = pd.DataFrame(
            {n: pd.Series(c) for n, c in zip(names, chosen, strict=True)}
        )
        if retyped == "object":
            return frame.astype(object)
        if retyped == "wide":
            return frame.convert_dtypes().set_axis(range(len(frame))[::-1])
        single = retyped == "single" and "object" not in frame.dtypes.astype(str).values
        return frame.astype("float32") if single and not mixed else frame
    if kind == "polars":
        return pl.DataFrame([_polars(n, c) for n, c in zip(names, chosen, strict=True)])
    table = np.empty((len(chosen[0]), len(chosen)), dtype=object)
    for place, column in enumerate(chosen):
        for row, cell in enumerate(column):
            table[row, place] = cell
    return _array(table, retyped)


def _array(table, retyped):
    if retyped == "object":
        return table
    try:
        numbers = table.astype(np.float64)
    except (TypeError, ValueError):
        return table
    if retyped == "single":
        return numbers.astype(np.float32)
    if retyped == "wide":
        return numbers.astype(np.longdouble)
    return np.asfortranarray(numbers) if retyped == "fortran" else numbers


def _polars(name, cells):
    try:
        return pl.Series(name, cells, strict=True)
    except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
        return pl.Series(name, cells, dtype=pl.Object)
