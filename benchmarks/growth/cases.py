"""What is measured: every public estimator, or the reason why it is not.

Settings are the defaults but for what an estimator cannot do without: a class of
hypotheses, labels or bounds, the number of shards. A test fails for a public estimator
that is neither here nor in `NOT_MEASURED`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.tree import DecisionTreeClassifier

from reticent import Budget
from reticent.generalization import AdaptiveSession, CompressionClassifier
from reticent.hypotheses import FiniteClass, Stumps, Thresholds
from reticent.learners import (
    BestSubsetRegressor,
    ExponentialMechanismClassifier,
    FourierFeatures,
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
    PrivateTabularClassifier,
    PrivateTabularRegressor,
    PublicCoverClassifier,
    RandomPartitions,
    RegularizedERMClassifier,
    RegularizedERMRegressor,
    Resampled,
    RRSPMClassifier,
    RSPMClassifier,
    StudentClassifier,
    Subsampled,
)
from reticent.prediction import (
    ConsensusInterface,
    PredictionInterface,
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
    """A model, its rows, and the largest sizes that are measured.

    Attributes
    ----------
    model : callable
        Makes the estimator.
    rows : callable
        Makes so many rows with labels.
    most_rows, most_queries : int
        The upper end of two decades.
    least_rows : int
        Below this size a method does something else; no size is smaller.
    public : ndarray, optional
        Public rows for `fit`.
    wrap : callable, optional
        Fits the estimator inside something else that answers, from rows and labels.
    wrapper : str
        The name of that.
    ask : str
        The method that answers.
    remembers : bool
        Whether a question asked again is answered from memory; then each time is that
        of a first call.
    """

    model: Callable[[], Any]
    rows: Callable[..., Rows] = ball
    most_rows: int = 10**6
    most_queries: int = 10**6
    public: NDArray[np.float64] | None = None
    wrap: Callable[[Any, Any, Any], Any] | None = None
    wrapper: str = ""
    ask: str = "predict"
    remembers: bool = False
    least_rows: int = 1

    def fitted(self, X: NDArray[np.float64], y: NDArray[Any]) -> Any:
        if self.wrap is not None:
            return self.wrap(self.model(), X, y)
        extra = {} if self.public is None else {"public": self.public}
        return self.model().fit(X, y, **extra)

    @property
    def covers(self) -> str:
        """Return the name of the public estimator that is measured."""
        return self.wrapper or type(self.model()).__name__


def _labels(model: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    return lambda: model(*given, classes=LABELS, **settings)


def _bounds(model: Callable[..., Any], *given: Any, **settings: Any) -> Any:
    return lambda: model(*given, bounds=BOUNDS, **settings)


def _compressed(scheme: str) -> Callable[[], Any]:
    return lambda: CompressionClassifier(scheme, classes=LABELS)


def _interface(model: Any, X: Any, y: Any) -> PredictionInterface:
    return PredictionInterface(model.fit(X, y), Budget(epsilon=1000.0))


def _consensus(model: Any, X: Any, y: Any) -> ConsensusInterface:
    budget = Budget(epsilon=100.0, delta=1e-3)
    return ConsensusInterface(model.fit(X, y), budget, queries=10**6, unstable=20)


def _session(model: Any, X: Any, y: Any) -> Any:
    return AdaptiveSession(X, y, epsilon=1000.0).fit(model)


TREE = DecisionTreeClassifier(max_depth=5)
LINEAR_VOTE = _labels(PrivateVotingClassifier, LogisticRegression(), 1.0, n_shards=100)
# So little that a budget lasts for all questions.
CHEAP_VOTE = _labels(PrivateVotingClassifier, LogisticRegression(), 1e-3, n_shards=100)
ASK = {
    "vote of 100 linear": Case(LINEAR_VOTE),
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
        _labels(StableLinearClassifier, 1.0, solver="psgd"), most_rows=3 * 10**5
    ),
    "stable linear numbers": Case(_bounds(StableLinearRegressor, 1.0), numbers),
    "projected walk": Case(_labels(ProjectedWalkClassifier, 1.0), line),
    "interface with a budget": Case(
        CHEAP_VOTE,
        most_queries=10**5,
        wrap=_interface,
        wrapper="PredictionInterface",
        remembers=True,
    ),
    "interface by consensus": Case(
        LINEAR_VOTE,
        clean_ball,
        most_queries=10**5,
        wrap=_consensus,
        wrapper="ConsensusInterface",
        remembers=True,
    ),
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
    "resampled": Case(
        lambda: Resampled(
            PerfectlyGeneralizingClassifier(TWENTY, 0.25, classes=LABELS)
        ),
        line,
    ),
    "log-concave": Case(
        _labels(LogConcaveClassifier), lambda n, d=3: ball(n, d), most_rows=10**5
    ),
    "log-concave numbers": Case(
        _bounds(LogConcaveRegressor), lambda n, d=3: numbers(n, d), most_rows=10**5
    ),
    "noisy gradient": Case(_labels(NoisyGradientClassifier)),
    "noisy gradient numbers": Case(_bounds(NoisyGradientRegressor), numbers),
    "student of 100 linear": Case(
        lambda: StudentClassifier(LINEAR_VOTE(), LogisticRegression(), 10.0),
        public=PUBLIC_BALL,
    ),
    "tabular": Case(
        _labels(PrivateTabularClassifier), most_rows=30_000, most_queries=10**5
    ),
    "tabular numbers": Case(
        _bounds(PrivateTabularRegressor),
        numbers,
        most_rows=30_000,
        most_queries=10**5,
    ),
    "random partitions": Case(RandomPartitions, most_queries=10**4, ask="transform"),
    "Fourier features": Case(FourierFeatures, ask="transform"),
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
    "compression, perceptron, separable": Case(
        _compressed("perceptron"), clean_ball, most_rows=10**7
    ),
    "compression, perceptron": Case(_compressed("perceptron")),
    "compression, boosting": Case(_compressed("boosting"), line, most_rows=10**5),
    "compression, subsample": Case(_compressed("subsample")),
    "compression, svm": Case(
        _compressed("svm"), most_rows=3 * 10**5, most_queries=10**5, least_rows=3000
    ),
    "session, a released model": Case(
        _labels(OutputPerturbationClassifier), wrap=_session, wrapper="AdaptiveSession"
    ),
    "session, a predictor": Case(
        CHEAP_VOTE, most_queries=10**5, wrap=_session, wrapper="SessionPredictor"
    ),
}
CASES = {**ASK, **RELEASE, **REUSE}
NOT_MEASURED = {
    "PrivateSearch": "it fits its candidates a random number of times",
    "PrivateNeighborsClassifier": "measured by benchmarks/speed/bench_neighbors.py",
    "PrivateNeighborsRegressor": "as PrivateNeighborsClassifier",
    "PrivateTabular": "the base of the two below",
    "LocalPredictor": "the base of PrivateNeighborsClassifier",
    "LastingInterface": "it asks a PrivateNeighborsClassifier",
    "DecodedHypothesis": "what a CompressionClassifier predicts with",
    "optimal_learner": "a linear programme over all data sets, for tiny domains",
    "optimal_predictor": "a linear programme over all data sets, for tiny domains",
}
