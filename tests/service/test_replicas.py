"""Several processes on one PostgreSQL ledger behave as one service.

One replica has two workers, the other one; both are real servers.
"""

import contextlib
import itertools
import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from reticent.home import Settings, dataset_account
from reticent.ledger import SQLLedger
from tests.service.clinic import ROW, settings_for
from tests.service.live_server import (
    ServerProcess,
    api_key,
    ask,
    free_port,
    wait_until,
    wait_until_ready,
    workers_under,
    written,
)

EACH = 0.5  # what an answer costs
numbers = itertools.count()


class Replicas:
    """Two running servers, and clients that take either."""

    def __init__(self, settings: Settings, first, second, admin: str) -> None:
        self.settings = settings
        self.servers = (first, second)
        self.admin = admin

    def key(self, client: str, epsilon: float, at: int = 0) -> str:
        body = {"client": client, "budget": {"epsilon": epsilon}}
        made = self.ask("POST", "/v1/admin/keys", at, self.admin, json=body)
        assert made.status_code == 201
        return made.json()["key"]

    def ask(self, method: str, path: str, at: int, key: str, **settings):
        url = self.servers[at].url
        headers = {"x-api-key": key, **settings.pop("headers", {})}
        return ask(method, url + path, headers=headers, **settings)

    def predict(self, at: int, key: str, age: float, idempotency: str | None = None):
        headers = {} if idempotency is None else {"idempotency-key": idempotency}
        body = {"rows": [{**ROW, "age": age}]}
        path = "/v1/models/triage/predict"
        return self.ask("POST", path, at, key, json=body, headers=headers)

    def together(self, calls):
        with ThreadPoolExecutor(16) as crowd:
            return list(crowd.map(lambda call: self.predict(*call), calls))

    def account(self, name: str, at: int = 0):
        told = self.ask("GET", "/v1/admin/accounts", at, self.admin).json()["accounts"]
        return next(account for account in told if account["account"] == name)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory, postgres_server):
    folder = tmp_path_factory.mktemp("replicas")
    with postgres_server.schema() as url, contextlib.ExitStack() as stack:
        common = {
            "ledger": url,
            "datasets": {"clinic": {"epsilon": 1e5}},
            "key_cache_seconds": 0.2,
            "checkpoints": folder / "checkpoint",
        }
        servers = []
        for name, own in (
            ("two", {"workers": 2, "metrics_port": free_port()}),
            ("one", {"workers": 1, "metrics_port": free_port()}),
        ):
            place = folder / name
            place.mkdir()
            port = free_port()
            settings = settings_for(place, **common, **own, port=port)
            if not servers:
                admin = api_key(settings, "boss", role="admin", budget={"epsilon": 1e4})
            server = ServerProcess(written(settings, place), port, place / "log")
            stack.callback(server.kill)
            server.start(ready=False)
            server.metrics = f"http://127.0.0.1:{settings.metrics_port}/metrics"
            servers.append(server)
        for server in servers:
            wait_until_ready(server.url, server.process)
        yield Replicas(settings, *servers, admin)
        # An orderly end, and books in order.
        assert [server.stop() for server in servers] == [0, 0]
        with SQLLedger(url) as ledger:
            ledger.verify()


def fresh_ages(count):
    return [next(numbers) / 64 for _ in range(count)]


def test_a_client_s_cap_holds_over_replicas(replicas):
    key = replicas.key("last-slots", 20 * EACH)
    calls = [(n % 2, key, age) for n, age in enumerate(fresh_ages(48))]
    codes = [answer.status_code for answer in replicas.together(calls)]
    assert sorted(codes) == [200] * 20 + [403] * 28
    for at in (0, 1):
        account = replicas.account("client:last-slots", at)
        assert account["spent"]["epsilon"] == account["cap"]["epsilon"] == 20 * EACH


def test_a_dataset_s_cap_holds_over_replicas_and_clients(replicas):
    keys = [replicas.key(f"sybil-{n}", 100.0, at=n % 2) for n in range(8)]
    spent = replicas.account("dataset:clinic")["spent"]["epsilon"]
    path = "/v1/admin/accounts/dataset:clinic"

    def cap(epsilon):
        body = {"epsilon": epsilon}
        assert replicas.ask("PUT", path, 1, replicas.admin, json=body).is_success

    cap(spent + 10 * EACH)
    try:
        calls = [
            (n % 2, key, age)
            for n, (key, age) in enumerate(zip(keys * 5, fresh_ages(40), strict=True))
        ]
        codes = [answer.status_code for answer in replicas.together(calls)]
    finally:
        cap(1e5)
    assert sorted(codes) == [200] * 10 + [403] * 30
    now = replicas.account("dataset:clinic")["spent"]["epsilon"]
    assert now == spent + 10 * EACH


