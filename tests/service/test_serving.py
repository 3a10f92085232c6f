"""Real servers: an orderly end, overload, and starts that are refused."""

import asyncio
import base64
import contextlib
import json
import resource
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import httpx
import pytest

from reticent.ledger import SQLLedger
from reticent.service import create_app
from tests.service.clinic import ROW, settings_for, store
from tests.service.live_server import (
    ServerProcess,
    api_key,
    ask,
    free_port,
    in_thread,
    wait_until,
    written,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return store(tmp_path_factory.mktemp("models"))


@contextlib.contextmanager
def server(folder, path, **given):
    port = free_port()
    settings = settings_for(folder, models={"triage": path}, port=port, **given)
    key = api_key(settings)
    started = ServerProcess(written(settings, folder), port, folder / "log")
    try:
        started.start()
        yield started, settings, key
    finally:
        started.kill()


def books(settings):
    """Return the charges for drawn answers by key, and the answers by charge."""
    with SQLLedger(settings.ledger) as ledger:
        ledger.verify()
        entries = list(ledger.entries())
    drawn = [e for e in entries if e.kind == "charge" and e.content()["answers"]]
    charges = {e.request: e.sequence for e in drawn}
    answers = {
        e.settles: [
            json.loads(base64.b64decode(text)) for text in e.content()["answers"]
        ]
        for e in entries
        if e.kind == "answer"
    }
    return charges, answers


class SlowClient:
    """Sends a request in two halves; the server is at it from the first one on."""

    def __init__(self, url: str, key: str, age: float, name: str) -> None:
        body = json.dumps({"rows": [{**ROW, "age": age}]}).encode()
        head = (
            "POST /v1/models/triage/predict HTTP/1.1\r\nhost: clinic.test\r\n"
            f"x-api-key: {key}\r\nidempotency-key: {name}\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        host, _, port = url.rpartition("/")[2].partition(":")
        self._socket = socket.create_connection((host, int(port)), 180)
        self._socket.sendall(head.encode() + body[:10])
        self._rest = body[10:]

    def finish(self) -> tuple[bytes, dict[str, object]]:
        with self._socket as connection:
            connection.sendall(self._rest)
            told = b"".join(iter(lambda: connection.recv(65536), b""))
        head, _, body = told.partition(b"\r\n\r\n")
        return head.lower(), json.loads(body)


CANARIES = ("canary", "5150.515", "51.50515")


def provoke(url, key):
    """Put canaries wherever a client can put something."""
    for body in (
        b'{"rows":[{"canary-x":5150.515}]}',
        json.dumps({"rows": [{**ROW, "age": 51.50515}]}).encode(),
        b"canary-x",
    ):
        ask(
            "POST",
            f"{url}/v1/models/triage/predict?canary-x",
            content=body,
            headers={"x-api-key": key, "user-agent": "canary-x", "x-a": "canary-x"},
        )
    ask("GET", f"{url}/canary-x", headers={"cookie": "canary-x"})
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port)) as raw:
        raw.sendall(b"canary-x canary-x\r\n\r\n")
        raw.recv(1000)


def keep_asking(url, key, name, told):
    """Ask one question after the other until the server is gone."""
    with httpx.Client(base_url=url, verify=False, timeout=180) as http:
        for number in range(10_000):
            named = f"{name}-{number}"
            try:
                answer = http.post(
                    "/v1/models/triage/predict",
                    json={"rows": [{**ROW, "age": crc32(named.encode()) % 99}]},
                    headers={"x-api-key": key, "idempotency-key": named},
                )
            except httpx.TransportError:
                return
            told[named] = answer


def refuses(url):
    try:
        ask("GET", f"{url}/v2/health/ready")
    except httpx.ConnectError:
        return True
    except httpx.TransportError:  # taken at the last moment, and let go
        return False
    return False


def test_a_busy_service_ends_in_order(tmp_path, path):
    """Requests under way are finished, no others begun; no charge lacks an answer."""
    wide = {"epsilon": 1e5}
    given = {"datasets": {"clinic": wide}, "client_budget": wide}
    told = {}
    with server(tmp_path, path, **given) as (running, settings, key):
        provoke(running.url, key)
        slow = [SlowClient(running.url, key, age, f"slow-{age}") for age in range(3)]
        with ThreadPoolExecutor(8) as crowd:
            for name in "abcdefgh":
                crowd.submit(keep_asking, running.url, key, name, told)
            wait_until(lambda: len(told) > 50)
            running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: refuses(running.url))  # readiness turns off
        assert running.process.poll() is None  # it waits for those inside
        late = {}
        for age, client in enumerate(slow):
            head, body = client.finish()
            assert head.startswith(b"http/1.1 200")
            assert b"connection: close" in head
            late[f"slow-{age}"] = body
        assert running.process.wait(180) == 0
    charges, answers = books(settings)
    assert {answer.status_code for answer in told.values()} == {200}
    assert set(charges.values()) == set(answers)  # none without the other
    for name, body in ({n: a.json() for n, a in told.items()} | late).items():
        if body["charge"]["answers"]:
            assert answers[charges[f"ward-7/k/{name}"]] == body["answers"]
    log = (tmp_path / "log").read_text()
    assert log.count('"event":"request"') > 20
    assert log.count('"event":"stopped"') == 1
    for canary in (*CANARIES, key.split("_", 2)[2]):
        assert canary not in log


