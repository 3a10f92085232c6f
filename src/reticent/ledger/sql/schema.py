"""The tables, and their migrations: forward only, one version at a time."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
    update,
)

from reticent.errors import LedgerError
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.caps import Cap
from reticent.ledger.entries import LEDGER, Entry
from reticent.ledger.sql.catalogue import check_objects
from reticent.ledger.state import LedgerState
from reticent.ledger.units import Spend

KINDS = Spend._fields

_metadata = MetaData()

meta = Table(
    "ledger_meta",
    _metadata,
    Column("id", BigInteger, primary_key=True),
    Column("version", BigInteger),
    Column("ledger", Text),
    Column("epoch", BigInteger),
)
entries = Table(
    "ledger_entries",
    _metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text),
    Column("request", Text),
    Column("settles", BigInteger),
    Column("charges", Text),
    Column("body", Text),
    Column("hash", Text),
)
marks = Table(
    "ledger_marks",
    _metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("query", Text),
    Column("account", Text),
    Column("release", BigInteger),
)
accounts = Table(
    "ledger_accounts",
    _metadata,
    Column("name", Text, primary_key=True),
    Column("cap", Text),
    *(
        Column(f"{side}_{kind}", BigInteger)
        for side in ("spent", "limit")
        for kind in KINDS
    ),
)

# One tuple of statements per version. A released version is never edited: its tables
# are on somebody's disk. `{whole}` is a 64-bit integer that can be a primary key;
# `{clustered}` asks SQLite to store rows in the order of the primary key.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE ledger_meta (
            id {whole} PRIMARY KEY CHECK (id = 1),
            version BIGINT NOT NULL,
            ledger TEXT NOT NULL,
            epoch BIGINT NOT NULL
        )""",
        """CREATE TABLE ledger_entries (
            sequence {whole} PRIMARY KEY CHECK (sequence > 0),
            kind TEXT NOT NULL,
            request TEXT UNIQUE,
            settles BIGINT UNIQUE,
            charges TEXT NOT NULL,
            body TEXT NOT NULL,
            hash TEXT NOT NULL
        )""",
        """CREATE TABLE ledger_marks (
            sequence BIGINT NOT NULL,
            position BIGINT NOT NULL,
            query TEXT NOT NULL,
            account TEXT NOT NULL,
            release BIGINT NOT NULL,
            PRIMARY KEY (sequence, position)
        ){clustered}""",
        "CREATE INDEX ledger_marks_by_query ON ledger_marks (query, account)",
        """CREATE TABLE ledger_accounts (
            name TEXT PRIMARY KEY,
            cap TEXT NOT NULL,
            spent_epsilon BIGINT NOT NULL CHECK (spent_epsilon >= 0),
            spent_delta BIGINT NOT NULL CHECK (spent_delta >= 0),
            spent_rho BIGINT NOT NULL CHECK (spent_rho >= 0),
            spent_answers BIGINT NOT NULL CHECK (spent_answers >= 0),
            limit_epsilon BIGINT NOT NULL CHECK (limit_epsilon >= 0),
            limit_delta BIGINT NOT NULL CHECK (limit_delta >= 0),
            limit_rho BIGINT NOT NULL CHECK (limit_rho >= 0),
            limit_answers BIGINT NOT NULL CHECK (limit_answers >= 0)
        )""",
    ),
    (
        """CREATE TABLE ledger_keys (
            id TEXT PRIMARY KEY,
            client TEXT NOT NULL,
            role TEXT NOT NULL,
            models TEXT,
            created BIGINT NOT NULL,
            expires BIGINT,
            revoked BIGINT NOT NULL,
            digest TEXT NOT NULL,
            seal TEXT NOT NULL
        )""",
    ),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which ledger this is, and how often its budget was written off."""

    ledger: str
    epoch: int


def version_of(connection: Connection) -> int:
    """Return the version of the tables; 0 if there are none."""
    if not inspect(connection).has_table(meta.name):
        return 0
    found = connection.execute(select(meta.c.version)).scalar()
    if found is None:
        raise LedgerError(
            "the ledger's description of itself is gone; restore a good copy."
        )
    return int(found)


def migrate(connection: Connection) -> None:
    """Bring the tables to this version, or refuse those of a later one."""
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"schema version={version} is newer than this reticent, which knows "
            f"{len(MIGRATIONS)}; use a newer reticent."
        )
    check_tables(connection, version)
    for statement in _statements(connection, MIGRATIONS[version:]):
        connection.exec_driver_sql(statement)
    if version == 0:
        _begin_chain(connection)
    elif version < len(MIGRATIONS):
        connection.execute(update(meta).values(version=len(MIGRATIONS)))


def check_tables(connection: Connection, version: int | None = None) -> None:
    """Refuse a database whose tables, indexes or triggers are not those of a version.

    Without `version`, those of this version are needed.
    """
    if version is None and version_of(connection) != len(MIGRATIONS):
        raise LedgerError(
            "the ledger's description of itself was changed; restore a good copy."
        )
    done = MIGRATIONS if version is None else MIGRATIONS[:version]
    check_objects(connection, _statements(connection, done))


def _statements(
    connection: Connection, migrations: Sequence[Sequence[str]]
) -> list[str]:
    """Return statements in the words of the database."""
    words = {"whole": "BIGINT", "clustered": ""}
    if connection.dialect.name == "sqlite":
        words = {"whole": "INTEGER", "clustered": " WITHOUT ROWID"}
    return [statement.format(**words) for step in migrations for statement in step]


def _begin_chain(connection: Connection) -> None:
    state, ledger = LedgerState(), secrets.token_hex(16)
    entry = state.append(LEDGER, {"format": 1, "ledger": ledger})
    connection.execute(insert(entries), [row_of(entry)])
    connection.execute(
        insert(meta).values(id=1, version=len(MIGRATIONS), ledger=ledger, epoch=0)
    )


def row_of(entry: Entry) -> dict[str, Any]:
    """Return an entry as a row, without its marks."""
    return {column.name: getattr(entry, column.name) for column in entries.columns}


def account_row(balance: Balance) -> dict[str, Any]:
    """Return an account as a row."""
    limits = balance.cap.limits
    return {
        "name": str(balance.account),
        "cap": balance.cap.to_json(),
        **{f"spent_{kind}": units for kind, units in balance.spent._asdict().items()},
        **{f"limit_{kind}": units for kind, units in limits._asdict().items()},
    }


def balance_of(row: Sequence[Any]) -> Balance:
    """Read an account; refuse a row whose limits are not those of its cap."""
    name, text = row[0], row[1]
    units: tuple[int, ...] = tuple(row[2:])
    try:
        account, cap = _read_account(name, text)
        sound = cap.limits == units[4:] and set(map(type, units)) == {int}
    except (AttributeError, KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise LedgerError(
            f"account={name!r} does not agree with its own cap; its row was changed. "
            "Restore a good copy and write the budget off."
        )
    return Balance(account, cap, Spend(*units[:4]))


# Each commit reads its accounts again, and names and caps hardly ever change.
@lru_cache(maxsize=4096)
def _read_account(name: str, text: str) -> tuple[AccountId, Cap]:
    account, cap = AccountId.parse(name), Cap.from_json(text)
    if cap.to_json() != text:
        raise ValueError("not the canonical text of a cap")
    return account, cap


def identity(connection: Connection) -> Identity:
    """Read which ledger this is."""
    row = connection.execute(select(meta.c.ledger, meta.c.epoch)).one()
    return Identity(row.ledger, row.epoch)
