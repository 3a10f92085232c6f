"""The law that draws is the law that is charged, whatever happens to the estimator."""

import copy
import dataclasses
import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from reticent import Budget
from reticent.audit import verify
from reticent.errors import InvalidParameterError
from reticent.guarantees.convert import epsilon_delta
from reticent.hypotheses import FiniteClass
from reticent.mechanisms import geometric_vote
from reticent.prediction import (
    ConsensusInterface,
    PredictionInterface,
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    StableSelectionClassifier,
)
from tests.prediction.lawful import (
    CLASSIFIERS,
    LABELS,
    PREDICTORS,
    QUERIES,
    ROWS,
    worst_loss,
)
from tests.prediction.learners import Table

LOUD = 50.0
UNITS = list(product((0, 1), (0, 1)))


def turn_up(model):
    """Change every parameter that could make answers say more."""
    model.set_params(epsilon=LOUD)
    model.epsilon = LOUD
    for name, value in {
        "rule": "soft" if hasattr(model, "rule_") else "sigmoid",
        "flip": 1e-6,
        "delta": 0.5,
        "bounds": (0.0, 1e-6),
        "norm_bound": 1e-6,
        "n_shards": 1,
        "feature": 0,
        "random_state": 0,
        "classes_": np.array([7, 8, 9]),
        "rule_": "soft",
        "reach_": 1,
        "n_shards_": 1,
        "n_units_": 1,
    }.items():
        if name in model.get_params() or name in vars(model):
            setattr(model, name, value)
    return model


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_changed_parameters_change_no_law(kind):
    def law(model, queries):
        return turn_up(model).response(queries)

    report = verify(lambda: CLASSIFIERS[kind](0.7), UNITS, 3, symmetric=True, law=law)
    assert report.holds, str(report)


class ReadsItsParameter(PrivateVotingClassifier):
    """Broken on purpose: the epsilon of the moment draws."""

    def response(self, X):
        return geometric_vote(self.law_.votes(X), self.epsilon)


def test_a_predictor_that_reads_its_parameter_when_answering_is_caught():
    def report(law):
        return verify(
            lambda: ReadsItsParameter(Table(), 0.7, (0, 1), 3),
            UNITS,
            3,
            symmetric=True,
            law=law,
        )

    assert report(None).holds
    assert not report(lambda model, queries: turn_up(model).response(queries)).holds


class Lives(RuleBasedStateMachine):
    """Neighbouring datasets whose models live through the same events."""

    make = None

    @initialize()
    def begin(self):
        self.models = [self.make(0.7).fit(ROWS, y) for y in LABELS]
        self.laws = [[model.law_ for model in self.models]]
        self.interfaces = []

    def each(self, change):
        self.models = [change(model) for model in self.models]

    @rule(epsilon=st.sampled_from([0.5, 1.0]))
    def refit(self, epsilon):
        for model, y in zip(self.models, LABELS, strict=True):
            model.set_params(**self.make(epsilon).get_params()).fit(ROWS, y)
        self.laws.append([model.law_ for model in self.models])

    @rule(epsilon=st.sampled_from([0.5, 1.0]))
    def clone_and_fit(self, epsilon):
        def again(pair):
            model, y = pair
            fresh = clone(model).set_params(**self.make(epsilon).get_params())
            return fresh.fit(ROWS, y)

        self.models = list(map(again, zip(self.models, LABELS, strict=True)))
        self.laws.append([model.law_ for model in self.models])

    @rule()
    def change_parameters(self):
        self.each(turn_up)

    @rule()
    def pickle_and_load(self):
        self.each(lambda model: pickle.loads(pickle.dumps(model)))

    @rule()
    def copy(self):
        self.each(copy.deepcopy)

    @rule()
    def open_interfaces(self):
        self.interfaces.append(
            [PredictionInterface(model, Budget(1000.0)) for model in self.models]
        )

    @invariant()
    def no_law_loses_more_than_its_certificate_says(self):
        if not hasattr(self, "models"):
            return
        current = [model.law_ for model in self.models]
        served = [[one.law for one in each] for each in self.interfaces]
        for laws in (*self.laws[-2:], current, *served[-2:]):
            promised, _ = epsilon_delta(laws[0].certificate.guarantee)
            assert worst_loss(laws) <= promised * (1 + 1e-9)
        for model, law in zip(self.models, current, strict=True):
            assert model.certificate_ is law.certificate
        for each in self.interfaces:
            assert all(one.certificate is one.law.certificate for one in each)


@pytest.mark.parametrize("kind", PREDICTORS)
def test_in_any_order_of_events_the_true_loss_is_within_the_printed_one(kind):
    machine = type("Life", (Lives,), {"make": staticmethod(PREDICTORS[kind])})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=4,
            stateful_step_count=8,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", PREDICTORS)
def test_the_check_is_not_vacuous(kind):
    # Most kinds use up two thirds of the promise or all of it, all of them a fifth.
    laws = [PREDICTORS[kind](0.7).fit(ROWS, y).law_ for y in LABELS]
    promised, _ = epsilon_delta(laws[0].certificate.guarantee)
    assert 0.2 * promised < worst_loss(laws) <= promised * (1 + 1e-9)


