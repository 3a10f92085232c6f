"""PredictionInterface: many clients, one budget, no double charge (P8)."""

import contextlib
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent import Budget, BudgetExhaustedError
from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    NotDeployableError,
)
from reticent.guarantees import PureDP, bounded_range, recheck, repeat
from reticent.hypotheses import Thresholds
from reticent.ledger import MemoryLedger, SQLLedger
from reticent.prediction import (
    PredictionInterface,
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ProjectedWalkClassifier,
    RelabelingClassifier,
    StableLinearClassifier,
)
from reticent.prediction.queries import canonical_rows

X, Y = load_breast_cancer(return_X_y=True)
BASE = make_pipeline(StandardScaler(), LogisticRegression())
MODEL = PrivateVotingClassifier(BASE, 0.1, [0, 1], 9).fit(X, Y)


def asking(model, budget, **settings):
    """Return an interface with a ledger of its own, so that tests do not share one."""
    return PredictionInterface(model, budget, MemoryLedger(), **settings)


def test_the_budget_covers_exactly_its_capacity():
    interface = asking(MODEL, Budget(1.0))
    assert interface.capacity == 10
    assert interface.predict(X[:10]).size == 10
    assert interface.spent().guarantee == PureDP(1.0)
    with pytest.raises(BudgetExhaustedError, match=r"dataset:data"):
        interface.predict(X[10:11])
    recheck(interface.spent())


def test_a_refused_batch_costs_nothing():
    interface = asking(MODEL, Budget(1.0))
    with pytest.raises(BudgetExhaustedError):
        interface.predict(X[:11])
    assert interface.spent() is None
    assert interface.remaining() == 10


def test_a_repeated_query_is_free_and_the_same():
    interface = asking(MODEL, Budget(1.0))
    first = interface.predict(X[:5], client="a")
    for _ in range(20):
        np.testing.assert_array_equal(interface.predict(X[:5], client="a"), first)
    assert interface.remaining() == 5


def test_a_client_who_sees_an_answer_first_is_charged():
    interface = asking(MODEL, Budget(1.0), client_budget=Budget(0.5))
    first = interface.predict(X[:5], client="a")
    np.testing.assert_array_equal(interface.predict(X[:5], client="b"), first)
    assert interface.remaining() == 5
    assert interface.remaining(client="b") == 0
    assert interface.spent(client="b").guarantee == PureDP(0.5)
    with pytest.raises(BudgetExhaustedError, match="client:b"):
        interface.predict(X[5:6], client="b")
    assert interface.predict(X[5:6], client="c").size == 1


def test_duplicates_in_a_batch_are_answered_once():
    interface = asking(MODEL, Budget(1.0))
    answers = interface.predict(np.repeat(X[:1], 50, axis=0))
    assert len(set(answers)) == 1
    assert interface.remaining() == 9


def test_colluding_clients_do_not_multiply_the_budget():
    interface = asking(MODEL, Budget(1.0))
    answered = 0
    for number in range(200):
        with contextlib.suppress(BudgetExhaustedError):
            answered += interface.predict(X[[number]], client=f"key {number}").size
    assert answered == 10


def test_threads_do_not_overdraw():
    interface = asking(MODEL, Budget(1.0))
    granted = []

    def ask(number):
        try:
            interface.predict(X[[number]], client="a")
        except BudgetExhaustedError:
            return
        granted.append(number)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == 10


def test_refusal_does_not_depend_on_the_data():
    def transcript(labels):
        model = PrivateVotingClassifier(BASE, 0.25, [0, 1], 9).fit(X, labels)
        interface = PredictionInterface(model, Budget(1.0))
        outcome = []
        for row in range(8):
            try:
                interface.predict(X[[row]])
                outcome.append("answered")
            except BudgetExhaustedError as error:
                outcome.append(str(error))
        return outcome

    other = Y.copy()
    other[0] = 1 - other[0]
    assert transcript(Y) == transcript(other)


