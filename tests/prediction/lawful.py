"""Predictors whose exact laws on tiny data do not depend on how units are dealt."""

import numpy as np
from sklearn.linear_model import LinearRegression

from reticent.hypotheses import Thresholds
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    RelabelingClassifier,
    StableLinearClassifier,
    StableLinearRegressor,
    StableSelectionClassifier,
)
from tests.prediction.learners import LabelCount, Table

# Three units and three shards: whoever is dealt where, each shard has one of them.
SHARDS = 3
TWO = (0, 1)

CLASSIFIERS = {
    **{
        rule: lambda epsilon, rule=rule: PrivateVotingClassifier(
            Table(), epsilon, TWO, SHARDS, rule=rule
        )
        for rule in ("soft", "geometric", "permute-and-flip")
    },
    "averaged-labels": lambda epsilon: PrivateAveragingClassifier(
        Table(), epsilon, TWO, SHARDS
    ),
    "walk-two-step": lambda epsilon: ProjectedWalkClassifier(
        epsilon, error=0.9, classes=TWO
    ),
    "walk-sigmoid": lambda epsilon: ProjectedWalkClassifier(
        epsilon, 0, rule="sigmoid", error=0.9, classes=TWO
    ),
    "stable-linear": lambda epsilon: StableLinearClassifier(
        epsilon, radius=2.0, classes=TWO
    ),
    "selection": lambda epsilon: StableSelectionClassifier(
        Thresholds(), epsilon=2 + epsilon, flip=0.2, classes=TWO
    ),
    "relabeling": lambda epsilon: RelabelingClassifier(
        Thresholds(), 3.5 + epsilon, flip=0.2, n_shards=SHARDS, classes=TWO
    ),
}
NUMBERS = {
    "averaged-numbers": lambda epsilon: PrivateAveragingRegressor(
        LinearRegression(), epsilon, bounds=(0.0, 1.0), n_shards=SHARDS
    ),
    "stable-numbers": lambda epsilon: StableLinearRegressor(
        epsilon, (0.0, 1.0), radius=0.15
    ),
    # Three labels are read off noisy counts.
    "averaged-three-labels": lambda epsilon: PrivateAveragingClassifier(
        LabelCount(), epsilon, (0, 1, 2), SHARDS
    ),
}
PREDICTORS = {**CLASSIFIERS, **NUMBERS}

ROWS = np.array([[0.0], [0.0], [0.0]])
QUERIES = np.array([[0.0], [1.0]])
# Neighbours of the first, at the margins where laws move most.
LABELS = [np.array(y) for y in ([0, 1, 1], [0, 0, 1], [1, 1, 1], [0, 1, 0])]


def loss(here, there):
    """The largest log-ratio of two answers, for labels or Laplace noise."""
    if hasattr(here, "log_probabilities"):
        return float(np.abs(here.log_probabilities - there.log_probabilities).max())
    assert here.scale == there.scale
    moved = np.abs(here.location - there.location)
    total = moved.sum(axis=1) if moved.ndim == 2 else moved
    return float(total.max() / here.scale)


def worst_loss(laws):
    """The largest log-ratio between the first law's answers and its neighbours'."""
    first, *others = [law.response(QUERIES) for law in laws]
    return max(loss(first, other) for other in others)
