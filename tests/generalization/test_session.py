"""A session: what it returns, what that costs, and when it refuses (R2)."""

import copy
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression

from reticent.errors import (
    BudgetExhaustedError,
    InternalError,
    InvalidDataError,
    InvalidParameterError,
    LedgerError,
    NotDeployableError,
    SolverError,
)
from reticent.generalization import (
    AdaptiveSession,
    CompressionClassifier,
    KeptExamples,
    SessionCost,
    SubsampleScheme,
    overfitting,
)
from reticent.guarantees import (
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    BoundedRange,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    recheck,
)
from reticent.ledger import MemoryLedger, SQLLedger
from reticent.prediction import PrivateVotingClassifier
from tests.stats import assert_rate, assert_rate_at_most, rejects

N = 500


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


def session(seed=0, **budget):
    X, y = table(seed)
    return AdaptiveSession(
        X, y, **{"epsilon": 1.0, "kept": 10, "bits": 100.0, **budget}
    )


class Promising(ClassifierMixin, BaseEstimator):
    """Stands for any private estimator: it predicts 1 and carries a certificate."""

    def __init__(self, guarantee=None, scope=Scope.MODEL, n=N):
        self.guarantee = guarantee
        self.scope = scope
        self.n = n

    def fit(self, X, y, units=None):
        self.units_ = units
        self.classes_ = np.array([0, 1])
        self.certificate_ = claim(
            self.guarantee, ReplaceOne(self.n), self.scope, statement="test"
        )
        return self

    def predict(self, X):
        return np.ones(len(X), dtype=int)


def test_a_compression_step_pays_for_its_limit_not_for_what_it_kept():
    s = session()
    learner = CompressionClassifier(
        SubsampleScheme(examples=4), report_error=False, classes=[0, 1]
    )
    assert len(s.fit(learner).kept_) == 4
    assert s.spent == SessionCost(kept=4)
    quick = CompressionClassifier("interval", classes=[0, 1])
    s.fit(quick)
    # 501 possible training errors take 9 bits.
    assert s.spent == SessionCost(kept=6, bits=9.0)


@pytest.mark.parametrize(
    ("guarantee", "cost"),
    [
        (PureDP(0.25), SessionCost(epsilon=0.25)),
        (BoundedRange(0.25), SessionCost(epsilon=0.25)),
        (ApproxDP(0.25, 1e-9), SessionCost(epsilon=0.25, delta=1e-9)),
    ],
)
def test_a_private_model_pays_its_certificate(guarantee, cost):
    s = session(delta=1e-6)
    model = s.fit(Promising(guarantee))
    assert model.predict([[0, 0]]) == [1]
    assert s.spent == cost
    added = s.certificate.assumptions - session(delta=1e-6).certificate.assumptions
    assert [a.code for a in added] == ["CLAIMED"]


def test_a_private_predictor_pays_for_each_answer():
    s = session(epsilon=0.5)
    predictor = s.fit(Promising(PureDP(0.1), Scope.ANSWER))
    assert s.spent.epsilon == 0
    assert len(predictor.predict(np.zeros((4, 2)))) == 4
    assert s.spent.epsilon == pytest.approx(0.4, abs=1e-8)
    with pytest.raises(BudgetExhaustedError):
        predictor.predict(np.zeros((2, 2)))
    predictor.predict([[0, 0]])
    assert s.spent.epsilon == pytest.approx(0.5, abs=1e-8)


def test_few_bits_pay_the_number_of_outcomes():
    s = session()
    assert s.choose(lambda X, y: "b", ["a", "b", "c", "d"]) == "b"
    assert s.spent.bits == 2
    assert s.choose(lambda X, y: int(y.sum() > 0), range(3)) == 1
    assert s.spent.bits == pytest.approx(2 + np.log2(3), abs=1e-6)
    model = LogisticRegression().fit(*table(1))
    right = np.mean(model.predict(table()[0]) == table()[1])
    assert abs(s.score(model, levels=64) - right) <= 1 / 128
    assert s.spent.bits == pytest.approx(8 + np.log2(3), abs=1e-6)