def test_an_idempotency_key_is_charged_once():
    interface = asking(MODEL, Budget(1.0))
    first = interface.predict(X[:2], key="k")
    np.testing.assert_array_equal(interface.predict(X[:2], key="k"), first)
    with pytest.raises(InvalidParameterError, match="key"):
        interface.predict(X[2:4], key="k")
    assert interface.remaining() == 8


def test_many_answers_cost_less_with_a_delta():
    soft = PrivateVotingClassifier(BASE, 0.2, [0, 1], 9, rule="soft").fit(X, Y)
    interface = PredictionInterface(soft, Budget(7.8, 1e-6))
    assert interface.capacity >= 200
    # What is set aside for other models and for totals costs one answer in a hundred.
    more = repeat(soft.certificate_, interface.capacity + 3, delta=1e-6)
    closed = repeat(
        soft.certificate_,
        interface.capacity + 3,
        delta=1e-6,
        methods=("basic", "exact", "zcdp"),
    )
    assert closed.guarantee.epsilon > 7.8
    assert more.guarantee.epsilon <= closed.guarantee.epsilon


def test_spending_survives_in_a_sql_ledger(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with SQLLedger(url) as ledger:
        first = PredictionInterface(MODEL, Budget(1.0), ledger).predict(X[:4])
    with SQLLedger(url) as ledger:
        again = PredictionInterface(MODEL, Budget(1.0), ledger)
        assert again.remaining() == 6
        np.testing.assert_array_equal(again.predict(X[:4]), first)
        assert again.remaining() == 6


def test_numbers_are_remembered_to_the_last_bit():
    rows, targets = load_diabetes(return_X_y=True)
    model = PrivateAveragingRegressor(Ridge(), 0.5, bounds=(0, 400), n_shards=9).fit(
        rows, targets
    )
    interface = PredictionInterface(model, Budget(2.0))
    first = interface.predict(rows[:3])
    np.testing.assert_array_equal(interface.predict(rows[:3]), first)


def test_a_seeded_predictor_is_refused():
    seeded = PrivateVotingClassifier(BASE, 0.1, [0, 1], 9, random_state=0).fit(X, Y)
    with pytest.raises(NotDeployableError, match="SEEDED_NOISE"):
        PredictionInterface(seeded, Budget(1.0))


def test_wrong_uses_are_named():
    with pytest.raises(InvalidParameterError, match="certificate_"):
        PredictionInterface(PrivateVotingClassifier(BASE), Budget(1.0))
    with pytest.raises(BudgetExhaustedError, match="covers none"):
        PredictionInterface(MODEL, Budget(0.05))
    with pytest.raises(InvalidDataError, match="rows and columns"):
        asking(MODEL, Budget(1.0)).predict(X[0])


NAMES = [f"c{place}" for place in range(30)]
FRAMES = PrivateVotingClassifier(BASE, 0.1, [0, 1], 9).fit(
    pd.DataFrame(X, columns=NAMES), Y
)
HOLE = np.where(np.arange(30) == 3, np.nan, X[:1])


@pytest.mark.parametrize("model", [MODEL, FRAMES], ids=["array", "frame"])
@pytest.mark.parametrize(
    ("queries", "match"),
    [
        (X[:1, :29], "29 features|names should match"),
        (np.full((1, 30), "a"), "must hold numbers|names should match"),
        ([[*X[0, :29], "a"]], "must hold numbers|names should match"),
        (HOLE, "NaN|names should match"),
        (pd.DataFrame(HOLE, columns=NAMES), r"(c3|column 3).*missing"),
        (pd.DataFrame(X[:1], columns=NAMES)[NAMES[::-1]], "names should match|order"),
        (pd.DataFrame(X[:1], columns=NAMES).assign(c7="a"), "hold numbers"),
    ],
    ids=["columns", "text", "one text", "hole", "hole in frame", "order", "named text"],
)
@pytest.mark.filterwarnings("ignore:X ")  # names that only one of the two has
def test_questions_that_no_model_can_answer_cost_nothing(model, queries, match):
    interface = asking(model, Budget(1.0))
    reordered = model is MODEL and list(getattr(queries, "columns", ())) == NAMES[::-1]
    if reordered:  # an array's columns have no names
        assert interface.predict(queries).shape == (1,)
        return
    with pytest.raises(ValueError, match=match) as refused:
        interface.predict(queries)
    assert "0.1" not in str(refused.value)
    assert interface.spent() is None
    asked = X[:1] if model is MODEL else pd.DataFrame(X[:1], columns=NAMES)
    assert interface.predict(asked).shape == (1,)


@pytest.mark.parametrize(
    ("model", "queries"),
    [
        (ProjectedWalkClassifier(1.0, classes=[0, 1]), [["a"]]),
        (StableLinearClassifier(1.0, radius=2.0, classes=[0, 1]), [[np.nan]]),
        (
            RelabelingClassifier(Thresholds(), 4.0, flip=0.2, classes=[0, 1]),
            [[0.0, 1.0]],
        ),
        (
            PrivateAveragingRegressor(Ridge(), 1.0, bounds=(0, 1), n_shards=9),
            [[0.0, 1.0]],
        ),
    ],
    ids=["walk", "linear", "hypotheses", "numbers"],
)
def test_every_law_refuses_before_it_charges(model, queries):
    interface = asking(model.fit(X[:, :1], Y), Budget(50.0, 1e-5))
    with pytest.raises(ValueError, match=r"feature|NaN"):
        interface.predict(queries)
    assert interface.spent() is None


def missing_filled():
    return make_pipeline(SimpleImputer(), LogisticRegression())


@pytest.mark.parametrize(
    ("pipeline", "rows"),
    [
        (missing_filled(), HOLE),
        (DecisionTreeClassifier(max_depth=2), HOLE),
        (make_pipeline(StandardScaler(), missing_filled()), HOLE),
        (make_pipeline(OneHotEncoder(handle_unknown="ignore"), BASE[1]), [["a"] * 30]),
        (BASE, [["1.5"] * 30]),  # numbers, as text
    ],
    ids=["filled", "tree", "scaled and filled", "levels", "numbers as text"],
)
def test_what_a_pipeline_may_take_is_asked(pipeline, rows):
    model = PrivateVotingClassifier(pipeline, 0.1, [0, 1], 9)
    interface = asking(model.fit(X, Y), Budget(1.0))
    assert interface.predict(rows).shape == (1,)


def test_one_text_at_fit_does_not_decide_what_is_refused():
    """The type of a column is a function of all rows, so refusal ignores it."""
    changed = X.astype(object)
    changed[0, 0] = "a"
    for rows in (X, changed):
        model = PrivateVotingClassifier(BASE, 0.1, [0, 1], 9).fit(rows, Y)
        interface = asking(model, Budget(1.0))
        with pytest.raises(InvalidDataError, match="hold numbers"):
            interface.predict(np.full((1, 30), "a"))
        assert interface.predict(X[:1]).shape == (1,)


@pytest.mark.parametrize(
    "asked",
    [MODEL, PrivateVotingClassifier(BASE), PredictionInterface(MODEL, Budget(1.0))],
    ids=["fitted", "unfitted", "interface"],
)
def test_where_there_are_no_probabilities_is_said_where_there_are(asked):
    assert not hasattr(asked, "predict_proba")
    with pytest.raises(AttributeError, match="PrivateAveragingClassifier") as said:
        asked.predict_proba(X[:1])
    assert "PrivateTabularClassifier" in str(said.value)
    assert type(asked).__name__ in str(said.value)


def test_averages_give_probabilities_if_their_estimator_does():
    assert hasattr(PrivateAveragingClassifier(LogisticRegression()), "predict_proba")
    assert not hasattr(PrivateAveragingClassifier(RidgeClassifier()), "predict_proba")


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (4.0, r"budget=4\.0 .*Budget\(epsilon=4\.0\)"),
        (2, r"budget=2 .*Budget\(epsilon=2\)"),
        ("4", r"budget='4' .*Budget\(epsilon=\.\.\.\)"),
        (None, "budget=None"),
    ],
)
def test_a_number_is_no_budget(budget, said):
    with pytest.raises(InvalidParameterError, match=said):
        PredictionInterface(MODEL, budget)
    if budget is not None:
        with pytest.raises(InvalidParameterError, match=f"client_{said}"):
            asking(MODEL, Budget(1.0), client_budget=budget)


