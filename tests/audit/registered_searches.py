"""A private search: the exact law of the best run, on every pair of neighbours."""

from __future__ import annotations

from functools import cache
from itertools import product

import mpmath
import numpy as np

from reticent.audit import Verification
from reticent.evaluation import UNIT_STEPS, unit_sums
from reticent.evaluation.sums import score_noise
from reticent.guarantees import Budget
from reticent.learners import ExponentialMechanismClassifier, PrivateSearch
from reticent.learners.meta.base import UnitTable
from reticent.learners.search.runs import RunTask
from reticent.mechanisms import noise_source
from tests.audit.registered_learners import DOMAIN, POINTS, TABLE, TWO
from tests.audit.registry import register
from tests.learners.best_of_runs import DIGITS, exactly, negative_binomial

BUDGET = Budget(3.0)
SETTINGS = [{"hypotheses": TABLE}, {"hypotheses": TWO}]
HYPOTHESES = [[(0, 0), (0, 1), (1, 1)], [(0, 0), (0, 1)]]
TRAIN, HELD_OUT = np.array([0, 1]), np.array([2])


def searched(eta):
    """Return a search among two classes of hypotheses, fitted on three units."""
    learner = ExponentialMechanismClassifier(TABLE, 1.0, classes=[0, 1])
    search = PrivateSearch(
        learner,
        {"hypotheses": [TABLE, TWO]},
        BUDGET,
        runs=4.0,
        eta=eta,
        holdout=1 / 3,
    )
    return search.fit(np.array([[0.0], [1.0], [1.0]]), [0, 1, 1])


@cache
def fitted(place, epsilon):
    """Return a fitted model for each hypothesis of a setting."""
    found = {}
    for seed in range(60):
        model = ExponentialMechanismClassifier(
            epsilon=epsilon, classes=[0, 1], random_state=seed, **SETTINGS[place]
        ).fit(POINTS, [0, 1])
        found[tuple(model.predict(POINTS).tolist())] = model
    return found


def run_law(task, data, epsilon):
    """Return the runs on a dataset: probability and goodness of each outcome."""
    X = np.array([[DOMAIN[unit][0]] for unit in data])
    y = np.array([DOMAIN[unit][1] for unit in data])
    table = UnitTable(X, y, None)
    source = noise_source(0)
    outcomes = []
    for place, setting in enumerate(SETTINGS):
        model = task.candidate(setting, source)
        law = np.ravel(model.response(X[TRAIN], y[TRAIN]).probabilities)
        known = fitted(place, epsilon)
        for said, share in zip(HYPOTHESES[place], law.tolist(), strict=True):
            one, mass = known[said], mpmath.mpf(share) / len(SETTINGS)
            good = task.goodness(one, table, HELD_OUT)
            outcomes.append((mass, good))
    assert abs(sum(mass for mass, _ in outcomes) - 1) < 1e-9
    return outcomes


def best_law(outcomes, scale, generating, scores):
    """Return logarithms of the law of the released run at some scores, ties included.

    Outcomes come in a fixed order.
    """
    ratio = mpmath.exp(-1 / mpmath.mpf(scale))

    def at_most(z):
        z = int(z)
        tail = ratio ** abs(z) / (1 + ratio)
        return 1 - tail * ratio if z >= 0 else tail

    def mass_at(z):
        return (1 - ratio) / (1 + ratio) * ratio ** abs(int(z))

    law = []
    for score in scores:
        here = [m * mass_at(score - g) for m, g in outcomes]
        below = sum(m * at_most(score - 1 - g) for m, g in outcomes)
        whole = sum(here)
        won = generating(below + whole) - generating(below)
        law += [float(mpmath.log(won * mass / whole)) for mass in here]
    assert np.isfinite(law).all()
    return np.array(law)


def verify_search(eta, generating=None):
    """Compare the laws of the best run of all neighbours, with the code's own parts."""
    search = searched(eta)
    plan = search._plan()
    task = RunTask(
        estimator=search.estimator,
        settings=SETTINGS,
        public={"classes": [0, 1]},
        price=plan.price,
        bounds=None,
        questions=1,
    )
    noise = score_noise(
        unit_sums(n=1, steps=UNIT_STEPS), plan.score_epsilon, 1, seeded=False
    )
    runs = search.repetitions_
    generating = generating or negative_binomial(runs.eta, runs.gamma)
    # Log-ratios bend at 0 and UNIT_STEPS, and are nearly constant far outside.
    steps = [-12, -5, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 6]
    scores = [int(step * UNIT_STEPS) for step in steps]
    # The learner does not look at the order of its units.
    places = range(len(DOMAIN))
    datasets = [data for data in product(places, repeat=3) if data[0] <= data[1]]
    with mpmath.workdps(DIGITS):
        laws = {
            data: best_law(
                run_law(task, data, plan.price.epsilon), noise.scale, generating, scores
            )
            for data in datasets
        }
    worst, pairs = 0.0, 0
    for data, place, unit in product(laws, range(3), places):
        changed = [*data[:place], unit, *data[place + 1 :]]
        near = laws[(*sorted(changed[:2]), changed[2])]
        pairs += 1
        worst = max(worst, float(np.abs(laws[data] - near).max()))
    allowed = search.certificate_.guarantee.epsilon
    return Verification(
        holds=worst <= allowed * (1 + 1e-12),
        guarantee=search.certificate_.guarantee,
        worst=worst,
        allowed=allowed,
        rigorous=False,
        datasets=len(laws),
        pairs=pairs,
        example=(None, None, None, None),
    )


def best_of_exactly(k):
    """Return what the same code finds if always `k` runs are made: no promise holds."""
    return verify_search(0.0, exactly(k))


for eta in (0.0, 1.0):
    register(
        PrivateSearch,
        f"eta-{eta:g}",
        "law",
        lambda eta=eta: verify_search(eta),
        tight=0.4,
        replay="which run is best depends on the scores of all; runs are replayed as "
        "the learner that is searched",
    )
