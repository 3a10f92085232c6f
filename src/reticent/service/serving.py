"""Running the service: processes, signals, metrics, and an orderly end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import uvicorn
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Counter, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from threadpoolctl import threadpool_limits
from uvicorn.importer import import_from_string

from reticent.home import Settings
from reticent.service.app import create_app
from reticent.service.listeners import shared_listener
from reticent.service.network import Connection
from reticent.service.telemetry import configure_logging, start_metrics
from reticent.service.workers import (
    Workers,
    end_with_supervisor,
    import_before_forks,
)

_MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
# Objects that may be made, beyond those freed, before garbage is looked for.
_NEW_OBJECTS = 20_000
# How long a thread may keep the interpreter while another one waits for it.
_SWITCH_SECONDS = 0.0005


def application(config: str | os.PathLike[str] | None = None, **given: Any) -> FastAPI:
    """Return the application that settings describe; each worker calls this.

    Parameters
    ----------
    config : path or None, default=None
        The settings file, unless ``RETICENT_CONFIG`` names it; see `Settings.load`.
    **given
        Settings that override file and environment.
    """
    configure_logging()
    # A product of a few rows with the models is over before a second thread of the
    # linear algebra could help, and while such threads wait for work they keep a
    # processor busy. Workers are how a service uses more of them.
    threadpool_limits(1, user_api="blas")
    # While strangers keep the event loop busy, the thread that commits would otherwise
    # wait 5 ms for the interpreter after each of its statements.
    sys.setswitchinterval(_SWITCH_SECONDS)
    read = partial(Settings.load, config, **given)
    app = create_app(read(), reread=read)
    keep_for_good()
    return app


def keep_for_good() -> None:
    """Leave what there is out of the search for garbage, and search less often.

    Models, routes and modules stay until the process ends: searching them again and
    again would delay every request by a tenth of a second each time. Requests leave
    hardly any garbage that is not freed at once, and the usual search after 700 new
    objects took a tenth of a worker's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def serve(config: str | os.PathLike[str] | None = None, **given: Any) -> None:
    """Serve until a signal says stop.

    On SIGTERM or SIGINT no new connection is taken, requests under way are finished
    (for at most `shutdown_seconds`), and the ledger is closed.

    Parameters
    ----------
    config : path or None, default=None
        The settings file, unless ``RETICENT_CONFIG`` names it; see `Settings.load`.
    **given
        Settings that override file and environment.
    """
    settings = Settings.load(config, **given)
    if settings.workers > 1:
        _check_start(settings)
        configure_logging()  # the supervisor says which workers died
    with _shared_metrics(settings) as on_death, _exit_code_zero():
        run(
            # Workers are processes of their own and read the settings again.
            partial(application, config, **given),
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            on_death=on_death,
            log_config=None,
            server_header=False,
            date_header=True,
            forwarded_allow_ips=settings.forwarded,
            timeout_graceful_shutdown=settings.shutdown_seconds,
        )


def _check_start(settings: Settings) -> None:
    """Make the application once, and close it.

    What must not be served is refused here, and so are settings that no worker can
    start with. Workers that refuse would be started again and again.
    """
    app = create_app(settings)
    app.state.service.close()
    if app.state.traces is not None:
        app.state.traces.close()


def run(
    factory: str | Callable[[], Any],
    *,
    workers: int = 1,
    on_death: Callable[[str], None] = lambda reason: None,
    **settings: Any,
) -> None:
    """Run the application that a factory makes, in a number of processes.

    Parameters
    ----------
    factory : str or callable
        ``module:function``, or something that can be pickled for other processes.
    workers : int, default=1
        Number of processes.
    on_death : callable
        Called with the reason when a worker has to be replaced.
    **settings
        Settings of uvicorn.
    """
    _allow_connections()
    given = {
        "factory": True,
        "access_log": False,
        "backlog": 1024,
        "http": Connection,
        "ws": "none",
        **settings,
    }
    if workers == 1:
        uvicorn.run(factory, **given)
        return
    import_before_forks([__name__])
    made = partial(_in_worker, factory, dict(os.environ))
    config = uvicorn.Config(made, workers=workers, **given)
    Workers(config, [shared_listener(config)], on_death).run()


def _in_worker(factory: str | Callable[[], Any], environment: dict[str, str]) -> Any:
    """Make the application in a worker, in the environment of its supervisor."""
    # If the supervisor is killed, its workers must not continue alone.
    end_with_supervisor()
    os.environ.clear()
    os.environ.update(environment)
    made = import_from_string(factory) if isinstance(factory, str) else factory
    return made()


def _allow_connections() -> None:
    """Let this process have as many open files as it may."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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
def _shared_metrics(settings: Settings) -> Iterator[Callable[[str], None]]:
    """Add up the counters of several workers on one listener, in this process.

    Yields a function that counts the death of a worker.
    """
    if settings.workers == 1 or settings.metrics_port is None:
        yield lambda reason: None
        return
    registry = CollectorRegistry()
    # Made before the folder is known: this process counts deaths, and nobody else.
    deaths = Counter(
        "reticent_worker_deaths",
        "Workers that ended or were silent, and were replaced, by reason.",
        ["reason"],
        registry=registry,
    )
    with tempfile.TemporaryDirectory(prefix="reticent-metrics-") as folder:
        os.environ[_MULTIPROCESS] = folder
        registry.register(_Workers(Path(folder)))
        host, port = settings.metrics_host, settings.metrics_port
        _, stop = start_metrics(registry, host, port)
        try:
            yield lambda reason: deaths.labels(reason).inc()
        finally:
            stop()
            os.environ.pop(_MULTIPROCESS, None)
