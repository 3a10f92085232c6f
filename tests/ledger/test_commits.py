"""Group commit: sharing, refusing, failing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from reticent.errors import BudgetExhaustedError, LedgerError
from reticent.ledger import end_process
from reticent.ledger.operations import Operation
from reticent.ledger.sql import group_commit as commits
from reticent.ledger.sql.group_commit import GroupCommit
from reticent.ledger.sql.waiters import finish_all
from reticent.ledger.state import Needs


def saying(text):
    return Operation(Needs(), lambda page: text)


class Recorder:
    """Commits that wait until they are let go, and remember their batches."""

    def __init__(self, *failures):
        self.batches = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.failures = list(failures)

    def __call__(self, operations):
        results = [operation.apply(None) for operation in operations]
        self.entered.release()
        self.gate.acquire()
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
        self.batches.append(results)
        return results

    def let_go(self, times=1):
        for _ in range(times):
            self.gate.release()


@pytest.fixture
def recorder():
    return Recorder()


def test_what_waits_together_commits_together(recorder):
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    others = [writer.submit(saying(number)) for number in range(1, 10)]
    assert writer.pending == 9
    assert not first.done()
    recorder.let_go(2)
    assert [future.result() for future in (first, *others)] == list(range(10))
    assert recorder.batches == [[0], list(range(1, 10))]
    writer.close()


def test_commits_have_a_largest_size(recorder):
    writer = GroupCommit(recorder, largest=4)
    futures = [writer.submit(saying(0))]
    recorder.entered.acquire()
    futures += [writer.submit(saying(number)) for number in range(1, 10)]
    recorder.let_go(4)
    for future in futures:
        future.result()
    assert [len(batch) for batch in recorder.batches] == [1, 4, 4, 1]
    writer.close()


def test_threads_just_woken_are_waited_for(recorder, monkeypatch):
    monkeypatch.setattr(commits, "_LONGEST_WAIT", 60.0)
    writer = GroupCommit(recorder)
    writer.close()  # its thread is gone; what follows is ours to collect
    queue = writer._waiting
    one, two, three = [(saying(number), Future()) for number in (1, 2, 3)]
    late = threading.Timer(0.05, lambda: [queue.put([item]) for item in (two, three)])
    queue.put([one])
    late.start()
    assert writer._collect(expected=3, lasted=100.0) == ([one, two, three], False)
    late.join()
    queue.put([one])
    assert writer._collect(expected=1, lasted=100.0) == ([one], False)
    queue.put([one])
    assert writer._collect(expected=3, lasted=0.002) == ([one], False)  # nobody came
    queue.put([one])
    queue.put(None)
    assert writer._collect(expected=3, lasted=100.0) == ([one], True)


def test_refusal_is_one_waiter_s_alone(recorder):
    refusal = BudgetExhaustedError("no")
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    fine, refused = writer.submit(saying(1)), writer.submit(saying(refusal))
    recorder.let_go(2)
    assert (first.result(), fine.result()) == (0, 1)
    with pytest.raises(BudgetExhaustedError, match="no"):
        refused.result()
    writer.close()


def test_cancelled_operation_is_never_applied(recorder):
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    dropped, kept = writer.submit(saying(1)), writer.submit(saying(2))
    assert dropped.cancel()
    assert not first.cancel()  # it is being committed
    recorder.let_go(2)
    assert kept.result() == 2
    with pytest.raises(CancelledError):
        dropped.result()
    assert recorder.batches == [[0], [2]]
    writer.close()


def test_batch_of_cancelled_operations_is_no_commit(recorder):
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    assert writer.submit(saying(1)).cancel()
    recorder.let_go(1)
    first.result()
    writer.close()
    assert recorder.batches == [[0]]


def test_close_commits_what_waits(recorder):
    writer = GroupCommit(recorder)
    recorder.let_go(5)
    futures = [writer.submit(saying(number)) for number in range(3)]
    writer.close()
    writer.close()
    assert [future.result() for future in futures] == [0, 1, 2]
    with pytest.raises(LedgerError, match="closed"):
        writer.submit(saying(3))


def test_passing_trouble_fails_the_batch_and_no_more():
    recorder = Recorder(TimeoutError("the database is busy."), None)
    writer = GroupCommit(recorder)
    recorder.let_go(2)
    with pytest.raises(LedgerError, match="Nothing was charged"):
        writer.submit(saying(0)).result()
    assert writer.submit(saying(1)).result() == 1
    writer.close()


def storing(text):
    return Operation(Needs(), lambda page: text, otherwise="It is lost.", settles=True)


def test_drawn_answers_wait_for_a_database_that_went_away(monkeypatch):
    monkeypatch.setattr(commits, "_PAUSE", 0.0)
    away = TimeoutError("the database is away.")
    recorder = Recorder(None, away, away, None, None)
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    stored, refused = writer.submit(storing(1)), writer.submit(saying(2))
    recorder.let_go(5)
    assert (first.result(), stored.result()) == (0, 1)
    with pytest.raises(LedgerError, match="Nothing was charged"):
        refused.result()
    assert writer.submit(saying(3)).result() == 3
    writer.close()
    assert recorder.batches == [[0], [1], [3]]
    assert writer.pending == 0


def test_drawn_answers_are_given_up_in_the_end(monkeypatch):
    monkeypatch.setattr(commits, "_PAUSE", 0.0)
    monkeypatch.setattr(commits, "PATIENCE", 0.0)
    recorder = Recorder(TimeoutError("the database is away."), None)
    writer = GroupCommit(recorder)
    recorder.let_go(2)
    with pytest.raises(LedgerError, match="It is lost"):
        writer.submit(storing(0)).result()
    assert writer.submit(saying(1)).result() == 1
    writer.close()


def test_drawn_answers_are_stored_without_their_caller(recorder, monkeypatch):
    monkeypatch.setattr(commits, "_PAUSE", 0.0)
    recorder.failures = [None, TimeoutError("the database is away."), None]
    writer = GroupCommit(recorder)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    left = writer.submit(storing(1))
    assert left.cancel()
    recorder.let_go(3)
    first.result()
    writer.close()
    assert recorder.batches == [[0], [1]]


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (OSError("canary-4711"), "OSError"),
        (LedgerError("the disk failed."), "the disk failed."),
        (SystemExit(3), "SystemExit"),
    ],
)
def test_failure_stops_everything(failure, shown):
    order = []
    recorder = Recorder(failure)

    def on_fatal(error):
        with pytest.raises(LedgerError):  # it has stopped before anyone is told
            writer.submit(saying("late"))
        order.append((error, first.done()))

    writer = GroupCommit(recorder, on_fatal=on_fatal)
    first = writer.submit(saying(0))
    recorder.entered.acquire()
    waiting, cancelled = writer.submit(saying(1)), writer.submit(saying(2))
    cancelled.cancel()
    recorder.let_go(1)
    for future in (first, waiting):
        with pytest.raises(LedgerError, match="answers nothing more") as caught:
            future.result()
        assert shown in str(caught.value)
        assert "canary" not in str(caught.value)
    assert order == [(failure, False)]
    with pytest.raises(LedgerError, match="answers nothing more"):
        writer.submit(saying(3))
    with pytest.raises(LedgerError, match="answers nothing more"):
        writer.check()
    writer.close()
    assert recorder.batches == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_waiters_wake_even_if_the_alarm_fails():
    def on_fatal(error):
        raise RuntimeError("no alarm")

    recorder = Recorder(OSError())
    writer = GroupCommit(recorder, on_fatal=on_fatal)
    recorder.let_go(1)
    with pytest.raises(LedgerError, match="OSError"):
        writer.submit(saying(0)).result()
    writer.close()


def test_closing_while_failing_ends():
    recorder = Recorder(OSError())
    writer = GroupCommit(recorder)
    future = writer.submit(saying(0))
    recorder.entered.acquire()
    closer = threading.Thread(target=writer.close)
    closer.start()
    recorder.let_go(1)
    closer.join()
    with pytest.raises(LedgerError):
        future.result()


def test_submit_and_close_may_race(recorder, monkeypatch):
    # Closed between the first look and the queue: still refused, not forgotten.
    writer = GroupCommit(recorder)
    monkeypatch.setattr(writer, "check", lambda: None)
    writer.close()
    with pytest.raises(LedgerError, match="closed"):
        writer.submit(saying(0))


def test_forked_process_needs_its_own(recorder, monkeypatch):
    writer = GroupCommit(recorder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(LedgerError, match="forked"):
            writer.submit(saying(0))
        writer.close()  # does nothing: the writer is the parent's
    recorder.let_go(1)
    assert writer.submit(saying(1)).result() == 1
    writer.close()


def test_end_process_says_so_and_exits(monkeypatch, capfd):
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    end_process(OSError("canary-4711"))
    assert codes == [commits._EXIT_CODE]
    said = capfd.readouterr().err
    assert "OSError" in said
    assert "canary" not in said


SERVICE = """
import sys
from reticent.ledger import SQLLedger, end_process
from tests.ledger.accounts_and_requests import asking, opened

