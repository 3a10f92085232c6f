"""An ensemble of linear models as one matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from reticent._arrays import Bools, Floats, Ints
from reticent.ensembles.fusion.base import Doubts, Fused
from reticent.ensembles.fusion.encoding import Encoded
from reticent.estimators import NO_BALLOT

# Larger rows and folded weights could overflow in one order of operations and not in
# another; the models themselves answer for them.
MAGNITUDE_LIMIT = 1e100

# The scores of a chunk of rows stay in the processor's cache; chosen by measurement.
_CHUNK_SCORES = 1 << 17

# Counters of one byte add up fastest; this is the most that one can count.
_BYTE = 255


@dataclass(frozen=True, eq=False)
class FusedLinear(Fused):
    """The weights of one linear model per shard, over commonly encoded columns.

    Score ``c`` of model ``m`` at an encoded row ``x`` is
    ``weights[m, c] @ x + intercepts[m, c]``, plus ``missing[m, c, j]`` for each
    missing ``x_j`` (which counts as 0 in the product). With one score a model votes
    for ``labels[m, 1]`` if it is positive and for ``labels[m, 0]`` otherwise; with
    more, for the label of the largest score, the first of them in case of a tie.

    Guarantee
    ---------
    `tally` counts a vote only where the score is farther from a tie than the rounding
    errors of this arithmetic and of the model's own together, so the model votes the
    same; all other pairs of row and model are returned as doubts. Sums of probabilities
    and of outputs do the same at the boundaries at which they are rounded to steps. So
    what is counted for a model is its own answer, in whatever order a product of all
    models is summed.
    """

    scalars: ClassVar[Mapping[str, type]] = {
        "steps": int,
        "roundoff": float,
        "link": str,
    }

    shards: Ints  #: shape (n_models,); the shard of each model
    #: Shape (n_models, max(2, n_scores)); the public label index of each score,
    #: `NO_BALLOT` where a model knows fewer labels; the intercept of such a score is
    #: minus infinity. For regressors all are `NO_BALLOT`.
    labels: Ints
    #: Shape (n_models, n_scores, n_columns); weights, scalers folded in.
    weights: Floats
    intercepts: Floats  #: shape (n_models, n_scores); intercepts, scalers folded in
    #: Shape (n_models, n_scores, n_columns or 0); what a missing value adds, NaN where
    #: models refuse missing values; of width zero if they always refuse them.
    missing: Floats
    #: Shape (n_models,); bound on the sum of the absolute values that make up a row's
    #: constant part.
    bulk: Floats
    steps: int  #: operations of scalers per value
    #: Relative error of one operation of the models' arithmetic and of ours.
    roundoff: float
    #: ``"logistic"`` or ``"softmax"`` if scores give probabilities, else ``""``.
    link: str

    @property
    def gives_probabilities(self) -> bool:
        """Whether `probabilities` are the models' own."""
        return bool(self.link)

    def refused(self, values: Any) -> Bools | None:
        """Return which encoded rows every model refuses, None if there are none."""
        data = values.data if sparse.issparse(values) else values
        with np.errstate(all="ignore"):
            if np.isfinite(data.sum()):  # a sum that overflows only costs time
                return None
        if sparse.issparse(values):
            per_row = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
            return np.bincount(
                per_row[~np.isfinite(data)], minlength=values.shape[0]
            ).astype(bool)
        bad = ~np.isfinite(values)
        if self.missing.size:
            bad &= ~(np.isnan(values) & ~np.isnan(self.missing[0, 0]))
        return bad.any(axis=1)

    def tally(self, encoded: Encoded, n_classes: int) -> tuple[Ints, Doubts]:
        """Count the votes on rows that are not refused, except doubtful ones."""
        counts = np.zeros((encoded.values.shape[0], n_classes), dtype=np.int64)
        doubts: list[Doubts] = []
        with np.errstate(all="ignore"):  # an overflow counts as doubtful
            for start, scores, slack in self._chunks(encoded):
                chunk = counts[start : start + len(slack)]
                if self.weights.shape[1] == 1:
                    rows, models = _tally_margins(scores[:, 0], slack, chunk)
                else:
                    rows, models = self._tally_scores(scores, slack, chunk)
                doubts.append((rows + start, models))
        if len(doubts) == 1:  # all rows fit one chunk
            return counts, doubts[0]
        doubtful_rows, doubtful_models = zip(
            (np.arange(0), np.arange(0)), *doubts, strict=True
        )
        return counts, (np.concatenate(doubtful_rows), np.concatenate(doubtful_models))

    def scored(self, encoded: Encoded) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield chunks of rows: their start, their scores, and the errors of these."""
        n_models, n_scores, _ = self.weights.shape
        absent = np.isneginf(self.intercepts)
        sizes = self._sizes.reshape(n_models, n_scores)
        for start, scaled, slack in self._chunks(encoded):
            scores = np.multiply(scaled.transpose(2, 0, 1), sizes, order="C")
            scores[:, absent] = -np.inf
            yield start, scores, slack[:, None] * np.abs(sizes[:, 0])

    def settled_scores(self, values: Any, rows: Ints, model: int) -> Floats:
        """Return one model's scores on given rows (rows x scores).

        Columns are added one after the other, by operations that treat each row
        separately.
        """
        chosen = values[rows]
        columns = np.arange(chosen.shape[1])
        if sparse.issparse(chosen):
            # A column of zeros adds nothing.
            columns = np.unique(chosen.indices)
            chosen = chosen[:, columns].toarray()
        scores = np.tile(self.intercepts[model], (len(rows), 1))
        with np.errstate(all="ignore"):
            for column, place in zip(chosen.T, columns, strict=True):
                added = column[:, None] * self.weights[model, :, place]
                if self.missing.size:
                    extra = np.nan_to_num(self.missing[model, :, place])
                    added = np.where(np.isnan(column)[:, None], extra, added)
                scores += added
        return scores

    @cached_property
    def _matrix(self) -> Floats:
        """Weights and intercepts, one line for each score of each model."""
        matrix = np.concatenate([self.weights, self.intercepts[..., None]], axis=2)
        matrix[np.isneginf(self.intercepts)] = 0
        return matrix.reshape(-1, matrix.shape[2])

    @cached_property
    def _extra(self) -> Floats | None:
        """What missing values add, one line for each score of each model."""
        if not self.missing.size:
            return None
        return np.nan_to_num(self.missing).reshape(-1, self.missing.shape[2])

    @cached_property
    def _sizes(self) -> Floats:
        """The size of each line, with the sign that makes public label 1 positive.

        Divided by it, votes do not change, and the rounding error of a score at x is
        at most a known multiple of ``|x| + 1``, the same for all models.
        """
        lengths = np.sqrt((self.weights**2).sum(axis=2)).max(axis=1)
        # Smaller models are always in doubt: their products may underflow.
        sizes = np.maximum(np.maximum(lengths, self.bulk), 1 / MAGNITUDE_LIMIT)
        if self.weights.shape[1] == 1:
            sizes = np.where(self.labels[:, 1] == 1, sizes, -sizes)
        return np.repeat(sizes, self.weights.shape[1])[:, None]

    @cached_property
    def _scaled(self) -> tuple[Floats, Floats | None]:
        extra = None if self._extra is None else self._extra / self._sizes
        return self._matrix / self._sizes, extra

    def _chunks(self, encoded: Encoded) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield scaled scores (models x scores x rows) and how far they may be off."""
        n_models, n_scores, n_columns = self.weights.shape
        matrix, extra = self._scaled
        # Any order of summation errs by at most n_columns roundoffs of the sum of
        # absolute values, and each operation of a scaler by one more; doubled for the
        # model's arithmetic and ours, and doubled again as a safety margin.
        unit = 4 * (n_columns + self.steps + 16) * self.roundoff
        for start, rows, gaps in _row_chunks(encoded.values, matrix, extra):
            slack = unit * (_lengths(rows) + 1)
            # Beyond the limit every vote is in doubt: no score exceeds infinity.
            slack[~(slack <= unit * MAGNITUDE_LIMIT)] = np.inf
            scores = _product(matrix, extra, rows, gaps)
            yield start, scores.reshape(n_models, n_scores, len(slack)), slack

    def _tally_scores(self, scores: Floats, slack: Floats, counts: Ints) -> Doubts:
        """Add votes for the largest score to `counts`; return those close to a tie."""
        scores[np.isneginf(self.intercepts)] = -np.inf
        best = scores.max(axis=1)
        near = np.zeros(best.shape, dtype=np.uint8 if scores.shape[1] <= _BYTE else int)
        for score in scores.swapaxes(0, 1):
            near += score >= best - 2 * slack
        sure = near == 1
        for column, score in enumerate(scores.swapaxes(0, 1)):
            won = (score == best) & sure
            for label in np.unique(self.labels[:, column]):
                if label != NO_BALLOT:
                    counts[:, label] += _count(won[self.labels[:, column] == label])
        models, rows = np.nonzero(~sure)
        return rows, models


