"""Every predictor: exact laws on small domains, replay on random data."""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from reticent import Budget
from reticent.audit import Verification, verify, verify_noise, verify_release
from reticent.guarantees import ApproxDP, PureDP
from reticent.hypotheses import Thresholds
from reticent.mechanisms import stability
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
from tests.audit.registry import Replayed, random_pairs, register, without_unit
from tests.prediction.learners import Table

EPSILON = 0.7
BINARY = list(product((0, 1), (0, 1)))
LINE = list(product((-1.0, 1.0), (0, 1)))
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)
QUERIES = np.array([[-1.0], [0.2], [1.0]])


def labelled(rng, n=12, d=1, n_labels=2):
    return rng.normal(size=(n, d)), rng.integers(0, n_labels, n)


def measured(rng, n=12, d=1):
    return rng.normal(size=(n, d)), rng.uniform(-2, 3, n)


def tabled(rng, n=4):
    return rng.integers(0, 2, (n, 1)), rng.integers(0, 2, n)


TABLED = without_unit(random_pairs(tabled))
LABELLED = without_unit(random_pairs(labelled))
THREE_LABELS = without_unit(random_pairs(lambda rng: labelled(rng, n_labels=3)))
MEASURED = without_unit(random_pairs(measured))


def asking(make, queries=QUERIES, method="predict"):
    return lambda data: getattr(make().fit(*data), method)(queries)


def voting(rule, **settings):
    def make(base=TREE, **more):
        return PrivateVotingClassifier(
            base, EPSILON, (0, 1), 3, rule=rule, **{**settings, **more}
        )

    return make


for rule in ("soft", "geometric", "permute-and-flip", "gaussian"):
    make = voting(rule, **({"delta": 1e-3} if rule == "gaussian" else {}))
    register(
        PrivateVotingClassifier,
        rule,
        "law",
        lambda make=make: verify(lambda: make(Table(), random_state=3), BINARY, 3),
        tight={"gaussian": 0.01, "permute-and-flip": 0.5}.get(rule, 0.99),
        replay=Replayed(asking(make), LABELLED),
    )


def averaging(base=TREE, classes=(0, 1), **settings):
    return PrivateAveragingClassifier(base, 2.0, classes, 3, **settings)


register(
    PrivateAveragingClassifier,
    "two-labels",
    "law",
    lambda: verify(lambda: averaging(Table(), random_state=3), BINARY, 3),
    tight=0.99,
    replay=Replayed(asking(averaging), LABELLED),
)


def three_labels(X, y):
    return averaging(DecisionTreeClassifier(), (0, 1, 2)).fit(X, y).predict([[0]])


register(
    PrivateAveragingClassifier,
    "three-labels",
    "noise",
    lambda: verify_noise(
        three_labels,
        list(product((0,), (0, 1, 2))),
        3,
        claim=PureDP(2.0),
        answers=True,
        symmetric=True,
    ),
    tight=0.99,
    replay=Replayed(asking(lambda: averaging(classes=(0, 1, 2))), THREE_LABELS),
)
register(
    PrivateAveragingClassifier,
    "probabilities",
    "noise",
    lambda: verify_noise(
        lambda X, y: averaging().fit(X, y).predict_proba([[0]]),
        [(0, 0), (0, 1)],
        3,
        claim=PureDP(2.0),
        answers=True,
        symmetric=True,
    ),
    tight=0.99,
    replay=Replayed(asking(averaging, method="predict_proba"), LABELLED),
)


def numbers(delta=0.0):
    return PrivateAveragingRegressor(
        LinearRegression(), EPSILON, bounds=(-1.0, 2.0), n_shards=2, delta=delta
    )


for delta in (0.0, 1e-4):
    register(
        PrivateAveragingRegressor,
        "gaussian" if delta else "laplace",
        "noise",
        lambda delta=delta: verify_noise(
            lambda X, y: numbers(delta).fit(X, y).predict([[0], [1]]),
            list(product((0, 1), (-5.0, 5.0))),
            2,
            claim=ApproxDP(EPSILON, delta) if delta else PureDP(EPSILON),
            answers=True,
            symmetric=True,
        ),
        tight=0.99,
        replay=Replayed(asking(lambda delta=delta: numbers(delta)), MEASURED),
    )

for solver in ("erm", "psgd"):
    for delta in (0.0, 1e-3):

        def linear(solver=solver, delta=delta, **settings):
            return StableLinearClassifier(
                EPSILON, solver, delta=delta, radius=2.0, classes=[0, 1], **settings
            )

        register(
            StableLinearClassifier,
            f"{solver}-{'gaussian' if delta else 'laplace'}",
            "law",
            lambda make=linear: verify(lambda: make(random_state=3), LINE, 3),
            tight=0.02 if delta else 0.1,
            replay=Replayed(asking(linear), LABELLED),
        )

        def regression(solver=solver, delta=delta):
            return StableLinearRegressor(
                EPSILON, (-1.0, 2.0), solver, delta=delta, radius=0.15
            )

        register(
            StableLinearRegressor,
            f"{solver}-{'gaussian' if delta else 'laplace'}",
            "noise",
            lambda make=regression, delta=delta: verify_noise(
                lambda X, y: make().fit(X, y).predict([[-1.0], [1.0]]),
                list(product((-1.0, 1.0), (-1.0, 2.0))),
                2,
                claim=ApproxDP(EPSILON, delta) if delta else PureDP(EPSILON),
                answers=True,
                symmetric=True,
            ),
            tight=0.02 if delta else 0.2,
            replay=Replayed(asking(regression), MEASURED),
        )

