"""Logs and metrics hold codes, counts and account names, and nothing else (row 22)."""

import asyncio
import gc
import json
import logging
import re

import httpx
import pytest
import uvloop

from reticent.service.gauges import show_budgets
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.test_authorisation import TENSORS

CANARIES = ["canary-x-5150", "5150.5150", "canary-key-5150", "canary-y-5150"]


def misuse(running):
    """Put canaries wherever a client can put something; yield what comes back."""
    text, number, key, _ = CANARIES
    row = {**ROW, "age": float(number)}
    yield running.predict(row)
    yield running.predict({**ROW, "ward": text})
    yield running.predict({**ROW, text: 1})
    yield running.predict({**ROW, "age": text})
    yield running.predict(row, idempotency=key)
    yield running.predict({**row, "dose": 1}, idempotency=key)
    yield running.predict(row, key=key)
    yield running.predict(row, key=f"rk_{'0' * 16}_{key.ljust(43, 'x')}")
    yield running.predict(row, model=text)
    yield running.get(f"/{text}")
    yield running.get(f"/v1/models?{text}={number}")
    yield running.get(f"/v1/certificates/{text}")
    yield running.http.request(text.upper().replace("-", ""), "/v1/models")
    for body in (
        text.encode(),
        f'{{"rows":"{text}"}}'.encode(),
        b"\xff" + text.encode(),
    ):
        yield running.http.post(
            "/v1/models/triage/predict",
            content=body,
            headers={"x-api-key": running.analyst, "x-request-id": text},
        )
    admin = {"x-api-key": running.admin}
    for body in (
        {"client": text + "/"},
        {"client": "a", text: text},
        {"client": "a", "models": [text]},
        {"client": "a", "budget": {"epsilon": text}},
        {"client": "a", "role": text},
    ):
        yield running.http.post("/v1/admin/keys", json=body, headers=admin)
    yield running.http.request(
        "PUT", f"/v1/admin/accounts/{text}", json={"epsilon": 1}, headers=admin
    )
    tensors = json.loads(json.dumps(TENSORS))
    tensors["inputs"][2]["data"] = [text]
    analyst = {"x-api-key": running.analyst}
    yield running.http.post("/v2/models/triage/infer", json=tensors, headers=analyst)
    tensors["inputs"][2]["name"] = text
    yield running.http.post("/v2/models/triage/infer", json=tensors, headers=analyst)
    yield running.http.post("/login", data={"key": key})
    yield running.http.post("/login", content=text, headers={"content-type": text})


def test_canaries_do_not_come_back(tmp_path, lines):
    from prometheus_client import generate_latest

    with clinic(settings_for(tmp_path)) as running:
        answers = list(misuse(running))
        metrics = generate_latest(running.service.metrics.registry).decode()
        told = "".join(
            answer.text + str(dict(answer.headers))
            for answer in answers
            if not answer.is_success
        )
    log = lines.getvalue()
    for canary in CANARIES:
        assert canary not in log
        assert canary not in metrics
        assert canary.upper().replace("-", "") not in log + metrics
        assert canary not in told
    for key in (running.analyst, running.admin):
        assert key.split("_", 2)[2] not in log + metrics + told
    assert len(answers) > 20


def test_every_request_is_a_line_of_json_with_counts(tmp_path, lines):
    with clinic(settings_for(tmp_path)) as running:
        answer = running.predict(ROW, {**ROW, "age": 3})
        running.predict({**ROW, "ward": "z"})
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    requests = [line for line in told if line["event"] == "request"]
    assert requests[0] == {
        "time": requests[0]["time"],
        "level": "info",
        "event": "request",
        "request_id": answer.json()["request_id"],
        "method": "POST",
        "route": "/v1/models/{name}/predict",
        "status": 200,
        "code": "",
        "client": "ward-7",
        "model": "triage",
        "rows": 2,
        "paid": 2,
        "sequence": answer.json()["sequence"],
    }
    assert requests[1]["code"] == "invalid_rows"
    assert "model" not in requests[1]
    assert [told[0]["event"], told[1]["event"]] == ["second place", "started"]
    assert "restored from a backup" in told[0]["risk"]
    assert told[-1]["event"] == "stopped"


