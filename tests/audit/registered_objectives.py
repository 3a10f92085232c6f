"""Learners with noise in their objective: densities and laws of the minimiser."""

from __future__ import annotations

from itertools import combinations_with_replacement, product
from types import SimpleNamespace

import numpy as np

from reticent.audit import Verification, verify_noise
from reticent.estimators import LinearFacts, regression_loss
from reticent.estimators.linear.losses import classification_loss
from reticent.guarantees import ApproxDP, PureDP
from reticent.hypotheses import Thresholds
from reticent.learners import (
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    PerturbedERMClassifier,
    RegularizedERMClassifier,
    RegularizedERMRegressor,
    RRSPMClassifier,
    RSPMClassifier,
)
from reticent.learners.linear.objective_noise import ObjectivePlan
from reticent.mechanisms import GridLaw, Listener, listen
from tests.audit.registered_learners import LINE, NUMBERS, coefficients
from tests.audit.registered_predictors import LABELLED, MEASURED
from tests.audit.registry import Replayed, register

EPSILON = 1.2
GRID = np.linspace(-60, 60, 4001)
NO_SPEND = (None, None, None, None)


def verified(worst, allowed, guarantee, datasets, pairs):
    return Verification(
        holds=worst <= allowed * (1 + 1e-9),
        guarantee=guarantee,
        worst=float(worst),
        allowed=float(allowed),
        rigorous=False,
        datasets=datasets,
        pairs=pairs,
        example=NO_SPEND,
    )


def tilted_density(model, loss, domain, n=3):
    """The exact density of the minimiser in one dimension, on every pair.

    The tilt that leads to w is minus the gradient there; the density of w is that of
    the tilt times the derivative. (Noise for the solver's error is post-processing of
    an exact minimiser, up to the epsilon that its own rule adds.)
    """
    facts = LinearFacts(
        n_units=n,
        dimension=1,
        l1_bound=1.0,
        feature_bound=1.0,
        labels_from_data=False,
        seeded=False,
    )
    plan = ObjectivePlan.of(model, loss, facts)

    def log_density(data):
        x = np.array([domain[unit][0] for unit in data])
        y = np.array([domain[unit][1] for unit in data])
        scores = np.outer(GRID, x)
        slope = (loss.loss.slope(scores, y) * x).sum(axis=1)
        curve = (loss.loss.curvature(scores, y) * x**2).sum(axis=1)
        tilt = slope + n * plan.regularization * GRID
        return -np.abs(tilt) / plan.tilt_scale + np.log(curve + n * plan.regularization)

    tables = {
        data: log_density(data)
        for data in combinations_with_replacement(range(len(domain)), n)
    }
    losses = [
        np.abs(here - tables[tuple(sorted((unit, *data[1:])))]).max()
        for data, here in tables.items()
        for unit in range(len(domain))
    ]
    (tilt, _) = plan.certificate.premises
    promised = tilt.guarantee.epsilon
    assert promised < model.epsilon
    return verified(max(losses), promised, PureDP(promised), len(tables), len(losses))


WHY = (
    "one unit moves the minimiser under the same tilt; what is private is its density "
    "over all tilts, which is verified"
)
for estimator, make, loss, domain in (
    (
        ObjectivePerturbationClassifier,
        lambda: ObjectivePerturbationClassifier(EPSILON),
        lambda: classification_loss("logistic", 1.0),
        list(product((-1.0, 0.3, 1.0), (0.0, 1.0))),
    ),
    (
        ObjectivePerturbationRegressor,
        lambda: ObjectivePerturbationRegressor(EPSILON),
        lambda: regression_loss("huber", 0.25, 1.0),
        list(product((-1.0, 0.3, 1.0), (-1.0, 1.0))),
    ),
):
    register(
        estimator,
        "one-dimension",
        "density",
        lambda make=make, loss=loss, domain=domain: tilted_density(
            make(), loss(), domain
        ),
        tight=0.2,
        replay=WHY,
    )


class Forced(Listener):
    """Let the noise on the public point come out as told."""

    def __init__(self, noise):
        self.noise = noise
        self.settings = None

    def drawn(self, draw, sample):
        law, location, scale, *_ = draw.arguments
        self.settings = (law, scale)
        return np.full(np.shape(location), self.noise)


def label_under(make, X, y, noise):
    ear = Forced(noise)
    with listen(ear):
        model = make(X, y)
    (label,) = model.labels_
    return int(label), ear.settings


