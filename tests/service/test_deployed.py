"""The files of deploy/ at work: three workers on PostgreSQL behind the proxy, with TLS.

The service's own tests of callers and of replicas run once more, through the proxy.
Then people log in, and workers are killed a hundred times under load.
"""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import pytest

from reticent.home import Role
from reticent.ledger import SQLLedger
from reticent.storage import load_model
from tests.service import test_authorisation as callers
from tests.service.clinic import MODEL_KEY, ROW
from tests.service.deployed import deployed
from tests.service.left_out import REPORT
from tests.service.live_server import wait_until
from tests.service.real_provider import log_in_at, real_provider, registered

# The same tests, with other fixtures: they are collected here because they are named.
from tests.service.test_authorisation import (  # noqa: F401
    test_a_tenant_sees_nothing_of_another,
    test_an_admin_sees_every_account,
    test_limits_to_models_hold_for_every_role,
    test_refusals_do_not_tell_unknown_from_revoked_or_wrong,
    test_routes_answer_each_caller_as_specified,
)
from tests.service.test_crashes import Client, check
from tests.service.test_replicas import (  # noqa: F401
    Replicas,
    test_a_client_s_cap_holds_over_replicas,
    test_a_dataset_s_cap_holds_over_replicas_and_clients,
    test_a_worker_that_is_killed_is_replaced_and_costs_no_answer_twice,
    test_answers_are_remembered_over_replicas,
    test_keys_open_and_close_on_all_replicas,
    test_one_idempotency_key_is_charged_once_over_replicas,
    test_the_books_of_all_replicas_are_one_chain,
)
from tests.test_layout import ROOT

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NGINX is None, reason="nginx, the proxy, is not installed"),
]
KILLS, CLIENTS = 100, 6


@pytest.fixture(scope="module")
def stack(tmp_path_factory, postgres_server):
    folder = tmp_path_factory.mktemp("deployed")
    with postgres_server.schema() as ledger, real_provider() as provider:

        def people(address):
            callback = f"{address}/login/oidc/callback"
            name, secret = registered(provider, callback, folder)
            return {
                "RETICENT_OIDC__ISSUER": provider,
                "RETICENT_OIDC__CLIENT_ID": name,
                "RETICENT_OIDC__CLIENT_SECRET_FILE": str(secret),
                "RETICENT_OIDC__REDIRECT_URL": callback,
                "RETICENT_OIDC__ADMINS": '["privacy"]',
            }

        with deployed(folder, ledger, people) as (made, admin):
            made.admin, made.provider = admin, provider
            yield made
        with SQLLedger(ledger) as books:
            books.verify()


@pytest.fixture(scope="module")
def replicas(stack):
    settings = SimpleNamespace(ledger=stack.ledger)
    return Replicas(settings, stack, stack, stack.admin)


class Through:
    """The application behind the proxy, as tests of one in this process see it."""

    def __init__(self, stack):
        self.http = stack.client()
        self.admin = stack.admin
        path = stack.folder / "home" / "models" / "triage"
        stored = load_model(path, signing_key=MODEL_KEY)
        triage = SimpleNamespace(stored=stored, certificate=stored.certificate)
        registry = SimpleNamespace(models={"triage": triage})
        self.service = SimpleNamespace(registry=registry)

    def key(self, client, role=Role.ANALYST, **facts):
        body = {"client": client, "role": role.value, **facts}
        headers = {"x-api-key": self.admin}
        made = self.http.post("/v1/admin/keys", json=body, headers=headers)
        assert made.status_code == 201, made.text
        return made.json()["key"]

    def predict(self, key, model="triage"):
        path, headers = f"/v1/models/{model}/predict", {"x-api-key": key}
        return self.http.post(path, json={"rows": [ROW]}, headers=headers)

    def get(self, path, key):
        return self.http.get(path, headers={"x-api-key": key})


@pytest.fixture(scope="module")
def running(stack):
    made = Through(stack)
    yield made
    made.http.close()


@pytest.fixture(scope="module")
def keys(running):
    revoked = running.key("gone")
    path = f"/v1/admin/keys/{revoked.split('_')[1]}"
    running.http.delete(path, headers={"x-api-key": running.admin})
    analyst = running.key("ward-7", models=["triage"])
    return {
        callers.ANALYST: analyst,
        callers.TENANT: running.key("billing", models=["cost"]),
        callers.ADMIN: running.admin,
        callers.REVOKED: revoked,
        callers.WRONG: analyst[:-4] + "AAAA",
        callers.NOBODY: None,
    }


