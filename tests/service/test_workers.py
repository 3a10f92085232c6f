"""Workers: patient starts, deaths that are logged and counted, an end together."""

from __future__ import annotations

import json
import os
import signal

import httpx
import psutil
import pytest
import uvicorn

from reticent.service import workers as module
from reticent.service.workers import Workers
from tests.service.clinic import settings_for
from tests.service.live_server import (
    ServerProcess,
    ask,
    free_port,
    wait_until,
    workers_under,
    written,
)


class FakeProcess:
    """A worker as the supervisor sees it."""

    def __init__(self, *, alive=True, answers=False, started=False):
        self.process = self
        self.pid, self.exitcode = 1, None
        self._alive, self.answers, self.started = alive, answers, started

    def is_alive(self):
        return self._alive

    def ping(self, timeout):
        return self.answers

    def is_ready(self, timeout):
        return self.answers and self.started


@pytest.fixture
def supervisor(monkeypatch):
    before = {each: signal.getsignal(each) for each in module_signals()}
    made = Workers(uvicorn.Config("nothing:here", workers=2), [], lambda reason: None)
    yield made
    for number, handler in before.items():
        signal.signal(number, handler)


def module_signals():
    from uvicorn.supervisors.multiprocess import SIGNALS

    return list(SIGNALS)


def test_a_worker_may_take_minutes_to_start_but_not_to_answer(supervisor, monkeypatch):
    """A worker was once killed when it had not answered within seconds of starting."""
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    starting = FakeProcess()
    assert supervisor._reason(starting) is None
    now[0] = 600.0
    assert supervisor._reason(starting) is None
    now[0] = 1000.0
    assert supervisor._reason(starting) == "silent"
    starting.answers = starting.started = True
    assert supervisor._reason(starting) is None
    starting.answers = False
    now[0] = 1030.0
    assert supervisor._reason(starting) is None
    now[0] = 1070.0
    assert supervisor._reason(starting) == "silent"
    assert supervisor._reason(FakeProcess(alive=False)) == "ended"


@pytest.fixture
def served(tmp_path):
    port, metrics = free_port(), free_port()
    settings = settings_for(tmp_path, port=port, workers=2, metrics_port=metrics)
    server = ServerProcess(written(settings, tmp_path), port, tmp_path / "log")
    server.start()
    yield server, metrics, tmp_path / "log"
    server.kill()


def runs(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_workers_that_die_are_logged_counted_and_replaced_and_end_together(served):
    server, metrics, log = served
    wait_until(lambda: len(workers_under(server.process.pid)) == 2)
    victim = workers_under(server.process.pid)[0]
    os.kill(victim.pid, signal.SIGKILL)

    def counted():
        text = httpx.get(f"http://127.0.0.1:{metrics}/metrics").text
        return 'reticent_worker_deaths_total{reason="ended"} 1.0' in text

    wait_until(counted)
    lines = [json.loads(x) for x in log.read_text().splitlines() if x.startswith("{")]
    (death,) = [line for line in lines if line["event"] == "worker_died"]
    assert death["worker"] == victim.pid
    assert death["exit_code"] == -signal.SIGKILL
    wait_until(lambda: len(workers_under(server.process.pid)) == 2)
    assert ask("GET", f"{server.url}/v2/health/ready").status_code == 200
    # Workers are forks of one process. If that is killed nobody knows whether they
    # serve: others take their place, and they end.
    unwatched = workers_under(server.process.pid)
    (origin,) = {worker.ppid() for worker in unwatched}
    assert origin != server.process.pid
    os.kill(origin, signal.SIGKILL)
    wait_until(lambda: not any(map(runs, unwatched)))
    wait_until(lambda: len(workers_under(server.process.pid)) == 2)
    assert ask("GET", f"{server.url}/v2/health/ready").status_code == 200
    # A supervisor that is killed takes its workers along: none goes on alone.
    alone = workers_under(server.process.pid)
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    wait_until(lambda: not any(map(runs, alone)))