def test_kept_examples_come_back_as_they_are():
    X, y = table()
    s = session()
    kept = s.keep(lambda X, y: [7, 3, 3], at_most=4)
    assert kept.indices.tolist() == [3, 7]
    assert np.array_equal(kept.X, X[[3, 7]])
    assert np.array_equal(kept.y, y[[3, 7]])
    assert s.spent == SessionCost(kept=4)
    s.keep(lambda X, y: 0, at_most=1)
    assert s.spent == SessionCost(kept=5)


def test_a_mean_has_noise_of_its_epsilon(seed):
    # Noise beyond one scale, 1/(n eps), on either side: probability exp(-1).
    X, y = table()
    trials = 4000
    s = AdaptiveSession(X, y, epsilon=1000.0, random_state=seed)
    # Eight steps of the grid to a scale would show rounding; here there are thousands.
    values = s.mean(
        lambda X, y: np.full((len(X), trials), 0.5), epsilon=0.2, queries=trials
    )
    assert s.spent.epsilon == pytest.approx(trials * 0.2)
    assert_rate(int((np.abs(values - 0.5) > 1 / (N * 0.2)).sum()), trials, np.exp(-1))
    half = int((np.abs(values - 0.5) > 0.5 / (N * 0.2)).sum())
    assert rejects(assert_rate, half, trials, np.exp(-1))


def test_a_mean_is_about_units():
    X, y = table()
    units = np.arange(N) // 2
    s = AdaptiveSession(X, y, epsilon=1e6, units=units)
    assert s.mean(lambda X, y: y, epsilon=1e5) == pytest.approx(y.mean(), abs=1e-4)
    assert s.promise.relation.n == N // 2
    model = AdaptiveSession(X, y, epsilon=1, units=units).fit(
        Promising(PureDP(0.1), n=N // 2)
    )
    assert np.array_equal(model.units_, units)


def test_values_outside_the_unit_interval_are_cut():
    wild = np.resize([np.nan, np.inf, -np.inf, 5.0], N)[:, None]
    s = AdaptiveSession(wild, epsilon=1e6)
    assert s.mean(lambda X, y: X[:, 0], epsilon=1e5) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.mean(lambda X, y: y, epsilon=1.5),
        lambda s: s.fit(Promising(PureDP(1.5))),
        lambda s: s.fit(Promising(ApproxDP(0.1, 1e-9))),
        lambda s: [s.choose(lambda X, y: 0, range(2**60)) for _ in range(2)],
        lambda s: s.keep(lambda X, y: [0], at_most=11),
        lambda s: s.fit(CompressionClassifier("svm")),
    ],
    ids=["mean", "pure", "delta", "bits", "keep", "compression"],
)
def test_a_step_that_would_break_the_promise_is_refused(step):
    s = session()
    promised = s.promise
    with pytest.raises(BudgetExhaustedError, match="break the promised bound"):
        step(s)
    assert s.promise == promised
    assert s.spent.within(s.budget)
    s.choose(lambda X, y: 0, [0, 1])  # smaller steps still fit


def test_budgets_can_be_used_to_the_last_bit():
    s = session(bits=3.0, kept=0, epsilon=0.3)
    for _ in range(3):
        s.choose(lambda X, y: 0, [0, 1])
        s.mean(lambda X, y: y, epsilon=0.1)
    assert s.spent == SessionCost(epsilon=0.3, bits=3.0)
    with pytest.raises(BudgetExhaustedError):
        s.choose(lambda X, y: 0, [0, 1])
    s.choose(lambda X, y: "only", ["only"])  # one possible answer is no answer


