"""Errors: one body, no data, no 5xx, nothing charged; hostile input included."""

import json

import pytest

from reticent.service.requests import problems
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.test_authorisation import TENSORS


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    settings = settings_for(tmp_path_factory.mktemp("problems"), max_body_bytes=20_000)
    with clinic(settings) as made:
        yield made


def spent(running):
    return [balance.as_dict() for balance in running.service.ledger.balances()]


def send(running, body, path="/v1/models/triage/predict", **headers):
    content = body if isinstance(body, bytes) else body.encode()
    return running.http.post(
        path,
        content=content,
        headers={"x-api-key": running.analyst, **headers},
    )


def assert_problem(answer, *statuses):
    assert answer.status_code in statuses
    body = answer.json()
    members = {"type", "title", "status", "detail", "error", "request_id"}
    code, message = body.get("code"), body["error"]
    if answer.url.path.startswith("/v2"):
        assert set(body) == members | {"code", "details"}
    else:
        assert set(body) == members
        assert set(body["error"]) == {"code", "message", "details"}
        code, message = body["error"]["code"], body["error"]["message"]
    assert (body["status"], body["detail"]) == (answer.status_code, message)
    assert body["type"] == f"/docs#{code}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == body["request_id"]


def row_text(column, value):
    """Write a row with one cell as raw JSON text."""
    cells = {name: json.dumps(cell) for name, cell in ROW.items()}
    cells[column] = value
    inner = ",".join(f'"{name}":{cell}' for name, cell in cells.items())
    return '{"rows":[{' + inner + "}]}"


NO_NUMBERS = [
    *("NaN", "-NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400),
    *("1" * 5000, '"41"', "true", "null", "[]", "[41]", "{}", "0x10", "1_000", ".5"),
    *("01", "+1", "1e", "--1", "", "undefined", '"\\ud800"', "4\u0661"),
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: v[:12] or "empty")
def test_numbers_that_are_none_are_refused_and_cost_nothing(running, value):
    before = spent(running)
    assert_problem(send(running, row_text("age", value)), 400, 422)
    assert spent(running) == before


ODD_NUMBERS = ["-0.0", "5e-324", "1e-310", "0e5", "1E2", "1e308", "-1e308", str(2**63)]


@pytest.mark.parametrize("value", ODD_NUMBERS)
def test_odd_numbers_are_clipped_if_asked_for_and_answered(running, value):
    clip = row_text("age", value)[:-1] + ',"clip":true}'
    assert send(running, clip).is_success


@pytest.mark.parametrize("value", [*ODD_NUMBERS[5:], "100.0001", "-1e-9", "410"])
def test_numbers_outside_the_public_range_are_refused_and_cost_nothing(running, value):
    before = spent(running)
    answer = send(running, row_text("age", value))
    assert_problem(answer, 422)
    assert "outside the public range 0 to 100" in answer.json()["detail"]
    clip = row_text("age", value)[:-1] + ',"clip":1}'
    assert_problem(send(running, clip), 422)
    assert spent(running) == before


def test_minus_zero_and_zero_are_one_question(running):
    first = send(running, row_text("age", "0")).json()
    again = send(running, row_text("age", "-0.0")).json()
    assert again["charge"]["answers"] == 0
    assert again["answers"] == first["answers"]


ROWS = {
    "no rows": "{}",
    "rows null": '{"rows":null}',
    "rows empty": '{"rows":[]}',
    "rows a number": '{"rows":7}',
    "rows of numbers": '{"rows":[7]}',
    "rows a row": '{"rows":{"age":1}}',
    "a column lost": '{"rows":[{"age":1}]}',
    "a column too many": row_text("age", '41,"more":1'),
    "a column twice": row_text("age", '41,"age":42'),
    "another key": '{"rows":[],"epsilon":0}',
    "negative epsilon": '{"rows":[],"epsilon":-1}',
    "unknown level": row_text("ward", '"z"'),
    "level of another kind": row_text("smokes", "1"),
    "level true for 1": row_text("floor", "true"),
    "level 1.5": row_text("floor", "1.5"),
    "missing where none may be": row_text("ward", "null"),
    "no JSON": "rows=1",
    "a list": "[]",
    "text": '"x"',
    "empty": "",
    "deep": "[" * 9000,
    "deep object": '{"rows":' * 2000,
    "cut": '{"rows":[{"age":4',
    "latin-1": '{"rows":"é"}'.encode("latin-1"),
    "utf-16": '{"rows":[]}'.encode("utf-16"),
    "zero byte": b'{"rows":[]}\x00',
    "two objects": '{"rows":[]}{"rows":[]}',
}


@pytest.mark.parametrize("name", ROWS)
def test_bodies_of_another_form_are_refused_and_cost_nothing(running, name):
    before = spent(running)
    assert_problem(send(running, ROWS[name]), 400, 422)
    assert spent(running) == before


def test_long_bodies_and_batches_are_refused(running):
    before = spent(running)
    assert_problem(send(running, b" " * 20_001), 413)
    headers = {"x-api-key": running.analyst, "content-length": "99999999999"}

    async def endless():
        for _ in range(100):
            yield b" " * 1000

    answer = running.http.post(
        "/v1/models/triage/predict",
        content=endless(),
        headers={"x-api-key": running.analyst},
    )
    assert_problem(answer, 413)
    assert_problem(
        running.http.post("/v1/models/triage/predict", content=b"{}", headers=headers),
        413,
    )
    small = '{"rows":[' + ",".join(["{}"] * 1001) + "]}"
    assert_problem(send(running, small), 413)
    assert spent(running) == before


def test_compressed_bodies_are_not_taken(running):
    assert_problem(send(running, b"{}", **{"content-encoding": "gzip"}), 415)


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 101, "\x7f"])
def test_idempotency_keys_of_another_form_are_refused(running, key):
    answer = send(running, row_text("age", "41"), **{"idempotency-key": key})
    assert_problem(answer, 422)


