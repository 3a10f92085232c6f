"""Spans arrive at a collector by OTLP, and hold no rows, keys or contents.

The exporter is the one of ``reticent[otel]``, with its own variables. The collector is
a small server of ours that decodes what arrives with OpenTelemetry's own messages.
"""

from __future__ import annotations

import gzip
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from reticent.home import Role
from reticent.service.traces import open_traces
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.live_server import (
    ServerProcess,
    api_key,
    free_port,
    wait_until,
    written,
)

AGE = 41.734291
ROUTE = "/v1/models/{name}/predict"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ALLOWED = {
    "http.request.method",
    "http.route",
    "http.response.status_code",
    "reticent.request_id",
    "reticent.client",
    "reticent.code",
}
RESOURCE = {"service.name", "service.instance.id", "telemetry.sdk.name"}
RESOURCE |= {"telemetry.sdk.language", "telemetry.sdk.version"}


class Collector:
    """Keeps what it was sent, as bytes and decoded."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.bodies: list[bytes] = []
        self.paths: set[str] = set()
        self.status = 200

    @property
    def messages(self) -> list[ExportTraceServiceRequest]:
        return [ExportTraceServiceRequest.FromString(body) for body in self.bodies]

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for message in self.messages
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def holds(self, *secrets: str | float) -> list[str | float]:
        """Return the secrets that are anywhere in the bytes or in the decoded text."""
        sent = b"".join(self.bodies) + "".join(map(str, self.messages)).encode()
        return [each for each in secrets if any(form in sent for form in _forms(each))]


def _forms(secret: str | float) -> list[bytes]:
    """Return the bytes by which a protobuf message can hold something."""
    if isinstance(secret, str):
        return [secret.encode()]
    return [repr(secret).encode(), struct.pack("<d", secret), struct.pack("<f", secret)]


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on a port of its own."""
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.headers["content-type"] == "application/x-protobuf"
            if made.status == 200:
                made.paths.add(self.path)
                made.bodies.append(body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(made.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def received(monkeypatch):
    with collector() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.endpoint)
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
        yield made


def provoke(url, key):
    """Send what must not come out: good requests, wrong ones, odd paths and headers."""
    headers = {
        "x-api-key": key,
        "traceparent": PARENT,
        "baggage": "who=secret-baggage",
        "idempotency-key": "secret-idempotency",
        "user-agent": "secret-agent",
    }
    good = {**ROW, "age": AGE}
    wrong = {**ROW, "ward": "secret-ward"}
    with httpx.Client(base_url=url, headers=headers, timeout=180) as http:
        for rows in ([good], [wrong], [{**good, "secret-column": 1}]):
            http.post("/v1/models/triage/predict?secret=query", json={"rows": rows})
        http.post("/v1/models/triage/predict", content=b"{secret-body")
        http.get("/v1/models/secret-model")
        http.get("/secret-path")
        http.post("/login", data={"key": key})
        http.get("/v1/budget", headers={"x-api-key": f"{key[:-4]}AAAA"})
        odd = {"shape": [1], "datatype": "BYTES", "data": ["secret"]}
        inputs = [{"name": name, **odd} for name in ROW]
        http.post("/v2/models/triage/infer", json={"inputs": inputs})
    return 9


SECRETS = (AGE, "secret", "41.73")


def check(received, key, requests):
    """Compare the spans that came with the requests that were sent."""
    spans = received.spans
    assert received.paths == {"/v1/traces"}
    names = [span.name for span in spans]
    assert names.count(f"POST {ROUTE}") == 4
    assert len([name for name in names if "/v2/health" not in name]) == requests
    found = {attribute.key for span in spans for attribute in span.attributes}
    assert found == ALLOWED
    assert all(span.start_time_unix_nano == span.end_time_unix_nano for span in spans)
    assert not any(span.events or span.links for span in spans)
    asked = next(span for span in spans if span.name == f"POST {ROUTE}")
    assert asked.kind == Span.SPAN_KIND_SERVER
    assert asked.trace_id.hex() == PARENT.split("-")[1]
    assert asked.parent_span_id.hex() == PARENT.split("-")[2]
    for message in received.messages:
        for each in message.resource_spans:
            assert {a.key for a in each.resource.attributes} >= {"service.name"}
            assert {a.key for a in each.resource.attributes} <= RESOURCE
    secret = key.split("_", 2)[2]
    assert received.holds(*SECRETS, key, secret, secret[:12]) == []


def test_spans_of_two_workers_arrive_and_hold_nothing_of_the_requests(
    received, tmp_path
):
    port = free_port()
    settings = settings_for(tmp_path, traces=True, workers=2, port=port)
    key = api_key(settings)
    server = ServerProcess(written(settings, tmp_path), port, tmp_path / "log")
    try:
        server.start()
        sent = provoke(server.url, key)
        assert server.stop() == 0  # what is left is sent at the end
    finally:
        server.kill()
    check(received, key, sent)


@pytest.mark.parametrize("broken", ["rows", "key"])
def test_a_service_that_put_contents_into_spans_would_be_noticed(
    received, tmp_path, broken
):
    traces = open_traces()
    with clinic(settings_for(tmp_path), traces=traces) as running:
        key = running.key("ward-8", Role.ANALYST)
        told = {"rows": AGE, "key": key}[broken]
        traces._tracer.start_span("POST", attributes={"reticent.client": told}).end()
    wait_until(lambda: len(received.spans) == 1)
    assert told in received.holds(*SECRETS, key)


def test_a_collector_that_is_away_or_refuses_holds_up_no_answer(
    received, tmp_path, monkeypatch
):
    received.status = 503
    for endpoint in (received.endpoint, f"http://127.0.0.1:{free_port()}"):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
        with clinic(settings_for(tmp_path), traces=open_traces()) as running:
            for age in range(20):
                assert running.predict({**ROW, "age": age}).status_code == 200
    assert received.spans == []
