"""Splits fitted pipelines into what all shards share and what each shard learned.

A pipeline can be fused if it encodes rows by *declared* steps, which are the same in
every shard because parameters and not records determine them, and then applies *affine*
steps (scalers, imputers) that its shard learned, followed by a fusable predictor.
Whether it can be fused depends on its parameters and its own shard, never on others.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from reticent._arrays import Floats
from reticent.ensembles.fusion.declared_steps import (
    alike,
    is_declared,
    is_identity,
    writes_nothing,
)

_SCALERS = (MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some columns, the declared steps that encode them, and the affine ones after.

    Columns are None if the steps apply to the whole table.
    """

    columns: Any
    encoders: tuple[Any, ...]
    movers: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FusablePipeline:
    """A fitted pipeline: parallel blocks, common affine steps, the predictor."""

    blocks: tuple[Block, ...]
    tail: tuple[Any, ...]
    predictor: Any

    @property
    def moves(self) -> bool:
        """Whether there is any affine step before the predictor."""
        return bool(self.tail) or any(block.movers for block in self.blocks)

    def reads_like(self, other: FusablePipeline) -> bool:
        """Whether both pipelines encode the same columns in the same way."""
        return len(self.blocks) == len(other.blocks) and all(
            _selection(mine.columns) == _selection(theirs.columns)
            and alike(mine.encoders, theirs.encoders)
            for mine, theirs in zip(self.blocks, other.blocks, strict=True)
        )


def as_fusable_pipeline(model: Any) -> FusablePipeline | None:
    """Return a fitted model as a fusable pipeline, or None if it is not one."""
    *steps, predictor = _steps(model)
    if steps and type(steps[0]) is ColumnTransformer:
        blocks = _blocks(steps[0])
        tail = _split(steps[1:])
        if blocks is None or tail is None or tail[0]:
            return None
        return FusablePipeline(blocks=blocks, tail=tail[1], predictor=predictor)
    split = _split(steps)
    if split is None:
        return None
    block = Block(columns=None, encoders=split[0], movers=split[1])
    return FusablePipeline(blocks=(block,), tail=(), predictor=predictor)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnMaps:
    """The effect of affine steps on each encoded column ``x``.

    It becomes ``slope * x + offset`` if present, and `when_missing` if it is NaN (NaN
    without an imputer). `bulk` bounds the absolute values that were added up in
    `offset` and `when_missing`: rounding errors are relative to it.
    """

    slope: Floats
    offset: Floats
    when_missing: Floats
    bulk: Floats

    @classmethod
    def unmoved(cls, n_columns: int) -> ColumnMaps:
        """Return the identity maps."""
        return cls(
            slope=np.ones(n_columns),
            offset=np.zeros(n_columns),
            when_missing=np.full(n_columns, np.nan),
            bulk=np.zeros(n_columns),
        )

    def then(self, step: Any) -> ColumnMaps | None:
        """Return the maps after one more affine step, None if it does not fit."""
        if type(step) is SimpleImputer:
            return self._then_imputer(step)
        factor, shift = _slope_and_offset(step)
        if len(factor) != len(self.slope):
            return None
        return ColumnMaps(
            slope=self.slope * factor,
            offset=self.offset * factor + shift,
            when_missing=self.when_missing * factor + shift,
            bulk=self.bulk * np.abs(factor) + np.abs(shift),
        )

    def _then_imputer(self, step: SimpleImputer) -> ColumnMaps | None:
        filling = step.statistics_.tolist()
        # The imputer drops columns that it cannot fill.
        numbers = all(isinstance(v, (int, float)) and isfinite(v) for v in filling)
        if not numbers or len(filling) != len(self.slope):
            return None
        values = np.array(filling, dtype=np.float64)
        filled = np.where(np.isnan(self.when_missing), values, self.when_missing)
        return ColumnMaps(
            slope=self.slope,
            offset=self.offset,
            when_missing=filled,
            bulk=np.maximum(self.bulk, np.abs(filled)),
        )