INFERENCE = {
    "no inputs": {},
    "inputs empty": {"inputs": []},
    "inputs numbers": {"inputs": [1]},
    "surplus": {**TENSORS, "more": 1},
    "id a number": {**TENSORS, "id": 3},
    "unknown column": {"inputs": [{"name": "x", "shape": [1], "datatype": "FP64"}]},
    "unhashable name": {"inputs": [{"name": [], "shape": [1], "datatype": "FP64"}]},
    "column twice": {"inputs": [*TENSORS["inputs"], TENSORS["inputs"][0]]},
    "column lost": {"inputs": TENSORS["inputs"][:-1]},
    "unknown output": {**TENSORS, "outputs": [{"name": "x"}]},
    "two outputs": {**TENSORS, "outputs": [{"name": "ill"}, {"name": "ill"}]},
}
AGE = {"name": "age", "shape": [1], "datatype": "FP64", "data": [41]}
TENSOR_CHANGES = {
    "no shape": {"shape": None},
    "shape of text": {"shape": ["1"]},
    "deep shape": {"shape": [1, 1, 1]},
    "wide shape": {"shape": [1, 2], "data": [1, 2]},
    "huge shape": {"shape": [2**62]},
    "negative shape": {"shape": [-1]},
    "too many rows": {"shape": [1001], "data": [1] * 1001},
    "true shape": {"shape": [True]},
    "no data": {"data": None},
    "short data": {"data": []},
    "long data": {"data": [1, 2]},
    "text for a number": {"data": ["41"]},
    "true for a number": {"data": [True]},
    "list for a number": {"data": [[41, 42]]},
    "number for text": {"name": "ward", "datatype": "BYTES", "data": [1]},
    "fraction for a level": {"name": "floor", "datatype": "FP64", "data": [1.5]},
    "whole float for a level": {"name": "floor", "datatype": "FP64", "data": [1.0]},
    "no datatype": {"datatype": None},
    "unknown datatype": {"datatype": "OBJECT"},
    "binary without bytes": {"parameters": {"binary_data_size": 8}, "data": None},
    "binary size negative": {"parameters": {"binary_data_size": -8}},
    "infinite": {"data": [1e308 * 10]},
}


@pytest.mark.parametrize("name", INFERENCE)
def test_inference_requests_of_another_form_are_refused(running, name):
    before = spent(running)
    answer = send(running, json.dumps(INFERENCE[name]), "/v2/models/triage/infer")
    assert_problem(answer, 400, 422)
    assert spent(running) == before


@pytest.mark.parametrize("name", TENSOR_CHANGES)
def test_tensors_that_do_not_fit_are_refused(running, name):
    before = spent(running)
    changed = {**AGE, **TENSOR_CHANGES[name]}
    others = [t for t in TENSORS["inputs"] if t["name"] != changed["name"]]
    body = json.dumps({"inputs": [changed, *others]})
    answer = send(running, body, "/v2/models/triage/infer")
    assert_problem(answer, 400, 413, 422)
    assert spent(running) == before


