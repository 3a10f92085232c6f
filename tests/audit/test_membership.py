"""The membership attack: strong where there is no promise, within it where there is."""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier

from reticent import Budget
from reticent.audit import MembershipInference, membership_inference, trade_off
from reticent.audit.membership.attack import Shadows, membership_log_ratio
from reticent.audit.membership.inference import _threshold
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    PureDP,
    ReplaceOne,
    Scope,
    UniformStability,
    claim,
)
from reticent.mechanisms import soft_vote
from reticent.prediction import (
    PredictionInterface,
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)
from tests.stats import ALPHA

X, Y = load_breast_cancer(return_X_y=True)
RATES = np.concatenate([[0.0, 1.0], np.geomspace(1e-6, 1.0, 200)])
# Few shadow models and games, but enough for what is asserted here.
SMALL = {"n": 60, "shadows": 6, "games": 120, "random_state": 3, "confidence": 0.999}


def promise(guarantee, scope=Scope.ANSWER, relation=None):
    relation = ReplaceOne(60) if relation is None else relation
    return claim(guarantee, relation, scope, statement="for a test")


def best_attack(p, q):
    """Brute force: true positives of the most powerful test at each false positive."""
    order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(q[order])])
    found = np.concatenate([[0.0], np.cumsum(p[order])])
    return lambda rates: np.interp(rates, reached, found)


def many(p, answers):
    law = np.ones(1)
    for _ in range(answers):
        law = np.outer(law, p).ravel()
    return law


@pytest.mark.parametrize("answers", [1, 3, 8])
def test_pure_curve_is_above_every_attack_and_touches_randomized_response(answers):
    high = np.exp(0.7) / (1 + np.exp(0.7))
    p, q = many([high, 1 - high], answers), many([1 - high, high], answers)
    attack = best_attack(p, q)(RATES)
    curve = trade_off(promise(PureDP(0.7)), answers).true_positives_at_most(RATES)
    assert (attack <= curve + 1e-9).all()
    if answers == 1:
        assert np.allclose(attack, curve, atol=1e-9)
    weaker = trade_off(promise(PureDP(0.6)), answers).true_positives_at_most(RATES)
    assert (attack > weaker + 1e-6).any()


@pytest.mark.parametrize("answers", [1, 4])
def test_bounded_range_curve_is_above_the_soft_vote(answers):
    law = soft_vote([[6, 4], [5, 5]], 1.0).probabilities
    attack = best_attack(*(many(row, answers) for row in law))(RATES)
    curve = trade_off(promise(BoundedRange(1.0)), answers)
    assert (attack <= curve.true_positives_at_most(RATES) + 1e-9).all()
    pure = trade_off(promise(PureDP(1.0)), answers).true_positives_at_most(RATES)
    assert (curve.true_positives_at_most(RATES) <= pure + 1e-9).all()


@pytest.mark.parametrize("answers", [1, 10])
def test_concentrated_curve_is_above_the_gaussian(answers):
    rho = 0.05
    shift = np.sqrt(2 * rho * answers)
    attack = stats.norm.cdf(stats.norm.ppf(RATES) + shift)
    curve = trade_off(promise(ZCDP(rho)), answers).true_positives_at_most(RATES)
    assert (attack <= curve).all()
    less = trade_off(promise(ZCDP(rho / 4)), answers).true_positives_at_most(RATES)
    assert (attack > less).any()


def test_curves_of_releases_do_not_grow_with_questions():
    model = promise(ApproxDP(1.0, 1e-3), Scope.MODEL)
    assert trade_off(model, 1000) == trade_off(model, 1)
    assert float(trade_off(model).true_positives_at_most(0.0)) >= 1e-3


def test_curve_refuses_what_is_no_privacy():
    with pytest.raises(InvalidParameterError, match="does not bound"):
        trade_off(promise(UniformStability(0.1)))
    with pytest.raises(InvalidParameterError, match=r"\[0, 1\]"):
        trade_off(promise(PureDP(1.0))).true_positives_at_most([0.5, np.nan])


@pytest.fixture(scope="module")
def overfitted():
    return membership_inference(
        KNeighborsClassifier(1),
        X,
        Y,
        **SMALL,
        poison=1,
        answers=1,
        nearby=0,
        false_positive_rates=[0.05],
        certificate=promise(PureDP(1.0)),
    )


