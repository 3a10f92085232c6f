"""What is measured: every predictor and learner for which many rows make sense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from reticent.generalization import CompressionClassifier
from reticent.hypotheses import FiniteClass, Stumps, Thresholds
from reticent.learners import (
    BestSubsetRegressor,
    ExponentialMechanismClassifier,
    HighConfidence,
    LogConcaveClassifier,
    LogConcaveRegressor,
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PerfectlyGeneralizingClassifier,
    PerturbedERMClassifier,
    PublicCoverClassifier,
    RegularizedERMClassifier,
    RegularizedERMRegressor,
    RRSPMClassifier,
    RSPMClassifier,
    Subsampled,
)
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

Rows = tuple[NDArray[np.float64], NDArray[Any]]
LABELS = [0, 1]
BOUNDS = (0.0, 1.0)


def ball(n: int, d: int = 10) -> Rows:
    """Rows in the unit ball with labels of a noisy halfspace."""
    random = np.random.default_rng(n + d)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    return X, (X[:, 0] + 0.2 * random.normal(size=n) > 0).astype(int)


def numbers(n: int, d: int = 10) -> Rows:
    """The same rows with numbers between 0 and 1 to predict."""
    X, _ = ball(n, d)
    noise = np.random.default_rng(n).normal(size=n)
    return X, np.clip(0.5 + 0.4 * X[:, 0] + 0.1 * noise, 0, 1)


def line(n: int, d: int = 1) -> Rows:
    """Points between 0 and 1, one label in ten flipped."""
    random = np.random.default_rng(n)
    X = random.random((n, d))
    return X, ((X[:, 0] > 0.4) ^ (random.random(n) < 0.1)).astype(int)


def clean_line(n: int, d: int = 1) -> Rows:
    X, _ = line(n, d)
    return X, (X[:, 0] > 0.4).astype(int)


def clean_ball(n: int, d: int = 10) -> Rows:
    """Rows on either side of a halfspace, with a margin that bounds all mistakes."""
    X, y = ball(n, d)
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] = 2.0 * y - 1.0
    return X / 2, y


def column_above(k: int) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    return lambda X: (X[:, 0] > k / 21).astype(int)


TWENTY = FiniteClass([column_above(k) for k in range(1, 21)])
POINTS = np.linspace(0, 1, 65)[:, None]
PUBLIC = np.random.default_rng(0).random((60, 1))
PUBLIC_BALL = ball(500)[0]


@dataclass(frozen=True)
class Case:
    """A model, its rows, and the largest sizes that are measured."""

    model: Callable[[], Any]
    rows: Callable[..., Rows] = ball
    most_rows: int = 10**6
    most_queries: int = 10**6
    public: NDArray[np.float64] | None = None

    def fitted(self, X: NDArray[np.float64], y: NDArray[Any]) -> Any:
        extra = {} if self.public is None else {"public": self.public}
        return self.model().fit(X, y, **extra)


def _labels(model: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    return lambda: model(*given, classes=LABELS, **settings)


def _bounds(model: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    return lambda: model(*given, bounds=BOUNDS, **settings)


def _compressed(scheme: str) -> Callable[[], Any]:
    return lambda: CompressionClassifier(scheme, classes=LABELS)


TREE = DecisionTreeClassifier(max_depth=5)
ASK = {
    "vote of 100 linear": Case(
        _labels(PrivateVotingClassifier, LogisticRegression(), 1.0, n_shards=100)
    ),
    "vote of 100 trees": Case(
        _labels(PrivateVotingClassifier, TREE, 1.0, n_shards=100),
        most_rows=3 * 10**5,
        most_queries=10**5,
    ),
    "average of 100 linear": Case(
        _labels(PrivateAveragingClassifier, LogisticRegression(), 1.0, n_shards=100)
    ),
    "average of 100 ridge": Case(
        _bounds(PrivateAveragingRegressor, Ridge(), 1.0, n_shards=100),
        numbers,
        most_queries=10**5,
    ),
    "stable linear": Case(_labels(StableLinearClassifier, 1.0)),
    "stable linear, psgd": Case(
        _labels(StableLinearClassifier, 1.0, "psgd"), most_rows=3 * 10**5
    ),
    "stable linear numbers": Case(_bounds(StableLinearRegressor, 1.0), numbers),
    "projected walk": Case(_labels(ProjectedWalkClassifier, 1.0), line),
    "stable selection": Case(
        _labels(StableSelectionClassifier, Stumps(), epsilon=1.0),
        line,
        most_rows=10**5,
        most_queries=10**3,
    ),
    "relabeling": Case(
        _labels(RelabelingClassifier, Thresholds(), 1.0, n_shards=5),
        clean_line,
        most_rows=10**5,
        most_queries=10**3,
    ),
}
RELEASE = {
    "exponential mechanism": Case(
        _labels(ExponentialMechanismClassifier, Thresholds(), bounds=BOUNDS), line
    ),
    "public cover": Case(
        _labels(PublicCoverClassifier, Thresholds()), line, public=PUBLIC
    ),
    "perfectly generalizing": Case(
        _labels(PerfectlyGeneralizingClassifier, TWENTY, 0.5), line
    ),
    "high confidence": Case(
        lambda: HighConfidence(
            ExponentialMechanismClassifier(TWENTY, classes=LABELS), epsilon=3.0
        ),
        line,
    ),
    "subsampled": Case(
        lambda: Subsampled(ExponentialMechanismClassifier(TWENTY, classes=LABELS)), line
    ),
    "log-concave": Case(
        _labels(LogConcaveClassifier, steps=200),
        lambda n, d=3: ball(n, d),
        most_rows=10**5,
    ),
    "log-concave numbers": Case(
        _bounds(LogConcaveRegressor, steps=200),
        lambda n, d=3: numbers(n, d),
        most_rows=10**5,
    ),
    # Left to itself it takes 20 to 200 steps, more for more rows; so they are fixed.
    "noisy gradient": Case(_labels(NoisyGradientClassifier, steps=100)),
    "noisy gradient numbers": Case(_bounds(NoisyGradientRegressor, steps=100), numbers),
    "objective noise": Case(_labels(ObjectivePerturbationClassifier)),
    "objective noise numbers": Case(_bounds(ObjectivePerturbationRegressor), numbers),
    "output noise": Case(_labels(OutputPerturbationClassifier)),
    "output noise numbers": Case(_bounds(OutputPerturbationRegressor), numbers),
    "best subset": Case(_bounds(BestSubsetRegressor), numbers),
    "RSPM": Case(_labels(RSPMClassifier, Thresholds(), domain=POINTS), line),
    "RRSPM": Case(_labels(RRSPMClassifier, Thresholds()), line, public=PUBLIC),
    "perturbed ERM": Case(
        _labels(PerturbedERMClassifier, Thresholds(), repeats=50), line, public=PUBLIC
    ),
    "regularized ERM": Case(_labels(RegularizedERMClassifier), public=PUBLIC_BALL),
    "regularized ERM numbers": Case(
        _bounds(RegularizedERMRegressor), numbers, public=PUBLIC_BALL
    ),
}
REUSE = {
    "compression, threshold": Case(_compressed("threshold"), line),
    "compression, interval": Case(_compressed("interval"), line, most_rows=3 * 10**5),
    "compression, rectangle": Case(
        _compressed("rectangle"), lambda n, d=2: clean_line(n, d), most_rows=3 * 10**5
    ),
    # Little is computed a row, so sizes start where rows leave the processor's cache.
    "compression, perceptron": Case(
        _compressed("perceptron"), clean_ball, most_rows=10**7
    ),
    "compression, boosting": Case(_compressed("boosting"), line, most_rows=10**5),
}
CASES = {**ASK, **RELEASE, **REUSE}
