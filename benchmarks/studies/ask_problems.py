"""Synthetic problems whose truth is known, and every predictor's error on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC

from reticent.hypotheses import Halfspaces, Intervals, Thresholds
from reticent.mechanisms import geometric_vote
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    RelabelingClassifier,
    StableLinearClassifier,
    StableSelectionClassifier,
)

Float = NDArray[np.float64]

ENDS = (0.05, 0.14, 0.25, 0.38, 0.47, 0.6, 0.72, 0.9)


class BestOfClass(ClassifierMixin, BaseEstimator):
    """The exact minimiser of mistakes over a hypothesis class."""

    def __init__(self, hypotheses: Any) -> None:
        self.hypotheses = hypotheses

    def fit(self, X: Float, y: NDArray[Any]) -> BestOfClass:
        self.classes_ = np.array([0, 1])
        self.best_ = self.hypotheses.minimise(X, y).hypothesis
        return self

    def predict(self, X: Float) -> NDArray[np.int64]:
        return np.asarray(self.hypotheses.predict(self.best_, X))


@dataclass(frozen=True, eq=False)
class Problem:
    """A distribution with a known best hypothesis.

    `points` and `masses` stand for the distribution of rows when errors are computed;
    labels are `truth`, flipped with probability `noise`.
    """

    name: str
    hypotheses: Any
    learner: Any
    draw_rows: Callable[[int, np.random.Generator], Float]
    truth: Callable[[Float], NDArray[np.int64]]
    points: Float
    masses: Float
    noise: float = 0.0
    ends: int = 0  # of intervals, for the walk; 0 if it does not apply

    def sample(self, n: int, seed: int) -> tuple[Float, NDArray[np.int64]]:
        rng = np.random.default_rng(seed)
        X = self.draw_rows(n, rng)
        return X, self.truth(X) ^ (rng.random(n) < self.noise)

    def excess(self, ones: Float) -> float:
        """Return the error above the best one, given the chance of label 1."""
        wrong = np.abs(ones - self.truth(self.points))
        return float((1 - 2 * self.noise) * (self.masses @ wrong))


def on_the_line(
    name: str, hypotheses: Any, cuts: tuple[float, ...], noise: float, cells: int
) -> Problem:
    middles = ((np.arange(cells) + 0.5) / cells)[:, None]
    return Problem(
        name=name,
        hypotheses=hypotheses,
        learner=BestOfClass(hypotheses),
        draw_rows=lambda n, rng: rng.random((n, 1)),
        truth=lambda X: np.searchsorted(cuts, X[:, 0], side="right") % 2,
        points=middles,
        masses=np.full(cells, 1 / cells),
        noise=noise,
        ends=len(cuts),
    )


def threshold(noise: float = 0.1, cells: int = 100_000) -> Problem:
    name = f"threshold, {noise:.0%} of labels flipped" if noise else "threshold"
    return on_the_line(name, Thresholds("up"), (0.37,), noise, cells)


def four_intervals(cells: int = 100_000) -> Problem:
    return on_the_line(
        "union of four intervals", Intervals(8, start="0"), ENDS, 0.0, cells
    )


def halfspace(side: int = 150) -> Problem:
    line = (np.arange(side) + 0.5) / side * 2 - 1
    lattice = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    return Problem(
        name="halfspace in the plane",
        hypotheses=Halfspaces(),
        learner=SVC(kernel="linear", C=1e9),
        draw_rows=lambda n, rng: rng.uniform(-1, 1, (n, 2)),
        truth=lambda X: (X @ [1.0, 0.6] > 0.2).astype(np.int64),
        points=lattice,
        masses=np.full(side * side, 1 / side**2),
    )


def hard_points(labels: NDArray[np.int64], error: float) -> Problem:
    """Return S2 Thm 4's distribution: all but one of the shattered points are rare."""
    d = len(labels)
    masses = np.full(d, 4 * error / (d - 1))
    masses[-1] = 1 - 4 * error
    return Problem(
        name="the lower bound's own distribution",
        hypotheses=Intervals(d, start="0"),
        learner=BestOfClass(Intervals(d, start="0")),
        draw_rows=lambda n, rng: rng.choice(d, n, p=masses).astype(float)[:, None],
        truth=lambda X: labels[X[:, 0].astype(int)],
        points=np.arange(d, dtype=float)[:, None],
        masses=masses,
        ends=d,
    )


# Each predictor below returns the chance of label 1 at every point, given the sample
# that `seed` draws: the mean over what a query redraws, exact where there is a law.


def vote(problem: Problem, n: int, epsilon: float, seed: int, shards: int) -> Float:
    X, y = problem.sample(n, seed)
    model = PrivateVotingClassifier(
        problem.learner, epsilon, [0, 1], shards, random_state=seed
    ).fit(X, y)
    return model.response(problem.points).probabilities[:, 1]


def average(problem: Problem, n: int, epsilon: float, seed: int, shards: int) -> Float:
    X, y = problem.sample(n, seed)
    model = PrivateAveragingClassifier(
        problem.learner, epsilon, [0, 1], shards, random_state=seed
    ).fit(X, y)
    return model.response(problem.points).probabilities[:, 1]


def walk(problem: Problem, n: int, epsilon: float, seed: int, error: float) -> Float:
    X, y = problem.sample(n, seed)
    model = ProjectedWalkClassifier(
        epsilon, error=error, classes=[0, 1], random_state=seed
    ).fit(X, y)
    return model.response(problem.points).probabilities[:, 1]


def linear(
    problem: Problem, n: int, epsilon: float, seed: int, **settings: Any
) -> Float:
    X, y = problem.sample(n, seed)
    model = StableLinearClassifier(
        epsilon, norm_bound=2**0.5, classes=[0, 1], random_state=seed, **settings
    ).fit(X, y)
    return model.response(problem.points).probabilities[:, 1]


def select(
    problem: Problem,
    n: int,
    seed: int,
    draws: int,
    *,
    stability: float | None = None,
    epsilon: float | None = None,
    flip: float = 0.05,
) -> tuple[Float, StableSelectionClassifier]:
    X, y = problem.sample(n, seed)
    model = StableSelectionClassifier(
        problem.hypotheses,
        stability,
        epsilon,
        flip=flip,
        classes=[0, 1],
        random_state=seed,
    ).fit(X, y)
    family = problem.hypotheses.on(X.shape[1])
    answers = [
        family.predict(model.law_.hypothesis(), problem.points) for _ in range(draws)
    ]
    p = model.plan_.flip
    return p + (1 - 2 * p) * np.mean(answers, axis=0), model


def relabel(
    problem: Problem,
    n: int,
    epsilon: float,
    seed: int,
    draws: int,
    *,
    flip: float,
    shards: int | str = "auto",
) -> tuple[Float, RelabelingClassifier]:
    X, y = problem.sample(n, seed)
    model = RelabelingClassifier(
        problem.hypotheses,
        epsilon,
        flip=flip,
        n_shards=shards,
        classes=[0, 1],
        random_state=seed,
    ).fit(X, y)
    chances = []
    for _ in range(draws):
        votes = model.law_.relabeled_votes(model.law_.hypothesis(), problem.points)
        law = geometric_vote(votes, model.law_.vote_epsilon)
        chances.append(law.probabilities[:, 1])
    return flip + (1 - 2 * flip) * np.mean(chances, axis=0), model
