"""Private boosting with random splits, in the manner of Maddock et al. (2022).

Trees ask a random column at each node of a level for a random cut in its public range
(for a category: whether the level is in a random half), so that splits cost nothing.
Every tree releases noisy sums of gradients and Hessians in its leaves, and takes a
Newton step. All trees together are one Gaussian mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reticent.guarantees import gaussian_ratio
from reticent.schemas import Categorical

Floats = np.ndarray


@dataclass
class RandomBoosting:
    """Boosted random trees; (epsilon, delta) for replacing one row.

    `n_labels` is None for numbers in [0, 1]. A row adds a gradient g and weights h to
    one leaf. Two rows in one leaf differ by at most 2G in g and by sqrt(K)/4 in h; in
    two leaves they are orthogonal, which is less. For numbers h is one, measured as G.
    """

    epsilon: float
    delta: float
    n_trees: int
    depth: int
    rate: float
    seed: int
    n_labels: int | None

    def fit(self, X: Floats, y: Floats, columns: list) -> RandomBoosting:
        self.rng, self.columns = np.random.default_rng(self.seed), columns
        width = 1 if self.n_labels in (None, 2) else self.n_labels
        size = 0.5 if self.n_labels is None else (1.0 if width == 1 else np.sqrt(2))
        weight = 0.0 if self.n_labels is None else np.sqrt(width) / 4
        change = np.sqrt(4 * size**2 + weight**2)
        mu = gaussian_ratio(self.epsilon, self.delta)
        self.noise = change * np.sqrt(self.n_trees) / mu
        self.trees, scores = [], np.zeros((width, len(X)))
        for _ in range(self.n_trees):
            tree = [self._question() for _ in range(self.depth)]
            leaf = self._leaf(tree, X)
            steps = self._steps(scores, y, leaf, size)
            self.trees.append((tree, steps))
            scores += steps[:, leaf]
        return self

    def scores(self, X: Floats) -> Floats:
        return sum(steps[:, self._leaf(tree, X)] for tree, steps in self.trees)

    def predict(self, X: Floats) -> Floats:
        found = self.scores(X)
        if self.n_labels is None:
            return np.clip(0.5 + found[0], 0, 1)
        return (found[0] > 0).astype(int) if len(found) == 1 else found.argmax(axis=0)

    def _question(self) -> tuple[int, Floats | float]:
        place = int(self.rng.integers(len(self.columns)))
        column = self.columns[place]
        if isinstance(column, Categorical):
            return place, self.rng.random(len(column.levels)) < 0.5
        return place, float(self.rng.random())

    def _leaf(self, tree: list, X: Floats) -> np.ndarray:
        leaf = np.zeros(len(X), dtype=np.intp)
        for place, cut in tree:
            cells = X[:, place]
            above = cells > cut if isinstance(cut, float) else cut[cells.astype(int)]
            leaf = 2 * leaf + above
        return leaf

    def _steps(
        self, scores: Floats, y: Floats, leaf: np.ndarray, size: float
    ) -> Floats:
        leaves = 2**self.depth
        steps = np.zeros((len(scores), leaves))
        if self.n_labels is None:
            gradient = np.clip(0.5 + scores - y, -size, size)
            hessian = np.full_like(scores, size)
        elif len(scores) == 1:
            mean = 1 / (1 + np.exp(-scores))
            gradient, hessian = mean - y, mean * (1 - mean)
        else:
            mean = np.exp(scores - scores.max(axis=0))
            mean /= mean.sum(axis=0)
            gradient = mean - (np.arange(len(scores))[:, None] == y)
            hessian = mean * (1 - mean)
        for k in range(len(scores)):
            sums = np.bincount(leaf, gradient[k], leaves)
            weights = np.bincount(leaf, hessian[k], leaves)
            sums = sums + self.rng.normal(0, self.noise, leaves)
            weights = weights + self.rng.normal(0, self.noise, leaves)
            if self.n_labels is None:
                weights = weights / size
            # The noise is public: it is a natural size for the penalty.
            steps[k] = -self.rate * sums / (np.maximum(weights, 0) + self.noise)
        return np.clip(steps, -1, 1)