def test_the_bound_grows_with_what_was_spent_up_to_the_promise():
    s = session()
    promised = s.promise.guarantee.epsilon
    bounds = [s.bound]
    for _ in range(10):
        s.keep(lambda X, y: [0], at_most=1)
        bounds.append(s.bound)
    assert bounds == sorted(bounds)
    assert bounds[0] < 0.5 * promised
    assert bounds[-1] == promised
    recheck(s.certificate)


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s.choose(lambda X, y: 1 / 0, [0, 1]),
        lambda s: s.choose(lambda X, y: "secret 17", [0, 1]),
        lambda s: s.keep(lambda X, y: [10**9], at_most=1),
        lambda s: s.keep(lambda X, y: [0, 1, 2], at_most=1),
        lambda s: s.keep(lambda X, y: [0.5], at_most=1),
        lambda s: s.keep(lambda X, y: np.zeros(0, dtype=int), at_most=1),
        lambda s: s.mean(lambda X, y: y[:3], epsilon=0.1),
        lambda s: s.mean(lambda X, y: np.zeros((len(X), 2)), epsilon=0.1),
        lambda s: s.mean(lambda X, y: np.full(len(X), 1 / len(X)), epsilon=0.1),
        lambda s: s.fit(CompressionClassifier("threshold", classes=[0, 2])),
    ],
)
def test_a_failure_is_charged_and_says_nothing(step):
    s = session()
    before = s.spent.bits
    with pytest.raises(SolverError) as caught:
        step(s)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert s.spent.bits >= before + 10
    assert not s.closed
    s.choose(lambda X, y: 0, [0, 1])


def test_later_failures_cost_more():
    s = session(bits=200.0)
    costs = []
    for _ in range(4):
        before = s.spent.bits
        with pytest.raises(SolverError):
            s.choose(lambda X, y: 1 / 0, [0])
        costs.append(s.spent.bits - before)
    assert costs == sorted(costs)
    assert costs[0] == pytest.approx(11.0)


def test_a_failure_that_the_bits_do_not_cover_closes_the_session():
    s = session(bits=5.0)
    promised = s.bound, s.promise.guarantee.epsilon
    with pytest.raises(SolverError, match="closed"):
        s.choose(lambda X, y: 1 / 0, [0, 1])
    assert s.closed
    assert s.bound > promised[1]  # the failure is counted on top
    for step in (
        lambda: s.choose(lambda X, y: 0, [0]),
        lambda: s.mean(lambda X, y: y, epsilon=0.1),
        lambda: s.fit(Promising(PureDP(0.1))),
    ):
        with pytest.raises(BudgetExhaustedError, match="closed"):
            step()


def test_a_failure_that_cannot_be_charged_closes_the_session(monkeypatch):
    s = session()
    pay, calls = s._accounts.pay, []

    def pay_once(cost):
        calls.append(cost)
        if len(calls) == 2:
            raise RecursionError("too deep to charge for the failure")
        return pay(cost)

    monkeypatch.setattr(s._accounts, "pay", pay_once)
    with pytest.raises(InternalError, match="RecursionError"):
        s.choose(lambda X, y: 1 / 0, [0])
    assert s.closed
    with pytest.raises(BudgetExhaustedError, match="could not be charged"):
        s.choose(lambda X, y: 0, [0])


@pytest.mark.parametrize("fails", [False, True])
def test_a_ledger_that_is_gone_does_not_tell_how_a_step_ended(monkeypatch, fails):
    s, gone = session(), []

    class Accounts:
        """The session's accounts, until the connection is lost."""

        def __getattr__(self, name, known=s._accounts):
            if gone:
                raise ConnectionResetError("gone")
            return getattr(known, name)

    monkeypatch.setattr(s, "_accounts", Accounts())

    def step(X, y):
        gone.append(True)
        return 1 / 0 if fails else 0

    with pytest.raises(InternalError, match="ConnectionResetError"):
        s.choose(step, [0])


