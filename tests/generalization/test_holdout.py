"""The reusable holdout: what it answers, what it counts, what it refuses (R3)."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NotDeployableError,
    SolverError,
    TooFewRecordsError,
)
from reticent.generalization import ReusableHoldout
from reticent.generalization.averages import unit_totals, unit_values
from reticent.guarantees import SEEDED_NOISE, FiniteRange, PureDP, recheck
from reticent.ledger import MemoryLedger, SQLLedger
from reticent.mechanisms import noise_source
from tests.stats import assert_rate, rejects, trials_for

METHODS = ["rounding", "laplace"]


def rows(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int)


# Noisy comparisons err with a chance of exp(-threshold / scale); here it is none.
FAR = {"rounding": {}, "laplace": {"threshold": 0.2}}


def holdout(n=2000, **parameters):
    X, y = rows(n)
    return ReusableHoldout(X, y, **{"queries": 50, "overfits": 3, **parameters})


def always(value):
    return lambda X, y: np.full(len(X), value)


@pytest.mark.parametrize("method", METHODS)
def test_a_good_guess_comes_back_and_a_bad_one_is_corrected(method):
    h = holdout(n=20_000, method=method, **FAR[method])
    good = h.query(lambda X, y: y, guess=0.501)
    assert (good.value, good.overfit) == (0.501, False)
    bad = h.query(lambda X, y: y, guess=0.99)
    assert bad.overfit
    assert abs(bad.value - 0.5) < h.error_at_most
    assert (h.queries_left, h.overfits_left) == (48, 2)


@pytest.mark.parametrize("method", METHODS)
def test_it_stops_after_the_last_contradiction(method):
    h = holdout(n=20_000, method=method, **FAR[method])
    answer = h.query(
        lambda X, y: np.ones((len(X), 5), dtype=bool), guess=[0.0, 1.0, 0.0, 0.0, 0.0]
    )
    assert answer.overfit.tolist() == [True, False, True, True, False]
    assert np.isnan(answer.value[-1])
    assert np.isfinite(answer.value[:-1]).all()
    assert h.stopped
    assert h.queries_left == 0
    with pytest.raises(BudgetExhaustedError, match="overfits=3"):
        h.query(always(1.0), guess=1.0)


def test_it_stops_after_the_last_query():
    h = holdout(queries=3)
    h.query(lambda X, y: np.ones((len(X), 2)), guess=[1.0, 1.0])
    with pytest.raises(BudgetExhaustedError, match="queries=3"):
        h.query(lambda X, y: np.ones((len(X), 2)), guess=[1.0, 1.0])
    h.query(always(1.0), guess=1.0)
    assert h.queries_left == 0


@pytest.mark.parametrize("method", METHODS)
def test_many_queries_at_once_are_answered_like_one_by_one(method):
    guesses = np.array([0.5, 0.1, 0.9, 0.5, 0.1, 0.5, 0.5, 0.1, 0.1])
    values = np.random.default_rng(1).random((20_000, 9)) < guesses
    together, single = (
        ReusableHoldout(values, method=method, queries=9, overfits=5, **FAR[method])
        for _ in range(2)
    )
    all_at_once = together.query(lambda X, y: X, guess=0 * guesses + 0.5)
    one_by_one = []
    for column in range(9):
        if single.stopped:
            break
        answer = single.query(lambda X, y, column=column: X[:, column], guess=0.5)
        one_by_one.append(answer)
    found = [answer.value for answer in one_by_one]
    assert all_at_once.value[: len(found)] == pytest.approx(found, abs=0.05)
    assert all_at_once.overfit[: len(found)].tolist() == [a.overfit for a in one_by_one]


def test_rounded_answers_are_middles_of_levels():
    h = holdout(method="rounding", threshold=0.1, overfits=50)
    levels = h.design.levels
    seen = {
        h.query(always(value), guess=1.0 if value < 0.5 else 0.0).value
        for value in np.linspace(0, 1, 21)
    }
    middles = (np.arange(levels) + 0.5) / levels
    assert seen <= set(middles)
    assert 0.5 / levels <= 0.1


def chance_above(distance, threshold, scale):
    noise, line = stats.laplace(scale=4 * scale), stats.laplace(scale=2 * scale)
    z = np.linspace(-40 * scale, 40 * scale, 200_001)
    return float(np.trapezoid(line.pdf(z) * noise.sf(threshold + z - distance), z))


def test_noise_of_comparisons_has_the_scales_of_r3(seed):
    # The chance that a perfect guess is called overfitting, at s = 0.1, T = 0.6.
    X, y = rows(30)
    right, wrong = (chance_above(0.0, 0.6, s) for s in (0.1, 0.05))
    trials = trials_for(right, wrong)
    source = noise_source(seed)
    hits = 0
    for _ in range(trials):
        h = ReusableHoldout(
            X, y, method="laplace", threshold=0.6, scale=0.1, queries=1, overfits=1,
            random_state=source,
        )  # fmt: skip
        hits += h.query(always(0.5), guess=0.5).overfit
    assert_rate(hits, trials, right)
    assert rejects(assert_rate, hits, trials, wrong)


def test_noise_of_answers_has_the_scale_of_r3(seed):
    # Beyond one scale on either side: probability exp(-1).
    X, y = rows(50)
    trials = trials_for(np.exp(-1), np.exp(-0.5))
    h = ReusableHoldout(
        X, y, method="laplace", threshold=1e-9, scale=0.01, queries=trials,
        overfits=trials, random_state=seed,
    )  # fmt: skip
    answers = [h.query(always(0.5), guess=0.0) for _ in range(trials)]
    assert all(answer.overfit for answer in answers)
    off = np.abs(np.array([answer.value for answer in answers]) - 0.5)
    assert_rate(int((off > 0.01).sum()), trials, np.exp(-1))
    assert rejects(assert_rate, int((off > 0.005).sum()), trials, np.exp(-1))


def test_auto_takes_the_smaller_error():
    errors = {m: holdout(method=m).error_at_most for m in ["auto", *METHODS]}
    assert errors["auto"] == min(errors["rounding"], errors["laplace"])


def test_certificates_say_what_the_method_earns():
    quiet, noisy = holdout(method="rounding"), holdout(method="laplace", scale=0.02)
    assert isinstance(quiet.certificate.guarantee, FiniteRange)
    # 2 B / (s n) = 6 / 40
    assert noisy.certificate.guarantee == PureDP(noisy.certificate.guarantee.epsilon)
    assert noisy.certificate.guarantee.epsilon == pytest.approx(0.15)
    for h in (quiet, noisy):
        assert not h.certificate.proved  # queries are code that somebody hands in
        recheck(h.accuracy)
        assert h.accuracy.guarantee.failure == 0.05
        assert h.error_at_most == h.accuracy.guarantee.error
    seeded = holdout(method="laplace", random_state=0)
    assert SEEDED_NOISE in seeded.accuracy.assumptions
    assert seeded.accuracy.assumptions - noisy.accuracy.assumptions == {SEEDED_NOISE}


def test_error_shrinks_with_rows_and_grows_with_what_may_be_asked():
    base = holdout().error_at_most
    assert holdout(n=8000).error_at_most < base
    assert holdout(queries=5000).error_at_most > base
    assert holdout(overfits=20).error_at_most > base
    assert holdout(confidence=0.999).error_at_most > base


def test_score_is_accuracy_by_default():
    X, y = rows(20_000)
    model = LogisticRegression().fit(*rows(500, seed=3))
    h = ReusableHoldout(X, y, queries=10)
    right = np.mean(model.predict(X) == y)
    assert h.score(model, guess=right).value == right
    assert h.score(model, train=rows(500, seed=3)).value == pytest.approx(
        right, abs=0.1
    )
    with pytest.raises(InvalidParameterError, match="either"):
        h.score(model)


@pytest.mark.parametrize("scoring", ["roc_auc", "area", "f1"])
def test_other_metrics_are_averaged_over_units_of_rows(scoring):
    X, y = rows(4000)
    y = np.sort(y)  # sorted labels must not make units of one class
    X = np.sort(X, axis=0)
    metric = make_scorer(roc_auc_score, response_method="predict_proba")
    h = ReusableHoldout(
        X, y, scoring=metric if scoring == "area" else scoring, rows_per_unit=40
    )
    model = LogisticRegression().fit(X[::7], y[::7])
    assert h.design.n == 100
    value = h.score(model, guess=0.5).value
    assert value > 0.8
    assert h.average_score(model, X, y) == pytest.approx(value, abs=h.error_at_most)


def test_a_metric_that_is_not_defined_counts_as_one_half():
    X, _ = rows(100)
    h = ReusableHoldout(X, np.zeros(100, int), scoring="roc_auc", rows_per_unit=10)
    model = LogisticRegression().fit(*rows(100))
    assert h.average_score(model, X, np.zeros(100, int)) == 0.5


def test_units_of_several_rows_count_once():
    X, y = rows(900)
    h = ReusableHoldout(X, y, units=np.arange(900) // 3)
    assert h.design.n == 300
    with pytest.raises(InvalidParameterError, match="rows_per_unit=3"):
        ReusableHoldout(X, y, units=np.arange(900), rows_per_unit=3)


def test_grid_search_asks_once_a_candidate():
    X, y = rows(600, seed=5)
    h = holdout(queries=12)
    search = GridSearchCV(
        LogisticRegression(),
        {"C": np.logspace(-3, 2, 12)},
        scoring=h.scorer,
        cv=ShuffleSplit(1, random_state=0),
        refit=True,
    ).fit(X, y)
    assert h.queries_left == 0
    assert abs(search.best_score_ - 1.0) < h.error_at_most


def test_a_failing_query_costs_and_says_nothing():
    h = holdout(overfits=4, method="rounding")

    def leak(X, y):
        raise ValueError(f"row 3 is {X[3]}")

    for broken in (leak, lambda X, y: y[:4], lambda X, y: ["x"] * len(X)):
        left, overfits = h.queries_left, h.overfits_left
        with pytest.raises(SolverError) as caught:
            h.query(broken, guess=0.5)
        assert "row 3" not in str(caught.value)
        assert caught.value.__context__ is None
        assert (h.queries_left, h.overfits_left) == (left - 1, overfits - 1)
    assert h.query(lambda X, y: y, guess=0.5).value == 0.5
    with pytest.raises(SolverError):
        h.query(leak, guess=0.5)
    assert h.stopped


def test_values_outside_the_unit_interval_are_cut():
    h = ReusableHoldout(np.resize([np.nan, np.inf, -np.inf, 7.0], 2000)[:, None])
    assert not h.query(lambda X, y: X[:, 0], guess=0.5).overfit
    assert h.query(lambda X, y: X[:, 0], guess=0.0).overfit


def test_copies_share_one_state_and_pickles_are_refused():
    h = holdout()
    assert copy.deepcopy(h) is h
    with pytest.raises(InvalidParameterError, match="n_jobs=1"):
        pickle.dumps(h)


@pytest.mark.parametrize("method", METHODS)
def test_state_survives_in_a_ledger(method, tmp_path):
    def opened(**changes):
        ledger = SQLLedger(f"sqlite:///{tmp_path / 'holdout.db'}")
        parameters = {"method": method, "ledger": ledger, "name": "test", **changes}
        try:
            return ledger, holdout(n=20_000, **parameters)
        except LedgerError:
            ledger.close()
            raise

    ledger, h = opened(**FAR[method])
    h.query(lambda X, y: y, guess=0.0)
    h.query(lambda X, y: y, guess=0.5)
    error = h.error_at_most
    ledger.close()
    ledger, h = opened(**FAR[method])
    assert h.queries_left == 48
    assert h.error_at_most == error
    # The noisy threshold in use was never written down, so another one is drawn.
    assert h.overfits_left == (2 if method == "rounding" else 1)
    ledger.close()
    with pytest.raises(LedgerError, match="other data or parameters"):
        opened(threshold=0.3)


def test_a_ledger_needs_a_name_and_no_seed():
    with pytest.raises(InvalidParameterError, match="both"):
        holdout(ledger=MemoryLedger())
    with pytest.raises(NotDeployableError, match="random_state=None"):
        holdout(ledger=MemoryLedger(), name="a", random_state=0)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"method": "magic"}, "method='magic'"),
        ({"threshold": float("nan")}, "threshold"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"queries": 0}, "queries"),
        ({"overfits": 2.5}, "overfits"),
        ({"method": "laplace", "scale": -1.0}, "scale"),
        ({"confidence": 1.0}, "confidence"),
        ({"scoring": 3}, "scoring=3"),
    ],
)
def test_bad_parameters_are_refused(parameters, match):
    with pytest.raises(InvalidParameterError, match=match):
        holdout(**parameters)


def test_bad_guesses_are_refused_before_anything_is_counted():
    h = holdout()
    for guess in (1.5, float("nan"), [], [[0.5]]):
        with pytest.raises(InvalidParameterError, match="guess"):
            h.query(always(1.0), guess=guess)
    assert h.queries_left == 50
    with pytest.raises(TooFewRecordsError, match="n_units=1"):
        ReusableHoldout(np.zeros((1, 1)), [0])


def test_totals_are_sums_of_units_in_any_order(seed):
    rng = np.random.default_rng(seed)
    positions = rng.integers(0, 20, 300)
    positions[:20] = np.arange(20)
    for values in (rng.random((300, 3)), rng.random(300), rng.random((300, 2)) < 0.5):
        totals = unit_totals(values, positions, 20)
        assert np.array_equal(totals, unit_values(values, positions, 20).sum(axis=0))
        order = rng.permutation(300)
        again = unit_totals(values[order], positions[order], 20)
        assert np.abs(again - totals).max() <= 20  # averages within a unit round
    coins = rng.random((300, 400)) < 0.5
    plain = unit_totals(coins, np.arange(300), 300)
    assert np.array_equal(plain, coins.sum(axis=0) << 20)
    single = unit_totals(coins.astype(float), np.arange(300), 300)
    assert np.array_equal(plain, single)
    with pytest.raises(InvalidDataError, match="one value"):
        unit_values(np.zeros(3), positions, 20)


def test_a_constant_classifier_is_scored_on_sparse_and_listed_rows():
    model = DummyClassifier(strategy="constant", constant=1).fit([[0], [1]], [0, 1])
    h = ReusableHoldout([[0.0]] * 50 + [[1.0]] * 50, [0] * 50 + [1] * 50)
    assert h.score(model, guess=0.5).value == 0.5


def test_threads_never_ask_more_than_was_allowed():
    h = holdout(queries=40, overfits=40)
    answered, refused = [], []

    def ask():
        for _ in range(10):
            try:
                answered.append(h.query(always(1.0), guess=0.0))
            except BudgetExhaustedError:
                refused.append(1)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == 40
    assert len(refused) == 40


def test_a_forked_copy_is_refused(monkeypatch):
    h = holdout()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetExhaustedError, match="forked"):
        h.query(always(1.0), guess=1.0)


def test_labels_are_needed_to_score():
    h = ReusableHoldout(np.zeros((10, 1)))
    with pytest.raises(InvalidParameterError, match="y="):
        h.score(DummyClassifier(), guess=0.5)


@pytest.mark.parametrize(
    "query",
    [
        lambda X, y: np.full(len(X), 1 / len(X)),
        lambda X, y: (X[:, 0] - X[:, 0].min()) / np.ptp(X[:, 0]),
        lambda X, y: np.full(len(X), abs(X[:, 0].mean())),
        lambda X, y: np.arange(len(X)) / 2000,
        lambda X, y: np.random.default_rng().random(len(X)),
    ],
    ids=["centred", "scaled", "statistic", "position", "random"],
)
def test_a_query_that_looks_beyond_the_row_is_a_failure(query):
    h = ReusableHoldout(
        np.random.default_rng(0).normal(size=(2000, 1)) ** 3, method="rounding"
    )
    with pytest.raises(SolverError):
        h.query(query, guess=0.5)
    assert h.overfits_left == 9