def test_three_workers_serve_behind_tls(stack):
    assert len(stack.workers()) == 3
    with stack.client() as http:
        answer = http.get("/v2/health/ready")
        assert answer.status_code == 200
        assert "max-age" in answer.headers["strict-transport-security"]
    with pytest.raises(httpx.ConnectError):  # another certificate would be refused
        httpx.get(stack.url)


def test_a_person_logs_in_through_the_proxy_and_makes_a_key(stack):
    claims = {"name": "Ada", "roles": ["privacy"]}
    httpx.put(f"{stack.provider}/users/ada", json=claims).raise_for_status()
    with stack.client() as browser:
        away = browser.get("/login/oidc")
        assert "Secure" in away.headers["set-cookie"]
        answer = log_in_at(away.headers["location"], "ada")
        page = browser.get("/login/oidc/callback", params=answer)
        assert "You are Ada, as admin" in page.text
        assert all("Secure" in c for c in page.headers.get_list("set-cookie"))
        token = re.search(r'name="csrf" value="(\w+)"', browser.get("/keys").text)[1]
        fields = {"csrf": token, "client": "ward-9"}
        made = browser.post("/keys", data=fields, headers={"origin": stack.url})
        assert "The new key of ward-9" in made.text
        strange = {"origin": "https://elsewhere.example"}
        assert browser.post("/keys", data=fields, headers=strange).status_code == 403
    with SQLLedger(stack.ledger) as ledger:
        acts = [e.content()["act"] for e in ledger.entries() if e.kind == "act"]
    assert "admin logged in" in acts


def test_a_hundred_kills_lose_no_charge_and_give_no_answer_twice(stack, running, seed):
    body = {"client": "ward-8", "models": ["triage"]}
    headers = {"x-api-key": stack.admin}
    with stack.client() as http:
        key = http.post("/v1/admin/keys", json=body, headers=headers).json()["key"]
    with SQLLedger(stack.ledger) as ledger:
        before = [entry.sequence for entry in ledger.entries()][-1]
    draw, stop = random.Random(seed), threading.Event()
    clients = [
        Client(stack.url, key, f"k{seed}-{n}", stop, stack.certificate)
        for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    try:
        for turn in range(KILLS):
            if turn % 20 == 19:  # now and then all of them, as a power cut would
                stack.kill()
                stack.start()
                wait_until(stack.ready)
            else:
                os.kill(draw.choice(stack.workers()), signal.SIGKILL)
                time.sleep(draw.uniform(0.05, 0.5))
                wait_until(lambda: len(stack.workers()) >= 2)
        wait_until(stack.ready)
        wait_until(lambda: len(stack.workers()) == 3)
        answered = [client.answered for client in clients]
        wait_until(
            lambda: all(
                client.answered > count + 10
                for client, count in zip(clients, answered, strict=True)
            )
        )
    finally:
        stop.set()
        for client in clients:
            client.join()
    check(stack, clients, 1, after=before, client="ward-8")
    broken = sum(client.broken for client in clients)
    assert broken >= KILLS // 10
    (stack.folder / "kills").write_text(f"{KILLS} {broken} {sum(answered)}")


def test_the_service_s_own_tests_pass_behind_the_proxy(tmp_path):
    """All of them, each with its own settings, but for what `left_out` names."""
    report = tmp_path / "report.json"
    words = ["-m", "pytest", "-q", "-p", "tests.service.behind_proxy", "-m", "not long"]
    words += ["-p", "no:cacheprovider", "-p", "no:randomly", "tests/service"]
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, REPORT: str(report)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(report.read_text())
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert told["unused"] == []  # the table names nothing that is not there
    assert len(told["kept"]) > 200


def test_the_matrix_was_asked_through_the_proxy(stack):
    # Bodies, queries and headers are in no log of the proxy.
    time.sleep(0.5)
    log = (stack.folder / "proxy.log").read_text("utf-8", "replace")
    lines = [line for line in log.splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert len(lines) > 200
    form = re.compile(r"\S+ \d{3} [A-Z]+ \d+")
    assert all(form.fullmatch(line) for line in lines)
    assert len(list(itertools.islice(lines, 1))) == 1
