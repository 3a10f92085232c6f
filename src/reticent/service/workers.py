"""Several workers on one address: started, watched, replaced, ended together.

A worker is a fork of a process that has imported the service and done nothing else, so
it starts in a fraction of the time that the imports take. That process has no threads,
no connections and no randomness that two forks could share.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process

log = logging.getLogger("reticent.service")

# A worker imports, loads models and verifies the ledger before it serves. On a busy
# machine that takes minutes; one that is replaced meanwhile has to begin again.
_START_SECONDS = 900.0
# A worker that serves answers the supervisor from a thread of its own.
_SILENT_SECONDS = 60.0
_PARENT_SECONDS = 0.5
# Windows cannot fork; a worker there imports everything itself.
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
_starting: Any = multiprocessing.get_context("forkserver" if _FORKS else "spawn")


def import_before_forks(modules: list[str]) -> None:
    """Import modules once, in the process that workers are forked from.

    Parameters
    ----------
    modules : list of str
        Names of modules, none of which may start a thread when it is imported.
    """
    if _FORKS:
        _starting.set_forkserver_preload(modules)


class Worker(Process):
    """uvicorn's worker, as a fork of a process that has imported the service."""

    def __init__(self, config: uvicorn.Config, sockets: list[Any]) -> None:
        super().__init__(config, sockets)
        told = (config, self.target, sockets)
        self.process = _starting.Process(target=_serve, args=told)


def _serve(
    config: uvicorn.Config, target: Callable[..., None], sockets: list[Any]
) -> None:
    """Serve in a new process, until a signal says stop."""
    config.configure_logging()
    with contextlib.suppress(KeyboardInterrupt):
        target(sockets=sockets)


class Workers(Multiprocess):
    """uvicorn's supervisor with patience, which logs and counts the deaths of workers.

    Parameters
    ----------
    config : uvicorn.Config
        What each worker runs.
    sockets : list of socket
        Where they listen.
    on_death : callable
        Called for each worker that has ended or was ended, with the reason.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sockets: list[Any],
        on_death: Callable[[str], None],
    ) -> None:
        super().__init__(config, sockets)
        self._on_death = on_death
        self._heard: dict[Process, tuple[bool, float]] = {}

    def init_processes(self) -> None:
        """Start all workers."""
        self.processes = [
            Worker(self.config, self.sockets) for _ in range(self.processes_num)
        ]
        for process in self.processes:
            process.start()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that ended, or that have been silent for too long."""
        for place, process in enumerate(self.processes):
            if self.should_exit.is_set():
                return
            reason = self._reason(process)
            if reason is None:
                continue
            process.kill()
            process.join()
            self._heard.pop(process, None)
            fields = {
                "worker": process.pid,
                "reason": reason,
                "exit_code": process.exitcode,
            }
            log.error("worker_died", extra={"fields": fields})
            self._on_death(reason)
            if process.exitcode == STARTUP_FAILURE:
                log.error("workers_cannot_start", extra={"fields": {}})
                self.should_exit.set()  # the next one would fail in the same way
                return
            self.processes[place] = Worker(self.config, self.sockets)
            self.processes[place].start()

    def _reason(self, process: Process) -> str | None:
        """Return why a worker must be replaced; None if there is no reason."""
        if not process.process.is_alive():
            return "ended"
        now = time.monotonic()
        started, heard = self._heard.setdefault(process, (False, now))
        if process.ping(timeout=0.1):
            started = started or process.is_ready(timeout=0.1)
            self._heard[process] = (started, now)
            return None
        allowed = _SILENT_SECONDS if started else _START_SECONDS
        return "silent" if now - heard > allowed else None


def end_with_supervisor() -> None:
    """End this process when its supervisor has ended, however that happened.

    It also ends with the process that it was forked from: without that process the
    supervisor does not know whether this one still serves, and has replaced it.
    """
    supervisor, forked_from = multiprocessing.parent_process(), os.getppid()
    if supervisor is None:
        raise RuntimeError("this process is not a worker")

    def watch() -> None:
        while supervisor.is_alive() and os.getppid() == forked_from:
            time.sleep(_PARENT_SECONDS)
        log.error("supervisor_died", extra={"fields": {"supervisor": supervisor.pid}})
        os.kill(os.getpid(), signal.SIGTERM)  # requests under way are finished

    threading.Thread(target=watch, name="supervisor", daemon=True).start()