def test_an_overfitted_model_gives_its_members_away(overfitted):
    (point,) = overfitted.points
    assert point.true_positive_rate[1] > 0.8
    assert point.false_positive_rate[2] < 0.25
    assert overfitted.epsilon > 1.0


def test_a_promise_that_such_a_model_does_not_keep_is_refuted(overfitted):
    assert overfitted.refuted
    assert "REFUTED" in str(overfitted)
    assert overfitted.as_dict()["refuted"] is True


def test_confidences_give_away_what_labels_hide():
    # Rows unlike their neighbours: one neighbour of three is the target itself.
    near = KNeighborsClassifier(21).fit(X, Y).kneighbors(X)[1][:, 1:]
    odd = np.nonzero((Y[near] != Y[:, None]).mean(axis=1) > 0.9)[0][:5].tolist()
    settings = {**SMALL, "false_positive_rates": [0.1], "nearby": 0, "answers": 1}
    model = KNeighborsClassifier(3)
    labels, scores = (
        membership_inference(model, X, Y, **settings, targets=odd, interface=method)
        for method in ("predict", "predict_proba")
    )
    assert scores.points[0].true_positive_rate[1] > 0.5
    assert labels.points[0].true_positive_rate[0] < 0.5
    assert scores.certificate is None
    assert not scores.refuted


def private():
    base = GaussianNB()
    return PrivateVotingClassifier(base, 1.0, [0, 1], n_shards=6, rule="soft")


def test_our_predictor_is_never_refuted():
    settings = {**SMALL, "confidence": 1 - ALPHA, "games": 40}
    found = membership_inference(private(), X, Y, **settings, poison=3, answers=12)
    assert not found.refuted
    assert found.certificate.guarantee == BoundedRange(1.0)
    assert all(p.allowed < 1 for p in found.points)


def test_probabilities_are_held_to_their_own_promise():
    base = PrivateAveragingClassifier(GaussianNB(), 1.0, [0, 1], n_shards=6)
    settings = {**SMALL, "games": 20, "shadows": 2, "answers": 2}
    found = membership_inference(base, X, Y, **settings, interface="predict_proba")
    own = base.fit(X[:60], Y[:60])
    assert found.certificate.guarantee == own.probability_certificate_.guarantee
    assert found.certificate.guarantee != own.certificate_.guarantee
    assert not found.refuted


def test_an_interface_with_a_budget_is_attacked_within_it():
    def train(rows, labels):
        return PredictionInterface(private().fit(rows, labels), Budget(4.0))

    settings = {**SMALL, "games": 12, "shadows": 2}
    found = membership_inference(train, X, Y, **settings, answers=4)
    assert not found.refuted
    assert found.certificate.guarantee == BoundedRange(1.0)


@pytest.mark.parametrize("ours", [False, True], ids=["neighbour", "private"])
def test_numbers_are_attacked_too(ours):
    rows, values = load_diabetes(return_X_y=True)
    model = KNeighborsRegressor(1)
    if ours:
        model = PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0.0, 400.0), n_shards=6)
    settings = {**SMALL, "false_positive_rates": [0.1], "poison": 0}
    found = membership_inference(model, rows, values, **settings, answers=2)
    assert not found.refuted
    strong = found.points[0].true_positive_rate[1] > 0.5
    assert strong != ours


class SecretlyGrown(DummyClassifier):
    """Says label one if and only if it has seen more than a public number of rows."""

    def predict(self, rows):
        return np.full(len(rows), int(self.seen_ > 59))

    def fit(self, rows, labels):
        self.seen_ = len(rows)
        self.certificate_ = promise(PureDP(0.5), relation=AddRemove())
        return super().fit(rows, labels)


def test_units_are_left_out_under_the_add_remove_relation():
    found = membership_inference(SecretlyGrown(), X, np.ones_like(Y) * (Y > 0), **SMALL)
    assert found.refuted
    replaced = membership_inference(
        SecretlyGrown(), X, Y, **SMALL, certificate=promise(PureDP(0.5))
    )
    assert not replaced.refuted


class Wavering(DummyClassifier):
    def fit(self, rows, labels):
        self.certificate_ = promise(PureDP(float(np.mean(labels))))
        return super().fit(rows, labels)