def column_maps(pipeline: FusablePipeline, n_columns: int) -> ColumnMaps | None:
    """Return the effect of a pipeline's affine steps on `n_columns` encoded columns.

    None if the steps do not fit together, as when an imputer dropped a column.
    """
    widths = _widths(pipeline.blocks, n_columns)
    if widths is None:
        return None
    pieces = []
    for block, width in zip(pipeline.blocks, widths, strict=True):
        piece = _after(ColumnMaps.unmoved(width), block.movers)
        if piece is None:
            return None
        pieces.append(piece)
    joined = ColumnMaps(
        slope=np.concatenate([piece.slope for piece in pieces]),
        offset=np.concatenate([piece.offset for piece in pieces]),
        when_missing=np.concatenate([piece.when_missing for piece in pieces]),
        bulk=np.concatenate([piece.bulk for piece in pieces]),
    )
    return _after(joined, pipeline.tail)


def _after(maps: ColumnMaps, steps: tuple[Any, ...]) -> ColumnMaps | None:
    current: ColumnMaps | None = maps
    for step in steps:
        if current is None:
            return None
        current = current.then(step)
    return current


def _steps(model: Any) -> list[Any]:
    """Return the steps of a pipeline, with nested pipelines flattened."""
    if type(model) is not Pipeline:
        return [model]
    steps: list[Any] = []
    for _, step in model.steps:
        if step is not None and not is_identity(step):
            steps += _steps(step)
    return steps


def _split(steps: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Split steps into declared ones and the affine ones after them."""
    start = len(steps)
    while start > 0 and _is_affine(steps[start - 1]):
        start -= 1
    if not all(is_declared(step) for step in steps[:start]):
        return None
    return tuple(steps[:start]), tuple(steps[start:])


def _blocks(transformer: ColumnTransformer) -> tuple[Block, ...] | None:
    """Return what a ColumnTransformer does to which columns.

    None if a function chooses the columns: its choice may depend on the rows.
    """
    if transformer.transformer_weights or not writes_nothing(transformer):
        return None
    if any(callable(columns) for _, _, columns in transformer.transformers):
        return None
    blocks = []
    for _, step, columns in transformer.transformers_:
        if (isinstance(step, str) and step == "drop") or _n_selected(columns) == 0:
            continue
        split = _split([part for part in _steps(step) if not is_identity(part)])
        if split is None:
            return None
        blocks.append(Block(columns=columns, encoders=split[0], movers=split[1]))
    return tuple(blocks)


def _is_affine(step: Any) -> bool:
    if not writes_nothing(step):
        return False
    if type(step) is SimpleImputer:
        missing = step.missing_values
        nan = isinstance(missing, float) and np.isnan(missing)
        return nan and not step.add_indicator
    return type(step) in _SCALERS and not getattr(step, "clip", False)


def _slope_and_offset(scaler: Any) -> tuple[Floats, Floats]:
    """Return the factor and the shift that a fitted scaler applies to each column."""
    ones = np.ones(scaler.n_features_in_)
    if type(scaler) is MinMaxScaler:
        return ones * scaler.scale_, ones * scaler.min_
    factor = ones if scaler.scale_ is None else ones / scaler.scale_
    centre: Any = None
    if type(scaler) is StandardScaler and scaler.with_mean:
        centre = scaler.mean_
    if type(scaler) is RobustScaler and scaler.with_centering:
        centre = scaler.center_
    return factor, 0 * ones if centre is None else -centre * factor


def _widths(blocks: tuple[Block, ...], n_columns: int) -> list[int] | None:
    """Return how many encoded columns each block has; they add up to `n_columns`."""
    widths = [_width(block) for block in blocks]
    unknown = [place for place, width in enumerate(widths) if width is None]
    known = sum(width for width in widths if width is not None)
    if len(unknown) == 1:
        widths[unknown[0]] = n_columns - known
    elif unknown or known != n_columns:
        return None
    return [width for width in widths if width is not None]


def _width(block: Block) -> int | None:
    if block.movers:
        return int(block.movers[0].n_features_in_)
    if not block.encoders:
        return None if block.columns is None else _n_selected(block.columns)
    try:
        return len(block.encoders[-1].get_feature_names_out())
    except (AttributeError, ValueError):
        return None


def _selection(columns: Any) -> Any:
    """Return a selection of columns in a form that compares by value."""
    return repr(columns) if isinstance(columns, slice) else np.asarray(columns).tolist()


def _n_selected(columns: Any) -> int | None:
    """Return how many columns a selection of a ColumnTransformer names, if it says."""
    if isinstance(columns, slice):
        return None
    if isinstance(columns, (str, int, np.integer)):
        return 1
    chosen = np.asarray(columns)
    return int(chosen.sum()) if chosen.dtype == bool else len(chosen)
