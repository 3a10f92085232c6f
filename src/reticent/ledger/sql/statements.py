"""The few statements of an ordinary commit, as SQL text.

During a commit every other writer waits, so nothing is compiled then, and as much as
possible is read or written in one statement: with PostgreSQL each statement is a round
trip to the server, under a lock that all replicas share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
# Rows in one INSERT of SQLite, whose driver keeps the statements of all widths.
_MOST_ROWS = 64

#: What is read of an account.
ACCOUNT_COLUMNS = (
    "a.name, a.cap, a.spent_epsilon, a.spent_delta, a.spent_rho, a.spent_answers, "
    "a.limit_epsilon, a.limit_delta, a.limit_rho, a.limit_answers"
)
_ENTRIES = "sequence, kind, request, settles, charges, body, hash"
_N_ENTRY = 7  # fields of an `Entry` before its marks
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


class Statement(NamedTuple):
    """A statement with its parameters."""

    text: str
    values: Sequence[Any] = ()


#: Reads what a checkpoint says besides the head: the identity, and every account.
_SNAPSHOT = (
    Statement("SELECT ledger, epoch FROM ledger_meta"),
    Statement(f"SELECT {ACCOUNT_COLUMNS} FROM ledger_accounts a"),  # noqa: S608
)
Snapshot: TypeAlias = list[list[tuple[Any, ...]]]

#: Takes the lock that all replicas share, until the transaction ends.
TAKE_LOCK = Statement("SELECT pg_advisory_xact_lock(hashtext('reticent.ledger'))")


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
    chained = [entry[:_N_ENTRY] for entry in entries]
    inserts = [
        *_insertions("ledger_entries", _ENTRIES, chained),
        *_insertions("ledger_marks", _MARKS, _mark_rows(entries)),
    ]
    run(connection, inserts)
    charges = [Statement(_SQLITE_SPEND, (*cost, name)) for name, cost in spends]
    return changed_rows(connection, charges) == [1] * len(spends)


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


def _insertions(
    table: str, columns: str, rows: list[tuple[Any, ...]]
) -> Iterator[Statement]:
    """Yield statements that insert rows, as few as the widths of statements allow.

    A statement per row would release the interpreter's lock each time. A row that
    cannot be inserted ends the transaction; otherwise SQLite would copy each page
    before it is changed, in order to undo this statement alone.
    """
    for start in range(0, len(rows), _MOST_ROWS):
        some = rows[start : start + _MOST_ROWS]
        text = _insertion(table, columns, len(some))
        yield Statement(text, tuple(chain.from_iterable(some)))


@lru_cache(maxsize=2 * _MOST_ROWS)
def _insertion(table: str, columns: str, width: int) -> str:
    places = "(" + ", ".join("?" for _ in columns.split(",")) + ")"
    return (
        f"INSERT OR ROLLBACK INTO {table} ({columns}) "  # noqa: S608
        f"VALUES {', '.join([places] * width)}"
    )


def _rows(
    connection: Connection, statement: str, values: tuple[int, int]
) -> list[tuple[Any, ...]]:
    place = "?" if connection.dialect.name == "sqlite" else "%s"
    return run(connection, [Statement(statement.format(place, place), values)])[0]


def run(
    connection: Connection, statements: Sequence[Statement]
) -> list[list[tuple[Any, ...]]]:
    """Run statements in order, on PostgreSQL in one round trip; return rows of each.

    On the driver's own connection, in the same transaction. Its rows are plain tuples.
    SQLAlchemy's work around a statement takes longer than most of our statements.
    """
    dialect, driver = connection.dialect, _driver(connection)
    try:
        if dialect.name == "sqlite":
            return [driver.execute(*statement).fetchall() for statement in statements]
        from reticent.ledger.sql.pipeline import run_pipelined

        prepared = connection.info.setdefault(_PREPARED, {})
        return run_pipelined(driver, statements, prepared)
    except dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None


def changed_rows(connection: Connection, statements: Sequence[Statement]) -> list[int]:
    """Run statements on SQLite; return how many rows each of them changed."""
    driver = _driver(connection)
    try:
        return [driver.execute(*statement).rowcount for statement in statements]
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(None, None, error, hide_parameters=True) from None


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection
