"""A thousand hostile connections take neither memory nor answers from others."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from tests.service.clinic import ROW, settings_for
from tests.service.hostile_crowd import KINDS
from tests.service.live_server import ServerProcess, api_key, free_port, written

CROWD = Path(__file__).with_name("hostile_crowd.py")
MOST_MEGABYTES = 64


@contextlib.contextmanager
def served(folder):
    port = free_port()
    settings = settings_for(
        folder,
        port=port,
        datasets={"clinic": {"epsilon": 1e5}},
        client_budget={"epsilon": 1e5},
    )
    key, config = api_key(settings), written(settings, folder)
    server = ServerProcess(config, port, folder / "log")
    server.start()
    try:
        yield server, key, port
    finally:
        assert server.stop() == 0


@contextlib.contextmanager
def crowd(port, seconds):
    """A thousand attackers for some seconds; gives a list of how often they came."""
    command = [sys.executable, str(CROWD), str(port), "1000", str(seconds)]
    came = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield came
            came.append(json.loads(process.communicate(timeout=600)[0]))
        finally:
            process.kill()


def asked(url, key, count, pause):
    """Ask questions on fresh and on kept connections; return how long each took."""
    headers, times = {"x-api-key": key}, []
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(httpx.Client(timeout=120, verify=False))
        for number in range(count):
            fresh = httpx.Client(timeout=120, verify=False) if number % 2 else None
            begun = time.perf_counter()
            answer = (fresh or kept).post(
                f"{url}/v1/models/triage/predict",
                json={"rows": [{**ROW, "age": number / 100}]},
                headers=headers,
            )
            times.append(time.perf_counter() - begun)
            assert answer.status_code == 200
            if fresh is not None:
                fresh.close()
            time.sleep(pause)
    return times


def megabytes(server):
    return psutil.Process(server.process.pid).memory_info().rss / 2**20


def attack(folder, seconds, count, pause, turns=1):
    """Ask in peace and beside a crowd, in turns; return how long answers took."""
    calm, busy = [], []
    with served(folder) as (server, key, port):
        calm += asked(server.url, key, count, pause)
        before = highest = megabytes(server)
        for turn in range(turns):
            if turn:
                calm += asked(server.url, key, count, pause)
            with crowd(port, seconds) as came:
                wanted = len(busy) + count
                while len(busy) < wanted:
                    busy += asked(server.url, key, 10, pause)
                    highest = max(highest, megabytes(server))
            assert set(came[0]) == {kind.__name__ for kind in KINDS}
            assert sum(came[0].values()) >= 1000
        assert max(highest, megabytes(server)) - before <= MOST_MEGABYTES
        return calm, busy


def test_a_hostile_crowd_takes_no_memory_and_clients_are_answered(tmp_path):
    attack(tmp_path, seconds=6, count=40, pause=0.05)


@pytest.mark.long
def test_a_hostile_crowd_does_not_double_the_time_of_clients(tmp_path):
    # In turns: a machine that is slow for a minute is slow for both.
    calm, busy = attack(tmp_path, seconds=22, count=200, pause=0.1, turns=6)
    # What an answer takes at all on this machine is a floor for the comparison.
    usual = max(float(np.percentile(calm, 99)), 0.025)
    found = float(np.percentile(busy, 99))
    assert found <= 2 * usual, f"{found:.3f} s beside a crowd, {usual:.3f} s without"