for rule in ("two-step", "sigmoid"):
    for relation in ("replace-one", "add-remove"):

        def walk(rule=rule, relation=relation):
            return ProjectedWalkClassifier(
                EPSILON,
                rule=rule,
                error=0.9,
                classes=[0, 1],
                relation=relation,
            )

        register(
            ProjectedWalkClassifier,
            f"{rule}-{relation}",
            "law",
            lambda make=walk: verify(make, BINARY, 3, symmetric=True),
            tight=0.99,
            replay=Replayed(asking(walk), LABELLED),
        )


def selection(**settings):
    return StableSelectionClassifier(Thresholds(), classes=[0, 1], **settings)


def one_answer(make, query):
    return lambda X, y: int(make().fit(X, y).predict([[query]])[0])


for setting in ({"stability": 0.7}, {"epsilon": 2.5, "flip": 0.2}):

    def stable(setting=setting):
        return selection(**setting)

    def unshown(data, make=stable):
        make().fit(*data).predict(QUERIES)

    (kind,) = set(setting) - {"flip"}
    register(
        StableSelectionClassifier,
        kind,
        "law",
        lambda make=stable: verify(make, BINARY, 3, symmetric=True),
        tight=0.15,
        replay=Replayed(
            # A stable answer is not private by itself, so it is not compared.
            asking(stable) if kind == "epsilon" else unshown,
            random_pairs(labelled),
            exempt_at_most=0.7,
        ),
    )
register(
    StableSelectionClassifier,
    "all-draws",
    "release",
    lambda: verify_release(
        one_answer(lambda: selection(epsilon=2.5, flip=0.2), 0.0),
        BINARY,
        3,
        claim=PureDP(2.5),
        symmetric=True,
    ),
    tight=0.15,
    replay="as under epsilon",
)


def relabeling():
    return RelabelingClassifier(Thresholds(), 4.0, flip=0.2, n_shards=2, classes=[0, 1])


register(
    RelabelingClassifier,
    "exact",
    "law",
    lambda: verify(lambda: relabeling().set_params(random_state=0), BINARY, 3),
    tight=0.15,
    # The subset leaves one unit out, so that of few units is seen to move more often.
    replay=Replayed(
        asking(relabeling),
        random_pairs(lambda rng: labelled(rng, n=3)),
        exempt_at_most=0.7,
    ),
)


def interface(data, queries=((0,), (1,), (0,))):
    model = PrivateVotingClassifier(Table(), EPSILON, (0, 1), 2, rule="geometric").fit(
        *data
    )
    asked = PredictionInterface(model, Budget(2 * EPSILON))
    return tuple(int(asked.predict([query])[0]) for query in queries)


register(
    PredictionInterface,
    "two-answers-and-a-repetition",
    "release",
    lambda: verify_release(
        lambda X, y: interface((X, y)),
        BINARY,
        2,
        claim=PureDP(2 * EPSILON),
        symmetric=True,
    ),
    tight=0.6,
    replay=Replayed(interface, TABLED),
)


def consensus_moves():
    """The stability of a vote moves by one, and a stable plurality not at all."""
    worst, holds, pairs, voters = 0, True, 0, 9
    tables = [
        np.array(votes)
        for votes in product(range(voters + 1), repeat=3)
        if sum(votes) == voters
    ]
    for votes in tables:
        for source, target in product(range(3), repeat=2):
            if votes[source] == 0 or source == target:
                continue
            near = votes.copy()
            near[source] -= 1
            near[target] += 1
            here, there = stability(np.array([votes, near]))
            pairs += 1
            worst = max(worst, abs(int(here) - int(there)))
            holds &= here == 0 or votes.argmax() == near.argmax()
    return Verification(
        holds=holds and worst <= 1,
        guarantee=PureDP(1.0),
        worst=float(worst),
        allowed=1.0,
        rigorous=True,
        datasets=len(tables),
        pairs=pairs,
        example=(None, None, None, None),
    )


def consensus(data):
    model = PrivateVotingClassifier(Table(), 1.0, (0, 1), 25).fit(*data)
    asked = ConsensusInterface(model, Budget(60.0, 1e-2), queries=3, unstable=2)
    return asked.predict([[0], [1]])


def agreeing(rng):
    X = rng.integers(0, 2, (25, 1))
    return X, (X[:, 0] ^ (rng.random(25) < 0.02)).astype(int)


register(
    ConsensusInterface,
    "stability",
    "function",
    consensus_moves,
    tight=0.99,
    replay=Replayed(consensus, without_unit(random_pairs(agreeing))),
)
