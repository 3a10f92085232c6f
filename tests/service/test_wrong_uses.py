"""Wrong uses of the API: one sentence each that says what to do, nothing charged."""

import json

import pytest

from tests.service.clinic import ROW, clinic, settings_for
from tests.service.test_problems import assert_problem

PREDICT = "/v1/models/triage/predict"
INFER = "/v2/models/triage/infer"
KEYS = "/v1/admin/keys"
ACCOUNT = "/v1/admin/accounts/client:ward-7"


def rows(**changes):
    return {"rows": [{**ROW, **changes}]}


def without(column):
    return {"rows": [{name: cell for name, cell in ROW.items() if name != column}]}


def tensors(**changes):
    kinds = {"age": "FP64", "dose": "FP64", "ward": "BYTES"}
    kinds |= {"smokes": "BOOL", "floor": "INT64"}
    return {
        "inputs": [
            {"name": name, "shape": [1], "datatype": kind, "data": [value]}
            for name, kind in kinds.items()
            for value in [{**ROW, **changes}[name]]
        ]
    }


# What is sent, with whose key, the status, and words that must be in the sentence.
WRONG = {
    # a question
    "a typing error in a number": ("POST", PREDICT, rows(age=410), 422, "0 to 100"),
    "a negative age": ("POST", PREDICT, rows(age=-1), 422, "Send a number inside"),
    "a number as text": ("POST", PREDICT, rows(age="41"), 422, "Send a number"),
    "a number as a switch": ("POST", PREDICT, rows(age=True), 422, "Send a number"),
    "an unknown level": ("POST", PREDICT, rows(ward="z"), 422, "Send one of them"),
    "a level in capitals": ("POST", PREDICT, rows(ward="B"), 422, "'a', 'b', 'c'"),
    "a missing value": ("POST", PREDICT, rows(age=None), 422, "Send a value"),
    "a missing column": ("POST", PREDICT, without("age"), 422, "'age'"),
    "a column too many": ("POST", PREDICT, rows(name="Eve"), 422, "Send only"),
    "a column in capitals": ("POST", PREDICT, rows(Age=41), 422, "Send only"),
    "one row, not a list": ("POST", PREDICT, {"rows": ROW}, 422, "list"),
    "a bare row": ("POST", PREDICT, ROW, 422, "rows"),
    "a bare list": ("POST", PREDICT, [ROW], 400, "JSON object"),
    "no rows": ("POST", PREDICT, {"rows": []}, 422, "at least one row"),
    "rows as lists": ("POST", PREDICT, {"rows": [[41]]}, 422, "object"),
    "another spelling of rows": ("POST", PREDICT, {"instances": [ROW]}, 422, "rows"),
    "an epsilon of one's own": ("POST", PREDICT, {**rows(), "epsilon": 9}, 422, "rows"),
    "clip as text": ("POST", PREDICT, {**rows(), "clip": "yes"}, 422, "true or false"),
    "too many rows": ("POST", PREDICT, {"rows": [ROW] * 1001}, 413, "at most 1000"),
    "evidence of a vote": (
        *("POST", PREDICT, {**rows(), "abstain_below": 3}, 422, "evidence"),
    ),
    "no JSON": ("POST", PREDICT, b"age=41", 400, "JSON"),
    "Python for JSON": ("POST", PREDICT, b"{'rows': []}", 400, "JSON"),
    "NaN": ("POST", PREDICT, b'{"rows":[{"age":NaN}]}', 400, "NaN"),
    "nothing": ("POST", PREDICT, b"", 400, "JSON"),
    "a question with GET": ("GET", PREDICT, None, 405, "POST"),
    "a model that is not there": (
        *("POST", "/v1/models/triaje/predict", rows(), 404, "/v1/models"),
    ),
    "a route that is not there": ("POST", "/v1/predict", rows(), 404, "/openapi.json"),
    "a slash too many": ("POST", f"{PREDICT}/", rows(), 404, "/openapi.json"),
    # the inference protocol
    "tensors out of range": ("POST", INFER, tensors(age=410), 422, "0 to 100"),
    "rows for tensors": ("POST", INFER, rows(), 400, "inputs"),
    "half of the tensors": (
        *("POST", INFER, {"inputs": tensors()["inputs"][:2]}, 422, "missing"),
    ),
    "another version": (
        *("POST", "/v2/models/triage/versions/1/infer", tensors(), 404, "version"),
    ),
    # certificates
    "a certificate that is not there": (
        *("GET", "/v1/certificates/x", None, 404, "/v1/models"),
    ),
    # administration
    "a key without a client": ("POST", KEYS, {}, 422, "client is missing"),
    "a client with a space": ("POST", KEYS, {"client": "a b"}, 422, "letters"),
    "a role that is none": (
        *("POST", KEYS, {"client": "a", "role": "root"}, 422, "'analyst' or 'admin'"),
    ),
    "a key for no model": (
        "POST",
        KEYS,
        {"client": "a", "models": ["x"]},
        422,
        "triage",
    ),
    "a negative budget": (
        *("POST", KEYS, {"client": "a", "budget": {"epsilon": -1}}, 422, "above 0"),
    ),
    "a budget as text": (
        *("POST", KEYS, {"client": "a", "budget": {"epsilon": "1"}}, 422, "number"),
    ),
    "a second budget": (
        *("POST", KEYS, {"client": "ward-7", "budget": {"epsilon": 3}}, 409, "cap"),
    ),
    "a key for ever and a day": (
        *("POST", KEYS, {"client": "a", "days": 99_999}, 422, "at most 36500"),
    ),
    "a key that is not there": ("DELETE", f"{KEYS}/0", None, 404, "/v1/admin/keys"),
    "a cap without a number": ("PUT", ACCOUNT, {}, 422, "epsilon is missing"),
    "a cap with a huge delta": (
        *("PUT", ACCOUNT, {"epsilon": 1, "delta": 2}, 422, "below 1"),
    ),
    "a cap of nobody": (
        *("PUT", "/v1/admin/accounts/client:x", {"epsilon": 1}, 404, "accounts"),
    ),
    "a cap of no account": (
        *("PUT", "/v1/admin/accounts/ward-7", {"epsilon": 1}, 404, "client:NAME"),
    ),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    settings = settings_for(tmp_path_factory.mktemp("wrong"))
    with clinic(settings) as made:
        yield made


def state(running):
    keys = [record.as_dict() for record in running.service.keyring.records()]
    return keys, [balance.as_dict() for balance in running.service.ledger.balances()]


def assert_one_sentence(answer, status, words):
    assert_problem(answer, status)
    detail = answer.json()["detail"]
    assert words in detail, detail
    assert detail.endswith(".")
    assert "\n" not in detail
    assert len(detail) < 300
    assert not any(odd in detail for odd in ("Traceback", "pydantic", "_type", "loc"))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_is_answered_by_a_sentence(running, name):
    method, path, body, status, words = WRONG[name]
    before = state(running)
    key = running.admin if "/admin/" in path else running.analyst
    content = None if body is None else body
    if not isinstance(content, bytes | None):
        content = json.dumps(content).encode()
    answer = running.http.request(
        method, path, content=content, headers={"x-api-key": key}
    )
    assert_one_sentence(answer, status, words)
    assert state(running) == before


HEADERS = {
    "no key": ({}, 401, "X-API-Key"),
    "another's scheme": ({"authorization": "Basic eDp5"}, 401, "X-API-Key"),
    "a key cut short": ({"x-api-key": "rk_12"}, 401, "API key"),
    "a bad idempotency key": ({"idempotency-key": "a b"}, 422, "visible ASCII"),
    "a compressed body": ({"content-encoding": "gzip"}, 415, "uncompressed"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_wrong_headers_are_answered_by_a_sentence(running, name):
    headers, status, words = HEADERS[name]
    before = state(running)
    if status != 401:
        headers = {"x-api-key": running.analyst, **headers}
    answer = running.http.post(PREDICT, json=rows(), headers=headers)
    assert_one_sentence(answer, status, words)
    assert state(running) == before


def test_an_analyst_may_not_administrate(running):
    before = state(running)
    answer = running.get(KEYS)
    assert_one_sentence(answer, 403, "admin's key")
    assert state(running) == before


def test_there_are_enough_of_them():
    assert len(WRONG) + len(HEADERS) >= 40