def _tally_margins(margins: Floats, slack: Floats, counts: Ints) -> Doubts:
    """Add the signs of margins to `counts`; return those too close to call."""
    counts[:, 1] = _count(margins > slack)
    counts[:, 0] = _count(margins < -slack)
    unsure = np.flatnonzero(counts.sum(axis=1) != len(margins))
    if not len(unsure):
        return unsure, unsure
    rows, models = np.nonzero(~(np.abs(margins[:, unsure]) > slack[unsure]).T)
    return unsure[rows], models


def _count(flags: Bools) -> Ints:
    """Count true flags in each column."""
    total = np.zeros(flags.shape[1], dtype=np.int64)
    for start in range(0, len(flags), _BYTE):
        block = flags[start : start + _BYTE].view(np.uint8)
        total += np.add.reduce(block, axis=0, dtype=np.uint8)
    return total


def _row_chunks(
    values: Any, matrix: Floats, extra: Floats | None
) -> Iterator[tuple[int, Any, Floats | None]]:
    """Yield chunks of rows with a column of ones, and where values are missing."""
    n_rows, n_columns = values.shape
    size = max(64, _CHUNK_SCORES // max(1, len(matrix)))
    for start in range(0, n_rows, size):
        chunk = values[start : start + size]
        if sparse.issparse(chunk):
            yield start, chunk, None
            continue
        rows = np.empty((len(chunk), n_columns + 1))
        rows[:, :n_columns] = chunk
        rows[:, n_columns] = 1
        gaps = None if extra is None else np.isnan(rows[:, :n_columns])
        if gaps is None or not gaps.any():
            yield start, rows, None
            continue
        rows[:, :n_columns][gaps] = 0
        yield start, rows, gaps.astype(np.float64)


def _lengths(rows: Any) -> Floats:
    if sparse.issparse(rows):
        return np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _product(
    matrix: Floats, extra: Floats | None, rows: Any, gaps: Floats | None
) -> Floats:
    """Return every line of `matrix` times every row (lines x rows)."""
    if sparse.issparse(rows):
        return (rows @ matrix[:, :-1].T + matrix[:, -1]).T.copy()
    product = matrix @ rows.T
    if gaps is not None and extra is not None:
        product += extra @ gaps.T
    return product
