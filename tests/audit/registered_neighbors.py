"""Answers and models under individual accounting: the same transcript on neighbours."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from reticent.audit import Verification
from reticent.estimators import RoundBudget
from reticent.guarantees import GaussianDP
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.prediction import (
    LastingInterface,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
)
from tests.audit.registry import register
from tests.prediction.same_transcript import information, recorded

EPSILON, DELTA = 8.0, 1e-3
N = 24
ROWS = np.linspace(-1, 1, N)[:, None]
# What one unit may be: a row, also a missing one, and a label.
UNITS = [(x, y) for x in (-1.0, 0.05, math.nan) for y in (0, 1)]
COMPARED = "the transcripts of neighbours are compared themselves"


def answering(maker, **given):
    def program(X, y):
        model = maker(EPSILON, delta=DELTA, questions=3, prior=False, **given)
        return model.fit(X, y).ask(np.full((30, 1), 0.05)).trace.tolist()

    return program


def lasting(X, y):
    model = PrivateNeighborsClassifier(
        EPSILON, delta=DELTA, questions=3, prior=False, classes=[0, 1]
    ).fit(X, y)
    interface = LastingInterface(model)
    # Each is asked twice; the second answer is remembered.
    asked = np.linspace(0, 0.1, 30)[:, None]
    return [interface.predict(asked).tolist() for _ in range(2)]


def releasing(maker, **given):
    def program(X, y):
        return maker(EPSILON, delta=DELTA, **given).fit(X, y).model_.values.tolist()

    return program


def dataset(unit):
    X, y = ROWS.copy(), (np.arange(N) % 2).astype(int)
    X[0], y[0] = unit
    return X, y


def moves(program, units=UNITS):
    """Return how far sums are apart over the whole transcript, in Gaussian DP."""

    def verify():
        mu = RoundBudget.of("a test", EPSILON, DELTA, "replace-one").mu
        worst, pairs = Fraction(0), 0
        for one in units:
            released, heard = recorded(lambda one=one: program(*dataset(one)))
            for other in units:
                again, compared = recorded(
                    lambda other=other: program(*dataset(other)), heard
                )
                assert again == released
                worst = max(worst, information(heard, compared))
                pairs += 1
        return Verification(
            holds=worst <= Fraction(mu) ** 2,
            guarantee=GaussianDP(mu),
            worst=math.sqrt(worst),
            allowed=mu,
            rigorous=True,
            datasets=len(units),
            pairs=pairs,
            example=(None, None, None, None),
        )

    return verify


for made, program in (
    (
        PrivateNeighborsClassifier,
        answering(PrivateNeighborsClassifier, classes=[0, 1]),
    ),
    (LastingInterface, lasting),
    (PrivateNeighborsRegressor, answering(PrivateNeighborsRegressor)),
    (PrivateTabularClassifier, releasing(PrivateTabularClassifier, classes=[0, 1])),
    (PrivateTabularRegressor, releasing(PrivateTabularRegressor)),
):
    register(made, "transcripts", "noise", moves(program), tight=0.3, replay=COMPARED)
