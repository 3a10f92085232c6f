"""Databases that are shared between processes."""

from tests.ledger.conftest import sql_url, sqlite_url
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url", "sql_url", "sqlite_url"]