class UntilTheFirstIsShed(SQLLedger):
    """Keeps those inside waiting until somebody found the service full."""

    def answer_then(self, request, draw, about, then):
        asyncio.get_running_loop().call_soon(self.later, request, draw, about, then)

    def later(self, *asked):
        if self.nobody_was_shed():
            asyncio.get_running_loop().call_later(0.01, self.later, *asked)
        else:
            super().answer_then(*asked)


def test_overload_sheds_and_every_answer_is_on_the_books(tmp_path, path):
    settings = settings_for(
        tmp_path,
        models={"triage": path},
        datasets={"clinic": {"epsilon": 1e4}},
        client_budget={"epsilon": 1e4},
        max_in_flight=3,
        rate=0.001,
        burst=40,
    )
    keys = [api_key(settings, name) for name in ("ward-0", "ward-1")]
    ledger = UntilTheFirstIsShed(settings.ledger)
    app = create_app(settings, ledger=ledger)
    shed = app.state.service.metrics.shed.labels("overloaded")._value
    ledger.nobody_was_shed = lambda: not shed.get()
    with in_thread(app) as url:

        def one(number):
            answer = ask(
                "POST",
                f"{url}/v1/models/triage/predict",
                json={"rows": [{**ROW, "age": number / 10}]},
                headers={
                    "x-api-key": keys[number % 2],
                    "idempotency-key": f"n-{number}",
                },
            )
            return f"ward-{number % 2}/k/n-{number}", answer

        with ThreadPoolExecutor(24) as crowd:
            told = dict(crowd.map(one, range(120)))
        for number in range(200, 300, 2):  # one by one: only the rate is in the way
            name, answer = one(number)
            told[name] = answer
            if answer.status_code == 429:
                break
    charges, answers = books(settings)
    assert {answer.status_code for answer in told.values()} == {200, 429, 503}
    for name, answer in told.items():
        if answer.status_code == 200:
            assert answers[charges.pop(name)] == answer.json()["answers"]
        else:
            assert answer.json()["error"]["code"] in {"rate_limited", "overloaded"}
            assert int(answer.headers["retry-after"]) >= 1
    assert charges == {}  # nobody who was refused was charged


PEOPLE = {
    "issuer": "https://login.example",
    "client_id": "reticent",
    "redirect_url": "https://here.example/login/oidc/callback",
    "client_secret_file": "{here}/nothing.secret",
    "admins": ["privacy"],
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "others can read"),
        ({"traces": True}, "'nothing', which is not installed"),
        ({"oidc": PEOPLE}, "nothing.secret' is not there"),
    ],
    ids=["model", "exporter", "client secret"],
)
def test_workers_that_must_not_serve_are_not_started(
    tmp_path, monkeypatch, given, said
):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nothing")
    own = store(tmp_path)
    port = free_port()
    known = {"models": {"triage": own}, "port": port, "workers": 2}
    settings = settings_for(tmp_path, **known, **given)
    if not given:
        own.chmod(0o755)
    refused = ServerProcess(written(settings, tmp_path), port, tmp_path / "log")
    try:
        refused.start(ready=False)
        assert refused.process.wait(180) == 1
    finally:
        refused.kill()
    assert (tmp_path / "log").read_text().count(said) == 1
    with pytest.raises(httpx.ConnectError):
        ask("GET", refused.url)


def test_a_full_disk_ends_the_service_and_nothing_is_answered_after(tmp_path, path):
    wide = {"epsilon": 1e5}
    given = {"datasets": {"clinic": wide}, "client_budget": wide}
    told = {}
    with server(tmp_path, path, **given) as (running, settings, key):
        size = (tmp_path / "ledger.db").stat().st_size
        limit = size + 2**20  # as if the disk had no room for more
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        for number in range(5000):
            named = f"n-{number}"
            try:
                answer = ask(
                    "POST",
                    f"{running.url}/v1/models/triage/predict",
                    json={"rows": [{**ROW, "age": number / 64, "dose": 1.0}]},
                    headers={"x-api-key": key, "idempotency-key": named},
                )
            except httpx.TransportError:
                break
            told[named] = answer
        assert running.process.wait(180) not in (0, -9)
        with pytest.raises(httpx.ConnectError):
            ask("GET", running.url)
        running.start()  # with room again
        charges, answers = books(settings)
        assert len(told) > 10
        for name, answer in told.items():
            if answer.status_code == 200:
                assert answers[charges[f"ward-7/k/{name}"]] == answer.json()["answers"]
        again = ask(
            "POST",
            f"{running.url}/v1/models/triage/predict",
            json={"rows": [{**ROW, "age": 0.0, "dose": 1.0}]},
            headers={"x-api-key": key, "idempotency-key": "n-0"},
        )
        assert again.json()["answers"] == told["n-0"].json()["answers"]