@pytest.mark.parametrize("kind", PREDICTORS)
def test_a_law_is_frozen_named_and_its_own(kind):
    model = PREDICTORS[kind](0.7).fit(ROWS, LABELS[0])
    law = model.law_
    assert len(bytes.fromhex(law.identity)) == 16
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert copied.law_.identity == law.identity
        arrays = [getattr(copied.law_, field.name) for field in dataclasses.fields(law)]
        assert not any(
            array.flags.writeable for array in arrays if isinstance(array, np.ndarray)
        )
    assert clone(model).fit(ROWS, LABELS[0]).law_.identity != law.identity
    assert model.fit(ROWS, LABELS[0]).law_.identity != law.identity
    for name in ("certificate", "identity", "classes", "source"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(law, name, None)
    with pytest.raises(AttributeError):
        model.certificate_ = None


@pytest.mark.parametrize("kind", PREDICTORS)
def test_an_interface_keeps_the_law_it_was_opened_with(kind):
    model = PREDICTORS[kind](0.5).fit(ROWS, LABELS[0])
    law, before = model.law_, model.certificate_
    interface = PredictionInterface(model, Budget(100.0))
    model.set_params(epsilon=LOUD).fit(ROWS, LABELS[0])
    assert model.certificate_ != before
    assert interface.law is law
    assert interface.certificate == before
    assert len(interface.predict(QUERIES)) == 2
    assert interface.spent().guarantee.epsilon == pytest.approx(
        2 * before.guarantee.epsilon
    )


class Lookalike:
    """Has a certificate and draws answers, but no law."""

    def __init__(self, model):
        self.certificate_ = model.certificate_
        self.classes_ = model.classes_
        self.predict = model.predict


def test_what_has_no_law_is_refused():
    model = CLASSIFIERS["geometric"](0.7).fit(ROWS, LABELS[0])
    with pytest.raises(InvalidParameterError, match="Lookalike"):
        PredictionInterface(Lookalike(model), Budget(1.0))
    with pytest.raises(InvalidParameterError, match="Lookalike"):
        ConsensusInterface(Lookalike(model), Budget(1.0, 1e-6), queries=2)


def test_probabilities_are_drawn_as_they_were_certified():
    X = np.array([[0.0], [1.0]] * 10)
    y = np.tile([0, 1], 10)
    model = PrivateAveragingClassifier(LogisticRegression(), 0.5, (0, 1), 5).fit(X, y)
    noise, promised = model.law_.noise, model.probability_certificate_
    model.set_params(epsilon=LOUD, estimator=Table())
    assert model.predict_proba(X).shape == (20, 2)
    assert model.law_.noise is noise
    assert model.probability_certificate_ is promised
    # And the other way round: what was not certified cannot be had later.
    model = PrivateAveragingClassifier(Table(), 0.5, (0, 1), 5).fit(X, y)
    model.set_params(estimator=LogisticRegression())
    assert not hasattr(model, "predict_proba")
    assert model.probability_certificate_ is None


def test_arguments_that_change_after_the_fit_change_no_law():
    classes, bounds = [0, 1], [0.0, 1.0]
    voting = PrivateVotingClassifier(Table(), 1.0, classes, 3).fit(ROWS, LABELS[0])
    numbers = PrivateAveragingRegressor(
        DummyClassifier(), 1.0, bounds=bounds, n_shards=3
    )
    numbers.fit(ROWS, LABELS[0])
    classes[:], bounds[:] = [5, 6], [0.0, 1e9]
    assert set(voting.predict(np.zeros((50, 1)))) <= {0, 1}
    assert numbers.predict(np.zeros((50, 1))).max() <= 1.0


def test_rows_that_change_after_the_fit_change_no_law():
    family = FiniteClass(
        [lambda X: np.zeros(len(X), int), lambda X: (X[:, 0] > 0).astype(int)]
    )
    X, y = np.array([[1.0], [1.0], [0.0], [1.0]]), np.array([1, 1, 0, 1])
    model = StableSelectionClassifier(family, epsilon=3.0, flip=0.1, classes=[0, 1])
    before = model.fit(X, y).response([[1.0]]).probabilities
    X[:], y[:] = 0.0, 0
    family.predictors = (family.predictors[0],)
    np.testing.assert_array_equal(model.response([[1.0]]).probabilities, before)


def test_a_frozen_part_that_is_fitted_again_changes_no_law():
    public = KNeighborsClassifier(1).fit([[0.0], [1.0]], [0, 1])
    model = PrivateVotingClassifier(FrozenEstimator(public), 1.0, (0, 1), 3)
    before = model.fit(ROWS, LABELS[0]).response(QUERIES).probabilities
    public.fit([[0.0], [1.0]], [1, 0])
    np.testing.assert_array_equal(model.response(QUERIES).probabilities, before)


def test_the_queries_that_are_taken_are_fixed_at_fit():
    walk = ProjectedWalkClassifier(1.0, classes=(0, 1)).fit(ROWS, LABELS[0])
    walk.set_params(feature=3, order="text")
    assert walk.predict(QUERIES).shape == (2,)
    voting = PrivateVotingClassifier(Table(), 1.0, (0, 1), 3).fit(ROWS, LABELS[0])
    voting.n_features_in_ = 5
    assert voting.predict(QUERIES).shape == (2,)
