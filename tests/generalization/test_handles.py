"""However many handles, processes and restarts there are, they spend one budget."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reticent.errors import BudgetExhaustedError, SolverError
from reticent.generalization import AdaptiveSession, Ladder, ReusableHoldout
from reticent.generalization.holdout import holdout as holdout_module
from reticent.generalization.holdout import ladder as ladder_module
from reticent.generalization.session import core as session_core
from reticent.generalization.session.failures import SET_ASIDE, failure_bits
from reticent.guarantees import PureDP, ReplaceOne, Scope, claim
from reticent.ledger import MemoryLedger
from tests.generalization.handles import ALLOWED, OverwritingState, handles

N = 400

# Processes die when their first or second write is durable and nobody has seen its
# answer, or just before it; then all are started again. Each may lose one answer.
DEATHS = [[[1, True], [2, False], [2, True], None], [None] * 4]
MOST_LOST = 3


def spent(kind, found):
    """Return how many of the allowed answers came out: new scores, or contradictions.

    Several processes may see one score.
    """
    shown = found["seen"]
    return len(set(shown)) if kind in ("board", "free") else shown.count("True")


def test_four_processes_spend_one_budget(sql_url):
    for kind, found in handles(url=sql_url).items():
        assert spent(kind, found) == ALLOWED, kind
        assert found["left"] == 0, kind


@pytest.mark.long
def test_processes_that_are_killed_and_started_again_spend_one_budget(sql_url):
    for kind, found in handles(url=sql_url, rounds=DEATHS).items():
        assert ALLOWED - MOST_LOST <= spent(kind, found) <= ALLOWED, kind
        assert found["left"] == 0, kind


@pytest.mark.long
def test_processes_that_read_once_and_overwrite_are_caught(sql_url):
    kinds = ["holdout", "failing", "laplace", "board", "free"]
    for kind, found in handles(url=sql_url, broken=True, kinds=kinds).items():
        assert spent(kind, found) > ALLOWED, kind


def holdout(ledger, **parameters):
    settings = {"method": "rounding", "threshold": 0.4, "queries": 200, "overfits": 1}
    return ReusableHoldout(
        np.zeros((N, 1)), ledger=ledger, name="shared", **{**settings, **parameters}
    )


def elsewhere(action):
    """Do something in another thread, and wait for it."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(action).result()


def contradict(handle):
    return handle.query(lambda X, y: np.ones(len(X)), guess=0.0)


@pytest.mark.parametrize("method", ["rounding", "laplace"])
def test_a_second_handle_sees_what_the_first_has_spent(method):
    ledger = MemoryLedger()
    scale = {"scale": 1e-3} if method == "laplace" else {}
    first, second = (holdout(ledger, method=method, **scale) for _ in range(2))
    assert contradict(first).overfit
    assert second.stopped
    assert second.queries_left == second.overfits_left == 0
    with pytest.raises(BudgetExhaustedError, match="overfits=1"):
        contradict(second)


def test_queries_are_counted_together():
    ledger = MemoryLedger()
    several = [holdout(ledger, queries=5) for _ in range(3)]
    for handle in (*several, *several[:2]):
        handle.query(lambda X, y: np.ones(len(X)), guess=1.0)
    for handle in several:
        assert handle.queries_left == 0
        with pytest.raises(BudgetExhaustedError, match="queries=5"):
            handle.query(lambda X, y: np.ones(len(X)), guess=1.0)


def test_an_answer_that_another_handle_overtakes_is_not_shown():
    ledger = MemoryLedger()
    first, second = holdout(ledger), holdout(ledger)

    def slow(X, y):
        if not second.stopped:
            elsewhere(lambda: contradict(second))  # while the first is computing
        return np.ones(len(X))

    with pytest.raises(BudgetExhaustedError):
        first.query(slow, guess=0.0)
    assert second.stopped


def test_a_query_cannot_ask_by_looking_at_the_rows():
    ledger = MemoryLedger()
    first, second = holdout(ledger, overfits=9), holdout(ledger, overfits=9)

    def nested(X, y):
        contradict(first if X[0, 0] == 0 else second)
        return np.ones(len(X))

    for handle in (first, second):
        with pytest.raises(SolverError):
            handle.query(nested, guess=0.0)
    assert first.queries_left == 198
    assert first.overfits_left == 7


