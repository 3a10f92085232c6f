"""What a database holds besides rows; anything that we did not create is refused.

A trigger can undo a charge, a rule can hide a row, an index can hide a key, and none of
them changes a hash. So the definitions are compared with those that our own migrations
make in an empty place: in memory for SQLite, among temporary tables for PostgreSQL.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from sqlalchemy import Connection

from reticent.errors import LedgerError

#: Kind, name and definition of an object.
Found: TypeAlias = set[tuple[str, ...]]

# The table of API keys before version 2 of the tables; its records are moved and it is
# dropped when the keys are opened.
OLD_KEYS = "service_keys"
_OLD_KEYS_SQL = (
    "CREATE TABLE service_keys ( id VARCHAR(16) NOT NULL, client VARCHAR(64) NOT NULL, "
    "role VARCHAR(16) NOT NULL, models VARCHAR, digest VARCHAR(64) NOT NULL, created "
    "INTEGER NOT NULL, revoked BOOLEAN NOT NULL, PRIMARY KEY (id) )"
)
_TABLE = re.compile(r"\s*CREATE TABLE (\w+)")
# Objects on our tables, with everything that decides how they behave. What we never
# make (triggers, rules, policies, children) is listed by name alone.
_POSTGRESQL = """
WITH ours AS (SELECT oid, relname FROM pg_class WHERE oid = ANY(%s::bigint[]))
SELECT 'table', relname, concat_ws(' ', c.relkind, c.relrowsecurity,
  c.relforcerowsecurity, c.relispartition, c.reloptions) FROM ours JOIN pg_class c
  USING (oid, relname)
UNION ALL SELECT 'column', ours.relname || '.' || a.attname, concat_ws(' ', a.attnum,
  format_type(a.atttypid, a.atttypmod), a.attnotnull, a.atthasdef, a.attidentity,
  a.attgenerated, a.attcollation) FROM ours JOIN pg_attribute a ON a.attrelid = ours.oid
  WHERE a.attnum > 0
UNION ALL SELECT 'index', x.relname, concat_ws(' ', ours.relname, m.amname,
  i.indisunique, i.indisprimary, i.indimmediate, i.indisvalid, i.indisready, i.indkey,
  i.indclass, i.indcollation, i.indoption, i.indpred IS NULL, i.indexprs
  IS NULL) FROM ours JOIN pg_index i ON i.indrelid = ours.oid JOIN pg_class x
  ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam
UNION ALL SELECT 'constraint', relname || '.' || k.conname, concat_ws(' ', k.contype,
  k.convalidated, k.condeferrable, pg_get_constraintdef(k.oid)) FROM ours
  JOIN pg_constraint k ON k.conrelid = ours.oid OR k.confrelid = ours.oid
UNION ALL SELECT 'trigger', relname || '.' || t.tgname, '' FROM ours JOIN pg_trigger t
  ON t.tgrelid = ours.oid
UNION ALL SELECT 'rule', relname || '.' || w.rulename, '' FROM ours JOIN pg_rewrite w
  ON w.ev_class = ours.oid
UNION ALL SELECT 'policy', relname || '.' || p.polname, '' FROM ours JOIN pg_policy p
  ON p.polrelid = ours.oid
UNION ALL SELECT 'child', relname, h.inhrelid::regclass::text FROM ours
  JOIN pg_inherits h ON h.inhparent = ours.oid OR h.inhrelid = ours.oid
"""


def check_objects(connection: Connection, statements: Sequence[str]) -> None:
    """Refuse a database with objects that these statements do not create.

    Parameters
    ----------
    connection : Connection
        To the database. SQLite's is checked as a whole; in PostgreSQL's, whatever
        concerns the tables that the statements create.
    statements : sequence of str
        All statements that made the tables so far.
    """
    if connection.dialect.name == "sqlite":
        found = _of_sqlite(connection.exec_driver_sql(_MASTER).all())
        wanted = _wanted_of_sqlite(tuple(statements))
    else:
        names = [made[1] for made in map(_TABLE.match, statements) if made]
        if not names:
            return
        _check_path(connection)
        found = _of_postgresql(connection, names, "p")
        wanted = _wanted_of_postgresql(connection, statements, names)
    strange = sorted(found ^ wanted, key=lambda each: (each not in found, each))
    if strange:
        kind, name = strange[0][:2]
        raise LedgerError(
            f"the {kind} {name!r} of the ledger's database is not as reticent made it; "
            "it was added, changed or removed by somebody else, and can undo charges. "
            "Find out who did it, then restore a good copy and write the budget off."
        )


# What statements make in a version of PostgreSQL; no other fact changes it.
_known: dict[tuple[Any, ...], Found] = {}
_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master"


def _of_sqlite(rows: Iterable[Sequence[Any]]) -> Found:
    found = {tuple(map(str, row)) for row in rows}
    old = {each for each in found if each[2] == OLD_KEYS}
    known = {
        ("table", OLD_KEYS, OLD_KEYS, _OLD_KEYS_SQL),
        ("index", f"sqlite_autoindex_{OLD_KEYS}_1", OLD_KEYS, "None"),
    }
    if {(*each[:3], " ".join(each[3].split())) for each in old} == known:
        found -= old
    return found


@lru_cache
def _wanted_of_sqlite(statements: tuple[str, ...]) -> Found:
    scratch = sqlite3.connect(":memory:")
    try:
        for statement in statements:
            scratch.execute(statement)
        return _of_sqlite(scratch.execute(_MASTER).fetchall())
    finally:
        scratch.close()


def _check_path(connection: Connection) -> None:
    """Refuse a search path under which our statements call others' functions."""
    path = str(connection.exec_driver_sql("SHOW search_path").scalar())
    named = [part.strip().strip('"') for part in path.split(",")]
    if "pg_catalog" in named[1:]:
        raise LedgerError(
            f"search_path={path!r} puts other functions before those of PostgreSQL; "
            "leave pg_catalog out of it."
        )


def _of_postgresql(connection: Connection, names: list[str], kept: str) -> Found:
    """Describe tables: there must be one of each name, stored as `kept` says."""
    rows = connection.exec_driver_sql(
        "SELECT c.oid, c.relname, c.relpersistence, c.relnamespace FROM "
        "unnest(%s::text[]) AS named (name) JOIN pg_class c ON c.oid = "
        "to_regclass(named.name)",
        (names,),
    ).all()
    if {row[1] for row in rows} != set(names) or len({row[3] for row in rows}) != 1:
        raise LedgerError(
            "the ledger's tables are not together in one schema of the database; "
            "restore a good copy."
        )
    loose = [row[1] for row in rows if row[2] != kept]
    if loose:
        raise LedgerError(
            f"PostgreSQL does not keep the table {loose[0]!r} durably; run ALTER TABLE "
            f"{loose[0]} SET LOGGED, then verify the ledger."
        )
    oids = [row[0] for row in rows]
    found = connection.exec_driver_sql(_POSTGRESQL, (oids,)).all()
    return {tuple(map(str, row)) for row in found}


def _wanted_of_postgresql(
    connection: Connection, statements: Sequence[str], names: list[str]
) -> Found:
    """Describe what the statements make, as temporary tables that are undone."""
    made = (connection.dialect.server_version_info, *statements)
    if made in _known:
        return _known[made]
    trial = connection.begin_nested()
    try:
        connection.exec_driver_sql("SET LOCAL search_path TO pg_temp")
        for statement in statements:
            connection.exec_driver_sql(statement)
        _known[made] = _of_postgresql(connection, names, "t")
    finally:
        trial.rollback()
    return _known[made]
