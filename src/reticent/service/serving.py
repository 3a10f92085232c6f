"""Running the service: processes, signals, metrics, and an orderly end."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from reticent.service.app import create_app
from reticent.service.settings import CONFIG_VARIABLE, Settings
from reticent.service.telemetry import configure_logging, start_metrics

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


def application() -> FastAPI:
    """Return the application that the environment describes; each worker calls this."""
    configure_logging()
    return create_app(Settings.load())


def serve(config: str | os.PathLike[str] | None = None) -> None:
    """Serve until a signal says stop.

    On SIGTERM or SIGINT no new connection is taken, requests under way are finished
    (for at most `shutdown_seconds`), and the ledger is closed.

    Parameters
    ----------
    config : path or None, default=None
        The settings file, unless ``RETICENT_CONFIG`` names it; see `Settings.load`.
    """
    if config is not None:
        # Workers are processes of their own and read the settings again.
        os.environ[CONFIG_VARIABLE] = str(Path(config).absolute())
    settings = Settings.load()
    with _shared_metrics(settings):
        uvicorn.run(
            "reticent.service.serving:application",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=True,
            forwarded_allow_ips=settings.forwarded,
            timeout_graceful_shutdown=settings.shutdown_seconds,
            backlog=1024,
        )


@contextlib.contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    """Add up the counters of several workers on one listener, in this process."""
    if settings.workers == 1 or settings.metrics_port is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="reticent-metrics-") as folder:
        os.environ[_MULTIPROCESS] = folder
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        host, port = settings.metrics_host, settings.metrics_port
        _, stop = start_metrics(registry, host, port)
        try:
            yield
        finally:
            stop()
            os.environ.pop(_MULTIPROCESS, None)
