"""Records of API keys in the ledger's database."""

from __future__ import annotations

import json

from sqlalchemy import (
    Boolean,
    Column,
    Executable,
    Integer,
    MetaData,
    String,
    Table,
    select,
    update,
)
from sqlalchemy import insert as insert_into
from sqlalchemy.engine import Row
from sqlalchemy.schema import CreateTable

from reticent.home.api_keys import KeyRecord, Role
from reticent.ledger import LedgerDatabase

_metadata = MetaData()
_keys = Table(
    "service_keys",
    _metadata,
    Column("id", String(16), primary_key=True),
    Column("client", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("models", String, nullable=True),
    Column("digest", String(64), nullable=False),
    Column("created", Integer, nullable=False),
    Column("revoked", Boolean, nullable=False),
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
        self._write(CreateTable(_keys, if_not_exists=True))

    def add(self, record: KeyRecord) -> None:
        """Keep a new record durably."""
        row = {
            "id": record.id,
            "client": record.client,
            "role": record.role.value,
            "models": None if record.models is None else json.dumps(record.models),
            "digest": record.digest,
            "created": record.created,
            "revoked": record.revoked,
        }
        self._write(insert_into(_keys).values(row))

    def find(self, key_id: str) -> KeyRecord | None:
        """Return a record by the key's public part."""
        found = self._read(select(_keys).where(_keys.c.id == key_id))
        return found[0] if found else None

    def revoke(self, key_id: str) -> bool:
        """Revoke a key for good; return whether there is one."""
        change = update(_keys).where(_keys.c.id == key_id).values(revoked=True)
        return self._write(change) == 1

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
        rows = self._database.read(
            lambda connection: connection.execute(statement).all()
        )
        return [_record(row) for row in rows]


def _record(row: Row[tuple[object, ...]]) -> KeyRecord:
    models = row.models
    return KeyRecord(
        id=row.id,
        client=row.client,
        role=Role(row.role),
        models=None if models is None else tuple(json.loads(models)),
        digest=row.digest,
        created=row.created,
        revoked=bool(row.revoked),
    )
