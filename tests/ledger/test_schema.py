"""Tables move forward one step at a time, and never back."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, inspect, update

from reticent.errors import LedgerError
from reticent.ledger import SQLLedger
from reticent.ledger.sql import schema
from reticent.ledger.sql.store import Store
from tests.ledger.accounts_and_requests import asking, opened


def test_newer_tables_are_refused(sql_url, open_ledger):
    opened(open_ledger(sql_url)).close()
    store = Store(sql_url)
    store.write(lambda c: c.execute(update(schema.meta).values(version=99)))
    store.close()
    with pytest.raises(LedgerError, match="version=99 is newer"):
        SQLLedger(sql_url)


def test_older_tables_are_brought_forward(sql_url, open_ledger, monkeypatch):
    opened(open_ledger(sql_url)).charge(asking("k"))
    step = ("CREATE TABLE ledger_notes (id {whole} PRIMARY KEY)",)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    ledger = open_ledger(sql_url)
    assert ledger.verify().charges == 1
    with ledger._store.reading() as connection:
        assert schema.version_of(connection) == len(schema.MIGRATIONS)
        assert inspect(connection).has_table("ledger_notes")
    ledger.close()
    open_ledger(sql_url)  # a second start has nothing left to do


def test_failed_step_leaves_the_old_tables(sql_url, open_ledger, monkeypatch):
    opened(open_ledger(sql_url)).close()
    step = ("CREATE TABLE ledger_notes (id {whole} PRIMARY KEY)", "NONSENSE")
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
        with pytest.raises(LedgerError, match="the database failed"):
            SQLLedger(sql_url)
    ledger = open_ledger(sql_url)
    with ledger._store.reading() as connection:
        assert not inspect(connection).has_table("ledger_notes")


def test_tables_without_a_description_are_refused(sql_url, open_ledger):
    open_ledger(sql_url).close()
    store = Store(sql_url)
    store.write(lambda c: c.execute(delete(schema.meta)))
    store.close()
    with pytest.raises(LedgerError, match="description of itself is gone"):
        SQLLedger(sql_url)


def test_ledger_of_version_1_opens(sql_url, open_ledger, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        opened(open_ledger(sql_url)).charge(asking("k"))
    ledger = open_ledger(sql_url)
    assert ledger.verify().charges == 1
    with ledger._store.reading() as connection:
        assert inspect(connection).has_table("ledger_keys")
        assert schema.version_of(connection) == len(schema.MIGRATIONS)
