"""Records of API keys in the ledger's database."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Executable,
    MetaData,
    Table,
    Text,
    inspect,
    select,
    update,
)
from sqlalchemy import insert as insert_into
from sqlalchemy.engine import Row
from sqlalchemy.schema import DropTable

from reticent.home.api_keys import KeyRecord, Role
from reticent.ledger import LedgerDatabase

_metadata = MetaData()
# The ledger's migrations make this table.
_keys = Table(
    "ledger_keys",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("client", Text),
    Column("role", Text),
    Column("models", Text),
    Column("created", BigInteger),
    Column("expires", BigInteger),
    Column("revoked", BigInteger),
    Column("digest", Text),
    Column("seal", Text),
)
# Where an older version kept records, without seals.
_old_keys = Table(
    "service_keys",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("client", Text),
    Column("role", Text),
    Column("models", Text),
    Column("digest", Text),
    Column("created", BigInteger),
    Column("revoked", Boolean),
)


class SQLKeys:
    """Records of keys that all workers and replicas share.

    Parameters
    ----------
    url : str
        The ledger's database: commits are as durable as charges are.
    """

    def __init__(self, url: str) -> None:
        self._database = LedgerDatabase(url)

    def add(self, record: KeyRecord) -> None:
        """Keep a new record durably."""
        self._write(insert_into(_keys).values(_row(record)))

    def find(self, key_id: str) -> KeyRecord | None:
        """Return a record by the key's public part."""
        if "\0" in key_id:  # PostgreSQL takes no such text, and no key has it
            return None
        found = self._read(select(_keys).where(_keys.c.id == key_id))
        return found[0] if found else None

    def replace(self, record: KeyRecord) -> bool:
        """Replace the record with the same id; return whether there was one."""
        here = update(_keys).where(_keys.c.id == record.id)
        return self._write(here.values(_row(record))) == 1

    def take_over(self, seal: Callable[[KeyRecord], KeyRecord]) -> None:
        """Move records of an older version under seals, in one transaction."""
        if self._database.read(_has_old_keys):
            self._database.write(lambda connection: _move(connection, seal))

    def all(self) -> list[KeyRecord]:
        """Return all records, oldest first."""
        return self._read(select(_keys).order_by(_keys.c.created, _keys.c.id))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _write(self, statement: Executable) -> int:
        return self._database.write(
            lambda connection: int(connection.execute(statement).rowcount)
        )

    def _read(self, statement: Executable) -> list[KeyRecord]:
        return self._database.read(
            lambda connection: [
                record
                for row in connection.execute(statement)
                if (record := _record(row)) is not None
            ]
        )


def _has_old_keys(connection: Connection) -> bool:
    return inspect(connection).has_table(_old_keys.name)


def _move(connection: Connection, seal: Callable[[KeyRecord], KeyRecord]) -> None:
    if not _has_old_keys(connection):
        return  # another process was quicker
    for row in connection.execute(select(_old_keys)).all():
        record = _record(row)
        if record is not None:
            connection.execute(insert_into(_keys).values(_row(seal(record))))
    connection.execute(DropTable(_old_keys))


def _row(record: KeyRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "client": record.client,
        "role": record.role.value,
        "models": None if record.models is None else json.dumps(record.models),
        "created": record.created,
        "expires": record.expires,
        "revoked": int(record.revoked),
        "digest": record.digest,
        "seal": record.seal,
    }


def _record(row: Row[Any]) -> KeyRecord | None:
    """Read a row; None if somebody edited it so that it is not a record."""
    known = row._mapping
    try:
        models = known["models"]
        return KeyRecord(
            id=known["id"],
            client=known["client"],
            role=Role(known["role"]),
            models=None if models is None else tuple(json.loads(models)),
            created=known["created"],
            expires=known.get("expires"),
            revoked=bool(known["revoked"]),
            digest=known["digest"],
            seal=known.get("seal", ""),
        )
    except (TypeError, ValueError):
        return None
