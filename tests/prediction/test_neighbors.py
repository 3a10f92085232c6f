"""Local predictors as estimators: one state each, plain errors, no end (P10)."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import pickle
import threading
import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import estimator_checks

from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    NotDeployableError,
    ReticentError,
)
from reticent.estimators import RoundBudget
from reticent.guarantees import recheck
from reticent.mechanisms.individual import FULL
from reticent.prediction import (
    LastingInterface,
    LocalLaw,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
)
from reticent.prediction.neighbors.base import spending_of
from reticent.prediction.neighbors.planning import (
    most_local_questions,
    question_plan,
)
from reticent.schemas import Categorical, Numeric

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (80, 2))
Y = (X[:, 0] > 0).astype(int)


def fitted(**given):
    given = {"classes": [0, 1], "prior": False, "questions": 100, **given}
    given = {"local": "always", **given}
    return PrivateNeighborsClassifier(2.0, **given).fit(X, Y)


def test_copies_share_what_was_spent():
    model = fitted()
    model.predict(X[:5])
    twin = copy.deepcopy(model)
    assert twin.law_ is model.law_
    before = spending_of(model.law_).spent.copy()
    twin.predict(X[:20])
    after = spending_of(model.law_).spent
    assert (after >= before).all()
    assert (after > before).any()
    assert copy.copy(model).law_ is model.law_


def test_nothing_that_could_spend_twice_is_pickled():
    model = fitted()
    spending = spending_of(model.law_)
    for each in (model, model.law_, spending):
        with pytest.raises(InvalidParameterError, match="spend"):
            pickle.dumps(each)
    for each in (model.law_, spending):
        with pytest.raises(InvalidParameterError, match="spend"):
            copy.copy(each)
    with pytest.raises(InvalidParameterError, match="spend"):
        copy.deepcopy(spending)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_a_copy_of_the_process_does_not_answer(asked, lasting):
    model = fitted()

    def predict():
        return (LastingInterface(model) if lasting else model).predict(X[:1])

    if asked:
        predict()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Newer Pythons warn of threads.
        child = os.fork()
    if child == 0:
        code = 1
        try:
            predict()
        except NotDeployableError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(predict()) == 1


def test_a_law_that_was_not_fitted_here_does_not_answer():
    model = fitted()
    model.law_ = dataclasses.replace(model.law_, identity="0" * 32)
    with pytest.raises(NotDeployableError, match="not fitted in this process"):
        model.predict(X[:1])


def test_single_answers_have_no_law():
    model = fitted()
    for call in (model.response, model.law_.draw):
        with pytest.raises(InvalidParameterError, match="spent"):
            call(X[:1])


def test_parameters_set_later_change_nothing():
    model = fitted()
    promise, law = model.certificate_, model.law_
    model.set_params(epsilon=100.0, delta=0.5, questions=1, client_share=0.01)
    model.ask(X[:10], client="a")
    assert model.law_ is law
    assert model.certificate_ == promise
    assert not spending_of(law).clients
    again = clone(model)
    assert not hasattr(again, "law_")


def test_two_models_and_two_fits_have_states_of_their_own():
    one, other = fitted(), fitted()
    first = one.law_
    one.predict(X[:30])
    np.testing.assert_array_equal(spending_of(other.law_).spent, other.law_.fitted)
    one.fit(X, Y)
    assert one.law_.identity != first.identity
    assert (spending_of(first).spent >= first.fitted).all()
    np.testing.assert_array_equal(spending_of(one.law_).spent, one.law_.fitted)
    with pytest.raises(ValueError, match="read-only"):
        one.law_.fitted[0] = 0


def test_threads_take_turns(monkeypatch):
    model, asking, most = fitted(), [], []
    real = LocalLaw.ask

    def ask(law, *given):
        asking.append(1)
        most.append(len(asking))
        answers = real(law, *given)
        asking.pop()
        return answers

    monkeypatch.setattr(LocalLaw, "ask", ask)
    threads = [
        threading.Thread(target=lambda: [model.predict(X[:3]) for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 40


def test_a_client_uses_its_share_only():
    model = fitted(client_share=0.25, questions=1)
    for _ in range(30):
        model.ask(X[:3], client="a")
    spending = spending_of(model.law_)
    used = (spending.spent - model.law_.fitted) / FULL
    assert used.max() <= 0.25
    assert used.max() > 0.05
    model.ask(X[:3], client="b")
    assert ((spending.spent - model.law_.fitted) / FULL >= used).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"relation": "add-remove"}, "relation"),
        ({"questions": 0}, "questions"),
        ({"columns": [(0, 1)]}, "one entry for each"),
        ({"columns": [(0, 1), (1, 0)]}, "low < high"),
        ({"columns": [(0, 1), 0]}, "number of levels"),
        ({"columns": [(0, float("inf")), 2]}, "low < high"),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_mistakes_are_named(given, message, skip):
    model = PrivateNeighborsClassifier(**{"classes": [0, 1], "prior": False, **given})
    with (
        config_context(skip_parameter_validation=skip),
        pytest.raises(ValueError, match=message),
    ):
        model.fit(X, Y)


def test_hostile_rows_get_plain_errors():
    model = fitted()
    for rows, message in (
        (np.full((1, 2), np.inf), "infinity"),
        (np.zeros((1, 3)), "features"),
        (np.zeros(2), "2D"),
        ([["a", "b"]], "string|convert"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(rows)
    with pytest.raises(InvalidDataError, match="infinity"):
        model.law_.encode([[np.inf, 0.0]])
    with pytest.raises(InvalidDataError, match="2 columns"):
        model.law_.encode([[0.0]])
    for n_labels in (79, 81):
        labels = np.resize(Y, n_labels)
        with pytest.raises(ValueError, match="inconsistent"):
            PrivateNeighborsClassifier(classes=[0, 1]).fit(X, labels)
        with pytest.raises(ValueError, match="inconsistent"):
            PrivateNeighborsRegressor().fit(X, labels)
    with pytest.raises(ReticentError, match="20 units"):
        PrivateNeighborsClassifier(classes=[0, 1]).fit(X[:19], Y[:19])
    with pytest.raises(ValueError, match="infinity"):
        PrivateNeighborsClassifier(classes=[0, 1]).fit(np.full((30, 2), np.inf), Y[:30])


def test_missing_values_unseen_levels_and_wide_numbers_are_answered():
    columns = [
        Numeric(0, 100, transform="log1p"),
        Categorical(["a", "b"]),
        (-1, 1),
        3,
    ]
    rows = np.column_stack([Y * 50, Y, X[:, 0], Y])
    rows[::7, 0] = rows[::5, 1] = rows[::3, 2] = np.nan
    model = PrivateNeighborsClassifier(
        2.0, classes=[0, 1], columns=columns, questions=10, local="always"
    ).fit(rows, Y)
    asked = np.array(
        [
            [np.nan] * 4,
            [-1e300, 7, 1e300, -3],
            [1e300, 0.5, -1e300, 2**40],
            [-1, -1, 0, 3],
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answers = model.ask(asked)
    assert set(answers.answers) <= {0, 1}
    assert np.isfinite(answers.evidence).all()
    codes = model.law_.encode(asked)
    assert codes.min() >= 0
    for place, column in enumerate(model.law_.columns.columns):
        assert codes[:, place].max() < column.n_codes


@pytest.mark.parametrize(
    "n_questions",
    [
        1_000,
        pytest.param(1_000_000, marks=[pytest.mark.long]),
    ],
)
def test_questions_have_no_end(n_questions):
    model = fitted(questions=100)
    promise = model.certificate_
    rng = np.random.default_rng(0)
    at = np.zeros(2)

    def ask(times):
        for _ in range(times):
            # The next questions depend on the last answers.
            rows = np.clip(at + 0.5 * rng.standard_normal((10, 2)), -1, 1)
            answers = model.ask(rows)
            at[:] = rng.random(2) * (1 if answers.answers.mean() > 0.5 else -1)
            assert np.isfinite(answers.evidence).all()

    ask(n_questions // 10 - 45)
    tracemalloc.start()
    try:
        ask(5)
        first, _ = tracemalloc.get_traced_memory()
        ask(40)
        last, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Random bytes are kept in a buffer of 32 KiB.
    assert last - first < 80_000
    assert model.certificate_ == promise
    recheck(promise)
    assert spending_of(model.law_).spent.max() <= FULL
    assert np.isfinite(spending_of(model.law_).lessons.as_list()).all()


def test_numbers_stay_in_their_bounds():
    model = PrivateNeighborsRegressor(2.0, bounds=(5, 7), questions=20, local="always")
    model.fit(X, 6 + X[:, 0])
    answers = model.predict(X)
    assert ((answers >= 5) & (answers <= 7)).all()
    assert len(np.unique(answers)) > 1


class OnFewRows(PrivateNeighborsRegressor):
    """Promise no score: 200 rows in ten columns have no neighbours."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


