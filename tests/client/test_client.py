"""The client asks a real service; retries are charged once; errors have types."""

import asyncio
import os
import subprocess
import sys
import time

import httpx
import pytest

from reticent.client import AsyncClient, Client
from reticent.client.exchanges import Call, exchange
from reticent.errors import (
    BudgetExhaustedError,
    InvalidParameterError,
    ServiceError,
)
from reticent.home import MemoryKeys, client_account
from reticent.ledger import MemoryLedger
from reticent.service import create_app
from reticent.service.dashboard.snippets import example_row, snippets
from tests.service.clinic import ROW, TRIAGE, Clinic, settings_for
from tests.service.live_server import in_thread


class Live:
    def __init__(self, app, url, key):
        self.app, self.url, self.key = app, url, key
        self.model = app.state.service.registry.models["triage"]

    def spent(self):
        ledger = self.app.state.service.ledger
        return ledger.balance(client_account("ward-7")).spent.answers


@pytest.fixture
def live(tmp_path):
    app = create_app(settings_for(tmp_path), ledger=MemoryLedger(), keys=MemoryKeys())
    key = Clinic(app, None, "", "").key("ward-7")
    with in_thread(app) as url:
        yield Live(app, url, key)


def test_a_question_is_answered_and_everything_else_is_told(live):
    with Client(live.url, live.key) as client:
        reply = client.predict("triage", [ROW, {**ROW, "age": 7}])
        assert set(reply.answers) <= {"yes", "no"}
        assert (reply.paid, reply.answers_left) == (2, 38)
        assert reply.version == client.model("triage").version == live.model.stored.id
        assert [model.name for model in client.models()] == ["triage"]
        budgets = client.budget()
        assert budgets.answers_left == {"triage": 38}
        mine = {account.name: account for account in budgets.accounts}
        assert mine["client:ward-7"].spent["epsilon"] == 1.0
        assert client.certificate(reply.certificate).id == live.model.certificate.id
        first = client.predict("triage", [ROW], idempotency_key="visit-1")
        again = client.predict("triage", [ROW], idempotency_key="visit-1")
        assert first.answers == again.answers
        assert live.spent() == 2


def test_coroutines_ask_together(live):
    async def ask():
        async with AsyncClient(live.url, live.key) as client:
            rows = [{**ROW, "age": age} for age in range(10)]
            asked = [client.predict("triage", [row]) for row in rows]
            replies = await asyncio.gather(*asked)
            names = [model.name for model in await client.models()]
            certificate = await client.certificate(replies[0].certificate)
            model, budget = await client.model("triage"), await client.budget()
            return replies, names, certificate, model, budget

    replies, names, certificate, model, budget = asyncio.run(ask())
    assert sum(reply.paid for reply in replies) == 10 == live.spent()
    assert (names, model.name) == (["triage"], "triage")
    assert certificate.id == model.certificate
    assert budget.answers_left == {"triage": 30}


class LostReplies(httpx.BaseTransport):
    """Lets a request through and loses the answer, a number of times."""

    def __init__(self, count):
        self.count, self.sent = count, 0
        self._way = httpx.HTTPTransport()

    def handle_request(self, request):
        self.sent += 1
        reply = self._way.handle_request(request)
        reply.read()
        if self.sent <= self.count:
            raise httpx.ReadError("lost")
        return reply

    def close(self):
        self._way.close()


