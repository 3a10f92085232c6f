"""Requests that begin like one before them: answered as if they were parsed."""

from __future__ import annotations

import contextlib
import json
import random
from itertools import pairwise
from types import SimpleNamespace

import httptools
import pytest

from reticent.ledger import AccountId, AccountScope, Cap
from reticent.schemas import DatePart, Numeric, PackedRows, Schema
from reticent.service.network import Limits
from reticent.service.network.repeats import RepeatedHead
from reticent.service.requests.rounds import RequestRounds
from reticent.service.v1.quick_predictions import QuickPredictions, quick_predictions
from tests.service.clinic import TRIAGE
from tests.service.live_server import wait_until
from tests.service.raw_client import answers, connection, request
from tests.service.test_connections import served

PREDICT = "/v1/models/triage/predict"
ROW = {"age": 41, "dose": 1.5, "ward": "b", "smokes": True, "floor": 2}
HEAD = request(PREDICT, b"12345", x_api_key="k" * 20, idempotency_key="abc")[:-5]


class Parsed:
    """What the parser makes of bytes."""

    def __init__(self, data):
        self.headers, self.body, self.url, self.whole = [], b"", b"", False
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(data)
        self.keep_alive = parser.should_keep_alive()

    def on_url(self, url):
        self.url += url

    def on_header(self, name, value):
        self.headers.append((name.lower(), value))

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.whole = True


def head_of(head):
    return RepeatedHead.of(head, Parsed(head + b"12345").headers, None)


def test_a_repeated_head_is_what_the_parser_makes_of_it():
    known = head_of(HEAD)
    for key, body in ((b"abc", b"12345"), (b"x" * 100, b""), (b"~!", b"1" * 999)):
        data = HEAD.replace(b"abc", key).replace(b": 5\r", b": %d\r" % len(body)) + body
        parsed = Parsed(data)
        assert parsed.whole
        assert known.matched(data) == (parsed.body, dict(parsed.headers)[_KEY])
        assert (parsed.body, dict(parsed.headers)[_KEY]) == (body, key)


_KEY = b"idempotency-key"


def test_every_other_head_is_left_to_the_parser():
    known, draw = head_of(HEAD), random.Random(7)
    data = HEAD + b"12345"
    values = {HEAD.index(b"abc") + k for k in range(3)}
    for place in set(range(len(HEAD))) - values:
        for other in draw.sample(range(256), 8):
            changed = data[:place] + bytes([other]) + data[place + 1 :]
            if changed != data:
                assert known.matched(changed) is None, changed
    for cut in range(len(data)):
        assert known.matched(data[:cut]) is None
    for wrong in (b"", b"a b", b"a\tb", b"x" * 101, b"\xff", b"a\r\nx: y"):
        assert known.matched(data.replace(b"abc", wrong)) is None, wrong
    for wrong in (b"4", b"6", b"-5", b"+5", b"5 ", b" 5", b"0x5", b"\xb2", b""):
        assert known.matched(data.replace(b": 5\r", b": %b\r" % wrong)) is None, wrong
    assert known.matched(data + data) is None
    assert known.matched(data) is not None  # the control


@pytest.mark.parametrize(
    "headers",
    [
        {"transfer_encoding": "chunked", "length": None},
        {"expect": "100-continue"},
        {"content_encoding": "gzip"},
        {"Content-Length": 5},
        {"idempotency_key": "a", "Idempotency-Key": "b"},
    ],
)
def test_special_heads_are_not_remembered(headers):
    head = request(PREDICT, b"12345", **headers)[:-5]
    names = [
        (line.partition(b":")[0].lower(), b"") for line in head.split(b"\r\n")[1:-2]
    ]
    assert RepeatedHead.of(head, names, None) is None


