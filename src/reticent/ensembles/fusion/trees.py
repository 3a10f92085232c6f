"""An ensemble of trees as flat arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools, Floats, Ints
from reticent.ensembles.fusion.base import Doubts, Fused, found_doubts
from reticent.ensembles.fusion.encoding import Encoded
from reticent.estimators import NO_BALLOT

# With this many pairs of row and tree at once the arrays stay in cache.
_CHUNK_PAIRS = 1 << 16

# Boosted scores closer to a tie than this are left to the model itself, because
# libraries round the last step (a sigmoid, a softmax) differently.
_BOOSTED_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class FusedTrees(Fused):
    """All trees of all shards in one set of arrays.

    Node ``i`` sends a row on to ``children[i, 0]`` if its value of column
    ``feature[i]`` is at most ``threshold[i]``, to ``children[i, 1]`` otherwise. A
    missing value goes to child 0 if ``missing_left[i]``. A node with
    ``branch[i] >= 0`` looks its categorical value up instead: ``branches`` holds, from
    that place on, whether code 0, 1, ... goes to child 0. A leaf is its own child.

    Guarantee
    ---------
    Leaf values are added in the order in which the models add them, so averages and
    sums are the models' own to the last bit, and so are votes; boosted scores within
    1e-9 of a tie, and probabilities that a rounding error could move to another step,
    are returned as doubts instead of counted.
    """

    scalars: ClassVar[Mapping[str, type]] = {
        "rule": str,
        "single": bool,
        "missing": bool,
    }

    shards: Ints  #: shape (n_models,); the shard of each model
    #: Shape (n_models, max(2, n_scores)); the public label index of each score,
    #: `NO_BALLOT` where a model knows fewer labels or for regression.
    labels: Ints
    #: Shape (n_models, n_rounds, n_trees); the root of each tree; tree ``t`` of a round
    #: adds to score ``t`` if there are several, the only one adds to all.
    roots: NDArray[np.int32]
    baseline: Floats  #: shape (n_models, n_scores); scores before the first tree
    #: The nodes.
    feature: NDArray[np.int32]
    threshold: Floats
    children: NDArray[np.int32]
    missing_left: Bools
    values: Floats  #: shape (n_nodes, n_scores or 1); what a leaf adds to the scores
    #: Categorical nodes, see above.
    branch: NDArray[np.int32]
    branches: Bools
    #: ``"mean"``: scores are averages over rounds, the largest wins. ``"boosted"``:
    #: scores are sums; a single one is compared with zero.
    rule: str
    single: bool  #: whether rows are rounded to single precision first
    missing: bool  #: whether models accept missing values

    @property
    def gives_probabilities(self) -> bool:
        """Whether `probabilities` are the models' own."""
        return True

    @property
    def _averages(self) -> bool:
        return self.rule == "mean"

    def refused(self, values: Floats) -> Bools | None:
        """Return which encoded rows every model refuses, None if there are none."""
        if not self.single and self.missing:
            return None
        seen = values
        with np.errstate(all="ignore"):
            if self.single:
                seen = values.astype(np.float32)
            if np.isfinite(seen.sum(dtype=np.float64)):
                return None
        bad = np.isinf(seen) if self.missing else ~np.isfinite(seen)
        return np.asarray(bad.any(axis=1))

    def tally(self, encoded: Encoded, n_classes: int) -> tuple[Ints, Doubts]:
        """Count the votes on rows that are not refused, except doubtful ones."""
        counts = np.zeros((len(encoded.values), n_classes), dtype=np.int64)
        doubts = []
        every = np.arange(len(self.shards))
        for start, scores, _ in self.scored(encoded):
            winners, sure = self._winners(scores)
            ballots = self.labels[every, winners]
            rows, models = np.nonzero(sure)
            np.add.at(counts, (rows + start, ballots[rows, models]), 1)
            doubts.append((start, sure))
        return counts, found_doubts(doubts)

    def scored(self, encoded: Encoded) -> Iterator[tuple[int, Floats, Floats]]:
        """Yield chunks of rows: their start, their scores, and no errors."""
        for start, scores in self._scores(encoded.values, slice(None)):
            yield start, scores, np.zeros((len(scores), 1))

    def settled_scores(self, values: Floats, rows: Ints, model: int) -> Floats:
        """Return one model's scores on given rows (rows x scores)."""
        one = slice(model, model + 1)
        chunks = [chunk[:, 0] for _, chunk in self._scores(values[rows], one)]
        return np.concatenate([np.empty((0, self.baseline.shape[1])), *chunks])

    def _scores(self, values: Floats, some: slice) -> Iterator[tuple[int, Floats]]:
        """Yield the scores of some models (rows x models x scores), chunk by chunk."""
        roots, baseline, labels = (
            self.roots[some],
            self.baseline[some],
            self.labels[some],
        )
        n_models, n_rounds, n_trees = roots.shape
        seen = values.astype(np.float32).astype(np.float64) if self.single else values
        size = max(1, _CHUNK_PAIRS // max(1, roots.size))
        absent = labels[:, : baseline.shape[1]] == NO_BALLOT
        silent = absent & (labels != NO_BALLOT).any()
        for start in range(0, len(seen), size):
            leaves = self._leaves(seen[start : start + size], roots)
            leaves = leaves.reshape(-1, n_models, n_rounds, n_trees)
            scores = np.repeat(baseline[None], len(leaves), axis=0)
            for turn in range(n_rounds):
                if n_trees == 1:
                    scores += self.values[leaves[:, :, turn, 0]]
                else:
                    scores += self.values[leaves[:, :, turn], 0]
            if self.rule == "mean":
                scores /= n_rounds
            scores[:, silent] = -np.inf
            yield start, scores

    @cached_property
    def _is_leaf(self) -> Bools:
        return self.children[:, 0] == np.arange(len(self.children))

    def _winners(self, scores: Floats) -> tuple[Ints, Bools]:
        """Return the winning score for each row and model, and whether it is sure."""
        if self.rule == "mean":
            return scores.argmax(axis=2), np.ones(scores.shape[:2], dtype=bool)
        if scores.shape[2] == 1:
            margins = scores[..., 0]
            return (margins > 0).astype(np.int64), np.abs(margins) > _BOOSTED_SLACK
        best = scores.max(axis=2, keepdims=True)
        return scores.argmax(axis=2), (scores >= best - _BOOSTED_SLACK).sum(axis=2) == 1

    def _leaves(self, rows: Floats, roots: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the leaf of each row in each tree, rows outermost."""
        n_rows, n_columns = rows.shape
        node = np.tile(roots.ravel(), n_rows)
        base = np.repeat(np.arange(n_rows) * n_columns, roots.size)
        flat = rows.ravel()
        gaps = bool(np.isnan(flat).any())
        walking = np.flatnonzero(~self._is_leaf[node])
        while len(walking):
            here = node[walking]
            value = flat[base[walking] + self.feature[here]]
            left = value <= self.threshold[here]
            if gaps:
                lost = np.isnan(value)
                left[lost] = self.missing_left[here[lost]]
            if len(self.branches):
                known = np.flatnonzero((self.branch[here] >= 0) & (value == value))
                codes = self.branch[here[known]] + value[known].astype(np.int32)
                left[known] = self.branches[codes]
            there = self.children.ravel()[2 * here + ~left]
            node[walking] = there
            walking = walking[~self._is_leaf[there]]
        return node
