"""Mistakes around the mechanism: bounds, clipping, preprocessing, scales."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent.audit.verification.replaying import replay, replay_pairs
from reticent.guarantees import Certificate, ReplaceOne, Scope, Sensitivity, claim
from reticent.mechanisms import GridNoise, SystemSource, calibrate_laplace
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier
from tests.audit.catalogue.control import Finding, replayed, sampled

EPSILON = 1.0
SOURCE = SystemSource()
LARGEST = 10  # public bound on a value


def _noise(most: float) -> GridNoise:
    premise: Certificate[Sensitivity] = claim(
        Sensitivity(most), ReplaceOne(4), Scope.MODEL, statement="a clipped sum"
    )
    return calibrate_laplace(premise, epsilon=EPSILON, grid=1.0, on_grid=True)


VALUES = np.array([1.0, 4.0, 7.0, 2.0])
EXTREME = np.array([1.0, 4.0, 7.0, 90.0])
MISSING = np.array([1.0, 4.0, 7.0, np.nan])


def bounds_from_data(broken: bool) -> Finding:
    """Take bounds from the data."""

    def run(targets: Any) -> Any:
        low, high = (targets.min(), targets.max()) if broken else (0.0, LARGEST)
        model = PrivateAveragingRegressor(
            LinearRegression(), EPSILON, bounds=(low, high), n_shards=2
        )
        rows = np.arange(len(targets), dtype=float)[:, None]
        # Many answers, so that not all of them end at the lower bound.
        return model.fit(rows, targets).predict(np.zeros((60, 1)))

    return replayed(replay(run, VALUES, EXTREME))


def unclipped(broken: bool) -> Finding:
    """Clip values, and then use the sum of the unclipped ones."""
    noise = _noise(LARGEST)

    def run(values: Any) -> Any:
        inside = np.clip(values, 0, LARGEST)
        return noise.response((values if broken else inside).sum()).draw(SOURCE)

    return replayed(replay(run, VALUES, EXTREME))


def missing_value(broken: bool, **settings: Any) -> Finding:
    """Let a missing value pass the clamp."""
    noise = _noise(LARGEST)

    def release(values: Any) -> Any:
        inside = np.clip(values if broken else np.nan_to_num(values), 0, LARGEST)
        total = float(inside.sum())
        if math.isnan(total):
            return "nan"
        return float(noise.response(total).draw(SOURCE))

    return sampled(release, MISSING, VALUES, EPSILON, **settings)


def no_bounds(broken: bool, **settings: Any) -> Finding:
    """Let unset bounds mean no noise."""
    bounds = None if broken else LARGEST

    def release(values: Any) -> float:
        if bounds is None:
            return float(values.sum())
        inside = np.clip(values, 0, bounds).sum()
        return float(_noise(bounds).response(inside).draw(SOURCE))

    return sampled(release, VALUES, EXTREME, EPSILON, **settings)


def fitted_scale(broken: bool) -> Finding:
    """Scale noise to the largest value that occurs."""

    def run(values: Any) -> Any:
        most = float(np.abs(values).max()) if broken else float(LARGEST)
        inside = np.clip(values, 0, most)
        return _noise(most).response(inside.sum()).draw(SOURCE)

    return replayed(replay(run, VALUES, EXTREME))


def _neighbours(count: int) -> Iterator[tuple[Any, Any]]:
    rng = np.random.default_rng(0)
    for _ in range(count):
        X, y = rng.normal(size=(20, 1)), rng.integers(0, 2, 20)
        near, labels = X.copy(), y.copy()
        near[0], labels[0] = 30.0, 1 - y[0]
        yield (X, y), (near, labels)


def scaler_outside(broken: bool) -> Finding:
    """Fit a scaler on all rows, before they are dealt to shards."""

    def run(data: Any) -> Any:
        X, y = data
        if broken:
            X = StandardScaler().fit_transform(X)
        tree = DecisionTreeClassifier(max_depth=1, random_state=0)
        model = PrivateVotingClassifier(tree, EPSILON, (0, 1), 5).fit(X, y)
        return model.predict([[-0.5], [0.0], [0.5]])

    # One pair in three shows the mistake, by the deal; one of a hundred surely does.
    return replayed(replay_pairs(run, _neighbours(100)))