def test_steps_that_do_not_fit_the_session_are_refused():
    s = session()
    with pytest.raises(InvalidParameterError, match="replacing one of n=500"):
        s.fit(Promising(PureDP(0.1), n=N + 1))
    with pytest.raises(InvalidParameterError, match="zCDP"):
        s.fit(Promising(ZCDP(0.1)))
    before = s.spent.bits
    with pytest.raises(InvalidParameterError, match="no certificate_"):
        s.fit(LogisticRegression())
    assert s.spent.bits > before + 10  # whether there is one may tell about the data
    with pytest.raises(InvalidParameterError, match="one outcome"):
        s.choose(lambda X, y: 0, [])
    with pytest.raises(InvalidDataError, match="labels for"):
        AdaptiveSession(*[table()[0], table()[1][:-1]])


def test_a_seed_makes_the_certificate_conditional():
    X, y = table()
    s = AdaptiveSession(X, y, epsilon=1.0, random_state=0)
    s.mean(lambda X, y: y, epsilon=0.1)
    t = AdaptiveSession(X, y, epsilon=1.0)
    t.mean(lambda X, y: y, epsilon=0.1)
    assert s.certificate.assumptions - t.certificate.assumptions == {SEEDED_NOISE}


def test_copies_share_one_state_and_pickles_are_refused():
    s = session()
    assert copy.deepcopy(s) is s
    assert copy.copy(s) is s
    with pytest.raises(InvalidParameterError, match="AdaptiveSession"):
        pickle.dumps(s)


def open_again(path, name="trial", seed=0, **budget):
    ledger = SQLLedger(f"sqlite:///{path}")
    X, y = table(seed)
    budget = {"epsilon": 1.0, "kept": 5, "bits": 30.0, **budget}
    try:
        return ledger, AdaptiveSession(X, y, **budget, ledger=ledger, name=name)
    except Exception:
        ledger.close()
        raise


def test_a_session_is_continued_where_it_stopped(tmp_path):
    path = tmp_path / "session.db"
    ledger, s = open_again(path)
    s.keep(lambda X, y: [0, 1], at_most=2)
    s.mean(lambda X, y: y, epsilon=0.3)
    s.fit(Promising(PureDP(0.1)))
    spent, certificate = s.spent, s.certificate
    ledger.close()
    ledger, s = open_again(path)
    assert s.spent == spent
    assert s.certificate == certificate  # the CLAIMED assumption included
    with pytest.raises(BudgetExhaustedError):
        s.keep(lambda X, y: [0], at_most=4)
    with pytest.raises(SolverError):
        s.choose(lambda X, y: 1 / 0, [0] * 2**18)
    assert s.closed or s.spent.bits > spent.bits
    ledger.verify()
    ledger.close()


def test_a_closed_session_stays_closed(tmp_path):
    path = tmp_path / "session.db"
    ledger, s = open_again(path, bits=1.0)
    with pytest.raises(SolverError):
        s.choose(lambda X, y: 1 / 0, [0, 1])
    bound = s.bound
    ledger.close()
    ledger, s = open_again(path, bits=1.0)
    assert s.closed
    assert s.bound == bound
    ledger.close()


def test_a_promise_cannot_be_changed_after_the_first_look(tmp_path):
    path = tmp_path / "session.db"
    open_again(path)[0].close()
    for change in ({"seed": 1}, {"kept": 6}, {"epsilon": 2.0}, {"confidence": 0.9}):
        with pytest.raises(LedgerError, match="other data or parameters"):
            open_again(path, **change)
    open_again(path, name="another", kept=6)[0].close()


def test_two_objects_at_once_never_overspend():
    ledger = MemoryLedger()
    X, y = table()
    first, second = (
        AdaptiveSession(X, y, kept=4, ledger=ledger, name="shared") for _ in range(2)
    )
    first.keep(lambda X, y: [0], at_most=3)
    with pytest.raises(BudgetExhaustedError):
        second.keep(lambda X, y: [0], at_most=2)
    assert first.spent == second.spent


