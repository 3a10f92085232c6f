"""Every learner: exact laws of what it releases, replay on random data."""

from __future__ import annotations

import math
from functools import partial
from itertools import product

import numpy as np

from reticent.audit import Verification, replay, verify_noise, verify_release
from reticent.guarantees import ApproxDP, BoundedRange, PureDP
from reticent.hypotheses import FiniteClass, Thresholds
from reticent.learners import (
    BestSubsetRegressor,
    ExponentialMechanismClassifier,
    FourierFeatures,
    HighConfidence,
    LogConcaveClassifier,
    LogConcaveRegressor,
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PerfectlyGeneralizingClassifier,
    PublicCoverClassifier,
    RandomPartitions,
    Resampled,
    Subsampled,
)
from tests.audit.registered_predictors import LABELLED, MEASURED, labelled, measured
from tests.audit.registry import Replayed, random_pairs, register, without_unit

EPSILON = 1.2
DOMAIN = list(product((0.0, 1.0), (0, 1)))
LINE = list(product((-1.0, 1.0), (0, 1)))
NUMBERS = list(product((-1.0, 1.0), (-1.0, 2.0)))
POINTS = np.array([[0.0], [1.0]])
TABLE = FiniteClass.from_table(POINTS, [[0, 0], [0, 1], [1, 1]])
TWO = FiniteClass.from_table(POINTS, [[0, 0], [0, 1]])
CUTS = np.linspace(-1, 1, 5)

# Two numbers that Laplace or Gaussian noise goes to in one release.
WIDE = without_unit(random_pairs(lambda rng: labelled(rng, d=2)))
WIDE_NUMBERS = without_unit(random_pairs(lambda rng: measured(rng, d=2)))


def labels_of(make, points=POINTS, **fitted):
    """Release a classifier: what it says about each of some points."""
    return lambda X, y: tuple(make().fit(X, y, **fitted).predict(points).tolist())


def coefficients(make):
    def run(data):
        model = make().fit(*data)
        return np.append(np.ravel(model.coef_), model.intercept_)

    return run


def listed(make, claim, n=3, domain=DOMAIN, **fitted):
    return lambda: verify_release(
        labels_of(make, **fitted), domain, n, claim=claim, symmetric=True
    )


def on_cuts(make, **fitted):
    points = CUTS[:, None]
    return lambda data: make().fit(*data, **fitted).predict(points)


def exponential(epsilon=EPSILON, selection="exponential", table=TABLE, **settings):
    return ExponentialMechanismClassifier(
        table, epsilon, selection=selection, classes=[0, 1], **settings
    )


def thresholds(selection):
    return exponential(selection=selection, table=Thresholds(), points=CUTS)


for selection, claim in (
    ("exponential", BoundedRange(EPSILON)),
    ("permute-and-flip", PureDP(EPSILON)),
):
    register(
        ExponentialMechanismClassifier,
        selection,
        "release",
        listed(lambda selection=selection: exponential(selection=selection), claim),
        tight=0.5,
        replay=Replayed(
            on_cuts(lambda selection=selection: thresholds(selection)), LABELLED
        ),
    )


def law_on_a_grid():
    """Go through the hypotheses of a grid by their log-probabilities."""

    def make():
        return ExponentialMechanismClassifier(
            Thresholds(), EPSILON, bounds=(-1, 2), resolution=3, classes=[0, 1]
        )

    grid = np.array([[-0.5], [0.5], [1.5]])
    found = {}
    for seed in range(200):
        model = make().set_params(random_state=seed).fit(POINTS, [0, 1])
        found[tuple(model.predict(grid).tolist())] = model.hypothesis_
    laws = {}
    for data in product(range(4), repeat=3):
        X = np.array([[DOMAIN[unit][0]] for unit in data])
        y = np.array([DOMAIN[unit][1] for unit in data])
        law = make().response(X, y)
        laws[data] = np.array([law.log_probability(h) for h in found.values()])
    worst = max(
        float(np.ptp(np.append(laws[data] - laws[(unit, *data[1:])], 0.0)))
        for data, unit in product(laws, range(4))
    )
    return Verification(
        holds=worst <= EPSILON * (1 + 1e-9),
        guarantee=BoundedRange(EPSILON),
        worst=worst,
        allowed=EPSILON,
        rigorous=False,
        datasets=len(laws),
        pairs=len(laws) * 4,
        example=(None, None, None, None),
    )