def exact_chances(make, X, y, reach=2**40):
    """The least noise that turns label 1 into 0, and the exact laws of both.

    Noise is what label 1 costs at the only public point: a larger one can only turn 1
    into 0. So the law of the label is a tail of the noise.
    """
    (first, (law, scale)), (last, _) = (
        label_under(make, X, y, noise) for noise in (-reach, reach)
    )
    assert (first, last, law) == (1, 0, GridLaw.LAPLACE)
    low, high = -reach, reach
    while high - low > 1:
        middle = (low + high) // 2
        if label_under(make, X, y, middle)[0]:
            low = middle
        else:
            high = middle
    return SimpleNamespace(turn=high, scale=scale)


def log_tails(found):
    """Return ln Pr[noise >= turn] and ln Pr[noise < turn], the labels 0 and 1."""
    q = -1 / found.scale

    def upper(k):  # Pr[noise >= k] for k >= 1 is e^{qk} / (1 + e^q)
        return q * k - np.log1p(np.exp(q))

    if found.turn >= 1:
        zero = upper(found.turn)
        return np.array([zero, np.log1p(-np.exp(zero))])
    one = upper(1 - found.turn)  # Pr[noise <= turn - 1]
    return np.array([np.log1p(-np.exp(one)), one])


def separator_law(make, epsilon):
    domain = list(product((-1.0, 1.0), (0, 1)))
    tables = {}
    for data in combinations_with_replacement(range(len(domain)), 2):
        X = np.array([[domain[unit][0]] for unit in data])
        y = np.array([domain[unit][1] for unit in data])
        tables[data] = log_tails(exact_chances(make, X, y))
    losses = [
        np.abs(here - tables[tuple(sorted((unit, *data[1:])))]).max()
        for data, here in tables.items()
        for unit in range(len(domain))
    ]
    return verified(max(losses), epsilon, PureDP(epsilon), len(tables), len(losses))


POINT = np.array([[0.0]])
ORACLE = (
    "noise is on costs of public points, which no unit moves; what is private is the "
    "law of the minimiser, which is verified"
)
register(
    RRSPMClassifier,
    "one-point",
    "law",
    lambda: separator_law(
        lambda X, y: RRSPMClassifier(Thresholds(), EPSILON, classes=[0, 1]).fit(
            X, y, public=POINT
        ),
        EPSILON,
    ),
    tight=0.4,
    replay=ORACLE,
)
register(
    RSPMClassifier,
    "one-point",
    "law",
    lambda: separator_law(
        lambda X, y: RSPMClassifier(
            Thresholds(), EPSILON, points=POINT, classes=[0, 1]
        ).fit(X, y),
        EPSILON,
    ),
    tight=0.4,
    replay=ORACLE,
)

PUBLIC = np.array([[-1.0], [0.5], [1.0]])


def released(make):
    return lambda data: coefficients(lambda: Fitted(make()))(data)


class Fitted:
    """Fit with the public points."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        return self.model.fit(X, y, public=PUBLIC)


for estimator, settings, domain, pairs in (
    (RegularizedERMClassifier, {"classes": [0, 1]}, LINE, LABELLED),
    (RegularizedERMRegressor, {"bounds": (-1.0, 2.0)}, NUMBERS, MEASURED),
):
    for delta in (0.0, 1e-3):

        def regularized(estimator=estimator, delta=delta, settings=settings):
            return estimator(EPSILON, delta=delta, **settings)

        register(
            estimator,
            "gaussian" if delta else "laplace",
            "noise",
            lambda make=regularized, domain=domain, delta=delta: verify_noise(
                lambda X, y: make().fit(X, y, public=PUBLIC),
                domain,
                2,
                claim=ApproxDP(EPSILON, delta) if delta else PureDP(EPSILON),
                symmetric=True,
            ),
            tight=0.0 if delta else 0.05,
            replay=Replayed(released(regularized), pairs),
        )


def perturbed(data):
    model = PerturbedERMClassifier(
        Thresholds(), EPSILON, delta=1e-2, repeats=4, classes=[0, 1]
    )
    return model.fit(*data, public=PUBLIC).public_values_


register(
    PerturbedERMClassifier,
    "given-costs",
    "noise",
    lambda: verify_noise(
        lambda X, y: perturbed((X, y)),
        LINE,
        2,
        claim=ApproxDP(EPSILON, 1e-2 / 2),  # the other half is for unusual costs
        symmetric=True,
    ),
    tight=0.0,
    replay=Replayed(perturbed, LABELLED),
)
