"""Those without a key: refused at the door, in turns, with few lines in the log."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import math
import secrets
import time
from types import SimpleNamespace

import pytest

from reticent.errors import LedgerError
from reticent.service.network import watch as watches
from reticent.service.network.connections import Connection
from reticent.service.network.exchanges import Exchange
from reticent.service.network.flow import Flow
from reticent.service.network.watch import Watch
from reticent.service.requests import probes
from reticent.service.requests.limits import Strangers
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.raw_client import answers, connection, request
from tests.service.test_connections import BODY, FEW, PREDICT, served

GUESS = "rk_" + "0" * 16 + "_" + "A" * 43


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("place"), FEW, max_in_flight=8)


def told(place, sent):
    """Return status, headers and body of an answer, without what differs each time."""
    with connection(place.url) as made:
        made.sendall(sent)
        found = b""
        while b"\r\n\r\n" not in found:
            found += made.recv(65536)
        head, _, body = found.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next(x for x in lines if x.startswith(b"content-length"))
        while len(body) < int(length.split(b":")[1]):
            body += made.recv(65536)
    content = json.loads(body)
    assert content.pop("request_id")
    different = (b"x-request-id", b"date")
    return sorted(x for x in lines if not x.startswith(different)), content


@pytest.mark.parametrize("path", [PREDICT, "/v1/models", "/v2/models/triage/infer"])
@pytest.mark.parametrize(
    "headers",
    [{}, {"x_api_key": "x" * 300}, {"authorization": "Basic eDp5"}, {"x_api_key": "é"}],
    ids=["no key", "too long", "another scheme", "not ASCII"],
)
def test_the_door_says_what_the_application_says(place, monkeypatch, path, headers):
    sent = request(path, BODY, **headers)
    at_the_door = told(place, sent)
    monkeypatch.setattr(place.running.app.envelope, "turned_away", lambda _: False)
    assert told(place, sent) == at_the_door
    assert at_the_door[0][-1] == b"x-frame-options: deny"
    assert at_the_door[1]["status"] == 401


def test_a_key_that_was_just_refused_is_refused_at_the_door(place, monkeypatch):
    looked_up = []
    find = place.service.keyring.store.find
    monkeypatch.setattr(
        place.service.keyring.store,
        "find",
        lambda name: looked_up.append(name) or find(name),
    )
    sent = request(PREDICT, BODY, x_api_key=GUESS)
    first = told(place, sent)
    monkeypatch.setattr(place.service.access._refused, "_clock", lambda: 0.0)
    assert [told(place, sent) for _ in range(5)] == [first] * 5
    assert len(looked_up) == 1


def test_nothing_of_a_refused_body_is_read(place):
    """The answer is there before the body is."""
    with connection(place.url) as made:
        made.sendall(request(PREDICT, length=10**6))
        assert answers(made, 1)[0][0] == 401


def test_pages_for_strangers_are_limited_and_those_with_a_key_are_not(tmp_path):
    for place in served(tmp_path, FEW):
        envelope = place.running.app.envelope
        envelope._strangers = Strangers(clock=lambda: 1000.0)
        page = request("/login", method="GET", length=None)
        with connection(place.url) as made:
            codes = []
            for _ in range(220):
                made.sendall(page)
                codes.append(answers(made, 1)[0][0])
        assert codes == [200] * 200 + [429] * 20
        with connection(place.url) as made:
            made.sendall(request(PREDICT, BODY, x_api_key=place.key))
            assert answers(made, 1)[0][0] == 200
            # Probes are answered whatever strangers do.
            made.sendall(request("/v2/health/live", method="GET", length=None))
            assert answers(made, 1)[0][0] == 200


def test_the_log_has_few_lines_for_strangers_and_counts_the_others(tmp_path):
    with clinic(settings_for(tmp_path)) as running:
        envelope, now = running.app.envelope, [1000.0]
        envelope._strangers = Strangers(clock=lambda: now[0])
        lines = []
        handler = logging.Handler()
        handler.emit = lambda record: lines.extend(getattr(record, "lines", ()))
        log = logging.getLogger("reticent.service")
        level = log.level
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        try:
            for _ in range(150):
                assert running.get("/v1/models", "rk_wrong").status_code == 401
            assert len(lines) == 100
            for _ in range(3):  # somebody with a key has a line each
                assert running.predict().is_success
            assert len(lines) == 103
            now[0] += 1.0
            assert running.get("/v1/models", "rk_wrong").status_code == 401
            assert lines[-1]["unlogged"] == 50
            assert running.get("/v1/models", "rk_wrong").status_code == 401
            assert "unlogged" not in lines[-1]
        finally:
            log.removeHandler(handler)
            log.setLevel(level)
        counted = running.service.metrics.requests
        assert counted.labels("other", "401", "unauthenticated")._value.get() == 152


class Transport:
    """Notes whether bytes are taken from it."""

    reads = True

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def is_closing(self):
        return False


class Line:
    """A connection that notes what it reads, and how long that takes."""

    def __init__(self, log, clock, cost, fails=False):
        self.log, self.clock, self.cost, self.fails = log, clock, cost, fails
        self.flow, self.aborted = Flow(), False
        self.flow.transport = Transport()

    def read(self, data):
        self.log.append((self, data))
        self.clock[0] += self.cost
        if self.fails:
            raise RuntimeError("a fault of ours")

    def late(self, now):
        return False

    def abort(self):
        self.aborted = True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(watches.time, "perf_counter", lambda: now[0])
    return now


def in_rounds(log, lines, act):
    """Let lines send; return what was read at once, and in each later round."""

    async def run():
        loop = asyncio.get_running_loop()
        failures = []
        loop.set_exception_handler(lambda loop, about: failures.append(about))
        watch = Watch(loop, 1000)
        for line in lines:
            watch.add(line)
        act(watch)
        counts = [len(log)]
        while watch._held:
            before = len(log)
            await asyncio.sleep(0)
            counts.append(len(log) - before)
        assert watch._held_bytes == 0
        await asyncio.sleep(0)
        assert not watch._in_round
        watch._timer.cancel()
        return [count for count in counts if count], failures

    return asyncio.run(run())


def test_strangers_have_a_slice_of_each_round_in_their_order(clock):
    log = []
    lines = [Line(log, clock, cost=0.0005) for _ in range(10)]

    def act(watch):
        for line in lines:
            watch.read_stranger(line, b"a")
        # Nothing more is taken from those of whom something waits.
        assert [line.flow.transport.reads for line in lines] == 4 * [True] + 6 * [False]

    counts, _ = in_rounds(log, lines, act)
    assert counts == [4, 4, 2]  # 2 ms at half a millisecond each
    assert log == [(line, b"a") for line in lines]
    assert all(line.flow.transport.reads for line in lines)


def test_a_large_part_is_read_piece_by_piece(clock):
    """Hundreds of requests in one read would take many slices at once."""
    log, sent = [], bytes(range(256)) * 256
    large, small = Line(log, clock, 0.002), Line(log, clock, 0.002)

    def act(watch):
        watch.read_stranger(large, sent)
        watch.read_stranger(small, b"x")

    counts, _ = in_rounds(log, [large, small], act)
    assert counts == [1] * 5
    assert b"".join(data for line, data in log if line is large) == sent
    assert log[2] == (small, b"x")  # it waits for one piece, not for all of them


def test_what_waits_is_bounded_and_small_parts_always_may(clock):
    log = []
    lines = [Line(log, clock, 1.0) for _ in range(200)]

    def act(watch):
        watch.read_stranger(lines[0], b"takes all of the round")
        for line in lines[1:100]:
            watch.read_stranger(line, b"x" * 2**18)
            assert watch._held_bytes <= watches._MOST_HELD
        for line in lines[100:]:
            watch.read_stranger(line, b"x")

    in_rounds(log, lines, act)
    closed = [line.aborted for line in lines]
    assert closed == 33 * [False] + 67 * [True] + 100 * [False]


def test_those_who_left_are_not_read(clock):
    log = []
    stays, gone = Line(log, clock, 1.0), Line(log, clock, 1.0)

    def act(watch):
        watch.read_stranger(stays, b"first")
        watch.read_stranger(gone, b"never read")
        watch.discard(gone)
        watch.read_stranger(stays, b"second")

    in_rounds(log, [stays, gone], act)
    assert log == [(stays, b"first"), (stays, b"second")]


def test_a_fault_in_one_connection_does_not_stop_the_others(clock):
    """Once nobody new was read any more after an error in a deferred part."""
    log = []
    slow, broken, other = (Line(log, clock, 1.0, fails) for fails in (0, 1, 0))

    def act(watch):
        for line in (slow, broken, other):
            watch.read_stranger(line, b"a")

    _, failures = in_rounds(log, [slow, broken, other], act)
    assert [line for line, _ in log] == [slow, broken, other]
    assert broken.aborted
    assert len(failures) == 1


def probed(place, name):
    with connection(place.url) as made:
        made.sendall(request(f"/v2/health/{name}", method="GET", length=None))
        return answers(made, 1)[0]


def probes_of(place):
    return place.running.app.envelope._probes


@pytest.fixture
def looks(place, monkeypatch):
    """Have the probes look at a ledger that is as `looks.answers` says."""
    probes, looked = probes_of(place), SimpleNamespace(answers=False, times=0)

    def look():
        looked.times += 1
        time.sleep(0.05)
        return looked.answers

    monkeypatch.setattr(probes, "_look", look)
    monkeypatch.setattr(probes, "_until", 0.0)
    return looked


def test_probes_are_answered_at_the_door(place, looks):
    probes, gate = probes_of(place), place.service.gate
    assert probed(place, "live") == (200, b'{"live":true}')
    looks.answers = True
    assert probed(place, "ready") == (200, b'{"ready":true}')
    probes._until, looks.answers = math.inf, False
    assert probed(place, "ready") == (200, b'{"ready":true}')
    gate.closing = True
    try:
        assert probed(place, "ready")[0] == 503
    finally:
        gate.closing = False
    assert looks.times == 1
    probes._until = 0.0  # a moment later the ledger is asked again
    assert probed(place, "ready")[0] == 503
    assert looks.times == 2


def test_a_ledger_that_does_not_answer_is_looked_at_as_rarely(place, looks):
    probes = probes_of(place)
    assert probed(place, "ready")[0] == 503
    probes._until = math.inf
    assert [probed(place, "ready")[0] for _ in range(20)] == [503] * 20
    assert looks.times == 1


def test_those_who_ask_at_once_wait_for_one_look(place, looks, monkeypatch):
    monkeypatch.setattr(probes, "_SECONDS", 1e6)
    sent = request("/v2/health/ready", method="GET", length=None)
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connection(place.url)) for _ in range(3)]
        for made in many:
            made.sendall(sent)
        assert {answers(made, 1)[0][0] for made in many} == {503}
    assert looks.times == 1


@pytest.mark.parametrize("method", ["POST", "HEAD", "DELETE"])
@pytest.mark.parametrize("name", ["live", "ready"])
def test_a_probe_with_another_method_is_refused_at_the_door(
    place, monkeypatch, method, name
):
    path = f"/v2/health/{name}"
    monkeypatch.setattr(Exchange, "run", None)  # nobody gets as far as a task
    with connection(place.url) as made:
        made.sendall(request(path, method=method, length=None) + b"")
        found = b""
        while b"\r\n\r\n" not in found:
            found += made.recv(65536)
    assert found.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nallow: GET\r\n" in found


def test_another_method_is_told_the_same_at_the_door(place, monkeypatch):
    sent = request("/v2/health/ready", method="POST", length=None)
    at_the_door = told(place, sent)
    monkeypatch.setattr(place.running.app.envelope, "turned_away", lambda _: False)
    assert told(place, sent) == at_the_door


@pytest.mark.parametrize("error", [LedgerError("gone"), ZeroDivisionError("gone")])
def test_strangers_do_not_fill_the_log_with_errors(place, monkeypatch, caplog, error):
    """Not even where the database is away, or something else fails on their behalf."""

    def fails(name):
        raise error

    monkeypatch.setattr(place.service.keyring.store, "find", fails)
    limited = Strangers(clock=lambda: 1000.0)
    monkeypatch.setattr(place.running.app.envelope, "_strangers", limited)
    with caplog.at_level(logging.ERROR, "reticent.service"):
        for _ in range(130):
            guess = f"rk_{secrets.token_hex(8)}_" + "A" * 43
            told_now = told(place, request(PREDICT, BODY, x_api_key=guess))
            assert told_now[1]["status"] in (429, 500, 503)
    lines = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert 0 < len(lines) <= 100


def test_a_stranger_has_room_for_one_more_head(place):
    """Behind an answer that it does not read."""
    pages = request("/login", method="GET", length=None)
    large = request("/login", method="GET", length=None, x_nothing="x" * 9000)
    with connection(place.url) as made:
        made.sendall(pages + large)
        assert [code for code, _ in answers(made, 2)] == [200, 200]
    with connection(place.url) as made:
        made.sendall(pages + large + large + large)
        assert answers(made, 1)[0][0] == 200
        rest = b""
        while part := made.recv(65536):
            rest += part
    assert rest.count(b"HTTP/1.1 200") <= 1


def test_nobody_sends_more_while_not_reading():
    """Reading stops until the other side reads; other reasons are kept apart."""
    calls = []
    flow = Flow()
    flow.transport = SimpleNamespace(
        is_closing=lambda: False,
        pause_reading=lambda: calls.append("pause"),
        resume_reading=lambda: calls.append("resume"),
    )
    flow.stall()
    flow.pause()
    flow.resume()
    flow.hold()
    flow.release()
    assert calls == ["pause"]
    flow.hold()
    flow.flow_again()
    assert calls == ["pause"]
    assert flow.held
    flow.release()
    assert calls == ["pause", "resume"]


def test_a_key_that_is_known_opens_pages_that_strangers_used_up(tmp_path):
    """Inference clients ask for the server's name first."""
    for place in served(tmp_path, FEW):
        place.running.app.envelope._strangers = Strangers(clock=lambda: 1000.0)
        page = request("/v2", method="GET", length=None)
        with connection(place.url) as made:
            made.sendall(request(PREDICT, BODY, x_api_key=place.key))
            assert answers(made, 1)[0][0] == 200
        with connection(place.url) as made:
            for _ in range(201):
                made.sendall(page)
                last = answers(made, 1)[0][0]
            assert last == 429
            made.sendall(request("/v2", method="GET", length=None, x_api_key=place.key))
            assert answers(made, 1)[0][0] == 200


