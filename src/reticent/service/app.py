"""The application: routes, layers and collaborators, put together once."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import Receive, Scope, Send

import reticent
from reticent.home import KeyStore, Registry, Settings
from reticent.ledger import Ledger
from reticent.service.dashboard import install_dashboard
from reticent.service.gauges import shown_budgets
from reticent.service.reloading import marks_of, reloaded
from reticent.service.requests import problems
from reticent.service.requests.direct_routes import DirectRoutes
from reticent.service.requests.envelope import Envelope
from reticent.service.service import Service, open_service
from reticent.service.telemetry import start_metrics
from reticent.service.traces import Traces, open_traces
from reticent.service.v1.admin import admin_routes
from reticent.service.v1.documents import PredictBody, Problem
from reticent.service.v1.routes import v1_routes
from reticent.service.v2.inference import inference_routes

log = logging.getLogger("reticent.service")

# FastAPI's own error bodies.
_NEVER_SENT = ("HTTPValidationError", "ValidationError")
_DESCRIPTION = """\
Private predictions from models that never leave the machine. Every answer is
differentially private, as its certificate says, and is charged durably before it is
computed. Send an API key as `Authorization: Bearer ...` or `X-API-Key: ...`.
"""


class Application(FastAPI):
    """The framework's application behind the envelope that every request passes."""

    envelope: Envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self.envelope(scope, receive, send)

    async def routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has passed the envelope."""
        await super().__call__(scope, receive, send)


def _nobody(scope: Scope) -> bool:
    return False


def create_app(
    settings: Settings,
    *,
    ledger: Ledger | None = None,
    keys: KeyStore | None = None,
    registry: Registry | None = None,
    reread: Callable[[], Settings] | None = None,
    traces: Traces | None = None,
) -> Application:
    """Return the service as an ASGI application.

    Parameters
    ----------
    settings : Settings
        Everything it needs to know.
    ledger, keys, registry : optional
        Collaborators to use instead of those that the settings name.
    reread : callable, optional
        Reads the settings again, to notice new models; replaced ones are noticed
        without it.
    traces : Traces, optional
        Where spans go, instead of where the environment says.

    Raises
    ------
    ReticentError
        If anything would weaken privacy: a model that is unsigned, changed, open to
        others or seeded, a dataset without a budget, a ledger behind its checkpoint.

    Guarantee
    ---------
    No answer leaves before its charge and the answer itself are durable in the
    ledger; all workers and replicas on one ledger share its caps. Charges, refusals
    and errors depend on requests and budgets alone, never on a record.
    """
    served = marks_of(settings)
    service = open_service(settings, ledger=ledger, keys=keys, registry=registry)
    if traces is None and settings.traces:
        traces = open_traces()
    app = Application(
        title="reticent",
        version=reticent.__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan(
            service,
            lambda: reloaded(service, reread or (lambda: settings), served),
            traces,
        ),
        debug=False,
    )
    app.state.service, app.state.traces = service, traces
    problems.install(app)
    direct = DirectRoutes(service.answering, settings.max_body_bytes)
    app.include_router(v1_routes(service, direct))
    app.include_router(admin_routes(service))
    app.include_router(inference_routes(service, direct))
    signed_in = install_dashboard(app, service) if settings.dashboard else _nobody
    app.envelope = Envelope(
        app.routed,
        access=service.access,
        gate=service.gate,
        metrics=service.metrics,
        direct=direct,
        probes=service.probes,
        signed_in=signed_in,
        upload=settings.max_body_bytes,
        traces=traces,
    )
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _lifespan(
    service: Service, kept_up_to_date: Callable[[], Any], traces: Traces | None
) -> Any:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop = None
        settings = service.settings
        if settings.metrics_port is not None and settings.workers == 1:
            port, stop = start_metrics(
                service.metrics.registry,
                settings.metrics_host,
                settings.metrics_port,
            )
            app.state.metrics_port = port
        log.info(
            "started",
            extra={"fields": {"models": sorted(service.registry.models)}},
        )
        _warn_near_chance(service)
        try:
            async with (
                kept_up_to_date(),
                shown_budgets(service.ledger, service.metrics),
            ):
                yield
        finally:
            service.gate.closing = True
            if stop is not None:
                stop()
            service.close()
            if traces is not None:
                traces.close()
            log.info("stopped", extra={"fields": {}})

    return lifespan


def _warn_near_chance(service: Service) -> None:
    """Log which models answer hardly better than chance.

    This is a function of its own because the lifespan lasts as long as the service: a
    variable of it that named a model would keep that model after it was replaced.
    """
    for model in service.registry:
        if model.near_chance is not None:
            fields = {"model": model.name, "expected": model.near_chance}
            log.warning("near_chance", extra={"fields": fields})


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, with how keys are sent."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        components = document["components"]
        body = PredictBody.model_json_schema()
        components["schemas"]["PredictBody"] = body
        error = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        components["schemas"] |= error.pop("$defs") | {"Problem": error}
        for name in _NEVER_SENT:
            components["schemas"].pop(name, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                if any(
                    name in str(operation["responses"].get("422"))
                    for name in _NEVER_SENT
                ):
                    del operation["responses"]["422"]
                if path.startswith(("/v1/", "/v2/models")):
                    operation["security"] = [{"bearer": []}, {"header": []}]
        app.openapi_schema = document
    return app.openapi_schema
