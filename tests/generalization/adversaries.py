"""Adversaries that see a compression learner's output and try to overfit."""

from __future__ import annotations

import hashlib

import numpy as np

from reticent.generalization import Scheme
from reticent.generalization.compression.scheme import kept_rows


class World:
    """A distribution on finitely many labelled points, so that truths are exact."""

    def __init__(self, rng, n_points=3000, n_features=2, noise=0.1):
        self.X = rng.uniform(-1, 1, size=(n_points, n_features))
        clean = (self.X[:, 0] + 0.4 * self.X[:, -1] > 0.1).astype(int)
        self.y = clean ^ (rng.random(n_points) < noise)

    def draw(self, rng, n):
        """Return the places of n independent draws."""
        return rng.integers(0, len(self.y), n)


def rich_class(world, model, size=400):
    """Return functions of the output as rows of a table: one value a world's point.

    They are made of what the adversary sees, the hypothesis and the kept examples:
    where the hypothesis is wrong, balls around kept examples, half-spaces through
    pairs of them, pseudo-random sets that the kept examples seed, and differences.
    """
    kept = model.kept_
    digest = hashlib.sha256(kept.X.tobytes() + kept.y.tobytes() + kept.side.encode())
    rng = np.random.default_rng(int.from_bytes(digest.digest()[:8], "big"))
    wrong = model.predict(world.X) != world.y
    ones = model.predict(world.X) == 1
    functions = [wrong, ones, ~wrong & ones, wrong & ones]
    near = np.zeros(len(world.y), dtype=bool)
    for point in kept.X[:20]:
        distance = np.linalg.norm(world.X - point, axis=1)
        near |= distance < 1e-12
        functions += [distance <= radius for radius in (1e-12, 0.05, 0.3)]
    functions += [near, near | wrong, near & ~wrong]
    for _ in range(60):
        a, b = kept.X[rng.integers(0, len(kept.X), 2)]
        normal = np.array([b[1] - a[1], a[0] - b[0]]) + 1e-3 * rng.normal(size=2)
        side = (world.X - a) @ normal > 0
        functions += [side, side & wrong]
    while len(functions) < size:
        functions.append((rng.random(len(world.y)) < 0.5) ^ near)
    return np.array(functions[:size])


def worst_gap(functions, sample):
    """Return the largest distance between sample and world, sample in hand."""
    on_sample = functions[:, sample].mean(axis=1)
    return float(np.abs(on_sample - functions.mean(axis=1)).max())


class HashScheme(Scheme):
    """An evil encoder: one kept example seeds random labels; keep the luckiest.

    Its hypotheses know nothing, so all that they get right is overfitting.
    """

    def most(self, n_rows, n_features):
        return 1

    def sizes(self, most):
        return 1

    def most_bits(self, most):
        return 0

    def compress(self, data, most, source):
        for row in range(len(data)):
            labels = random_labels(data.X[row], data.X)
            yield kept_rows(np.array([row]), data.mistakes(labels))

    def decode(self, kept, side):
        return lambda X: random_labels(kept.X[0], X)


class MemoryScheme(HashScheme):
    """A decoder that cheats: it remembers labels that nobody counted."""

    memory = None

    def compress(self, data, most, source):
        order = np.lexsort(data.X.T)
        type(self).memory = (data.X[order, -1], data.y[order])
        yield kept_rows(np.array([0]), 0)

    def decode(self, kept, side):
        points, labels = self.memory
        return lambda X: labels[np.searchsorted(points, X[:, -1]) % len(labels)]


def random_labels(seed_point, X):
    """Return fair labels that depend on the rows and on one seed, as a hash does."""
    mixed = np.abs(np.sin(X @ np.full(X.shape[1], 12.9898) + 78.233 * seed_point[0]))
    return (np.floor(mixed * 43758.5453 * 1e3) % 2).astype(np.int64)