def test_a_client_above_its_rate_is_no_stranger(tmp_path):
    """Its refusals are logged, whatever strangers do, and its connection is known."""
    with clinic(settings_for(tmp_path, rate=0.001, burst=2)) as running:
        noted = []
        running.app.envelope._strangers.noted = lambda line: noted.append(line)
        codes = [running.predict().status_code for _ in range(4)]
        assert codes == [200, 200, 429, 429]
        assert noted == []


@pytest.mark.parametrize("dose", [None, 2.0], ids=["parsed", "in rounds"])
def test_parts_are_read_in_order_while_strangers_wait(tmp_path, dose):
    """A part that waits must not be overtaken, however the one before it was read."""
    for place in served(tmp_path, FEW):
        rows = [{**ROW, "age": age, "dose": dose} for age in (1, 2, 3)]
        sent = [
            request(PREDICT, json.dumps({"rows": [row]}).encode(), x_api_key=place.key)
            for row in rows
        ]
        half = len(sent[2]) // 2
        parts = (sent[0][:20], sent[0][20:], sent[1] + sent[2][:half], sent[2][half:])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(watches, "_SLICE", 1e-9)  # one part in a round
            patch.setattr(watches, "_PART", 64)
            for _ in range(5):
                with connection(place.url) as made:
                    for part in parts:
                        made.sendall(part)
                    assert [status for status, _ in answers(made, 3)] == [200] * 3


