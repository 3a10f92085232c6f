"""M6: private labels within one budget, then only post-processing."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import estimator_checks

from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    ReticentError,
    RuleError,
)
from reticent.guarantees import (
    PUBLIC_LABELS,
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    ReplaceOne,
    Scope,
    UniformStability,
    answers_within,
    claim,
    range_epsilon,
    recheck,
    repeat,
)
from reticent.learners import StudentClassifier
from reticent.learners.public.rules import student_of_answers
from reticent.mechanisms import SeededSource
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    StableLinearClassifier,
)
from tests.stats import assert_follows, mutant, rejects

X, Y = make_classification(1500, 5, n_informative=3, random_state=0)
PUBLIC, X, Y = X[:120].copy(), X[120:].copy(), Y[120:]


def voting(**settings):
    facts = {"classes": [0, 1], "n_shards": 21, **settings}
    return PrivateVotingClassifier(LogisticRegression(), **facts)


def make(teacher=None, student=None, epsilon=2.0, delta=0.0, **settings):
    teacher = voting() if teacher is None else teacher
    student = LogisticRegression() if student is None else student
    return StudentClassifier(teacher, student, epsilon, delta=delta, **settings)


def within(certificate, budget):
    assert budget.covers(certificate.guarantee)


@pytest.mark.parametrize("n_labels", [1, 7, 120, "all"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("rule", ["auto", "soft", "geometric", "gaussian"])
def test_all_labels_fill_the_budget_and_never_exceed_it(rule, delta, n_labels):
    model = make(voting(rule=rule), delta=delta, n_labels=n_labels)
    if rule == "gaussian" and delta == 0:
        with pytest.raises(ReticentError, match="delta"):
            model.fit(X, Y, public=PUBLIC)
        return
    certificate = model.fit(X, Y, public=PUBLIC).certificate_
    budget = Budget(2.0, delta)
    within(certificate, budget)
    assert certificate.guarantee.epsilon > 0.999 * 2.0
    assert (
        model.n_asked_ == len(model.labels_) == (120 if n_labels == "all" else n_labels)
    )
    assert certificate.relation == ReplaceOne(len(X))
    assert certificate.scope is Scope.MODEL
    assert certificate.proved
    recheck(certificate)
    # A control: twice as many of the same answers are not covered.
    one = certificate.premises[0].premises[0]
    twice = repeat(one, 2 * model.n_asked_, delta=delta)
    assert rejects(within, twice, budget)


def test_the_total_is_what_composition_says():
    many = {"n_labels": 120, "random_state": None}
    pure = make(voting(rule="geometric"), **many).fit(X, Y, public=PUBLIC)
    assert isinstance(pure.certificate_.guarantee, PureDP)
    assert 120 * pure.teacher_["epsilon"] == pytest.approx(2.0)
    soft = make(voting(rule="soft"), delta=1e-6, **many).fit(X, Y, public=PUBLIC)
    assert isinstance(soft.certificate_.guarantee, ApproxDP)
    step = soft.teacher_["epsilon"]
    assert soft.certificate_.guarantee.epsilon == range_epsilon(step, 120, 1e-6)
    rho = 120 * step**2 / 8
    textbook = rho + 2 * math.sqrt(rho * math.log(1e6))
    assert 0.8 * textbook < soft.certificate_.guarantee.epsilon <= textbook
    assert make(delta=1e-6).fit(X, Y, public=PUBLIC).teacher_["rule"] == "soft"
    assert make().fit(X, Y, public=PUBLIC).teacher_["rule"] == "geometric"


def test_the_tree_shows_the_votes():
    model = make(delta=1e-6).fit(X, Y, public=PUBLIC)
    assert [step.rule for step in model.certificate_.walk()] == [
        "M6",
        "G25",
        "P1",
        "P1-soft",
    ]
    assert "120 answers" in str(model.certificate_)


def test_without_spreading_the_budget_says_how_many():
    teacher = voting(epsilon=0.3, rule="geometric")
    model = make(teacher, spread=False).fit(X, Y, public=PUBLIC)
    assert model.n_asked_ == 6  # 6 times 0.3 is within 2
    np.testing.assert_array_equal(model.labelled_, np.arange(6))
    one = model.certificate_.premises[0].premises[0]
    assert answers_within(one, Budget(2.0)) == 6
    assert (
        make(teacher, spread=False, n_labels=4).fit(X, Y, public=PUBLIC).n_asked_ == 4
    )
    with pytest.raises(BudgetExhaustedError, match="covers none"):
        make(voting(epsilon=3.0), spread=False).fit(X, Y, public=PUBLIC)


def test_equal_public_rows_are_asked_about_once():
    twice = np.vstack([PUBLIC[:10], PUBLIC[:10]])
    model = make().fit(X, Y, public=twice)
    assert model.n_asked_ == 10
    np.testing.assert_array_equal(model.labelled_, np.arange(10))


def test_the_student_is_a_function_of_the_private_labels_alone():
    model = make(student=DecisionTreeClassifier(random_state=0), delta=1e-6)
    model.fit(X, Y, public=PUBLIC)
    again = DecisionTreeClassifier(random_state=0)
    again.fit(PUBLIC[model.labelled_], model.labels_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned == {
        "student_",
        "certificate_",
        "zcdp_certificate_",
        "labelled_",
        "labels_",
        "n_asked_",
        "teacher_",
        "classes_",
        "n_units_",
        "n_features_in_",
        "identity_",  # random
    }
    assert all(not hasattr(value, "predict") for value in model.teacher_.values())
    stored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(stored.predict(X), model.predict(X))


def test_labels_follow_the_teachers_law():
    rows = np.arange(6.0)[:, None]
    labels = np.array([0, 0, 1, 0, 1, 1])
    teacher = ProjectedWalkClassifier(0.8, error=0.2, classes=[0, 1])
    public = np.array([[2.5]])
    law = teacher.fit(rows, labels).response(public).probabilities[0]
    model = make(teacher, epsilon=0.8, spread=False)
    drawn = [int(model.fit(rows, labels, public=public).labels_[0]) for _ in range(500)]
    counts = np.bincount(drawn, minlength=2)
    assert_follows(counts, law)
    assert rejects(assert_follows, counts, mutant(law, by=0.5))
    # One label makes a constant student.
    assert set(model.predict(rows)) == {drawn[-1]}


@pytest.mark.parametrize(
    "teacher",
    [
        PrivateAveragingClassifier(LogisticRegression(), classes=[0, 1]),
        StableLinearClassifier(norm_bound=5.0, classes=[0, 1]),
        StableLinearClassifier(norm_bound=5.0, delta=1e-9, classes=[0, 1]),
        ProjectedWalkClassifier(classes=[0, 1]),
    ],
    ids=["average", "linear", "gaussian linear", "walk"],
)
def test_any_private_predictor_teaches(teacher):
    model = make(teacher, delta=1e-6, n_labels=50).fit(X, Y, public=PUBLIC)
    within(model.certificate_, Budget(2.0, 1e-6))
    assert 1 <= model.n_asked_ <= 50
    recheck(model.certificate_)


def test_consensus_drops_rows_in_doubt():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4000, 1))
    labels = (rows[:, 0] > 0).astype(int)
    public = np.concatenate([np.linspace(-3, -1, 30), [0.0], np.linspace(1, 3, 30)])
    teacher = PrivateVotingClassifier(
        DecisionTreeClassifier(max_depth=1), classes=[0, 1], n_shards=400
    )
    model = make(teacher, epsilon=4.0, delta=1e-5, answers="consensus", doubts=2)
    model.fit(rows, labels, public=public[:, None])
    assert model.n_asked_ == 61
    assert 0 < len(model.labelled_) <= 61
    # At 0 models may agree by chance, on either label; elsewhere there is a right one.
    clear = public[model.labelled_] != 0
    right = public[model.labelled_] > 0
    np.testing.assert_array_equal(model.labels_[clear], right[clear])
    certificate = model.certificate_
    within(certificate, Budget(4.0, 1e-5))
    assert [step.rule for step in certificate.walk()] == ["M6", "P1", "P9"]
    assert certificate.proved
    recheck(certificate)
    seeded = clone(model).set_params(random_state=3)
    seeded.fit(rows, labels, public=public[:, None])
    assert SEEDED_NOISE in seeded.certificate_.assumptions


def test_a_second_fit_keeps_no_certificate_of_the_first():
    model = make(voting(n_shards=300), epsilon=0.2, delta=1e-6)
    model.fit(X, Y, public=PUBLIC)
    assert model.zcdp_certificate_.proved
    model.set_params(answers="consensus", epsilon=20.0)
    model.fit(X, Y, public=PUBLIC)
    assert not hasattr(model, "zcdp_certificate_")
    with pytest.raises(ValueError, match="epsilon"):
        model.set_params(epsilon=-1.0).fit(X, Y, public=PUBLIC)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"teacher": ProjectedWalkClassifier(classes=[0, 1])}, "PrivateVoting"),
        ({"teacher": voting(n_shards=5)}, "shards"),
        ({"doubts": 0}, "doubts"),
    ],
    ids=["delta", "walk", "shards", "doubts"],
)
def test_consensus_is_refused_where_it_cannot_work(settings, message):
    facts = {"delta": 1e-6, "answers": "consensus", **settings}
    with pytest.raises(ValueError, match=message):
        make(**facts).fit(X, Y, public=PUBLIC)


def test_a_student_without_any_label_is_constant():
    teacher = voting(n_shards=600)
    rng = np.random.default_rng(0)
    coin = rng.integers(0, 2, len(X))  # nothing to agree on
    model = make(teacher, epsilon=4.0, delta=1e-3, answers="consensus")
    model.fit(X, coin, public=PUBLIC)
    if len(model.labels_) == 0:
        assert set(model.predict(X)) == {0}
        np.testing.assert_array_equal(model.predict_proba(X[:2]), [[1, 0], [1, 0]])
    assert model.certificate_.proved


def test_labels_that_are_all_alike_make_a_constant():
    teacher = PrivateVotingClassifier(DecisionTreeClassifier(), n_shards=5)
    model = make(teacher, epsilon=1e4, classes=[0, 1, 2])
    model.fit(X, np.ones(len(X)), public=PUBLIC)
    assert set(model.predict(X)) == {1}
    np.testing.assert_array_equal(model.predict_proba(X[:1]), [[0, 1, 0]])


def test_many_classes_frames_and_pipelines():
    flowers, kinds = load_iris(return_X_y=True, as_frame=True)
    names = np.array(["a", "b", "c"])[kinds]
    public = flowers.iloc[::3]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    teacher = PrivateVotingClassifier(pipeline, n_shards=3)
    model = make(teacher, clone(pipeline), epsilon=2e3)
    model.fit(flowers, names, public=public)
    assert isinstance(flowers, pd.DataFrame)
    assert model.score(flowers, names) > 0.7
    assert list(model.classes_) == ["a", "b", "c"]
    assert model.predict_proba(flowers).shape == (150, 3)
    assert model.certificate_.assumptions == {PUBLIC_LABELS}
    grouped = make(teacher, pipeline, epsilon=2e3)
    grouped.fit(flowers, names, np.arange(150) % 50, public=public)
    assert grouped.certificate_.relation == ReplaceOne(50)


def test_it_learns():
    rows, labels = make_classification(
        12_000, 6, n_informative=4, class_sep=1.5, random_state=1
    )
    teacher = PrivateVotingClassifier(LogisticRegression(), classes=[0, 1])
    model = make(teacher, epsilon=2.0, delta=1e-6)
    model.fit(rows[1000:], labels[1000:], public=rows[:400].copy())
    plain = LogisticRegression().fit(rows, labels).score(rows, labels)
    assert model.score(rows, labels) > plain - 0.06


@pytest.mark.parametrize("answers", ["each", "consensus"])
def test_a_seed_is_started_once(answers, monkeypatch):
    # Started again, its first bits would deal the units and then be noise.
    started = []
    start = SeededSource.__init__

    def counted(self, seed):
        started.append(seed)
        start(self, seed)

    monkeypatch.setattr(SeededSource, "__init__", counted)
    rows = np.repeat([[0.0], [1.0]], 200, axis=0)
    model = make(
        voting(n_shards=200), epsilon=4.0, delta=1e-3, answers=answers, random_state=7
    )
    model.fit(rows, rows[:, 0].astype(int), public=np.array([[0.0], [1.0]]))
    assert started == [7]


def test_a_seed_is_an_assumption():
    model = make(random_state=0).fit(X, Y, public=PUBLIC)
    assert model.certificate_.assumptions == {SEEDED_NOISE}
    again = make(random_state=0).fit(X, Y, public=PUBLIC)
    np.testing.assert_array_equal(model.labels_, again.labels_)


def test_the_rule_wants_all_answers_and_their_number():
    facts = {"relation": ReplaceOne(9), "statement": "example"}
    one = claim(PureDP(0.1), scope=Scope.ANSWER, **facts)
    student_of_answers(repeat(one, 3), asked=3)
    with pytest.raises(RuleError, match="asked=4"):
        student_of_answers(repeat(one, 3), asked=4)
    with pytest.raises(RuleError, match="scope"):
        student_of_answers(one, asked=1)
    total = student_of_answers(
        repeat(claim(ZCDP(0.1), scope=Scope.ANSWER, **facts), 2), asked=2
    )
    assert total.guarantee == ZCDP(0.2)
    stable = claim(UniformStability(0.1), scope=Scope.INTERFACE, **facts)
    with pytest.raises(RuleError):
        student_of_answers(stable, asked=1)


def test_public_rows_must_be_given_and_public():
    with pytest.raises(InvalidDataError, match="public"):
        make().fit(X, Y)
    with pytest.raises(InvalidDataError, match="training rows"):
        make().fit(X, Y, public=X)
    with pytest.raises(InvalidDataError, match="features"):
        make().fit(X, Y, public=PUBLIC[:, :2].copy())
    with pytest.raises(ReticentError, match="certify"):
        make(LogisticRegression(), spread=False).fit(X, Y, public=PUBLIC)


NAN = float("nan")


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": NAN},
        {"epsilon": 0.0},
        {"delta": NAN},
        {"delta": 1.0},
        {"n_labels": 0},
        {"n_labels": NAN},
        {"n_labels": "some"},
        {"answers": "few"},
        {"teacher": 3},
        {"student": 3},
        {"teacher": LogisticRegression()},
        {"classes": [0, 0]},
    ],
    ids=str,
)
def test_hostile_values_are_refused_also_with_validation_off(bad):
    with config_context(skip_parameter_validation=True), pytest.raises(ReticentError):
        make(**bad).fit(X, Y, public=PUBLIC)


class WithPublicRows(StudentClassifier):
    """scikit-learn's checks know no public rows: copies of the private ones."""

    def fit(self, X, y, units=None):
        public = X.copy() if hasattr(X, "copy") else np.array(X)
        return super().fit(X, y, units, public=public)


@estimator_checks.parametrize_with_checks(
    [
        WithPublicRows(
            PrivateVotingClassifier(LogisticRegression(), n_shards=1),
            LogisticRegression(),
            1e6,
            random_state=0,
        )
    ],
    expected_failed_checks=lambda _: {},
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_frozen_parts_of_the_student_are_assumed_public():
    scaler = FrozenEstimator(StandardScaler().fit(X))
    plain = make(delta=1e-6).fit(X, Y, public=PUBLIC)
    assert plain.certificate_.proved
    for student in (make_pipeline(scaler, LogisticRegression()), Scaled(scaler)):
        model = make(student=student, delta=1e-6).fit(X, Y, public=PUBLIC)
        for certificate in (model.certificate_, model.zcdp_certificate_):
            assert [each.code for each in certificate.assumptions] == ["PUBLIC_PARTS"]
            recheck(certificate)


class Scaled(LogisticRegression):
    """A classifier whose parameter was already fitted."""

    def __init__(self, scaler=None):
        super().__init__()
        self.scaler = scaler

    def fit(self, X, y):
        return super().fit(self.scaler.transform(X), y)