register(
    ExponentialMechanismClassifier,
    "grid",
    "law",
    law_on_a_grid,
    tight=0.5,
    replay="candidates on a grid are counted, not listed; replayed as a list above",
)
register(
    PublicCoverClassifier,
    "exact",
    "release",
    listed(
        lambda: PublicCoverClassifier(TABLE, EPSILON, classes=[0, 1]),
        BoundedRange(EPSILON),
        public=POINTS,
    ),
    tight=0.5,
    replay=Replayed(
        on_cuts(
            lambda: PublicCoverClassifier(Thresholds(), EPSILON, classes=[0, 1]),
            public=CUTS[:, None],
        ),
        LABELLED,
    ),
)


def perfect(table=TABLE, epsilon=0.6, **settings):
    return PerfectlyGeneralizingClassifier(
        table, epsilon, 0.05, classes=[0, 1], **settings
    )


def private_part():
    fitted = perfect().fit(np.array([[0.0]] * 3), [0, 1, 1])
    return fitted.privacy_certificate_.guarantee


register(
    PerfectlyGeneralizingClassifier,
    "privacy",
    "release",
    lambda: listed(perfect, private_part())(),
    tight=0.5,
    replay=Replayed(on_cuts(lambda: perfect(Thresholds(), points=CUTS)), LABELLED),
)
register(
    Subsampled,
    "two-of-three",
    "release",
    listed(
        lambda: Subsampled(exponential(), 2),
        PureDP(math.log1p(2 / 3 * math.expm1(EPSILON)) * (1 + 1e-12)),
    ),
    tight=0.3,
    replay=Replayed(
        on_cuts(lambda: Subsampled(thresholds("exponential"), 5)), LABELLED
    ),
)
register(
    HighConfidence,
    "three-parts",
    "release",
    listed(
        lambda: HighConfidence(exponential(table=TWO), 0.5),
        PureDP(EPSILON),
        domain=DOMAIN[2:],
    ),
    tight=0.2,
    replay=Replayed(
        on_cuts(lambda: HighConfidence(thresholds("exponential"), 0.5)), LABELLED
    ),
)


def resampled_claim():
    learner = Resampled(perfect(epsilon=0.1))
    return learner.fit(POINTS, [0, 1]).certificate_.guarantee


register(
    Resampled,
    "exact",
    "release",
    lambda: listed(lambda: Resampled(perfect(epsilon=0.1)), resampled_claim(), n=2)(),
    tight=0.0,  # delta bounds samples far from their distribution; none is here
    replay="a unit may be drawn many times; the promise rests on perfect "
    "generalization, not on the moves of one unit",
)


def net(make):
    """Release a point of a small net: its coefficients."""
    return lambda X, y: tuple(
        np.append(np.ravel((m := make().fit(X, y)).coef_), m.intercept_)
    )


def ball_classifier(points=21):
    return LogConcaveClassifier(
        EPSILON, rule="net", net_points=points, fit_intercept=False, classes=[0, 1]
    )


def ball_regressor(points=21):
    return LogConcaveRegressor(
        EPSILON, rule="net", bounds=(-1.0, 2.0), net_points=points, fit_intercept=False
    )


for estimator, make, domain, pairs in (
    (LogConcaveClassifier, ball_classifier, LINE, LABELLED),
    (LogConcaveRegressor, ball_regressor, NUMBERS, MEASURED),
):
    register(
        estimator,
        "net",
        "release",
        lambda make=make, domain=domain: verify_release(
            net(make), domain, 2, claim=BoundedRange(EPSILON), symmetric=True
        ),
        tight=0.5,
        replay=Replayed(coefficients(make), pairs),
    )