def test_canonical_rows_tell_values_apart_and_nothing_else():
    rows = np.array([[0.0, np.nan], [-0.0, -np.nan], [0.0, 1.0]])
    a, b, c = canonical_rows(rows)
    assert a == b != c
    frame = pd.DataFrame({"x": [1, 2], "y": ["p", "q"]})
    other = frame.rename(columns={"y": "z"})
    assert canonical_rows(frame)[0] != canonical_rows(frame)[1]
    assert canonical_rows(frame)[0] != canonical_rows(other)[0]
    assert canonical_rows(frame) == canonical_rows(frame.copy())
    assert canonical_rows([[1, 2]]) == canonical_rows([[1.0, 2.0]])
    large = canonical_rows(np.array([[2**53 + 1], [2**53 + 2]]))
    assert large[0] != large[1]


def test_one_ledger_serves_two_interfaces():
    ledger = MemoryLedger()
    one = PredictionInterface(MODEL, Budget(1.0), ledger, dataset="first")
    two = PredictionInterface(MODEL, Budget(1.0), ledger, dataset="second")
    one.predict(X[:10])
    assert two.remaining() == 10


# --------------------------------------------------------- counted answers (G25)

SOFT = PrivateVotingClassifier(BASE, 0.2, [0, 1], 9, rule="soft").fit(X, Y)