def test_lost_answers_are_asked_for_again_and_charged_once(live, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    way = LostReplies(3)
    with Client(live.url, live.key, transport=way) as client:
        reply = client.predict("triage", [ROW])
    assert way.sent == 4
    assert reply.answers[0] in {"yes", "no"}
    assert live.spent() == 1
    broken = LostReplies(99)
    with (
        Client(live.url, live.key, transport=broken, retries=2) as client,
        pytest.raises(ServiceError, match="cannot be reached") as told,
    ):
        client.predict("triage", [{**ROW, "age": 8}])
    assert (told.value.status, told.value.code, broken.sent) == (0, "unreachable", 3)
    assert live.spent() == 2  # sent three times, charged once


def test_errors_have_types_and_say_what_to_do(live):
    with Client(live.url, live.key) as client:
        with pytest.raises(ServiceError, match="0 to 100") as told:
            client.predict("triage", [{**ROW, "age": 410}])
        assert (told.value.status, told.value.code) == (422, "invalid_rows")
        assert told.value.request_id
        assert client.predict("triage", [{**ROW, "age": 410}], clip=True).paid == 1
        with pytest.raises(ServiceError) as told:
            client.model("../admin/keys")
        assert told.value.code in {"unknown_model", "not_found"}
        with pytest.raises(BudgetExhaustedError, match="spent"):
            client.predict("triage", [{**ROW, "age": age} for age in range(60)])
    with Client(live.url, "rk_wrong") as client:
        with pytest.raises(ServiceError) as told:
            client.models()
        assert told.value.code == "unauthenticated"
    with pytest.raises(InvalidParameterError, match="http://"):
        Client("localhost:8000", "key")
    with pytest.raises(InvalidParameterError, match="keys create"):
        Client(live.url, "")
    with pytest.raises(InvalidParameterError, match="retries"):
        Client(live.url, "key", retries=-1)


def steps(*replies, retries=4):
    """Return what an exchange does when it gets these responses in turn."""
    asked = exchange(Call("GET", "/v1/models"), retries)
    told, step = [], next(asked)
    for reply in replies:
        while isinstance(step, float):
            told.append(step)
            step = asked.send(None)
        told.append("sent")
        try:
            step = asked.send(reply)
        except StopIteration as done:
            return told, done.value
    return told, None


def test_a_busy_service_is_asked_again_after_the_time_it_names():
    busy = httpx.Response(503, headers={"retry-after": "3"})
    done = httpx.Response(200, json={"models": []})
    assert steps(busy, done) == (["sent", 3.0, "sent"], {"models": []})
    away = httpx.ConnectError("x")
    told, found = steps(away, away, away, done)
    assert told == ["sent", 0.1, "sent", 0.2, "sent", 0.4, "sent"]
    assert found == {"models": []}
    with pytest.raises(ServiceError, match="said 503"):
        steps(busy, busy, retries=1)
    with pytest.raises(ServiceError, match="said 404"):
        steps(httpx.Response(404, text="nginx"))
    with pytest.raises(ServiceError, match="not a JSON object"):
        steps(httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match="not a JSON object"):
        steps(httpx.Response(200, json=[]))


@pytest.mark.parametrize("name", ["curl", "Python", "httpx"])
def test_the_code_that_the_dashboard_offers_works_as_it_is(live, name):
    code = snippets(live.model, live.url, None)[name]
    environment = {**os.environ, "RETICENT_KEY": live.key}
    shell = ["/bin/sh"] if name == "curl" else [sys.executable]
    done = subprocess.run(
        [*shell, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "yes" in done.stdout or "no" in done.stdout
    assert live.spent() == 1


def test_triton_clients_ask_the_same_service(live):
    triton = pytest.importorskip("tritonclient.http")
    import numpy as np

    row = example_row(TRIAGE)
    kinds = {"age": "FP64", "dose": "FP64", "ward": "BYTES"}
    kinds |= {"smokes": "BOOL", "floor": "INT64"}
    types = {"FP64": np.float64, "BYTES": object, "BOOL": bool, "INT64": np.int64}
    inputs = []
    for name, kind in kinds.items():
        tensor = triton.InferInput(name, [1], kind)
        tensor.set_data_from_numpy(np.array([row[name]], dtype=types[kind]))
        inputs.append(tensor)
    client = triton.InferenceServerClient(live.url.removeprefix("http://"))
    headers = {"X-API-Key": live.key}
    answer = client.infer("triage", inputs, headers=headers)
    assert answer.as_numpy("ill")[0] in {b"yes", b"no"}
    client.close()
    assert live.spent() == 1
