"""Bytes from the network: bounded, in time, and read only for those with a key."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import struct
import threading

import pytest
import uvicorn

from reticent.service.network import Connection, Limits
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.live_server import free_port, wait_until, wait_until_ready
from tests.service.raw_client import PATIENCE, answers, connection, request, rest

PREDICT = "/v1/models/triage/predict"
BODY = json.dumps({"rows": [ROW]}).encode()
FEW = Limits(strangers=16)
HASTY = Limits(head_seconds=0.3, body_seconds=0.3, body_rate=1e9, reply_seconds=0.3)


class Place:
    """A running server, its address, and what is inside."""

    def __init__(self, running, url, server):
        self.running, self.url, self.server = running, url, server
        self.service = running.service
        self.key = running.analyst

    @property
    def connections(self):
        return len(self.server.server_state.connections)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    yield from served(tmp_path_factory.mktemp("place"), FEW, max_in_flight=8)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A server whose deadlines are over in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reticent.service.network.watch._SWEEP", 0.1)
        yield from served(tmp_path_factory.mktemp("hasty"), HASTY)


def served(folder, limits, loop="uvloop", **settings):
    with clinic(settings_for(folder, **settings)) as running:
        port = free_port()
        config = uvicorn.Config(
            running.app,
            port=port,
            log_config=None,
            access_log=False,
            lifespan="off",
            loop=loop,
            http=functools.partial(Connection, limits=limits),
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_ready(url)
            yield Place(running, url, server)
        finally:
            server.should_exit = True
            thread.join()


def ask(place, **headers):
    """Send a good request on a connection of its own; return its status."""
    with connection(place.url) as made:
        made.sendall(request(PREDICT, BODY, x_api_key=place.key, **headers))
        return answers(made, 1)[0][0]


def sent_until_closed(made, data, most):
    """Send again and again; return how many bytes went before the server closed."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < most:
            made.sendall(data)
            sent += len(data)
        pytest.fail("the server took everything")
    return sent


def test_requests_are_answered_one_after_the_other_on_a_connection(place):
    with connection(place.url) as made:
        for _ in range(3):
            made.sendall(request(PREDICT, BODY, x_api_key=place.key))
            ((status, body),) = answers(made, 1)
            assert status == 200
            assert json.loads(body)["answers"]
        # Three at once, and one in small pieces.
        made.sendall(3 * request(PREDICT, BODY, authorization=f"Bearer {place.key}"))
        assert [status for status, _ in answers(made, 3)] == [200] * 3
        for byte in request(PREDICT, BODY, x_api_key=place.key):
            made.sendall(bytes([byte]))
        assert answers(made, 1)[0][0] == 200


def test_chunked_bodies_and_bodies_that_wait_to_be_asked_for(place):
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (BODY[:9], BODY[9:]))
    head = request(PREDICT, length=None, x_api_key=place.key, **CHUNKED)
    with connection(place.url) as made:
        made.sendall(head + chunks + b"0\r\n\r\n")
        assert answers(made, 1)[0][0] == 200
        made.sendall(request(PREDICT, length=len(BODY), x_api_key=place.key, **EXPECT))
        assert made.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        made.sendall(BODY)
        assert answers(made, 1)[0][0] == 200


CHUNKED = {"transfer_encoding": "chunked"}
EXPECT = {"expect": "100-continue"}


def test_old_clients_and_those_who_say_so_are_closed_after_one_answer(place):
    for line, headers in ((b"HTTP/1.0", {}), (b"HTTP/1.1", {"connection": "close"})):
        sent = request(PREDICT, BODY, x_api_key=place.key, **headers)
        with connection(place.url) as made:
            made.sendall(sent.replace(b"HTTP/1.1", line))
            assert rest(made).startswith(b"HTTP/1.1 200")


