"""Thousands of faults of all kinds under load, seen by clients that forget nothing.

Clients retry until they know, and remember every answer. In the end each of them was
told one thing only, every answer has its charge, and nobody is over a cap.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import os
import random
import signal
import socket
import sqlite3
import struct
import threading
import time

import httpx
import pytest

from reticent.ledger import SQLLedger
from tests.service.clinic import EPSILON, ROW, settings_for
from tests.service.live_server import api_key, wait_until, written
from tests.service.raw_client import request
from tests.service.test_crashes import Stable

PREDICT = "/v1/models/triage/predict"
CAP = 60  # answers that the poor client may have
RETRY = {
    "ledger_unavailable",
    "overloaded",
    "rate_limited",
    "shutting_down",
    "too_slow",
}


class Rememberer(threading.Thread):
    """Asks one question after the other, each until it knows the answer."""

    def __init__(self, url, key, name, stop):
        super().__init__()
        self._url, self._key, self._name, self._over = url, key, name, stop
        self.told = collections.defaultdict(list)
        self.rows = {}
        self.broken = self.answered = 0

    def run(self):
        draw, number = random.Random(self._name), 0
        with httpx.Client(base_url=self._url, timeout=20, verify=False) as http:
            while not self._over.is_set():
                number += 1
                row = {**ROW, "age": draw.uniform(0, 100)}
                self.rows[f"{self._name}-{number}"] = row
                for _ in range(1 + (draw.random() < 0.2)):
                    self._ask(http, f"{self._name}-{number}", row)

    def _ask(self, http, name, row):
        headers = {"x-api-key": self._key, "idempotency-key": name}
        while not self._over.is_set():
            try:
                answer = http.post(PREDICT, json={"rows": [row]}, headers=headers)
                body = answer.json()
            except (httpx.TransportError, json.JSONDecodeError):
                self.broken += 1
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.told[name].append(body["answers"])
                self.answered += 1
                return
            if body["error"]["code"] not in RETRY:
                self.told[name].append(body["error"]["code"])
                time.sleep(0.01)
                return
            self.broken += 1
            time.sleep(0.02)


class Faults:
    """What can go wrong, one method each."""

    def __init__(self, stable, settings, key):
        self._stable, self._key = stable, key
        self._database = settings.ledger.removeprefix("sqlite:///")
        self.names = {}
        self.happened = collections.Counter()
        self.kinds = [name for name in dir(self) if name.startswith("do_")]

    def one(self, draw):
        kind = draw.choice(self.kinds)
        with contextlib.suppress(OSError):
            getattr(self, kind)(draw)
        self.happened[kind] += 1

    def _sent(self, data, *, reset):
        made = socket.create_connection(("127.0.0.1", self._stable.port), 5)
        with made:
            made.sendall(data)
            if reset:
                linger = struct.pack("ii", 1, 0)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                made.shutdown(socket.SHUT_WR)

    def _request(self, draw, key=None):
        """Return a good request that nobody waits for; its row is remembered."""
        name = f"fault-{len(self.names)}"
        self.names[name] = row = {**ROW, "age": draw.uniform(0, 100)}
        body = json.dumps({"rows": [row]}).encode()
        return request(PREDICT, body, x_api_key=key or self._key, idempotency_key=name)

    def do_reset_after_a_request(self, draw):
        self._sent(self._request(draw), reset=True)

    def do_half_close_after_a_request(self, draw):
        self._sent(self._request(draw), reset=False)

    def do_reset_within_a_request(self, draw):
        data = self._request(draw)
        self._sent(data[: draw.randrange(len(data))], reset=True)

    def do_half_close_within_a_request(self, draw):
        data = self._request(draw)
        self._sent(data[: draw.randrange(len(data))], reset=False)

    def do_change_a_byte(self, draw):
        data = bytearray(self._request(draw))
        data[draw.randrange(len(data))] = draw.randrange(256)
        self._sent(bytes(data), reset=draw.random() < 0.5)

    def do_send_a_wrong_key(self, draw):
        key = f"rk_{draw.getrandbits(64):016x}_" + "A" * 43
        self._sent(self._request(draw, key), reset=draw.random() < 0.5)

    def do_send_headers_without_end(self, draw):
        self._sent(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000, reset=True)

    def do_send_chunks_without_end(self, draw):
        head = request(PREDICT, length=None, x_api_key=self._key, **CHUNKED)
        self._sent(head + 40 * (b"8000\r\n" + b" " * 0x8000 + b"\r\n"), reset=True)

    def do_leave_a_body_open(self, draw):
        made = socket.create_connection(("127.0.0.1", self._stable.port), 5)
        made.sendall(request(PREDICT, length=10, x_api_key=self._key) + b"{")
        threading.Timer(draw.uniform(0, 2), made.close).start()

    def do_freeze_the_server(self, draw):
        child = self._stable._child
        os.kill(child, signal.SIGSTOP)
        time.sleep(draw.uniform(0, 0.1))
        os.kill(child, signal.SIGCONT)

    def do_lock_the_database(self, draw):
        with (
            contextlib.closing(sqlite3.connect(self._database, timeout=5)) as held,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            held.execute("BEGIN IMMEDIATE")
            time.sleep(draw.uniform(0, 0.1))
            held.rollback()


CHUNKED = {"transfer_encoding": "chunked"}


def go_wrong(folder, faults, kills, seed):
    settings = settings_for(
        folder,
        datasets={"clinic": {"epsilon": 1e5}},
        client_budget={"epsilon": 1e5},
        max_in_flight=64,
    )
    rich = api_key(settings, "rich")
    poor = api_key(settings, "poor", budget={"epsilon": CAP * EPSILON})
    check(settings, suffer(settings, folder, (rich, poor), faults, kills, seed))


# Answers in all.
ENOUGH = 20


def suffer(settings, folder, keys, faults, kills, seed):
    """Serve under faults; return clients that remember what they were told.

    Every fourth has the second key.
    """
    rich, poor = keys
    stable, stop = Stable(written(settings, folder)), threading.Event()
    draw = random.Random(seed)
    clients = [
        Rememberer(stable.url, poor if place % 4 == 0 else rich, f"c{place}", stop)
        for place in range(8)
    ]
    trouble = Faults(stable, settings, rich)
    try:
        stable.start()
        for client in clients:
            client.start()
        until_kill = max(1, faults // (kills + 1))
        for number in range(faults):
            if number % until_kill == until_kill - 1:
                stable.kill()
                stable.start()
                trouble.happened["kill"] += 1
            else:
                trouble.one(draw)
        before = [client.answered for client in clients]

        def all_are_served():
            later = [client.answered for client in clients]
            pairs = zip(before, later, strict=True)
            rest = [
                first < last for place, (first, last) in enumerate(pairs) if place % 4
            ]
            # Enough to look at, however slow the machine is.
            return all(rest) and sum(later) > ENOUGH

        wait_until(all_are_served)
    finally:
        stop.set()
        for client in clients:
            if client.is_alive():
                client.join()
        stable.close()
    assert sum(trouble.happened.values()) == faults
    assert trouble.happened["kill"] >= kills
    return clients


def check(settings, clients):
    with contextlib.closing(SQLLedger(settings.ledger)) as ledger:
        ledger.verify()
        entries = list(ledger.entries())
        balances = {b.account.name: b for b in ledger.balances()}
    charges = {e.request: e for e in entries if e.kind == "charge"}
    assert len(charges) == sum(1 for e in entries if e.kind == "charge")
    stored = {e.settles: e.content()["answers"] for e in entries if e.kind == "answer"}
    seen = collections.Counter()
    for place, client in enumerate(clients):
        owner = "poor" if place % 4 == 0 else "rich"
        for name, told in client.told.items():
            given = [each for each in told if not isinstance(each, str)]
            codes = {each for each in told if isinstance(each, str)}
            assert len({str(each) for each in given}) <= 1  # never two answers
            seen.update(codes)
            charge = charges.get(f"{owner}/k/{name}")
            if not given:
                continue
            assert codes == set()  # what was answered stays answered
            (text,) = stored[charge.sequence]
            assert [json.loads(base64.b64decode(text))] == given[0]
    assert set(seen) <= {"spent_without_result", "budget_exhausted"}
    # Nothing lost, nothing double, nothing over a cap.
    for owner in ("poor", "rich"):
        mine = [e for name, e in charges.items() if name.startswith(f"{owner}/")]
        assert balances[owner].spent.answers == len(mine)
    assert balances["poor"].spent.answers <= CAP
    assert balances["clinic"].spent.answers == len(charges)
    assert sum(client.broken for client in clients)
    assert sum(client.answered for client in clients) > 20


def test_faults_of_all_kinds_lose_nothing_and_double_nothing(tmp_path, seed):
    go_wrong(tmp_path, faults=60, kills=3, seed=seed)


@pytest.mark.long
def test_thousands_of_faults_lose_nothing_and_double_nothing(tmp_path, seed):
    go_wrong(tmp_path, faults=2400, kills=150, seed=seed)