def test_a_ledger_needs_a_name_and_no_seed():
    X, y = table()
    with pytest.raises(InvalidParameterError, match="both"):
        AdaptiveSession(X, y, ledger=MemoryLedger())
    with pytest.raises(InvalidParameterError, match="name='a b'"):
        AdaptiveSession(X, y, ledger=MemoryLedger(), name="a b")
    with pytest.raises(NotDeployableError, match="random_state=None"):
        AdaptiveSession(X, y, ledger=MemoryLedger(), name="a", random_state=0)


def evil_session(rng, n, *, bits, kept):
    """Spend everything on overfitting, and return the gap and the promise.

    Labels are coin flips. A kept example seeds a family of random functions, and a
    few-bit answer names the member that agrees best with the labels.
    """
    X, y = rng.random((n, 1)), rng.integers(0, 2, n)
    s = AdaptiveSession(X, y, kept=kept, bits=bits)

    def member(seed, index, X):
        phase = (
            np.frombuffer(np.float64(seed).tobytes(), np.uint32).sum() + 31.7 * index
        )
        return (np.floor(np.abs(np.sin(X[:, 0] * 9e4 + phase)) * 1e6) % 2).astype(int)

    if kept:
        seeds = s.keep(
            lambda X, y: [
                int(np.argmax([np.mean(member(x[0], 0, X) == y) for x in X[:100]]))
            ],
            at_most=kept,
        ).X[:, 0]
    else:
        seeds = [0.5]
    size = 2 ** int(bits)
    best = s.choose(
        lambda X, y: int(
            np.argmax([np.mean(member(seeds[0], i, X) == y) for i in range(size)])
        ),
        range(size),
    )
    gap = np.mean(member(seeds[0], best, X) == y) - 0.5
    return gap, s.bound


@pytest.mark.parametrize(("bits", "kept"), [(7, 0), (6, 1)])
def test_bound_holds_and_is_not_slack_against_an_evil_analyst(bits, kept, seed):
    rng = np.random.default_rng(seed)
    found = [evil_session(rng, 300, bits=bits, kept=kept) for _ in range(120)]
    gaps, bounds = np.array(found).T
    assert_rate_at_most(int((gaps > bounds).sum()), len(gaps), 0.05)
    assert gaps.mean() > 0.4 * bounds.mean()
    # Control: the bound of a session without these answers does not hold.
    blind = np.sqrt(np.log(2 / 0.05) / 600)
    assert rejects(assert_rate_at_most, int((gaps > blind).sum()), len(gaps), 0.05)


def test_a_session_runs_private_predictors_of_the_library():
    X, y = table(n=600)
    s = AdaptiveSession(X, y, epsilon=1.0)
    voting = PrivateVotingClassifier(
        LogisticRegression(), epsilon=0.2, classes=[0, 1], n_shards=15
    )
    predictor = s.fit(voting)
    answers = predictor.predict([[3.0, 0.0], [-3.0, 0.0], [2.0, 0.0]])
    assert len(answers) == 3
    assert set(answers) <= {0, 1}
    assert s.spent.epsilon == pytest.approx(0.6, abs=1e-8)
    with pytest.raises(BudgetExhaustedError):
        predictor.predict(np.zeros((3, 2)))
    assert overfitting(voting.fit(X, y), answers=3).bound <= s.promise.guarantee.epsilon
    with pytest.raises(InvalidParameterError, match="y="):
        AdaptiveSession(X).score(voting)


class Lazy:
    """Says that it has one row, and is a longer table when it is read."""

    shape = (1, 2)

    def __len__(self):
        return 1

    def __array__(self, dtype=None, copy=None):
        return np.zeros((30, 2))