def test_a_model_alone_on_its_ledger_answers_more():
    budget = Budget(2.0, 1e-6)
    alone = PredictionInterface(SOFT, budget)
    shared = asking(SOFT, budget)
    assert alone.capacity > 1.05 * shared.capacity
    total = repeat(SOFT.certificate_, alone.capacity, delta=1e-6)
    assert (total.rule, total.guarantee.epsilon <= 2.0) == ("G25", True)
    alone.predict(X[:3])
    assert alone.spent().guarantee == PureDP(0.6)
    rest = alone.remaining()
    alone.predict(X[3 : 3 + rest])
    spent = alone.spent()
    assert spent.rule == "G25-odometer"
    assert spent.answer_count() == alone.capacity
    assert spent.guarantee.epsilon <= 2.0
    assert spent.guarantee.delta <= 1e-6
    recheck(spent)
    with pytest.raises(BudgetExhaustedError):
        alone.predict(X[-1:])


def test_a_counted_account_is_not_reopened_under_another_budget():
    PredictionInterface(SOFT, Budget(3.0, 1e-6), dataset="counted")
    again = PredictionInterface(SOFT, Budget(3.0, 1e-6), dataset="counted")
    assert again.remaining() == again.capacity
    with pytest.raises(InvalidParameterError, match="has a budget already"):
        PredictionInterface(SOFT, Budget(4.0, 1e-6), dataset="counted")


def test_clients_of_a_counted_account_are_counted_too():
    interface = PredictionInterface(
        SOFT, Budget(3.0, 1e-6), client_budget=Budget(1.0, 1e-6), dataset="clients"
    )
    own = interface.remaining(client="ward 7")
    assert 5 < own < interface.remaining()
    with pytest.raises(BudgetExhaustedError, match="client:ward 7"):
        interface.predict(X[: own + 1], client="ward 7")
    interface.predict(X[:own], client="ward 7")
    assert interface.spent(client="ward 7").guarantee.epsilon <= 1.0


def test_answers_of_an_open_interface_need_no_value_iteration(monkeypatch):
    interface = PredictionInterface(SOFT, Budget(2.5, 1e-6), dataset="quick")

    def refuse(*arguments):
        raise AssertionError("a curve was computed for an answer")

    monkeypatch.setattr(bounded_range, "value_iteration", refuse)
    interface.predict(X[:5])
    assert interface.remaining() == interface.capacity - 5
