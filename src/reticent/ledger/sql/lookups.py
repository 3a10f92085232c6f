"""What a commit reads before anything is decided, in as few statements as possible."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import Connection

from reticent.ledger.sql.arrays import array_literal
from reticent.ledger.sql.statements import (
    ACCOUNT_COLUMNS,
    CHUNK,
    TAKE_LOCK,
    Statement,
    chunks,
    run,
)

_HEAD = "SELECT sequence, hash FROM ledger_entries ORDER BY sequence DESC LIMIT 1"
_CHARGED = "SELECT NULL, NULL, NULL, sequence, NULL, NULL FROM ledger_entries"


class Trace(NamedTuple):
    """Where a query was drawn or paid for, or (`query` None) a request was charged."""

    query: str | None
    account: str | None
    release: int | None
    sequence: int
    position: int | None
    settled: int | None


class Found(NamedTuple):
    """What a commit reads before its operations are decided."""

    head: tuple[int, str] | None
    #: The ledger's name, and how often its budget was written off.
    identity: tuple[str, int]
    accounts: list[tuple[Any, ...]]
    traces: list[Trace]
    #: Hashes of the charges in question that have no answer yet.
    unanswered: dict[int, str]


def read_rows(
    connection: Connection,
    accounts: Iterable[str] = (),
    requests: Iterable[str] = (),
    queries: Iterable[str] = (),
    charges: Iterable[int] = (),
    *,
    lock: bool = False,
) -> Found:
    """Read the head, accounts, and what is known of requests, queries and charges.

    With `lock`, take the write lock first; SQLite took it when the transaction began.
    """
    names = list(accounts)
    first = [TAKE_LOCK] if lock and connection.dialect.name != "sqlite" else []
    heads = _heads(connection, names)
    traced = _traces(connection, requests, queries, names)
    waiting = _unanswered(connection, charges)
    found = run(connection, [*first, *heads, *traced, *waiting])[len(first) :]
    about_heads = [*chain.from_iterable(found[: len(heads)])]
    about_traces = chain.from_iterable(found[len(heads) : len(heads) + len(traced)])
    hashes = chain.from_iterable(found[len(heads) + len(traced) :])
    return Found(
        about_heads[0][:2] if about_heads else None,
        about_heads[0][2:4] if about_heads else ("", 0),
        [row[4:] for row in about_heads if row[4] is not None],
        [*map(Trace._make, about_traces)],
        dict(hashes),
    )


def _heads(connection: Connection, names: list[str]) -> list[Statement]:
    """Ask for the last entry and the rows of named accounts, head first in each."""
    statements = []
    for chunk in chunks(names or [""]):
        among, values = _among(connection, "a.name", chunk)
        statement = (
            f"SELECT h.sequence, h.hash, m.ledger, m.epoch, {ACCOUNT_COLUMNS} "  # noqa: S608
            f"FROM ({_HEAD}) h CROSS JOIN ledger_meta m "
            f"LEFT JOIN ledger_accounts a ON {among}"
        )
        statements.append(Statement(statement, values))
    return statements


def _traces(
    connection: Connection,
    requests: Iterable[str],
    queries: Iterable[str],
    accounts: Iterable[str],
) -> list[Statement]:
    """Ask what is known of requests and queries, but not who else paid to see them."""
    if connection.dialect.name == "sqlite":
        queries = _known(connection, queries)
    statements, payers, used = [], ["", *accounts], list(requests)
    for chunk in chunks(queries):
        by_query, asked = _among(connection, "m.query", chunk)
        by_account, paid = _among(connection, "m.account", payers)
        statement = (
            "SELECT m.query, m.account, m.release, m.sequence, m.position, "  # noqa: S608
            "e.sequence FROM ledger_marks m "
            "LEFT JOIN ledger_entries e ON e.settles = m.sequence "
            f"WHERE {by_query} AND {by_account}"
        )
        some, used = used[:CHUNK], used[CHUNK:]
        keys: list[Any] = []
        if some:
            by_key, keys = _among(connection, "request", some)
            statement += f" UNION ALL {_CHARGED} WHERE {by_key}"
        statements.append(Statement(statement, asked + paid + keys))
    for some in chunks(used):
        by_key, keys = _among(connection, "request", some)
        statements.append(Statement(f"{_CHARGED} WHERE {by_key}", keys))
    return statements


def _known(connection: Connection, queries: Iterable[str]) -> list[str]:
    """Return the queries that SQLite knows anything about: most are new.

    It is asked once per query then, and not once per query and account.
    """
    found: list[str] = []
    for chunk in chunks(queries):
        width = 1 << (len(chunk) - 1).bit_length()
        padded = chunk + chunk[:1] * (width - len(chunk))
        (rows,) = run(connection, [Statement(_probe(width), padded)])
        found += {row[0] for row in rows}
    return found


@lru_cache
def _probe(width: int) -> str:
    return (
        "SELECT v.column1 FROM (VALUES "  # noqa: S608
        f"{', '.join(['(?)'] * width)}) v WHERE EXISTS "
        "(SELECT 1 FROM ledger_marks m WHERE m.query = v.column1)"
    )


def _unanswered(connection: Connection, charges: Iterable[int]) -> list[Statement]:
    """Ask for the hashes of those charges that have no answer yet."""
    statements = []
    for chunk in chunks(charges):
        among, values = _among(connection, "e.sequence", chunk)
        statement = (
            "SELECT e.sequence, e.hash FROM ledger_entries e "  # noqa: S608
            "LEFT JOIN ledger_entries a ON a.settles = e.sequence "
            f"WHERE a.sequence IS NULL AND {among}"
        )
        statements.append(Statement(statement, values))
    return statements


def _among(
    connection: Connection, column: str, values: list[Any]
) -> tuple[str, list[Any]]:
    """Return a condition that a column is one of some values, and its parameters.

    Drivers prepare each text once, so there should be few of them: lists are padded to
    a power of two by repeating a value.
    """
    if connection.dialect.name != "sqlite":
        kind = "bigint" if isinstance(values[0], int) else "text"
        return f"{column} = ANY(%s::{kind}[])", [array_literal(values)]
    width = 1 << (len(values) - 1).bit_length()
    return _places(column, width), values + values[:1] * (width - len(values))


@lru_cache
def _places(column: str, width: int) -> str:
    return f"{column} IN ({', '.join('?' * width)})"