def subset(epsilon=2.0):
    return BestSubsetRegressor(epsilon, bounds=(-1.0, 2.0), n_selected=1)


register(
    BestSubsetRegressor,
    "selection",
    "release",
    lambda: verify_release(
        lambda X, y: tuple(subset().fit(X, y).support_.tolist()),
        [
            ((-1.0, 0.0), -1.0),
            ((1.0, 0.0), 2.0),
            ((0.0, 1.0), 2.0),
            ((0.0, -1.0), -1.0),
        ],
        3,
        claim=PureDP(0.4 * 2.0),
        symmetric=True,
        noiseless=True,  # it comes after the selection
    ),
    tight=0.1,
    replay=Replayed(
        lambda data: subset().fit(*data).support_,
        WIDE_NUMBERS,
        # The last noise of the objective hides the solver's error alone; what hides
        # the data is the tilt, whose density is verified.
        moves={"discrete Laplace noise": np.inf},
    ),
)

GRADIENT = {"steps": 3, "classes": [0, 1]}
for estimator, setting, make, domain, claim, pairs in (
    (
        NoisyGradientClassifier,
        "gaussian",
        lambda: NoisyGradientClassifier(EPSILON, delta=1e-3, **GRADIENT),
        LINE,
        ApproxDP(EPSILON, 1e-3),
        WIDE,
    ),
    (
        NoisyGradientRegressor,
        "gaussian",
        lambda: NoisyGradientRegressor(
            EPSILON, delta=1e-3, bounds=(-1.0, 2.0), steps=3
        ),
        NUMBERS,
        ApproxDP(EPSILON, 1e-3),
        WIDE_NUMBERS,
    ),
    (
        OutputPerturbationClassifier,
        "laplace",
        lambda: OutputPerturbationClassifier(EPSILON, classes=[0, 1]),
        LINE,
        PureDP(EPSILON),
        WIDE,
    ),
    (
        OutputPerturbationClassifier,
        "gaussian",
        lambda: OutputPerturbationClassifier(EPSILON, delta=1e-3, classes=[0, 1]),
        LINE,
        ApproxDP(EPSILON, 1e-3),
        WIDE,
    ),
    (
        OutputPerturbationRegressor,
        "laplace",
        lambda: OutputPerturbationRegressor(EPSILON, bounds=(-1.0, 2.0)),
        NUMBERS,
        PureDP(EPSILON),
        WIDE_NUMBERS,
    ),
):
    register(
        estimator,
        setting,
        "noise",
        lambda make=make, domain=domain, claim=claim: verify_noise(
            lambda X, y: make().fit(X, y), domain, 2, claim=claim, symmetric=True
        ),
        # A delta falls steeply where a move is smaller than the bound on it.
        tight=0.0 if setting == "gaussian" else 0.25,
        replay=Replayed(coefficients(make), pairs),
    )


def ignores_the_data(front):
    """Same draws, any data: the same features of a fixed row."""

    def run(data):
        return front().fit(data).transform([[0.3]])

    def verify():
        datasets = [np.array(values) for values in product(([-1.0], [1.0]), repeat=2)]
        pairs = [(a, b) for a in datasets for b in datasets]
        return Verification(
            holds=all(replay(run, a, b).holds for a, b in pairs),
            guarantee=PureDP(0.0),
            worst=0.0,
            allowed=0.0,
            rigorous=True,
            datasets=len(datasets),
            pairs=len(pairs),
            example=(None, None, None, None),
        )

    return verify


for front in (
    partial(FourierFeatures, 3, random_state=0),
    partial(RandomPartitions, n_trees=3, depth=2, random_state=0),
):
    register(
        front.func,
        "public",
        "function",
        ignores_the_data(front),
        tight=0.0,
        replay="the features do not depend on the data at all",
    )