def test_exceptions_and_arguments_stay_out_of_the_log(lines):
    log = logging.getLogger("uvicorn.error")
    try:
        raise ValueError("canary")  # noqa: TRY301 (the point is its traceback)
    except ValueError:
        log.exception("it failed with %s", "canary")
    log.warning({"canary": 1})
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert told[0]["error"] == "ValueError"
    assert told[0]["event"] == "it failed with %s"
    assert "canary" not in lines.getvalue()


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_what_fails_outside_of_a_request_stays_out_of_the_log(lines, capfd, make):
    """Event loops log a callback that fails with its arguments and the message."""

    def fails(sent):
        raise ValueError(sent)

    async def forgotten():
        raise ValueError("canary")

    loop = make()
    loop.call_soon(fails, "canary")
    loop.call_exception_handler({"message": "told", "exception": ValueError("canary")})
    task = loop.create_task(forgotten())
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    del task
    gc.collect()
    loop.close()
    found = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [line["error"] for line in found] == ["ValueError"] * 3
    assert found[0]["level"] == "error"
    assert any("test_telemetry.py" in place for place in found[1]["where"])
    assert "canary" not in lines.getvalue()
    assert "canary" not in "".join(capfd.readouterr())


def test_metrics_have_a_listener_of_their_own(tmp_path):
    settings = settings_for(tmp_path, metrics_port=0)
    with clinic(settings) as running:
        running.predict(ROW, {**ROW, "age": 3})
        running.predict()
        running.predict({**ROW, "ward": "z"})
        assert running.get("/metrics").status_code == 404
        port = running.app.state.metrics_port
        text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    samples = dict(re.findall(r"^(reticent_\w+(?:\{.*\})?) (\S+)$", text, re.M))
    assert samples['reticent_answers_total{model="triage",source="drawn"}'] == "2.0"
    assert (
        samples['reticent_answers_total{model="triage",source="remembered"}'] == "1.0"
    )
    route = 'route="/v1/models/{name}/predict"'
    assert samples[f'reticent_requests_total{{code="",{route},status="200"}}'] == "2.0"
    wrong = f'reticent_requests_total{{code="invalid_rows",{route},status="422"}}'
    assert samples[wrong] == "1.0"
    kinds = {name.partition("{")[0] for name in samples}
    assert not any("second" in kind or "bucket" in kind for kind in kinds)


def test_metrics_are_the_same_on_neighbours(tmp_path):
    from prometheus_client import generate_latest

    from tests.service.clinic import store

    told = []
    for side in (False, True):
        folder = tmp_path / str(side)
        folder.mkdir()
        path = store(folder, neighbour=side)
        with clinic(settings_for(folder, models={"triage": path})) as running:
            for age in range(0, 100, 7):
                running.predict({**ROW, "age": age})
            text = generate_latest(running.service.metrics.registry).decode()
            told.append([line for line in text.splitlines() if "_created" not in line])
    assert told[0] == told[1]


def test_budgets_are_gauges_of_datasets_and_models(tmp_path):
    from prometheus_client import generate_latest

    def shares(running):
        show_budgets(running.service.ledger, running.service.metrics)
        text = generate_latest(running.service.metrics.registry).decode()
        found = re.findall(r'reticent_budget_spent_share\{account="(.+)"\} (.+)', text)
        return {account: float(share) for account, share in found}

    with clinic(settings_for(tmp_path)) as running:
        assert shares(running) == {"dataset:clinic": 0.0}
        assert running.predict(ROW).status_code == 200
        (balance,) = (
            each
            for each in running.service.ledger.balances()
            if str(each.account) == "dataset:clinic"
        )
        assert balance.share[0] > 0
        assert shares(running) == {"dataset:clinic": pytest.approx(balance.share[0])}
