"""The few statements of an ordinary commit, as SQL text.

During a commit every other writer waits, so nothing is compiled then, and as much as
possible is read or written in one statement: with PostgreSQL each statement is a round
trip to the server, under a lock that all replicas share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError
from reticent.ledger.entries import Entry
from reticent.ledger.sql.arrays import array_literal
from reticent.ledger.sql.schema import KINDS
from reticent.ledger.units import MAX_UNITS, Spend

T = TypeVar("T")

_PREPARED = "reticent_prepared"  # where a connection keeps its statements' names
# Values in one IN (...), far below the limits of databases.
CHUNK = 500
# Rows in one INSERT of SQLite, which numbers its parameters up to 32,766.
_MOST_ROWS = 256

_HEAD = "SELECT sequence, hash FROM ledger_entries ORDER BY sequence DESC LIMIT 1"
_ACCOUNTS = (
    "a.name, a.cap, a.spent_epsilon, a.spent_delta, a.spent_rho, a.spent_answers, "
    "a.limit_epsilon, a.limit_delta, a.limit_rho, a.limit_answers"
)
_CHARGED = "SELECT NULL, NULL, NULL, sequence, NULL, NULL FROM ledger_entries"
_ENTRIES = "sequence, kind, request, settles, charges, body, hash"
_MARKS = "sequence, position, query, account, release"
# The database checks once more: no row changes if a cap would be exceeded.
_SPENT = ", ".join(f"spent_{kind} = spent_{kind} + {{{kind}}}" for kind in KINDS)
_FITS = {kind: f"spent_{kind} + {{{kind}}} <= limit_{kind}" for kind in KINDS}
# Where both sums are limited one of them may be exceeded, see `Cap.allows`.
_BOTH = f"limit_epsilon < {MAX_UNITS} AND limit_rho < {MAX_UNITS}"
_WITHIN = (
    "{delta} AND {answers} AND ({epsilon} AND {rho} OR %s AND ({epsilon} OR {rho}))"
)
_WITHIN = (_WITHIN % _BOTH).format(**_FITS)

_SQLITE_SPEND = (
    f"UPDATE ledger_accounts SET {_SPENT} WHERE name = ?5 AND {_WITHIN}"  # noqa: S608
).format(**{kind: f"?{place}" for place, kind in enumerate(KINDS, 1)})
_COSTS = {kind: f"cost.{kind}" for kind in KINDS}
_POSTGRESQL_WRITE = f"""WITH
 chained AS (INSERT INTO ledger_entries ({_ENTRIES}) SELECT * FROM unnest(
  %s::bigint[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[],
  %s::text[])),
 noted AS (INSERT INTO ledger_marks ({_MARKS}) SELECT * FROM unnest(
  %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::bigint[])),
 spent AS (UPDATE ledger_accounts SET {_SPENT.format(**_COSTS)} FROM unnest(
  %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
  AS cost (account, {", ".join(KINDS)})
  WHERE name = cost.account AND {_WITHIN.format(**_COSTS)} RETURNING 1)
 SELECT 1 / (count(*) = %s::bigint)::int FROM spent"""  # noqa: S608
# The error if fewer accounts were charged than asked for; nothing is committed then.
_DIVISION_BY_ZERO = "22012"


class Trace(NamedTuple):
    """Where a query was drawn or paid for, or (`query` None) a request was charged."""

    query: str | None
    account: str | None
    release: int | None
    sequence: int
    position: int | None
    settled: int | None


class Statement(NamedTuple):
    """A statement with its parameters."""

    text: str
    values: Sequence[Any] = ()


#: Reads what a checkpoint says besides the head: the identity, and every account.
_SNAPSHOT = (
    Statement("SELECT ledger, epoch FROM ledger_meta"),
    Statement(f"SELECT {_ACCOUNTS} FROM ledger_accounts a"),  # noqa: S608
)
Snapshot: TypeAlias = list[list[tuple[Any, ...]]]

#: Takes the lock that all replicas share, until the transaction ends.
TAKE_LOCK = Statement("SELECT pg_advisory_xact_lock(hashtext('reticent.ledger'))")


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
            f"SELECT h.sequence, h.hash, m.ledger, m.epoch, {_ACCOUNTS} "  # noqa: S608
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


def entries_after(
    connection: Connection, after: int, most: int
) -> list[tuple[Any, ...]]:
    """Return the rows that follow a sequence, in order, without their marks."""
    return _rows(
        connection,
        f"SELECT {_ENTRIES} FROM ledger_entries WHERE sequence > {{0}} "  # noqa: S608
        "ORDER BY sequence LIMIT {1}",
        (after, most),
    )


def marks_between(
    connection: Connection, after: int, last: int
) -> list[tuple[Any, ...]]:
    """Return the rows of marks of entries after one sequence up to another."""
    return _rows(
        connection,
        f"SELECT {_MARKS} FROM ledger_marks WHERE sequence > {{0}} "  # noqa: S608
        "AND sequence <= {1} ORDER BY sequence, position",
        (after, last),
    )


def write(
    connection: Connection,
    entries: Sequence[Entry],
    spends: Sequence[tuple[str, Spend]],
    *,
    commit: bool = False,
    snapshot: bool = False,
) -> Snapshot:
    """Append entries with their marks and charge accounts.

    With `snapshot`, return the rows of `ledger_meta` and of all accounts afterwards.
    With `commit`, PostgreSQL commits in the same round trip; SQLite's caller commits.
    """
    then = list(_SNAPSHOT) if snapshot else []
    if connection.dialect.name == "sqlite":
        if _write_sqlite(connection, entries, spends):
            return run(connection, then)
    else:
        found = _write_postgresql(connection, entries, spends, then, commit=commit)
        if found is not None:
            return found
    raise LedgerError("an account changed under the ledger's lock.")


def _write_sqlite(
    connection: Connection,
    entries: Sequence[Entry],
    spends: Sequence[tuple[str, Spend]],
) -> bool:
    _insert(
        connection,
        "ledger_entries",
        _ENTRIES,
        [
            (e.sequence, e.kind, e.request, e.settles, e.charges, e.body, e.hash)
            for e in entries
        ],
    )
    _insert(connection, "ledger_marks", _MARKS, _mark_rows(entries))
    if not spends:
        return True
    changes = [(*cost, name) for name, cost in spends]
    with _driver(connection) as driver:
        changed: int = driver.executemany(_SQLITE_SPEND, changes).rowcount
    return changed == len(spends)


def _write_postgresql(
    connection: Connection,
    entries: Sequence[Entry],
    spends: Sequence[tuple[str, Spend]],
    then: list[Statement],
    *,
    commit: bool,
) -> Snapshot | None:
    columns: list[Sequence[Any]] = [
        [e.sequence for e in entries],
        [e.kind for e in entries],
        [e.request for e in entries],
        [e.settles for e in entries],
        [e.charges for e in entries],
        [e.body for e in entries],
        [e.hash for e in entries],
        *_as_columns(_mark_rows(entries), 5),
        *_as_columns([(name, *cost) for name, cost in spends], 5),
    ]
    from reticent.ledger.sql.pipeline import COMMIT

    first = Statement(_POSTGRESQL_WRITE, [*map(array_literal, columns), len(spends)])
    last = [Statement(COMMIT)] if commit else []
    try:
        found = run(connection, [first, *then, *last])
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _DIVISION_BY_ZERO:
            return None
        raise
    return found[1 : 1 + len(then)]


def _mark_rows(entries: Sequence[Entry]) -> list[tuple[Any, ...]]:
    return [
        (entry.sequence, position, *mark)
        for entry in entries
        for position, mark in enumerate(entry.marks)
    ]


def _as_columns(rows: list[tuple[Any, ...]], width: int) -> Sequence[Sequence[Any]]:
    """Return rows as columns; `width` empty ones if there are no rows."""
    return list(zip(*rows, strict=True)) or [()] * width


def chunks(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield values in lists that fit a statement."""
    listed = list(values)
    for start in range(0, len(listed), CHUNK):
        yield listed[start : start + CHUNK]


def _insert(
    connection: Connection, table: str, columns: str, rows: list[tuple[Any, ...]]
) -> None:
    """Insert rows in statements whose widths are powers of two, so few texts occur.

    A statement per row would release the interpreter's lock each time.
    """
    start = 0
    while start < len(rows):
        width = min(1 << ((len(rows) - start).bit_length() - 1), _MOST_ROWS)
        values = tuple(chain.from_iterable(rows[start : start + width]))
        run(connection, [Statement(_insertion(table, columns, width), values)])
        start += width


@lru_cache
def _insertion(table: str, columns: str, width: int) -> str:
    places = "(" + ", ".join("?" for _ in columns.split(",")) + ")"
    return f"INSERT INTO {table} ({columns}) VALUES {', '.join([places] * width)}"  # noqa: S608


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


def _rows(
    connection: Connection, statement: str, values: tuple[int, int]
) -> list[tuple[Any, ...]]:
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    return run(connection, [Statement(statement.format(place, place), values)])[0]


def run(
    connection: Connection, statements: Sequence[Statement]
) -> list[list[tuple[Any, ...]]]:
    """Run statements in order, on PostgreSQL in one round trip; return rows of each."""
    with _driver(connection) as driver:
        if connection.dialect.name == "sqlite":
            return [driver.execute(*statement).fetchall() for statement in statements]
        from reticent.ledger.sql.pipeline import run_pipelined

        prepared = connection.info.setdefault(_PREPARED, {})
        return run_pipelined(driver, statements, prepared)


@contextmanager
def _driver(connection: Connection) -> Iterator[Any]:
    """Give the driver's own connection, in the same transaction.

    Its rows are plain tuples. SQLAlchemy's work around a statement takes longer than
    most of our statements.
    """
    dialect = connection.dialect
    try:
        yield connection.connection.driver_connection
    except dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None
