"""Database engines whose commits are on the disk when they return."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reticent._files import check_own_file, check_own_folder
from reticent.errors import InvalidParameterError, LedgerError

# SQLAlchemy comes with an extra: the room must be importable without it.
if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import DBAPIError

# The option of connections that take the write lock when they begin.
_WRITES = "reticent_writes"

# How long a writer waits for the lock, in seconds, before it gives up.
LOCK_TIMEOUT = 30

# Statements that the driver of SQLite keeps compiled on a connection: commits insert as
# many rows as there are requests, with a text for each number.
_STATEMENTS = 256

# A commit is one synced append to the write-ahead log.
_JOURNAL, _SYNCHRONOUS = "wal", "FULL"


def open_engine(url: str | URL) -> Engine:
    """Return an engine for SQLite or PostgreSQL with durable commits."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidParameterError(
            "url must read sqlite:///path/to/ledger.db or "
            "postgresql://user@host/database."
        ) from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _open_sqlite(parsed)
    if backend in {"postgresql", "postgres"}:
        return _open_postgresql(parsed.set(drivername="postgresql+psycopg"))
    raise InvalidParameterError(
        f"url names the database {backend!r}; the ledger runs on sqlite and postgresql."
    )


def sqlite_settings() -> tuple[str, str]:
    """Return journal mode and synchronous level that lose nothing.

    From 3.7.0 to 3.51.2 a commit that restarts the log while another connection copies
    the log into the database can corrupt it (https://sqlite.org/wal.html, on the
    WAL-reset bug). Here nobody commits meanwhile: no connection copies by itself, and
    `fold_log` holds the write lock.
    """
    return _JOURNAL, _SYNCHRONOUS


def _open_sqlite(url: URL) -> Engine:
    from sqlalchemy import create_engine, event

    if url.database in {None, "", ":memory:"} or str(url.database).startswith("file:"):
        raise InvalidParameterError(
            "url must name a file, as in sqlite:///path/to/ledger.db; use MemoryLedger "
            "for a ledger in memory."
        )
    _claim_file(Path(str(url.database)))
    engine = create_engine(
        url,
        hide_parameters=True,
        connect_args={"timeout": LOCK_TIMEOUT, "cached_statements": _STATEMENTS},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _claim_file(path: Path) -> None:
    """Create the file with mode 600; refuse one that is not ours alone.

    A file that exists is not opened here: when a process closes a file, it loses all
    locks that it has on it, those of its other connections too. Another process that
    then closes the database would conclude that it is the last one, and remove the log.
    """
    check_own_folder(path.parent, "the ledger's folder")
    for suffix in ("", "-wal", "-shm", "-journal"):
        check_own_file(
            path.with_name(path.name + suffix), "the ledger file", secret=True
        )
    try:
        if not path.exists():
            _create_file(path)
        elif not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise LedgerError(
            f"the ledger file {str(path)!r} cannot be opened: {error.strerror}."
        ) from None


def _create_file(path: Path) -> None:
    """Create an empty file that is complete, and closed, when it gets its name."""
    handle, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        os.fsync(handle)
        os.close(handle)
        with contextlib.suppress(FileExistsError):  # somebody else was faster
            os.link(fresh, path)
    finally:
        os.unlink(fresh)


def _prepare_sqlite(connection: sqlite3.Connection, record: Any) -> None:
    # The begin event below opens transactions; the driver would guess when to.
    connection.isolation_level = None
    journal, synchronous = sqlite_settings()
    for setting in (
        f"synchronous={synchronous}",
        "fullfsync=ON",
        "trusted_schema=OFF",
        "cell_size_check=ON",
        "wal_autocheckpoint=0",  # see `sqlite_settings`
    ):
        connection.execute(f"PRAGMA {setting}")
    (found,) = connection.execute(f"PRAGMA journal_mode={journal}").fetchone()
    if found != journal:
        raise LedgerError(
            f"SQLite keeps journal_mode={found!r} where {journal!r} is needed; close "
            "whatever else uses the ledger."
        )


def with_write_lock(connection: Connection) -> Connection:
    """Return the connection with the option to begin as a writer."""
    return connection.execution_options(**{_WRITES: True})


def _begin_sqlite(connection: Connection) -> None:
    driver = connection.connection.driver_connection
    if driver is not None and driver.in_transaction:
        return  # of our own statements, see `reticent.ledger.sql.transactions`
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _open_postgresql(url: URL) -> Engine:
    from sqlalchemy import create_engine, event

    settings = {
        "synchronous_commit": "on",
        "lock_timeout": f"{LOCK_TIMEOUT}s",
        # A replica that hangs inside a transaction must not block the others.
        "idle_in_transaction_session_timeout": f"{2 * LOCK_TIMEOUT}s",
        # Every statement finds its rows by a key. Planning each one again takes a third
        # of the server's time, and a plan made while tables are small must still be
        # right when they are large.
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        # The penalty on scans makes plans look expensive enough to be compiled, and the
        # compilation then takes ten times as long as the statement.
        "jit": "off",
    }
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given = url.query.get("options")
    if given is not None and re.search("synchronous_commit", str(given)):
        raise LedgerError(
            "url must not set synchronous_commit; the ledger sets it to on."
        )
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_pre_ping=True,
        # Each statement after the lock must see what its last holder committed.
        isolation_level="READ COMMITTED",
        connect_args={"options": f"{given or ''} {options}".strip()},
    )
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: Any, record: Any) -> None:
    with connection.cursor() as cursor:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            (found,) = cursor.execute(f"SHOW {setting}").fetchone()
            if found != "on":
                raise LedgerError(
                    f"PostgreSQL runs with {setting}={found}, so a commit can be lost; "
                    f"set {setting}=on."
                )
    connection.rollback()


def is_transient(error: DBAPIError, *, committing: bool) -> bool:
    """Return whether nothing was written and the next attempt may succeed.

    Another writer holds the lock, or the server cannot be reached. Every other error is
    treated as a failing disk. So is a server that goes away during a commit, because
    nobody knows whether that commit took place.
    """
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        # SQLite says "busy" before it touches the file, at a commit as well.
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
    if committing:
        return False
    state = getattr(cause, "sqlstate", None)
    # No state: the connection failed. 08: it broke. 57P: the server shuts down or
    # starts. 53300: it has too many connections. 55P03: the lock was not free in time.
    return state is None or state.startswith(("08", "57P", "53300", "55P03"))


def describe_database_error(error: DBAPIError) -> str:
    """Name a database failure without quoting what was being written."""
    cause = error.orig
    name = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
    return f"{type(cause).__name__} {name or ''}".strip() + "."
