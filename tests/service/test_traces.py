"""Spans say what was asked and with what outcome, never how long it took."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reticent.errors import InvalidParameterError
from reticent.service.traces import Traces, open_traces
from tests.service.clinic import ROW, clinic, settings_for
from tests.service.live_server import in_thread

SECRET = {**ROW, "age": 41.734291}
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def memory():
    return InMemorySpanExporter()


@pytest.fixture
def running(tmp_path, memory):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    with clinic(settings_for(tmp_path), traces=Traces(provider)) as made:
        yield made


def test_a_span_has_route_status_and_client_but_no_contents(running, memory):
    answer = running.http.post(
        "/v1/models/triage/predict",
        json={"rows": [SECRET]},
        headers={"x-api-key": running.analyst, "traceparent": PARENT},
    )
    (span,) = memory.get_finished_spans()
    assert span.name == "POST /v1/models/{name}/predict"
    assert dict(span.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/models/{name}/predict",
        "http.response.status_code": 200,
        "reticent.request_id": answer.headers["x-request-id"],
        "reticent.client": "ward-7",
    }
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == PARENT.split("-")[2]
    text = span.to_json()
    assert "41.73" not in text
    assert running.analyst not in text


def test_a_span_does_not_tell_how_long_an_answer_took(running, memory):
    for age in range(5):
        running.predict({**ROW, "age": age})
    running.http.get("/login")
    spans = memory.get_finished_spans()
    assert len(spans) == 6
    assert all(span.end_time == span.start_time for span in spans)
    assert not any(span.events for span in spans)


def test_refusals_have_their_code_and_paths_are_not_repeated(running, memory):
    running.http.post(
        "/v1/models/triage/predict",
        json={"rows": [{"age": "secret-value"}]},
        headers={"x-api-key": running.analyst, "traceparent": "nonsense"},
    )
    running.http.get("/secret-path?secret=query")
    refused, lost = memory.get_finished_spans()
    assert refused.attributes["reticent.code"] == "invalid_rows"
    assert refused.parent is None
    assert lost.attributes["http.response.status_code"] == 404
    assert "secret" not in refused.to_json() + lost.to_json()


def test_the_quick_way_has_spans_too(running, memory):
    import httpx

    with in_thread(running.app) as url, httpx.Client(base_url=url) as http:
        memory.clear()
        for _ in range(3):
            http.post(
                "/v1/models/triage/predict",
                json={"rows": [SECRET]},
                headers={"x-api-key": running.analyst},
            ).raise_for_status()
    names = [span.name for span in memory.get_finished_spans()]
    assert names.count("POST /v1/models/{name}/predict") == 3


def test_an_exporter_is_taken_by_its_name(monkeypatch):
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    open_traces().close()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nothing")
    with pytest.raises(InvalidParameterError, match=r"not installed .*console"):
        open_traces()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    with pytest.raises(InvalidParameterError, match=r"pigeon.*grpc, http/protobuf"):
        open_traces()