def test_one_idempotency_key_is_charged_once_over_replicas(replicas):
    key = replicas.key("retrying", 100.0)
    (age,) = fresh_ages(1)
    calls = [(n % 2, key, age, "the-key") for n in range(16)]
    answers = replicas.together(calls)
    assert {answer.status_code for answer in answers} == {200}
    assert len({str(answer.json()["answers"]) for answer in answers}) == 1
    assert len({answer.json()["sequence"] for answer in answers}) == 1
    assert replicas.account("client:retrying")["answers"] == 1
    other = replicas.predict(1, key, age + 1 / 128, "the-key")
    assert other.json()["error"]["code"] == "idempotency_key_reused"


def test_answers_are_remembered_over_replicas(replicas):
    key = replicas.key("forgetful", 100.0)
    told = {}
    for age in fresh_ages(8):
        told[age] = replicas.predict(0, key, age).json()["answers"]
    for at in (1, 0, 1):
        for age, answers in told.items():
            again = replicas.predict(at, key, age).json()
            assert again["answers"] == answers
            assert again["charge"]["answers"] == 0
    assert replicas.account("client:forgetful", 1)["answers"] == 8


def test_keys_open_and_close_on_all_replicas(replicas):
    key = replicas.key("visitor", 10.0, at=0)
    (age,) = fresh_ages(1)
    for at in (0, 0, 1):
        assert replicas.predict(at, key, age).is_success
    path = f"/v1/admin/keys/{key.split('_')[1]}"
    assert replicas.ask("DELETE", path, 1, replicas.admin).is_success
    time.sleep(0.25)  # the time for which a worker may trust its memory
    for at in (0, 0, 0, 0, 1):
        assert replicas.predict(at, key, age).status_code == 401


def metrics_of(server):
    text = ask("GET", server.metrics).text
    found = re.findall(r"^(reticent_\w+(?:\{.*\})?) (\S+)$", text, re.M)
    return {name: float(value) for name, value in found}


def nobody_is_inside(server):
    """Say so; a request is counted until a moment after its answer has left."""
    return metrics_of(server)["reticent_in_flight"] == 0


DRAWN = 'reticent_answers_total{model="triage",source="drawn"}'


def test_metrics_are_of_all_workers(replicas):
    key = replicas.key("counted", 1000.0)
    for at, server in enumerate(replicas.servers):
        before = metrics_of(server).get(DRAWN, 0.0)
        answers = replicas.together([(at, key, age) for age in fresh_ages(40)])
        assert all(answer.is_success for answer in answers)
        wait_until(lambda server=server: nobody_is_inside(server))
        assert metrics_of(server)[DRAWN] - before == 40
    assert len(workers_of(replicas.servers[0])) == 2


def workers_of(server):
    return [each.pid for each in workers_under(server.process.pid)]


def test_a_worker_that_is_killed_is_replaced_and_costs_no_answer_twice(replicas):
    key = replicas.key("survivor", 1e4)
    before = workers_of(replicas.servers[0])
    ages = fresh_ages(120)
    told: dict[float, set[str]] = {age: set() for age in ages}

    def insist(numbered):
        place, age = numbered
        if place == 40:
            os.kill(workers_of(replicas.servers[0])[0], signal.SIGKILL)
        for attempt in range(200):
            try:
                answer = replicas.predict((place + attempt) % 2, key, age, f"s-{age}")
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if answer.status_code == 502:  # of a proxy: the worker is gone
                continue
            body = answer.json()
            told[age].add(
                str(body["answers"]) if answer.is_success else body["error"]["code"]
            )
            if attempt % 2 == 0 or answer.is_success:
                return

    with ThreadPoolExecutor(16) as crowd:
        list(crowd.map(insist, enumerate(ages)))
    assert all(len(outcomes) == 1 for outcomes in told.values()), told
    kinds = {next(iter(outcomes)) for outcomes in told.values()}
    assert kinds <= {"['yes']", "['no']", "spent_without_result"}
    assert replicas.account("client:survivor", 1)["answers"] == len(ages)
    wait_until(lambda: set(workers_of(replicas.servers[0])) - set(before))
    wait_until_ready(replicas.servers[0].url)
    assert replicas.predict(0, key, ages[0], f"s-{ages[0]}").status_code in {200, 409}
    wait_until(lambda: nobody_is_inside(replicas.servers[0]))


def test_the_books_of_all_replicas_are_one_chain(replicas):
    with SQLLedger(replicas.settings.ledger) as ledger:
        found = ledger.verify()
        balance = ledger.balance(dataset_account("clinic"))
    assert found.charges >= balance.spent.answers > 100