class Longer(np.ndarray):
    """An array that says that it has one row."""

    @property
    def shape(self):
        return (1, 2)

    def __len__(self):
        return 1


@pytest.mark.parametrize("queries", [Lazy(), np.zeros((30, 2)).view(Longer)])
def test_every_answer_is_paid_for_whatever_an_object_says(queries):
    opened = session(epsilon=1.0)
    model = PrivateVotingClassifier(LogisticRegression(), 0.1, [0, 1], 20)
    predictor = opened.fit(model)
    with pytest.raises(BudgetExhaustedError):
        predictor.predict(queries)
    assert opened.spent.epsilon == 0
    roomy = session(epsilon=4.0)
    answers = roomy.fit(model).predict(queries)
    assert len(answers) == 30
    assert roomy.spent.epsilon == pytest.approx(3.0)


def test_lists_and_frames_of_queries_are_answered():
    opened = session(epsilon=100.0)
    model = PrivateVotingClassifier(LogisticRegression(), 5.0, [0, 1], 20)
    predictor = opened.fit(model)
    rows = [[9.0, 0.0], [-9.0, 0.0]]
    for queries in (rows, np.array(rows), csr_matrix(rows)):
        assert predictor.predict(queries).tolist() == [1, 0]


class Chatty(Promising):
    """Answers more rows than it is asked about."""

    def predict(self, X):
        return np.ones(len(X) + 1, dtype=int)


def test_more_answers_than_rows_are_a_failed_step():
    opened = session()
    predictor = opened.fit(Chatty(PureDP(0.1), Scope.ANSWER))
    with pytest.raises(SolverError):
        predictor.predict(np.zeros((2, 2)))
    assert opened.spent.epsilon == pytest.approx(0.2)
    assert opened.spent.bits > 0


def test_kept_text_does_not_show_the_longest_text_of_the_table():
    X = np.array([["aa", "b"]] * (N - 1) + [["c" * 37, "d"]])
    y = np.array(["yes"] * (N - 1) + ["e" * 41])
    kept = AdaptiveSession(X, y, kept=2, bits=50).keep(lambda X, y: [0, 1], at_most=2)
    assert kept.X.tolist() == X[:2].tolist()
    assert kept.y.tolist() == ["yes", "yes"]
    assert (kept.X.dtype, kept.y.dtype) == (np.dtype("<U2"), np.dtype("<U3"))
    data = np.arange(N, dtype=float)[:, None]
    model = CompressionClassifier("threshold", classes=np.unique(y)).fit(data, y)
    longest = max(len(label) for label in model.kept_.y.tolist())
    assert model.kept_.y.dtype == np.dtype(f"<U{longest}")
    assert (model.decode(model.kept_).predict(data) == model.predict(data)).all()
    common = CompressionClassifier("subsample", classes=np.unique(y), random_state=0)
    assert common.fit(data, y).kept_.y.dtype == np.dtype("<U3")


def test_empty_kept_text_has_no_width():
    kept = KeptExamples(np.zeros((0, 3), dtype="<U37"), np.zeros(0, dtype="S9"))
    assert (kept.X.shape, kept.X.dtype, kept.y.dtype) == ((0, 3), "<U1", "S1")


def test_a_charge_that_is_not_stored_closes_the_object_that_ran_the_step():
    class Full(MemoryLedger):
        full = False

        def post(self, *args, **kwargs):
            if self.full:
                raise LedgerError("the disk is full")
            return super().post(*args, **kwargs)

    ledger = Full()
    first, second = (session(ledger=ledger, name="one") for _ in range(2))

    def fail(X, y):
        ledger.full = True
        raise ValueError

    with pytest.raises(LedgerError):
        first.choose(fail, [0, 1])
    ledger.full = False
    assert first.closed
    with pytest.raises(BudgetExhaustedError, match="closed"):
        first.choose(lambda X, y: 0, [0, 1])
    # What the pages say: the others cannot know of it.
    assert not second.closed
