"""Rows on which fused and looped models would part, if they ever did."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl

from reticent.ensembles import OUTPUT_STEPS, FusedTrees
from reticent.ensembles.output_steps import output_steps, probability_steps

# Around the limits of single and double precision, of LightGBM's zero, and of the
# magnitudes beyond which products are not trusted.
ZERO = float(np.float32(1e-35))
VALUES = np.array(
    [
        *(0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1e-300),
        *(ZERO, -ZERO, np.nextafter(ZERO, 1), np.nextafter(-ZERO, -1), 1e-36, -1e-36),
        *(1e-40, 1e-45, 1.4e-45, 3.4028234e38, 3.4028236e38, -3.5e38, 1e39, 65504.0),
        *(65520.0, 2.0**24 + 1, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**64, 1e99, 1e100),
        *(1.1e100, -1e101, 1e150, 1e154, -1.4e154, 1e200, 1e300, 1.7e308, -1.7e308),
        *(1.0, -1.0, 0.5, 2.5, 1e-7, 300.0, -1.5),
    ]
)

NOT_FINITE = [np.nan, np.inf, -np.inf]


def discrete(kind, bounds, labels, level=0.5):
    """Return what an answer of a model comes to, as a function of model and rows.

    Of outputs and probabilities, whether they have more than `level` of all steps.
    """

    def answer(model, rows):
        if kind == "outputs":
            return output_steps(model.predict(rows), bounds) > level * OUTPUT_STEPS
        if kind == "probabilities":
            return (
                probability_steps(model.predict_proba(rows))[:, 0]
                > level * OUTPUT_STEPS
            )
        return np.asarray(labels.indices(model.predict(rows)))

    return answer


def at_changes(model, answer, X, rng, n):
    """Return rows next to which a model's answer changes, found by bisection.

    Both ends of each interval are returned: rows that differ by their last bits.
    """
    low = X[rng.integers(len(X), size=n)]
    high = X[rng.integers(len(X), size=n)]
    mixed = rng.random(low.shape) < 0.5  # few columns move: fewer bits to round
    high = np.where(mixed, low, high)
    first = answer(model, low)
    for _ in range(56):
        middle = low + (high - low) / 2
        moved = answer(model, middle) != first
        high = np.where(moved[:, None], middle, high)
        low = np.where(moved[:, None], low, middle)
    return np.concatenate([low, high])


def on_thresholds(ensemble, X, rng, n):
    """Return rows that sit on thresholds of trees and next to them."""
    trees = ensemble.fusion.models
    if not isinstance(trees, FusedTrees) or ensemble.fusion.encoding.blocks[0].encoders:
        return X[:0]
    inner = np.flatnonzero(trees.children[:, 0] != np.arange(len(trees.children)))
    nodes = rng.choice(inner, size=(n, 3))
    rows = X[rng.integers(len(X), size=n)].copy()
    for chosen in nodes.T:
        value = trees.threshold[chosen]
        with np.errstate(over="ignore"):
            near = value.astype(np.float32)
        columns = trees.feature[chosen]
        if ensemble.fusion.encoding.codes is not None:
            columns = np.array([1, 0])[np.minimum(columns, 1)]  # categories come first
        choices = np.stack(
            [
                value,
                np.nextafter(value, np.inf),
                np.nextafter(value, -np.inf),
                near.astype(float),
                np.nextafter(near, np.float32(np.inf)).astype(float),
                np.nextafter(near, np.float32(-np.inf)).astype(float),
            ]
        )
        rows[np.arange(n), columns] = choices[rng.integers(6, size=n), np.arange(n)]
    return rows


def whole_numbers(X, rng, n):
    """Return rows of which some or all cells are whole numbers: many ties."""
    rows = X[rng.integers(len(X), size=n)].copy()
    hit = rng.random(rows.shape) < rng.choice([0.1, 0.5, 1.0], size=(n, 1))
    whole = rng.integers(-2, 3, size=rows.shape).astype(float)
    fresh = np.where(rng.random((n, 1)) < 0.5, whole, np.rint(rows))
    return np.where(hit, fresh, rows)


def extreme_rows(X, rng, n):
    """Return rows with extreme, tiny and missing values; models refuse some of them.

    A model that refuses one row is asked again about the halves of its batch, which
    takes time: `n` should be small.
    """
    rows = X[rng.integers(len(X), size=n)].copy()
    hit = rng.random(rows.shape) < rng.choice([0.1, 0.5, 1.0], size=(n, 1))
    rows = np.where(hit, rng.choice(VALUES, size=rows.shape), rows)
    few = max(1, n // 4)
    columns = rng.integers(rows.shape[1], size=few)
    rows[rng.integers(n, size=few), columns] = rng.choice(NOT_FINITE, size=few)
    return rows


def rows_for(ensemble, answer, X, rng, n):
    """Return `n` rows at which answers change or tie, shuffled."""
    models = [model for model in ensemble.models if model is not None]
    model = models[rng.integers(len(models))]
    pieces = [
        whole_numbers(X, rng, n // 2),
        at_changes(model, answer, np.nan_to_num(X), rng, n // 4),
        on_thresholds(ensemble, X, rng, n // 3),
    ]
    rows = np.concatenate(pieces)
    return np.ascontiguousarray(rows[rng.permutation(len(rows))[:n]])


def in_types(rows, rng):
    """Yield the rows as arrays of all number types, as cells, lists and frames."""
    with np.errstate(all="ignore"):
        for name in ("float32", "float16", "longdouble", ">f8"):
            yield name, rows.astype(name)
        for name in ("int8", "int16", "int32", "int64", "uint64", "bool"):
            kind = np.dtype(name)
            whole = kind.kind in "iu"
            limits = (np.iinfo(kind).min, np.iinfo(kind).max) if whole else (0, 2)
            bounded = np.clip(np.nan_to_num(rows), *map(float, limits))
            inside = np.minimum(bounded, np.nextafter(float(limits[1]), 0))
            yield name, inside.astype(kind)
    big = rng.integers(-(2**62), 2**62, size=rows.shape)
    yield "large int64", big
    yield "fortran", np.asfortranarray(rows)
    names = [f"c{place}" for place in range(rows.shape[1])]
    yield "list", rows.tolist()
    cells = rows.astype(object)
    text = rng.random(rows.shape) < 0.2
    cells[text] = [repr(value) for value in rows[text].tolist()]
    cells[rng.random(rows.shape) < 0.02] = None
    cells[rng.random(rows.shape) < 0.02] = "three"
    yield "cells", cells
    # Frames have names, which models fitted on arrays only warn about.
    yield "pandas", pd.DataFrame(rows, columns=names)
    yield "polars", pl.DataFrame(rows, schema=names)