_PICKLED = "a copy would spend the records' budget again"
_FEW = "it has fewer than 20 rows"
_BOTH = {
    "check_estimators_pickle": _PICKLED,
    "check_n_features_in_after_fitting": _FEW,
    "check_fit2d_1feature": _FEW,
}
EXPECTED_FAILURES = {
    PrivateNeighborsClassifier: {**_BOTH, "check_classifier_data_not_an_array": _FEW},
    OnFewRows: {
        **_BOTH,
        "check_fit2d_1sample": _FEW,
        "check_regressors_no_decision_function": _FEW,
    },
}


@estimator_checks.parametrize_with_checks(
    [
        PrivateNeighborsClassifier(500.0, delta=0.1, prior=False, questions=300),
        OnFewRows(500.0, delta=0.1, bounds=(-3, 3), prior=False, questions=1),
    ],
    expected_failed_checks=lambda model: EXPECTED_FAILURES[type(model)],
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_with_few_units_the_released_model_answers_and_says_so():
    model = fitted(prior=True, local="auto")
    assert not model.local_
    law, spending = model.law_, model.law_.start()
    codes = law.encode(RNG.uniform(-1, 1, (40, 2)))
    found = law.ask(codes, spending)
    expected = (law.model.mean(codes)[0] > 0.5).astype(int)
    assert found.answers.tolist() == expected.tolist()
    assert not found.evidence.any()
    assert np.array_equal(spending.spent, law.fitted)  # Nobody paid.
    law.replay(codes, found.trace, spending)
    assert np.array_equal(spending.spent, law.fitted)
    assert fitted(prior=True).local_
    with pytest.raises(InvalidParameterError, match="could not answer"):
        fitted(local="never")


LABEL = {"vote": 0.5, "acute": False}


def test_units_vote_if_they_are_enough_and_near_to_every_question():
    budget = RoundBudget.of("test", 1.0, 1e-6, "replace-one")

    def most(n_units, questions, **usual):
        return most_local_questions(n_units, budget, questions, **(LABEL | usual))

    least = math.ceil(20_000 / budget.mu)
    assert most(least - 1, 1) == 0
    assert most(least, 1) == 1
    # Up to as many questions as look for one unit in 500.
    found = most(100_000, 10_000)
    for questions, near in ((found, True), (found + 1, False)):
        plan = question_plan(100_000, budget, questions, **LABEL)
        assert (plan.wanted <= 200) is near
    # Noise grows with the number of labels, and is smaller for numbers.
    assert most(100_000, 10_000, vote=1.0, acute=True) < found < 10_000
    assert most(100_000, 10_000, vote=0.25) == 10_000
    assert most(1_000_000, 10_000) == 10_000


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_in_a_mapped_file_are_not_copied(tmp_path, kind):
    shape = (60_000, 40)
    rows = np.lib.format.open_memmap(tmp_path / "rows.npy", "w+", kind, shape)
    rows[:] = np.random.default_rng(0).uniform(-1, 1, shape)
    rows.flush()
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    y = (mapped[:, 0] > 0).astype(int)
    model = PrivateNeighborsClassifier(1.0, classes=[0, 1], prior=False)
    tracemalloc.start()
    try:
        law = model.fit(mapped, y).law_
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The codes twice, in the order of the file and by unit, and some columns of one
    # number per row; all rows as floats would be more.
    assert most < 2 * law.codes.nbytes + 100 * len(mapped) < 8 * mapped.size
