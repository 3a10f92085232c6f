"""OpenTelemetry traces: one span for each request, without contents and durations.

How long an answer takes may depend on the votes behind it, and people who read traces
have no certificate. So a span begins and ends when its request arrived. It says which
route was asked by whom, with what outcome, and under which span of the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

import reticent
from reticent.errors import InvalidParameterError, ReticentError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_EXPORTER = "OTEL_TRACES_EXPORTER"
_GROUP = "opentelemetry_traces_exporter"
# Packages of OpenTelemetry name their exporter by the protocol it speaks.
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_PROTOCOL_OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_SPOKEN = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_PARENTS = ("traceparent", "tracestate")


class Traces:
    """Makes spans.

    Parameters
    ----------
    provider : TracerProvider
        Where they go.
    """

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import (
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("reticent", reticent.__version__)
        self._parents = TraceContextTextMapPropagator()
        self._kind, self._failed = SpanKind.SERVER, StatusCode.ERROR

    def add(
        self,
        scope: Scope,
        method: str,
        route: str,
        status: int,
        request_id: str,
        outcome: dict[str, Any],
    ) -> None:
        """Add the span of a request that is over.

        Parameters
        ----------
        scope : Scope
            The scope of the request; its headers may name the caller's span.
        method, route : str
            What was asked for; the route's pattern, because a path may hold anything.
        status : int
            The status of the answer.
        request_id : str
            What the log calls it.
        outcome : dict
            The error code and the client, as in the log.
        """
        arrived = scope["reticent.arrived"]
        span = self._tracer.start_span(
            f"{method} {route}",
            context=self._parents.extract(_carried(scope)),
            kind=self._kind,
            start_time=arrived,
            attributes={
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "reticent.request_id": request_id,
                **{
                    f"reticent.{name}": outcome[name]
                    for name in ("code", "client")
                    if outcome.get(name)
                },
            },
        )
        if status >= 500:
            span.set_status(self._failed)
        span.end(arrived)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def open_traces() -> Traces:
    """Return what sends spans to the exporter that ``OTEL_TRACES_EXPORTER`` names.

    Without it this is ``otlp`` over HTTP, which comes with ``reticent[otel]``. The
    exporter reads its own variables, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``.
    """
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as missing:
        raise ReticentError(
            f"traces need {missing.name}: pip install 'reticent[otel]'."
        ) from None
    names = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "reticent")}
    provider = TracerProvider(resource=Resource.create(names))
    provider.add_span_processor(BatchSpanProcessor(exporter()()))
    return Traces(provider)


def exporter() -> Callable[[], SpanExporter]:
    """Return what makes the exporter that the environment asks for."""
    name = asked = os.environ.get(_EXPORTER) or "otlp"
    if name == "otlp":
        spoken = os.environ.get(_PROTOCOL_OF_TRACES) or os.environ.get(_PROTOCOL)
        spoken = spoken or "http/protobuf"
        if spoken not in _SPOKEN:
            raise InvalidParameterError(
                f"{_PROTOCOL}={spoken!r} must be one of {', '.join(sorted(_SPOKEN))}."
            )
        name = _SPOKEN[spoken]
    found = {each.name: each for each in entry_points(group=_GROUP)}
    try:
        made: Callable[[], SpanExporter] = found[name].load()
    except (KeyError, ImportError):
        raise InvalidParameterError(
            f"{_EXPORTER}={asked!r} needs the exporter {name!r}, which is not "
            f"installed (there are {', '.join(sorted(found)) or 'none'}). "
            "'reticent[otel]' brings otlp over HTTP; for gRPC, pip install "
            "opentelemetry-exporter-otlp-proto-grpc."
        ) from None
    return made


def _carried(scope: Scope) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name.decode("latin-1") in _PARENTS
    }