MANY_AT_ONCE = 40 * request("/v2", method="GET")
LEFT = {
    "refused by the head": request(PREDICT, BODY),
    "a wrong key": request(PREDICT, BODY, x_api_key=GUESS),
    "half a body": request("/login", b"abc", length=100),
    "half a head": request(PREDICT)[:30],
    "not HTTP": b"\x16\x03\x01\r\n\r\n",
    "too many at once": MANY_AT_ONCE,
}


def remaining(seconds=0.0, before=0):
    """Return how many more connections and requests there are than before.

    Waits for a while until there are none. Nobody searches for garbage meanwhile.
    """
    until = time.monotonic() + seconds
    while True:
        count = sum(
            isinstance(each, (Connection, Exchange)) for each in gc.get_objects()
        )
        if count <= before or time.monotonic() > until:
            return count - before
        time.sleep(0.02)


@pytest.fixture
def without_search():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("sent", LEFT.values(), ids=LEFT)
def test_strangers_leave_no_garbage(place, without_search, sent):
    before = remaining()
    with connection(place.url) as made:
        made.sendall(sent)
        made.shutdown(1)
        while made.recv(65536):
            pass
    assert remaining(10.0, before) <= 0


def test_garbage_of_strangers_is_noticed(place, monkeypatch, without_search):
    """The test above can fail: here requests and their scopes keep each other."""
    before = remaining()
    monkeypatch.setattr(Exchange, "_end", Exchange._wake)
    told(place, request(PREDICT, BODY))
    assert remaining(1.0, before) > 0
