"""``kill -9`` of a real server under load.

The ledger has its own crash tests with many more kills; here the whole service is
killed: HTTP, model, ledger and all.
"""

import base64
import collections
import contextlib
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from reticent.home import Settings
from reticent.ledger import SQLLedger
from tests.service.clinic import ROW, settings_for
from tests.service.live_server import (
    api_key,
    free_port,
    wait_until,
    wait_until_ready,
    written,
)

CLIENTS = 8
ENOUGH = 80  # answers, so that kills hit something


class Stable:
    """Starts servers and kills them."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._child = 0
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._launcher = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("crash_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self._launcher.stdout.readline() == "ready\n"

    def start(self) -> None:
        self._launcher.stdin.write(f"{self._config} {self.port}\n")
        self._launcher.stdin.flush()
        self._child = int(self._launcher.stdout.readline())
        wait_until_ready(self.url)

    def kill(self) -> None:
        """End the server at once; nothing of it runs any more."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            # Its port is free only when it has ended.
            while psutil.Process(self._child).status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.001)
            self._child = 0

    def close(self) -> None:
        self.kill()
        self._launcher.stdin.close()
        self._launcher.wait()
        self._launcher.stdout.close()


class Client(threading.Thread):
    """Asks one question after the other; retries with the same key until it knows."""

    def __init__(
        self,
        url: str,
        key: str,
        name: str,
        stop: threading.Event,
        authority: str | None = None,
    ) -> None:
        super().__init__()
        self._authority = authority
        self._url, self._key, self._prefix, self._over = url, key, name, stop
        self.outcomes: dict[str, list[object]] = collections.defaultdict(list)
        self.broken = self.answered = 0

    def run(self) -> None:
        draw = random.Random(self._prefix)
        number = 0
        context = ssl.create_default_context(cafile=self._authority)
        with httpx.Client(base_url=self._url, timeout=20, verify=context) as http:
            while not self._over.is_set():
                number += 1
                self._ask(http, f"{self._prefix}-{number}", draw.uniform(0, 100))

    def _ask(self, http: httpx.Client, name: str, age: float) -> None:
        headers = {"x-api-key": self._key, "idempotency-key": name}
        while not (self._over.is_set() and self.outcomes[name]):
            try:
                answer = http.post(
                    "/v1/models/triage/predict",
                    json={"rows": [{**ROW, "age": age}]},
                    headers=headers,
                )
            except httpx.TransportError:
                self.broken += 1
                if self._over.is_set():
                    return
                time.sleep(0.02)
                continue
            if answer.status_code == 502:  # of a proxy: the worker is gone
                self.broken += 1
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.outcomes[name].append(answer.json()["answers"])
                self.answered += 1
            else:
                self.outcomes[name].append(answer.json()["error"]["code"])
            # Every now and then ask again: the answer must be the same.
            if random.random() < 0.8:
                return


def kill_again_and_again(folder: Path, kills: int, seed: int) -> None:
    settings = settings_for(
        folder,
        datasets={"clinic": {"epsilon": 1e5}},
        client_budget={"epsilon": 1e5},
    )
    key, config = api_key(settings), written(settings, folder)
    stable, stop = Stable(config), threading.Event()
    clients = [Client(stable.url, key, f"c{n}", stop) for n in range(CLIENTS)]
    draw = random.Random(seed)
    try:
        for turn in range(kills):
            stable.start()
            if turn == 0:
                for client in clients:
                    client.start()
            # A retry of what a kill has lost waits for half a second before it is told
            # so; some servers live longer than that.
            time.sleep(draw.uniform(0.02, 0.25) if draw.random() < 0.8 else 1.0)
            stable.kill()
        stable.start()
        # Whoever was interrupted gets an answer now, and there are enough of them.
        answered = [client.answered for client in clients]
        wait_until(
            lambda: all(
                client.answered > max(before, 2 * ENOUGH // CLIENTS)
                for client, before in zip(clients, answered, strict=True)
            )
        )
        stop.set()
        for client in clients:
            client.join()
    finally:
        stop.set()
        for client in clients:
            if client.is_alive():
                client.join()
        stable.close()
    check(settings, clients, kills)


def check(
    settings: Settings,
    clients: list[Client],
    kills: int,
    after: int = 0,
    client: str = "ward-7",
) -> None:
    outcomes = {n: told for c in clients for n, told in c.outcomes.items() if told}
    with contextlib.closing(SQLLedger(settings.ledger)) as ledger:
        ledger.verify()
        entries = list(ledger.entries())
        balance = next(b for b in ledger.balances() if b.account.name == client)
    earlier = sum(
        1 for e in entries if e.sequence <= after and f"client:{client}" in e.costs()
    )
    entries = [entry for entry in entries if entry.sequence > after]
    charges = {e.request: e for e in entries if e.kind == "charge"}
    answers = {e.settles: e for e in entries if e.kind == "answer"}
    lost = 0
    for name, told in outcomes.items():
        charge = charges[f"{client}/k/{name}"]  # 0 answers without a durable charge
        stored = answers.get(charge.sequence)
        assert len({str(outcome) for outcome in told}) == 1, told  # 1 distinct answer
        if told[0] == "spent_without_result":
            lost += 1
            assert stored is None
        else:
            (text,) = stored.content()["answers"]
            assert [json.loads(base64.b64decode(text))] == told[0]
    assert len(charges) == sum(1 for e in entries if e.kind == "charge")
    assert balance.spent.answers == earlier + len(charges)  # 0 lost, 0 double charges
    # The test is not vacuous: kills hit requests, and people were answered.
    assert sum(each.broken for each in clients) >= kills
    assert len(outcomes) - lost > ENOUGH
    assert {"spent_without_result"} >= {
        t[0] for t in outcomes.values() if isinstance(t[0], str)
    }


def test_kills_lose_no_charge_and_give_no_answer_twice(tmp_path, seed):
    kill_again_and_again(tmp_path, kills=12, seed=seed)


@pytest.mark.long
def test_many_kills_lose_no_charge_and_give_no_answer_twice(tmp_path, seed):
    kill_again_and_again(tmp_path, kills=400, seed=seed)