class FailingPlace:
    broken = False
    def read(self):
        return None
    def write(self, data, *, progress, force):
        if self.broken:
            raise OSError("no space left")

place = FailingPlace()
settings = {"checkpoints": place, "signer": b"k" * 32, "on_fatal": end_process}
ledger = SQLLedger(sys.argv[1], **settings)
opened(ledger)
ledger.charge(asking("k1"))
print("first", flush=True)
place.broken = True
try:
    ledger.charge(asking("k2"))
finally:
    print("never", flush=True)
"""


def test_service_ends_at_a_failed_write(sqlite_url):
    done = subprocess.run(
        [sys.executable, "-c", SERVICE, sqlite_url],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == commits._EXIT_CODE
    assert done.stdout == "first\n"
    assert "the ledger failed (OSError)" in done.stderr


def test_a_commit_wakes_a_loop_once(recorder):
    writer = GroupCommit(recorder)
    refusal = BudgetExhaustedError("no")

    async def many():
        loop = asyncio.get_running_loop()
        wakes = []
        wake = loop.call_soon_threadsafe
        loop.call_soon_threadsafe = lambda *work: (wakes.append(work), wake(*work))[1]
        first = writer.submit_from_loop(saying(0))
        await asyncio.to_thread(recorder.entered.acquire)
        wakes.clear()  # of the line above
        wanted = [saying(1), saying(refusal), saying(3)]
        waiting = [writer.submit_from_loop(operation) for operation in wanted]
        dropped = writer.submit_from_loop(saying(4))
        dropped.cancel()
        recorder.let_go(2)
        found = await asyncio.gather(first, *waiting, return_exceptions=True)
        woken = sum(work[0] is finish_all for work in wakes)
        return found, dropped.cancelled(), woken

    assert asyncio.run(many()) == ([0, 1, refusal, 3], True, 2)
    assert recorder.batches == [[0], [1, refusal, 3]]
    writer.close()


def test_a_loop_that_is_gone_is_not_in_the_way(recorder):
    writer = GroupCommit(recorder)

    async def leave():
        left = writer.submit_from_loop(saying(0))
        await asyncio.to_thread(recorder.entered.acquire)
        return left

    left = asyncio.run(leave())
    recorder.let_go(2)
    assert writer.submit(saying(1)).result() == 1  # the writer goes on
    assert not left.done()
    writer.close()


def test_failed_commit_reaches_those_on_a_loop():
    recorder = Recorder(OSError("disk"))
    recorder.let_go()
    writer = GroupCommit(recorder)

    async def one():
        with pytest.raises(LedgerError, match="answers nothing more: OSError"):
            await writer.submit_from_loop(saying(0))
        with pytest.raises(LedgerError, match="answers nothing more: OSError"):
            writer.submit_from_loop(saying(1))

    asyncio.run(one())
    writer.close()


def handed_over(monkeypatch, rounds, **settings):
    """Ask from a loop, each time some rounds later; return what came in one piece."""
    recorder = Recorder()
    writer = GroupCommit(recorder, **settings)
    put, pieces = writer._put, []

    def counted(items):
        pieces.append(len(items))
        put(items)

    monkeypatch.setattr(writer, "_put", counted)
    recorder.let_go(5)

    async def ask(number):
        for _ in range(number * rounds):
            await asyncio.sleep(0)
        return await writer.submit_from_loop(saying(number))

    async def batch():
        return await asyncio.gather(*map(ask, range(5)))

    assert asyncio.run(batch()) == list(range(5))
    writer.close()
    return pieces


def test_those_about_to_ask_come_along(monkeypatch):
    monkeypatch.setattr(commits, "_LONGEST_WAIT", 60.0)
    assert handed_over(monkeypatch, commits._QUIET_ROUNDS) == [5]


def test_a_crowd_does_not_wait_for_the_late(monkeypatch):
    monkeypatch.setattr(commits, "_LONGEST_WAIT", 60.0)
    assert handed_over(monkeypatch, 3 * commits._QUIET_ROUNDS)[0] == 1


def test_a_crowd_does_not_wait_long(monkeypatch):
    monkeypatch.setattr(commits, "_LONGEST_WAIT", 0.0)
    assert handed_over(monkeypatch, 1)[0] == 1


def test_a_crowd_does_not_wait_for_many(monkeypatch):
    monkeypatch.setattr(commits, "_LONGEST_WAIT", 60.0)
    assert handed_over(monkeypatch, commits._QUIET_ROUNDS, largest=2)[0] == 2


def test_a_crowd_waits_for_the_commit_under_way(recorder):
    writer = GroupCommit(recorder)

    async def many():
        first = writer.submit_from_loop(saying(0))
        await asyncio.to_thread(recorder.entered.acquire)
        others = []
        for number in range(1, 4):
            others.append(writer.submit_from_loop(saying(number)))
            for _ in range(10 * commits._QUIET_ROUNDS):
                await asyncio.sleep(0)
        assert writer.pending == 3
        recorder.let_go(2)
        return await asyncio.gather(first, *others)

    assert asyncio.run(many()) == [0, 1, 2, 3]
    assert recorder.batches == [[0], [1, 2, 3]]
    writer.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("alarm", ["works", "fails"])
def test_a_crowd_that_waited_for_a_failure_hears_of_it(alarm):
    recorder = Recorder(OSError("disk"))

    def on_fatal(error):
        if alarm == "fails":
            raise RuntimeError("no alarm")

    writer = GroupCommit(recorder, on_fatal=on_fatal)

    async def many():
        first = writer.submit_from_loop(saying(0))
        await asyncio.to_thread(recorder.entered.acquire)
        second = writer.submit_from_loop(saying(1))
        for _ in range(10 * commits._QUIET_ROUNDS):
            await asyncio.sleep(0)
        recorder.let_go()
        return await asyncio.gather(first, second, return_exceptions=True)

    for error in asyncio.run(many()):
        assert isinstance(error, LedgerError)
        assert "answers nothing more: OSError" in str(error)
    assert recorder.batches == []
    writer.close()


def test_a_crowd_is_told_of_a_closed_ledger(recorder):
    writer = GroupCommit(recorder)

    async def one():
        asked = writer.submit_from_loop(saying(0))
        writer.close()
        with pytest.raises(LedgerError, match="closed"):
            await asked

    asyncio.run(one())
    assert recorder.batches == []