def test_each_handle_of_a_noisy_holdout_pays_for_its_own_threshold():
    # Thresholds are never written down, so none is used by two handles, and there are
    # as many draws as the certificate counts.
    ledger = MemoryLedger()
    settings = {"method": "laplace", "scale": 1e-3, "overfits": 3}
    several = [holdout(ledger, **settings) for _ in range(4)]
    for handle in several[:3]:
        assert not handle.query(lambda X, y: np.ones(len(X)), guess=1.0).overfit
    assert [handle.overfits_left for handle in several] == [1, 1, 1, 0]
    thresholds = {handle._line.noisy for handle in several[:3]}
    assert len(thresholds) == 3
    notes = [entry.body for entry in ledger.entries()]
    assert not any(str(noisy) in note for noisy in thresholds for note in notes)
    with pytest.raises(BudgetExhaustedError):
        contradict(several[3])
    assert [contradict(handle).overfit for handle in several[:3]] == [True] * 3
    assert all(handle.stopped for handle in several)


def test_a_board_is_one_for_all():
    ledger = MemoryLedger()
    for step, name in ((0.1, "fixed"), (None, "free")):
        boards = [
            Ladder(
                np.zeros(N, int), step=step, improvements=2, ledger=ledger, name=name
            )
            for _ in range(2)
        ]
        assert boards[0].submit(np.arange(N) >= 120) == 0.3
        assert (boards[1].best, boards[1].leader) == (0.3, 1)
        assert boards[1].submit(np.arange(N) >= 240) == 0.6
        assert boards[0].closed
        with pytest.raises(BudgetExhaustedError, match="closed"):
            boards[0].submit(np.arange(N) >= 390)


def session(ledger, **budget):
    return AdaptiveSession(
        np.zeros((N, 1)), **{"bits": 5.0, **budget}, ledger=ledger, name="shared"
    )


def fail(handle):
    with pytest.raises(SolverError):
        handle.choose(lambda X, y: 1 / 0, ["only"])


def test_a_session_that_one_handle_closed_is_closed_for_all():
    ledger = MemoryLedger()
    first, second = session(ledger), session(ledger)
    fail(first)
    assert second.closed
    assert second.bound == first.bound > session(MemoryLedger()).bound
    for handle in (first, second):
        with pytest.raises(BudgetExhaustedError, match="closed"):
            handle.choose(lambda X, y: "only", ["only"])


def test_failures_at_the_same_time_are_all_counted():
    # Each was let in before the other closed the session; the bound covers both.
    ledger = MemoryLedger()
    first, second = session(ledger), session(ledger)

    def failing_while_the_other_does(X, y):
        elsewhere(lambda: fail(second))
        raise ValueError

    once = session(MemoryLedger())
    fail(once)
    with pytest.raises(SolverError, match="closed"):
        first.choose(failing_while_the_other_does, ["only"])
    assert first.bound == second.bound > once.bound
    # 2^-10 / (t (t + 1)) for steps 1 and 2
    assert first.promise.parameter("bits") == pytest.approx(
        5 + 1 / 512 + 20 + np.log2(2 * 6)
    )


def test_all_bounds_of_a_session_together_use_its_failure_probability():
    # One bound per stage, the promise, and one for every sequence of closing failures.
    stages = (session_core._STAGES - 1) * session_core._STAGE_SHARE
    closings = sum(SET_ASIDE**count for count in range(1, 50))
    assert stages + session_core._PROMISE_SHARE * (1 + closings) == pytest.approx(1.0)
    assert sum(2.0 ** -failure_bits(step) for step in range(1, 10**5)) <= SET_ASIDE


def test_what_one_handle_assumed_is_on_every_certificate():
    ledger = MemoryLedger()
    first, second = (session(ledger, epsilon=1.0) for _ in range(2))
    certificate = claim(PureDP(0.1), ReplaceOne(N), Scope.MODEL, statement="test")
    first._assume(certificate)
    assert second.certificate == first.certificate
    assert certificate.assumptions <= second.promise.assumptions


@pytest.mark.parametrize("kind", ["holdout", "board"])
def test_overwriting_handles_in_one_process_overspend(kind, monkeypatch):
    # The control for the tests above.
    for module in (holdout_module, ladder_module):
        monkeypatch.setattr(module, "SharedState", OverwritingState)
    ledger = MemoryLedger()
    if kind == "holdout":
        several = [holdout(ledger) for _ in range(3)]
        assert [contradict(handle).overfit for handle in several] == [True] * 3
    else:
        boards = [
            Ladder(np.zeros(N, int), step=0.1, improvements=1, ledger=ledger, name="b")
            for _ in range(2)
        ]
        assert boards[0].submit(np.arange(N) >= 120) == 0.3
        assert boards[1].submit(np.arange(N) >= 240) == 0.6
