"""What learns from data under a bound on overfitting instead of noise alone."""

from __future__ import annotations

from itertools import product

import numpy as np

from reticent.audit import Verification, verify_noise, verify_release
from reticent.generalization import (
    AdaptiveSession,
    CompressionClassifier,
    DecodedHypothesis,
    SessionPredictor,
)
from reticent.guarantees import PureDP, RobustGeneralization
from reticent.prediction import PrivateVotingClassifier
from tests.audit.registered_predictors import BINARY, LABELLED, TABLED
from tests.audit.registry import Replayed, register
from tests.prediction.learners import Table

EPSILON = 0.7


def decoded_again():
    """The kept examples alone give the hypothesis back, on every small dataset."""
    domain, holds, count = list(product((0.0, 1.0, 2.0), (0, 1))), True, 0
    grid = np.array([[-0.5], [0.0], [0.5], [1.0], [1.5], [2.0], [2.5]])
    for scheme in ("threshold", "interval"):
        for data in product(domain, repeat=3):
            X = np.array([[x] for x, _ in data])
            y = np.array([label for _, label in data])
            model = CompressionClassifier(scheme, classes=[0, 1]).fit(X, y)
            count += 1
            again = model.decode(model.kept_)
            holds &= (again.predict(grid) == model.predict(grid)).all()
            holds &= len(model.kept_) <= model.most_kept(3, 1)
    return Verification(
        holds=bool(holds),
        guarantee=RobustGeneralization(0.0, 0.0),
        worst=0.0,
        allowed=0.0,
        rigorous=True,
        datasets=count,
        pairs=0,
        example=(None, None, None, None),
    )


for estimator in (CompressionClassifier, DecodedHypothesis):
    register(
        estimator,
        "decoded",
        "function",
        decoded_again,
        tight=0.0,
        replay="not private: it keeps examples, and its promise is about overfitting",
    )


def session_mean(X, y):
    session = AdaptiveSession(X, y, epsilon=EPSILON)
    return session.mean(lambda X, y: y, epsilon=EPSILON)


register(
    AdaptiveSession,
    "mean",
    "noise",
    lambda: verify_noise(
        session_mean, BINARY, 3, claim=PureDP(EPSILON), symmetric=True
    ),
    tight=0.99,
    replay=Replayed(lambda data: session_mean(*data), LABELLED),
)


def session_answers(X, y, queries=((0,), (1,))):
    session = AdaptiveSession(X, y, epsilon=2 * EPSILON)
    model = PrivateVotingClassifier(Table(), EPSILON, (0, 1), 2, rule="geometric")
    return tuple(session.fit(model).predict(np.array(queries)).tolist())


register(
    SessionPredictor,
    "two-answers",
    "release",
    lambda: verify_release(
        session_answers, BINARY, 2, claim=PureDP(2 * EPSILON), symmetric=True
    ),
    tight=0.5,
    replay=Replayed(lambda data: session_answers(*data), TABLED),
)
