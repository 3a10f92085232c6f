"""Running the service: processes, signals, metrics, and an orderly end."""

from __future__ import annotations

import contextlib
import gc
import inspect
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from threadpoolctl import threadpool_limits

from reticent.home import Settings
from reticent.service.app import create_app
from reticent.service.listeners import run_workers
from reticent.service.service import open_service
from reticent.service.telemetry import configure_logging, start_metrics

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


def application(config: str | os.PathLike[str] | None = None, **given: Any) -> FastAPI:
    """Return the application that settings describe; each worker calls this.

    Parameters
    ----------
    config : path or None, default=None
        The settings file, unless ``RETICENT_CONFIG`` names it; see `Settings.load`.
    **given
        Settings that go before file and environment.
    """
    configure_logging()
    # A product of a few rows with the models is over before a second thread of the
    # linear algebra could help, and while such threads wait for work they keep a
    # processor busy. Workers are how a service uses more of them.
    threadpool_limits(1, user_api="blas")
    app = create_app(Settings.load(config, **given))
    # All this stays until the process ends. Searching it for garbage again and again
    # would delay every request by a tenth of a second each time.
    gc.collect()
    gc.freeze()
    return app


def serve(config: str | os.PathLike[str] | None = None, **given: Any) -> None:
    """Serve until a signal says stop.

    On SIGTERM or SIGINT no new connection is taken, requests under way are finished
    (for at most `shutdown_seconds`), and the ledger is closed.

    Parameters
    ----------
    config : path or None, default=None
        The settings file, unless ``RETICENT_CONFIG`` names it; see `Settings.load`.
    **given
        Settings that go before file and environment.
    """
    settings = Settings.load(config, **given)
    if settings.workers > 1:
        # What must not be served is refused here, once; workers that refuse would be
        # started again and again.
        open_service(settings).close()
    with _shared_metrics(settings), _exit_code_zero():
        run(
            # Workers are processes of their own and read the settings again.
            partial(application, config, **given),
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            log_config=None,
            server_header=False,
            date_header=True,
            forwarded_allow_ips=settings.forwarded,
            timeout_graceful_shutdown=settings.shutdown_seconds,
        )


def run(
    factory: str | Callable[[], FastAPI], *, workers: int = 1, **settings: Any
) -> None:
    """Run the application that a factory makes, in a number of processes.

    Parameters
    ----------
    factory : str or callable
        ``module:function``, or something that can be pickled for other processes.
    workers : int, default=1
        Number of processes.
    **settings
        Of uvicorn.
    """
    given = {"factory": True, "access_log": False, "backlog": 1024, **settings}
    if workers == 1:
        uvicorn.run(factory, **given)
        return
    if "timeout_worker_healthcheck" in inspect.signature(uvicorn.Config).parameters:
        # A worker imports for seconds before it answers; on a busy machine the usual
        # five are not enough, and workers would be replaced before they have begun.
        given.setdefault("timeout_worker_healthcheck", 30)
    run_workers(uvicorn.Config(factory, workers=workers, **given))


@contextlib.contextmanager
def _exit_code_zero() -> Iterator[None]:
    """Let the process end with code 0 after SIGTERM.

    uvicorn sends itself the signal again once everything is closed.
    """

    def end(number: int, frame: object) -> NoReturn:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Workers(Collector):
    """Adds up what workers counted; the gauges of those that ended are dropped."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all = MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call]

    def collect(self) -> Iterable[Metric]:
        """Return the sums."""
        for file in self._folder.glob("gauge_live*_*.db"):
            if not _lives(int(file.stem.rpartition("_")[2])):
                file.unlink(missing_ok=True)
        found: Iterable[Metric] = self._all.collect()  # type: ignore[no-untyped-call]
        return found


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def _shared_metrics(settings: Settings) -> Iterator[None]:
    """Add up the counters of several workers on one listener, in this process."""
    if settings.workers == 1 or settings.metrics_port is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="reticent-metrics-") as folder:
        os.environ[_MULTIPROCESS] = folder
        registry = CollectorRegistry()
        registry.register(_Workers(Path(folder)))
        host, port = settings.metrics_host, settings.metrics_port
        _, stop = start_metrics(registry, host, port)
        try:
            yield
        finally:
            stop()
            os.environ.pop(_MULTIPROCESS, None)