BODIES = [
    {"rows": [ROW]},
    {"rows": [ROW, {**ROW, "age": -0.0}, {**ROW, "age": 1e2, "smokes": False}]},
    {"rows": [ROW] * 4},
    {"rows": []},
    {"rows": ROW},
    {"rows": [{**ROW, "age": 101}]},
    {"rows": [{**ROW, "age": 101}], "clip": True},
    {"rows": [{**ROW, "age": True}]},
    {"rows": [{**ROW, "age": "41"}]},
    {"rows": [{**ROW, "age": 10**30}]},
    {"rows": [{**ROW, "dose": None}]},
    {"rows": [{**ROW, "ward": "d"}]},
    {"rows": [{**ROW, "ward": "\ud800"}]},
    {"rows": [{**ROW, "smokes": 1}]},
    {"rows": [{**ROW, "floor": True}]},
    {"rows": [{**ROW, "floor": 2.0}]},
    {"rows": [{**ROW, "floor": None}]},
    {"rows": [{**ROW, "other": 1}]},
    {"rows": [{k: v for k, v in ROW.items() if k != "age"}]},
    {"rows": [ROW], "abstain_below": 1},
    [ROW],
]
TEXTS = [json.dumps(body).encode() for body in BODIES] + [
    b"",
    b"{",
    b'{"rows":[' + b"[" * 5000,
    json.dumps({"rows": [ROW]}).replace('"age": 41', '"age": 4, "age": 41').encode(),
    json.dumps({"rows": [ROW]}).replace("41", "1e400").encode(),
    json.dumps({"rows": [ROW]}).replace("41", "NaN").encode(),
    json.dumps({"rows": [ROW]}).replace('"b"', r'"\u0062"').encode(),
    json.dumps({"rows": [ROW]}).replace('"ward"', r'"w\u0061rd"').encode(),
    json.dumps({"rows": [ROW]}).encode("utf-16"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    with pytest.MonkeyPatch.context() as patch:
        taken = []
        begin = RequestRounds._asked

        def asked(rounds, lane, repeats):
            found = begin(rounds, lane, repeats)
            taken.extend(found)
            return found

        patch.setattr(RequestRounds, "_asked", asked)
        for running in served(folder, Limits(), client_budget={"epsilon": 1e6}):
            running.taken = taken
            yield running


def same(answer):
    """Return what an answer says, without what differs from request to request."""
    status, body = answer
    told = json.loads(body)
    for name in ("request_id", "sequence", "answers_left"):
        told.pop(name, None)
    return status, told


def test_what_is_read_quickly_is_what_the_schema_reads(place):
    model = place.service.registry.models["triage"]
    quick, accepted = quick_predictions(model, 100), 0
    for text in TEXTS:
        rows = quick.rows(text)
        if rows is None:
            continue
        accepted += 1
        assert isinstance(rows, PackedRows)
        read = TRIAGE.rows(json.loads(text)["rows"], clip=False)
        assert rows.queries() == model.stored.queries(read)
        assert rows.table().numbers.tobytes() == read.numbers.tobytes()
        assert rows.table().codes.tobytes() == read.codes.tobytes()
    assert accepted == 4  # the others are left to the schema


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_repeated_request_gets_the_same_answer(place, text):
    first = request(PREDICT, json.dumps({"rows": [ROW]}).encode(), x_api_key=place.key)
    asked = request(PREDICT, text, x_api_key=place.key)
    with connection(place.url) as fresh:
        fresh.sendall(asked)
        (usual,) = answers(fresh, 1)
    with connection(place.url) as made:
        made.sendall(first)
        assert answers(made, 1)[0][0] == 200
        made.sendall(asked)
        (repeated,) = answers(made, 1)
        # And the connection goes on as if nothing had happened.
        made.sendall(first)
        assert answers(made, 1)[0][0] == 200
    told = [same(each) for each in (usual, repeated)]
    if usual[0] == 200:  # remembered by now, so free
        for _, answer in told:
            answer.pop("charge")
    assert told[0] == told[1]


def test_repeated_requests_are_read_in_rounds(place):
    before = len(place.taken)
    with connection(place.url) as made:
        for age in range(5):
            body = json.dumps({"rows": [{**ROW, "age": 20 + age / 8}]}).encode()
            made.sendall(request(PREDICT, body, x_api_key=place.key))
            ((status, told),) = answers(made, 1)
            assert status == 200
            assert json.loads(told)["charge"]["answers"] == 1
    assert len(place.taken) > before  # not those whose key was looked up meanwhile
    assert place.service.gate.inside == 0


@pytest.mark.parametrize(("step", "status"), [("rows", 200), ("body", 500)])
def test_a_fault_of_ours_leaves_nobody_waiting(place, monkeypatch, step, status):
    def fails(*_):
        raise ZeroDivisionError("a secret")

    body = json.dumps({"rows": [ROW]}).encode()
    asked = request(PREDICT, body, x_api_key=place.key)
    with connection(place.url) as made:
        for _ in range(2):  # the second is read in a round
            made.sendall(asked)
            assert answers(made, 1)[0][0] == 200
        with monkeypatch.context() as patch:
            patch.setattr(QuickPredictions, step, fails)
            made.sendall(asked)
            ((found, told),) = answers(made, 1)
            assert (found, b"secret" in told) == (status, False)
        made.sendall(asked)
        assert answers(made, 1)[0][0] == 200
    assert place.service.gate.inside == 0


def test_what_comes_behind_a_repeated_request_is_answered_too(place):
    body = json.dumps({"rows": [ROW]}).encode()
    asked = request(PREDICT, body, x_api_key=place.key)
    with connection(place.url) as made:
        made.sendall(asked)
        answers(made, 1)
        for cut in (1, 30, len(asked) - 1):
            made.sendall(asked)
            made.sendall(asked[:cut])
            made.sendall(asked[cut:] + request("/v1/models", method="GET"))
            assert [status for status, _ in answers(made, 3)] == [200, 200, 401]


def test_an_idempotency_key_is_read_from_a_repeated_request(place):
    def asked(key, age):
        body = json.dumps({"rows": [{**ROW, "age": age}]}).encode()
        return request(PREDICT, body, x_api_key=place.key, idempotency_key=key)

    before = len(place.taken)
    with connection(place.url) as made:
        found = []
        for key, age in (("k1", 5), ("k2", 6), ("k2", 6), ("k2", 7), ("k 3", 8)):
            made.sendall(asked(key, age))
            found += answers(made, 1)
    assert [status for status, _ in found] == [200, 200, 200, 409, 422]
    assert len(place.taken) > before
    again, first = (json.loads(body) for _, body in found[1:3])
    assert again["answers"] == first["answers"]
    assert again["sequence"] == first["sequence"]


def test_who_may_not_ask_any_more_is_refused_on_the_same_connection(place):
    body = json.dumps({"rows": [ROW]}).encode()
    key = place.running.key("leaver")
    with connection(place.url) as made:
        made.sendall(request(PREDICT, body, x_api_key=key))
        assert answers(made, 1)[0][0] == 200
        place.service.keyring.revoke(key.split("_")[1])
        made.sendall(request(PREDICT, body, x_api_key=key))
        assert answers(made, 1)[0][0] == 401


def test_a_budget_that_is_spent_is_said_as_usual(place):
    key = place.running.key("poor")
    cap = place.service.ledger.balance(AccountId(AccountScope.CLIENT, "poor")).cap
    place.service.ledger.set_cap(
        AccountId(AccountScope.CLIENT, "poor"),
        Cap.basic(epsilon=1.2, relation=cap.relation),
    )
    with connection(place.url) as made:
        found = []
        for age in range(4):
            body = json.dumps({"rows": [{**ROW, "age": 60 + age}]}).encode()
            made.sendall(request(PREDICT, body, x_api_key=key))
            found += answers(made, 1)
    assert [status for status, _ in found] == [200, 200, 403, 403]
    assert json.loads(found[2][1])["error"]["code"] == "budget_exhausted"
    assert json.loads(found[2][1])["request_id"]
    assert place.service.gate.inside == 0


@contextlib.contextmanager
def limited(folder, **settings):
    yield from served(folder, Limits(), **settings)


def test_limits_hold_for_repeated_requests(tmp_path):
    body = json.dumps({"rows": [ROW]}).encode()
    with limited(tmp_path, rate=0.001, burst=2, max_body_bytes=1024) as place:
        asked = request(PREDICT, body, x_api_key=place.key)
        with connection(place.url) as made:
            found = []
            for _ in range(3):
                made.sendall(asked)
                found += answers(made, 1)
            assert [status for status, _ in found] == [200, 200, 429]
        key = place.running.key("other")
        with connection(place.url) as made:
            made.sendall(request(PREDICT, body, x_api_key=key))
            made.sendall(request(PREDICT, body + b" " * 1024, x_api_key=key))
            assert [status for status, _ in answers(made, 2)] == [200, 413]
        place.service.gate.closing = True
        with connection(place.url) as made:
            made.sendall(asked)
            assert answers(made, 1)[0][0] in (429, 503)


def test_a_schema_with_computed_columns_needs_a_closer_look(place):
    model = place.service.registry.models["triage"]
    assert quick_predictions(model, 100) is not None
    schema = Schema(
        {"year": Numeric(1900, 2100), "age": Numeric(0, 100)},
        readings={"year": DatePart("day", "year")},
    )
    other = SimpleNamespace(stored=SimpleNamespace(schema=schema))
    assert quick_predictions(other, 100) is None


def test_logs_and_metrics_say_the_same_of_a_repeated_request(place, lines):
    counted = place.service.metrics.registry.get_sample_value
    labels = {"route": "/v1/models/{name}/predict", "status": "200", "code": ""}
    drawn = {"model": "triage", "source": "drawn"}
    seen = []
    with connection(place.url) as made:
        for age in (71, 72, 73):
            body = json.dumps({"rows": [{**ROW, "age": age}]}).encode()
            made.sendall(request(PREDICT, body, x_api_key=place.key))
            answers(made, 1)
            wait_until(lambda: lines.getvalue().count("\n") > len(seen))
            counts = [("reticent_requests_total", labels)]
            counts += [("reticent_answers_total", drawn)]
            seen.append([counted(*count) for count in counts])
    first, *others = (json.loads(line) for line in lines.getvalue().splitlines())
    for other in others:
        assert list(other) == list(first)
        for name in set(first) - {"time", "request_id", "sequence"}:
            assert other[name] == first[name]
    steps = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(seen)]
    assert steps == [[1, 1], [1, 1]]
