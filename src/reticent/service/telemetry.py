"""Structured logs and counters: codes, counts and account names, nothing else."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, TextIO
from wsgiref.simple_server import WSGIServer

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

log = logging.getLogger("reticent.service")
_encode = msgspec.json.encode
_LOOP = "asyncio"  # the logger of event loops


class RequestRecord(logging.LogRecord):
    """The record of requests that were answered together: what is shown, no more.

    Parameters
    ----------
    lines : list of dict or str
        What the line of each says; or the same as fields of JSON, in ASCII.
    """

    def __init__(self, lines: Sequence[dict[str, Any] | str]) -> None:
        # Looking for the caller, its thread and its task costs more than the line.
        # Formatters of others find what they look for.
        self.__dict__.update(_SAME)
        self.created = time.time()
        self.lines = lines


_SAME: dict[str, Any] = {
    **dict.fromkeys(
        ["args", "exc_info", "exc_text", "stack_info", "process", "processName"]
    ),
    **dict.fromkeys(("thread", "threadName", "taskName")),
    "name": log.name,
    "msg": "request",
    "levelname": "INFO",
    "levelno": logging.INFO,
    "pathname": "envelope.py",
    "filename": "envelope.py",
    "module": "envelope",
    "funcName": "request",
    "lineno": 0,
    "msecs": 0.0,
    "relativeCreated": 0.0,
}


class JSONLines(logging.Formatter):
    """One JSON object per line; an exception is shown as its type, without message."""

    def __init__(self) -> None:
        super().__init__()
        self._second = (-1, "")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record, or one for each request of it."""
        if isinstance(record, RequestRecord):
            return "\n".join(self._of_requests(record))
        line: dict[str, Any] = {
            "time": self._time(int(record.created)),
            "level": record.levelname.lower(),
            "event": _event(record),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["where"] = places_of(record.exc_info[2])
        return json.dumps(line, default=str, separators=(",", ":"))

    def _of_requests(self, record: RequestRecord) -> Iterator[str]:
        about = {
            "time": self._time(int(record.created)),
            "level": "info",
            "event": record.msg,
        }
        beginning = json.dumps(about, separators=(",", ":"))[:-1]
        for fields in record.lines:
            if isinstance(fields, str):
                yield f"{beginning},{fields}}}"
                continue
            line = {**about, **fields}
            text = _encode(line, enc_hook=str).decode()
            yield (
                text
                if text.isascii()
                else json.dumps(line, default=str, separators=(",", ":"))
            )

    def _time(self, second: int) -> str:
        known, text = self._second
        if known != second:
            text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
            self._second = (second, text)
        return text


def _event(record: logging.LogRecord) -> str:
    if record.name == _LOOP:
        # Its messages quote callbacks with their arguments, tasks and errors.
        return "event loop"
    return record.msg if isinstance(record.msg, str) else "log"


def places_of(trace: TracebackType | None) -> list[str]:
    """Return the last lines of code that an error passed, without its message."""
    frames = traceback.extract_tb(trace)
    where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in frames]
    return where[-6:]


def configure_logging(stream: TextIO | None = None) -> None:
    """Send the service's log, as JSON lines, to a stream; standard error by default.

    uvicorn's own loggers go the same way: their messages are fixed sentences, and
    their arguments, which may quote addresses and queries, are left out. Of what fails
    on the event loop, outside of a request, the type and place are logged.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JSONLines())
    for name, level in (
        ("reticent.service", logging.INFO),
        ("reticent.home", logging.INFO),
        ("uvicorn", logging.WARNING),
        ("uvicorn.error", logging.WARNING),
        (_LOOP, logging.WARNING),
    ):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False


class Metrics:
    """Counters that depend on requests and budgets, never on records.

    There are no latencies: how long an answer takes may depend on the votes behind
    it, and a scraper needs no certificate.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "reticent_requests",
            "Requests by route, status and error code.",
            ["route", "status", "code"],
            registry=self.registry,
        )
        self.answers = Counter(
            "reticent_answers",
            "Answers sent, by model; drawn ones were charged, others remembered.",
            ["model", "source"],
            registry=self.registry,
        )
        self.evidence = Counter(
            "reticent_evidence",
            "Evidence that came with lasting answers, added up, by model; replies with "
            "a negative sum count as 0, so over the number of answers it is their mean "
            "or more.",
            ["model"],
            registry=self.registry,
        )
        self.shed = Counter(
            "reticent_shed",
            "Requests refused before any charge, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.budget = Gauge(
            "reticent_budget_spent_share",
            "The share of its budget that an account has spent: datasets and models.",
            ["account"],
            registry=self.registry,
            multiprocess_mode="livemax",
        )
        self.in_flight = Gauge(
            "reticent_in_flight",
            "Requests being answered.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._children: dict[tuple[str, str, str], Any] = {}

    def count(self, route: str, status: int, code: str, requests: int = 1) -> None:
        """Count requests."""
        key = (route, str(status), code)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = self.requests.labels(*key)
        child.inc(requests)


def start_metrics(
    registry: CollectorRegistry, host: str, port: int
) -> tuple[int, Callable[[], None]]:
    """Serve metrics on a listener of their own; return its port and how to stop it."""
    started: tuple[WSGIServer, threading.Thread] = start_http_server(
        port, addr=host, registry=registry
    )
    server, thread = started

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return int(server.server_port), stop