def test_head_and_pages(place):
    with connection(place.url) as made:
        made.sendall(request("/login", method="HEAD"))
        made.sendall(request("/static/style.css", method="GET", connection="close"))
        found = rest(made)
    assert found.count(b"HTTP/1.1 200") >= 1
    assert b"<html" not in found


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 65 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 17_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nx: " + b"a" * 100_000, 431),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
        (
            b"POST / HTTP/1.1\r\ncontent-length: 1\r\n"
            b"transfer-encoding: chunked\r\n\r\n",
            400,
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
    ],
    ids=["line", "many", "large", "endless", "nonsense", "length", "smuggled", "tls"],
)
def test_heads_that_are_too_large_or_no_heads_are_refused(place, sent, status):
    with connection(place.url) as made:
        made.sendall(sent)
        found = rest(made)
    assert found.startswith(b"HTTP/1.1 %d" % status) or found == b""
    if len(sent) < 60_000:  # what is unread may take the answer with it
        body = json.loads(found.partition(b"\r\n\r\n")[2])
        assert body["error"]["message"].endswith(".")
    assert ask(place) == 200


def test_header_lines_without_end_are_refused_early(place):
    with connection(place.url) as made:
        made.sendall(b"GET / HTTP/1.1\r\n")
        sent = sent_until_closed(made, b"a: " + b"b" * 60_000 + b"\r\n", 50 * 2**20)
    assert sent < 20 * 2**20


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"G",
        b"POST /login HTTP/1.1\r\nhost: x\r\n",
        request("/login", length=10) + b"a",
        request(PREDICT, length=10, x_api_key="KEY") + b"a",
        request(PREDICT, length=None, x_api_key="KEY", **CHUNKED) + b"5\r\nab",
    ],
    ids=["nothing", "letter", "head", "login", "body", "chunk"],
)
def test_those_who_send_no_more_are_closed(hasty, sent):
    with connection(hasty.url) as made:
        made.sendall(sent.replace(b"KEY", hasty.key.encode()))
        found = rest(made)
    assert found == b"" or found.startswith(b"HTTP/1.1 408")
    wait_until(lambda: hasty.connections == 0)
    assert hasty.service.gate.inside == 0


def test_those_who_do_not_read_are_closed(hasty):
    with connection(hasty.url) as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page = request("/openapi.json", method="GET")
        sent_until_closed(made, 16 * page, 10**9)
    wait_until(lambda: hasty.connections == 0)


def test_those_who_do_not_read_hold_no_slot(place):
    page = request("/openapi.json", method="GET", length=None)
    made = [socket.create_connection(address(place)) for _ in range(12)]
    try:
        for each in made:
            each.sendall(16 * page)
        wait_until(lambda: place.service.gate.strangers == 0)
        with connection(place.url) as mine:
            mine.sendall(request("/login", method="GET", length=None))
            assert answers(mine, 1)[0][0] == 200
    finally:
        for each in made:
            each.close()


def test_no_body_is_read_without_a_key(place):
    """8 x 100 MB without a key once took 1.9 GB."""
    for path in ("/v1/admin/keys", "/v1/admin/accounts/client:x", PREDICT):
        with connection(place.url) as made:
            made.sendall(request(path, length=100 * 2**20, method="PUT"))
            status, body = answers(made, 1)[0]
            assert status == 401
            assert json.loads(body)["error"]["code"] == "unauthenticated"
            sent = sent_until_closed(made, b"x" * 65536, 100 * 2**20)
            assert sent < 20 * 2**20


