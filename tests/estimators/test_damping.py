"""L12: a descent that would swing goes slower along what is most curved."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from reticent.estimators.partitions import descent
from reticent.estimators.partitions.damping import Damping
from reticent.learners import PrivateTabularClassifier

SIZE, NOISE, MOMENTUM = 400, 1e-3, 0.9


class Nothing(Damping):
    """Leaves slopes as they are."""

    def followed(self, rate, place, slope, velocity):
        return slope


def descended(curvatures, rate, damping, *, steps=96, seed=0):
    """Return how far a noisy accelerated descent ends from the minimum at one."""
    rng = np.random.default_rng(seed)
    axes = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0][: len(curvatures)]
    best = axes.sum(axis=0)
    point, velocity = np.zeros((1, SIZE)), np.zeros((1, SIZE))
    for _ in range(steps):
        ahead = point + MOMENTUM * velocity
        slope = ((ahead - best) @ axes.T * curvatures) @ axes
        slope = slope + NOISE * rng.normal(size=slope.shape)
        velocity = MOMENTUM * velocity - rate * damping.followed(
            rate, ahead, slope, velocity
        )
        point = point + velocity
    return np.abs((point - best) @ axes.T).max()


@pytest.mark.parametrize("stiff", [[1.0], [1.0, 0.6, 0.3], [1.0] * 12])
def test_what_is_too_curved_for_the_rate_does_not_swing(stiff):
    curvatures = np.array([*stiff, 0.02, 0.01])
    rate = 20.0
    with np.errstate(all="ignore"):
        alone = descended(curvatures, rate, Nothing(SIZE, NOISE))
    assert not alone < 100
    damping = Damping(SIZE, NOISE)
    assert descended(curvatures, rate, damping) < 0.5
    known = damping.directions @ damping.directions.T
    np.testing.assert_allclose(known, np.eye(len(known)), atol=1e-8)


def test_what_is_not_too_curved_is_left_alone():
    curvatures = np.array([0.5, 0.1, 0.02])
    damping = Damping(SIZE, NOISE)
    both = [descended(curvatures, 2.0, each) for each in (damping, Nothing(SIZE, 1.0))]
    assert both[0] == both[1]
    assert not len(damping.directions)
    assert damping.pace == 1


def test_noise_alone_is_no_swing():
    rng = np.random.default_rng(3)
    damping, place = Damping(SIZE, 1.0), np.zeros((2, SIZE // 2))
    for _ in range(500):
        slope = rng.normal(size=place.shape)
        assert damping.followed(1e6, place, slope, np.zeros_like(place)) is slope
        place = place + rng.normal(size=place.shape)


def table(n):
    """Return rows of a few levels, one of which is usual, and labels in doubt."""
    rng = np.random.default_rng(1)
    X = (rng.uniform(size=(n, 5)) < [0.03, 0.05, 0.5, 0.1, 0.02]).astype(float)
    rate = 0.35 + 0.1 * X[:, 2] - 0.1 * X[:, 0]
    return X, (rng.uniform(size=n) < rate).astype(int)


def test_probabilities_are_not_too_sure_where_levels_dominate(monkeypatch):
    """Without damping the model is further from the labels than the mean is."""
    X, y = table(60_000)

    def loss():
        model = PrivateTabularClassifier(
            8.0, columns=[2] * 5, classes=[0, 1], random_state=0
        )
        model.fit(X[:50_000], y[:50_000])
        return log_loss(y[50_000:], model.predict_proba(X[50_000:]))

    mean = log_loss(y[50_000:], np.full(10_000, y[:50_000].mean()))
    assert loss() < mean
    monkeypatch.setattr(descent, "Damping", Nothing)
    assert loss() > mean
