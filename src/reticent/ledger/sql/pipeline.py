"""Several statements in one round trip to PostgreSQL, by libpq's pipeline mode.

The driver's cursors take longer to send most of our statements than the server takes
to run them, and all replicas wait meanwhile: for one commit of five statements,
`psycopg.Connection.pipeline` took 3 to 5 times the processor time of this module.
Little of what cursors do is needed: statements are prepared once per connection,
parameters are texts, and rows hold whole numbers and texts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

#: The names under which a connection has prepared statements, by text.
Prepared: TypeAlias = dict[str, bytes]
Row: TypeAlias = tuple[Any, ...]

#: If a statement failed before, PostgreSQL rolls back instead, without an error.
COMMIT = "COMMIT"

_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


def run_pipelined(
    driver: psycopg.Connection[Any],
    asks: Sequence[tuple[str, Sequence[Any]]],
    prepared: Prepared,
) -> list[list[Row]]:
    """Run statements in order, none after one that fails; return the rows of each.

    A transaction is begun if there is none. Statements have ``%s`` where their
    parameters go.
    """
    connection, asked = driver.pgconn, list(asks)
    begins = connection.transaction_status == TransactionStatus.IDLE
    if begins:
        asked.insert(0, (_beginning(driver), ()))
    new: Prepared = {}
    connection.enter_pipeline_mode()
    try:
        first = [_send(connection, *ask, prepared, new) for ask in asked]
        connection.pipeline_sync()
        results = iter(driver.wait(_answers(connection)))
    finally:
        with contextlib.suppress(psycopg.OperationalError):  # it broke: said already
            connection.exit_pipeline_mode()
    found = []
    for (statement, _), prepares in zip(asked, first, strict=True):
        if prepares:
            _checked(next(results))
            prepared[statement] = new[statement]
        result = _checked(next(results))
        if statement == COMMIT and result.command_status != b"COMMIT":
            raise psycopg.OperationalError("the transaction was not committed")
        found.append(_rows(result))
    return found[begins:]


def _beginning(driver: psycopg.Connection[Any]) -> str:
    level = driver.isolation_level
    wanted = f" ISOLATION LEVEL {level.name.replace('_', ' ')}" if level else ""
    return f"BEGIN{wanted}"


def _send(
    connection: PGconn,
    statement: str,
    values: Sequence[Any],
    prepared: Prepared,
    new: Prepared,
) -> bool:
    """Send a statement; return whether this call prepared it."""
    name = prepared.get(statement) or new.get(statement)
    prepares = name is None
    if name is None:
        name = new[statement] = b"reticent_%d" % (len(prepared) + len(new))
        first, *others = statement.split("%s")
        numbered = (f"${place}{text}" for place, text in enumerate(others, 1))
        connection.send_prepare(name, (first + "".join(numbered)).encode())
    connection.send_query_prepared(name, [str(value).encode() for value in values])
    return prepares


def _answers(connection: PGconn) -> PQGen[list[PGresult]]:
    """Collect the server's results until the end of the pipeline."""
    results: list[PGresult] = []
    while connection.flush():
        if (yield Wait.RW) & Ready.R:
            connection.consume_input()
    while True:
        while connection.is_busy():
            yield Wait.R
            connection.consume_input()
        result = connection.get_result()
        if result is None:  # the end of one statement's results
            if connection.status != ConnStatus.OK:
                raise psycopg.OperationalError("the connection was lost")
        elif result.status == ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)


def _checked(result: PGresult) -> PGresult:
    if result.status not in _GOOD:
        raise psycopg.errors.error_from_result(result)
    return result


def _rows(result: PGresult) -> list[Row]:
    # Of no connection, so that texts are read as they are sent: always in UTF-8.
    reader = Transformer()
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)