def test_bodies_without_end_are_refused(place):
    limit = place.service.settings.max_body_bytes
    for path, most in ((PREDICT, limit), ("/v1/admin/keys", 65536), ("/login", 4096)):
        key = place.running.admin
        head = request(path, length=None, x_api_key=key, **CHUNKED)
        with connection(place.url) as made:
            made.sendall(head)
            chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
            for _ in range(most // 0x8000 + 1):
                made.sendall(chunk)
            assert answers(made, 1)[0][0] == 413
    assert place.service.gate.inside == 0


def test_chunks_that_are_mostly_overhead_are_refused(place):
    head = request(PREDICT, length=None, x_api_key=place.key, **CHUNKED)
    with connection(place.url) as made:
        made.sendall(head)
        sent = sent_until_closed(made, b"1;" + b"x" * 5000 + b"\r\n \r\n", 50 * 2**20)
        assert sent < 20 * 2**20


def test_sockets_that_send_one_byte_take_no_slot(place):
    """70 sockets with one byte each once kept everybody else out."""
    with_key = request(PREDICT, length=10, x_api_key="x" * 40) + b"a"
    at_login = request("/login", length=10) + b"a"
    made = [socket.create_connection(address(place)) for _ in range(14)]
    try:
        for number, each in enumerate(made):
            each.sendall(with_key if number % 2 else at_login)
        assert ask(place) == 200
        assert ready(place) == 200
        assert place.service.gate.inside == 0
    finally:
        for each in made:
            each.close()


def test_readiness_says_when_there_is_no_slot(place):
    gate = place.service.gate
    gate.inside += gate._most
    assert ready(place) == 503
    gate.inside -= gate._most
    assert ready(place) == 200


def test_the_oldest_strangers_give_way_and_those_with_a_key_stay(place):
    with connection(place.url) as mine:
        mine.sendall(request(PREDICT, BODY, x_api_key=place.key))
        assert answers(mine, 1)[0][0] == 200
        made = [socket.create_connection(address(place)) for _ in range(64)]
        try:
            wait_until(lambda: place.connections <= FEW.strangers + 1)
            mine.sendall(request(PREDICT, BODY, x_api_key=place.key))
            assert answers(mine, 1)[0][0] == 200
        finally:
            for each in made:
                each.close()


def test_resets_and_half_closed_connections_leave_nothing(place):
    started = request(PREDICT, length=10, x_api_key=place.key) + b"a"
    for sent in (b"", b"GE", started, request(PREDICT, BODY, x_api_key=place.key)):
        for end in ("reset", "half"):
            made = socket.create_connection(address(place))
            made.sendall(sent)
            if end == "reset":
                linger = struct.pack("ii", 1, 0)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            else:
                made.shutdown(socket.SHUT_WR)
                rest(made)
            made.close()
    wait_until(lambda: place.connections == 0)
    wait_until(lambda: place.service.gate.inside == 0)
    assert ask(place) == 200


def test_too_many_requests_that_wait_are_refused(place):
    with connection(place.url) as made:
        made.sendall(5000 * request("/v2", method="GET", length=None))
        found = rest(made)
    assert found.count(b"HTTP/1.1 200") <= FEW.pipelined + 2
    assert ask(place) == 200


def test_answers_come_in_order_to_those_who_read_late(place):
    # With a key that is in use: pages for strangers are limited by the second.
    assert ask(place) == 200
    page = request("/openapi.json", method="GET", length=None, x_api_key=place.key)
    state = place.server.server_state
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(PATIENCE)
        made.connect(address(place))
        wait_until(lambda: server_side_of(made, place) is not None)
        server_side = server_side_of(made, place)
        sent, before, burst = 0, state.total_requests, 8
        while not server_side._waiting:
            if server_side.stalled:  # behind the last page: begin again, with one more
                answers(made, sent)
                sent, before, burst = 0, state.total_requests, burst + 1
            made.sendall(burst * page)
            sent += burst
            wait_until(
                lambda whole=before + sent: (
                    server_side.stalled or state.total_requests >= whole
                )
            )
        wait_until(lambda: server_side._current is None)
        # Not read before the answers are, and still answered after them.
        made.sendall(request("/v2", method="GET", length=None))
        found = [json.loads(body) for _, body in answers(made, sent + 1)]
    assert ["openapi" in each for each in found] == [True] * sent + [False], found


def test_a_server_on_the_plain_loop_stops_when_it_has_answered(tmp_path):
    for place in served(tmp_path, Limits(), "asyncio"):
        with connection(place.url) as idle, connection(place.url) as made:
            made.sendall(request(PREDICT, BODY, x_api_key=place.key))
            assert answers(made, 1)[0][0] == 200
            place.server.should_exit = True
            assert rest(idle) == b""
            assert rest(made) == b""


def server_side_of(made, place):
    """Return the server's object for a connection."""
    for each in list(place.server.server_state.connections):
        if each.transport.get_extra_info("peername") == made.getsockname():
            return each
    return None


def address(place):
    return "127.0.0.1", int(place.url.rpartition(":")[2])


def ready(place):
    with connection(place.url) as made:
        made.sendall(request("/v2/health/ready", method="GET", length=None))
        return answers(made, 1)[0][0]