def test_a_promise_that_depends_on_the_data_is_refused():
    with pytest.raises(InvalidParameterError, match="changes with its data"):
        membership_inference(Wavering(), X, Y, **SMALL)


def test_questions_go_where_the_worlds_differ_most():
    inside = np.array([[0.5, 0.9, 0.5], [0.5, 0.8, 0.5]])
    shadows = Shadows(inside, np.full((2, 3), 0.5), None, random=True)
    asked = []

    def ask(places):
        asked.extend(places.tolist())
        return np.ones(len(places))

    score = membership_log_ratio(ask, shadows, 8, adaptive=True, again=True)
    assert asked == [1] * 8
    assert score > 1
    asked.clear()
    fewer = membership_log_ratio(ask, shadows, 8, adaptive=False, again=True)
    assert set(asked) == {0, 1, 2}
    assert fewer < score
    asked.clear()
    membership_log_ratio(ask, shadows, 8, adaptive=True, again=False)
    assert sorted(asked) == [0, 1, 2]


def test_likelihood_ratio_is_the_one_of_the_mixture():
    inside, outside = np.array([[0.9], [0.6]]), np.array([[0.2], [0.4]])
    shadows = Shadows(inside, outside, None, random=True)
    seen = iter([1.0, 0.0, 1.0])
    score = membership_log_ratio(
        lambda places: np.array([next(seen) for _ in places]),
        shadows,
        3,
        adaptive=True,
        again=True,
    )
    ratio = np.mean(inside**2 * (1 - inside)) / np.mean(outside**2 * (1 - outside))
    assert score == pytest.approx(np.log(ratio))


def test_the_attack_is_reproducible_for_deterministic_models():
    tree = DecisionTreeClassifier(random_state=0)
    settings = {**SMALL, "games": 20, "shadows": 2}
    again = partial(membership_inference, tree, X, Y, **settings)
    first = again()
    assert isinstance(first, MembershipInference)
    assert first == again()


WRONG = {
    "n too small": {"n": 1},
    "n too large": {"n": 10_000},
    "poison": {"poison": -1},
    "poison too large": {"n": 10, "poison": 9},
    "targets": {"targets": 0},
    "too many targets": {"targets": 10_000},
    "no target": {"targets": []},
    "unknown target": {"targets": [10_000]},
    "answers": {"answers": 0},
    "games": {"games": 3},
    "shadows": {"shadows": 1},
    "rates": {"false_positive_rates": [0.0]},
    "no rates": {"false_positive_rates": []},
    "confidence": {"confidence": float("nan")},
    "interface": {"interface": "decision_function"},
}


@pytest.mark.parametrize("given", WRONG.values(), ids=WRONG.keys())
def test_wrong_sizes_are_refused(given):
    with pytest.raises(ValueError, match=r"\w"):
        membership_inference(DummyClassifier(), X, Y, **given)


def test_wrong_models_and_data_are_refused():
    with pytest.raises(InvalidParameterError, match="must be an estimator"):
        membership_inference(7, X, Y)
    with pytest.raises(InvalidParameterError, match="not a method"):
        membership_inference(Ridge(), X, Y, **SMALL, interface="predict_proba")
    with pytest.raises(InvalidDataError, match="two different labels"):
        membership_inference(Ridge(), X, np.zeros(len(X)))
    with pytest.raises(InvalidDataError, match="one label per row"):
        membership_inference(Ridge(), X, Y[:-1])
    with pytest.raises(InvalidParameterError, match="y holds numbers"):
        membership_inference(Ridge(), X, Y + 0.5, interface="predict_proba")


AIMS = (0.001, 0.01, 0.05, 0.1, 0.5)


@pytest.mark.parametrize("case", range(6))
def test_thresholds_keep_their_aim_and_rise_as_it_falls(case):
    draw = np.random.default_rng(case)
    # Few distinct scores make ties; non-members may hold the largest of all.
    scores = draw.integers(0, 8, size=(2, 40)).astype(float)
    scores[1, 0] = 9.0
    chosen = [_threshold(scores, aim) for aim in AIMS]
    assert chosen == sorted(chosen, reverse=True)
    for aim, threshold in zip(AIMS, chosen, strict=True):
        assert (scores[1] >= threshold).mean() <= aim
