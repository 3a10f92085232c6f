"""What the service's tests share: a browser, a PostgreSQL server, and the log."""

import io
import logging

import pytest

from reticent.service import telemetry
from tests.browser import browser, shared_browser
from tests.postgres import postgres_server, postgres_url

__all__ = ["browser", "postgres_server", "postgres_url", "shared_browser"]


@pytest.fixture
def lines():
    """The service's log, as it would go to standard error."""
    names = ("reticent.service", "uvicorn", "uvicorn.error", "asyncio")
    before = {
        name: (list(log.handlers), log.level, log.propagate)
        for name in names
        for log in [logging.getLogger(name)]
    }
    stream = io.StringIO()
    telemetry.configure_logging(stream)
    yield stream
    for name, (handlers, level, propagate) in before.items():
        log = logging.getLogger(name)
        log.handlers[:] = handlers
        log.setLevel(level)
        log.propagate = propagate
