"""Ledgers of every kind, each empty and closed after its test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from reticent.ledger import Ledger, MemoryLedger, SQLLedger
from tests.postgres import postgres_database, postgres_server, postgres_url

__all__ = ["postgres_database", "postgres_server", "postgres_url"]


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def sql_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def open_ledger() -> Iterator[Callable[..., SQLLedger]]:
    """Open ledgers that are closed after the test."""
    with ExitStack() as stack:

        def make(url: str, **settings: Any) -> SQLLedger:
            return stack.enter_context(SQLLedger(url, **settings))

        yield make


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """An empty ledger of each kind: what follows is a contract of all."""
    if request.param == "memory":
        with MemoryLedger() as made:
            yield made
    else:
        url = request.getfixturevalue(f"{request.param}_url")
        with SQLLedger(url) as made:
            yield made