@pytest.mark.parametrize("length", ["", "x", "-1", "999999", "1e3", "²", "1" * 20])
def test_lengths_of_json_that_do_not_fit_are_refused(running, length):
    answer = send(
        running,
        json.dumps(TENSORS),
        "/v2/models/triage/infer",
        **{"inference-header-content-length": length.encode()},
    )
    assert_problem(answer, 400)


@pytest.mark.parametrize(
    "raw",
    [b"", b"\x00" * 7, b"\x00" * 16, b"\xff\xff\xff\xff", b"\x05\x00\x00\x00ab"],
)
@pytest.mark.parametrize("datatype", ["FP64", "BYTES", "BOOL", "INT16"])
def test_raw_bytes_that_do_not_fit_are_refused(running, raw, datatype):
    name = "ward" if datatype == "BYTES" else "age"
    tensor = {
        "name": name,
        "shape": [1],
        "datatype": datatype,
        "parameters": {"binary_data_size": len(raw)},
    }
    others = [t for t in TENSORS["inputs"] if t["name"] != name]
    text = json.dumps({"inputs": [tensor, *others]}).encode()
    before = spent(running)
    answer = send(
        running,
        text + raw,
        "/v2/models/triage/infer",
        **{"inference-header-content-length": str(len(text))},
    )
    assert_problem(answer, 400, 422)
    assert spent(running) == before


def test_raw_bytes_left_over_are_refused(running):
    text = json.dumps(TENSORS).encode()
    answer = send(
        running,
        text + b"more",
        "/v2/models/triage/infer",
        **{"inference-header-content-length": str(len(text))},
    )
    assert_problem(answer, 400)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/models/triage/predict", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/certificates/nothing", 404),
        ("GET", "/v1/certificates/%2e%2e%2f", 404),
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models/nothing", 404),
        ("GET", "/v2/models/triage/versions/1", 404),
        ("POST", "/v2", 405),
        ("PATCH", "/v1/admin/keys", 403),
        ("GET", "/static/../pages.py", 404),
        ("GET", "/static/%2e%2e/pages.py", 404),
    ],
)
def test_paths_that_lead_nowhere(running, method, path, status):
    answer = running.http.request(method, path, headers={"x-api-key": running.analyst})
    assert_problem(answer, status)


def test_a_failure_says_nothing_and_is_logged_without_values(tmp_path, caplog):
    with clinic(settings_for(tmp_path)) as running:
        model = running.service.registry.models["triage"]

        def broken(X):
            raise RuntimeError("canary-5150 in a message")

        model.stored.predictor.law_.ensemble.votes = broken
        with caplog.at_level("INFO", logger="reticent.service"):
            answer = running.predict()
    assert_problem(answer, 500)
    assert "canary" not in answer.text
    failures = [r for r in caplog.records if r.msg == "failure"]
    assert failures[0].fields["error"] == "RuntimeError"
    assert any("test_problems.py" in where for where in failures[0].fields["where"])
    assert "canary" not in str([r.__dict__ for r in failures])


def test_a_failure_before_the_routes_is_answered_too(running, monkeypatch):
    def broken(scope, receive, send):
        raise RuntimeError("canary")

    monkeypatch.setattr(running.app.router, "app", broken)
    monkeypatch.setattr(running.app.router, "middleware_stack", broken)
    answer = running.get("/v1/models")
    assert_problem(answer, 500)


def test_errors_of_the_ledger_are_503_without_its_message(running, monkeypatch, caplog):
    from reticent.errors import LedgerError

    async def failing(request, draw, about):
        raise LedgerError("postgresql://secret@host is away")

    monkeypatch.setattr(running.service.ledger, "aanswer", failing)
    answer = running.predict({**ROW, "age": 77})
    assert_problem(answer, 503)
    assert "secret" not in answer.text
    assert answer.headers["retry-after"] == "1"


def test_errors_of_reticent_have_a_status():
    from reticent import errors

    wanted = {
        "BudgetExhaustedError": 403,
        "InvalidDataError": 422,
        "InvalidParameterError": 422,
        "RelationMismatchError": 422,
        "LedgerError": 503,
        "InternalError": 500,
        "SolverError": 500,
    }
    for name, status in wanted.items():
        assert problems.problem_of(getattr(errors, name)("x")).status == status


def test_security_headers_are_everywhere(running):
    for path in ("/v1/models", "/nothing", "/login", "/v2/health/live"):
        headers = running.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers
