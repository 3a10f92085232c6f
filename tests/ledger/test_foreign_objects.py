"""Objects that somebody else put into the database are refused, and so is damage."""

from __future__ import annotations

import contextlib
import sqlite3

import psycopg
import pytest
from sqlalchemy import create_engine

from reticent.errors import LedgerError
from reticent.ledger import SQLLedger
from reticent.ledger.sql import integrity
from tests.ledger.accounts_and_requests import MEMORY, asking, opened

UNDOES_CHARGES = """CREATE TRIGGER generous AFTER UPDATE ON ledger_accounts
BEGIN UPDATE ledger_accounts SET spent_epsilon = 0; END"""
OF_SQLITE = {
    "trigger": UNDOES_CHARGES,
    "index": "CREATE INDEX other ON ledger_entries (kind)",
    "unique index": "CREATE UNIQUE INDEX other ON ledger_entries (body)",
    "partial index": "CREATE INDEX other ON ledger_entries (kind) WHERE kind = 'x'",
    "view": "CREATE VIEW other AS SELECT 1",
    "table": "CREATE TABLE other (x)",
    "column": "ALTER TABLE ledger_accounts ADD COLUMN other TEXT",
    "lost index": "DROP INDEX ledger_marks_by_query",
    "statistics": "ANALYZE",
    "trigger on keys": "CREATE TRIGGER other AFTER INSERT ON ledger_keys BEGIN "
    "UPDATE ledger_keys SET revoked = 0; END",
}
FUNCTION = """CREATE FUNCTION generous() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.spent_epsilon := 0; RETURN NEW; END $$;"""
OF_POSTGRESQL = {
    "trigger": FUNCTION + "CREATE TRIGGER generous BEFORE UPDATE ON ledger_accounts "
    "FOR EACH ROW EXECUTE FUNCTION generous()",
    "rule": "CREATE RULE nothing AS ON UPDATE TO ledger_accounts DO INSTEAD NOTHING",
    "index": "CREATE INDEX other ON ledger_entries (kind)",
    "partial index": "CREATE INDEX other ON ledger_entries (kind) WHERE kind = 'x'",
    "row security": "ALTER TABLE ledger_entries ENABLE ROW LEVEL SECURITY",
    "policy": "CREATE POLICY other ON ledger_entries USING (sequence < 3)",
    "child": "CREATE TABLE other () INHERITS (ledger_accounts)",
    "column": "ALTER TABLE ledger_accounts ADD COLUMN other TEXT",
    "default": "ALTER TABLE ledger_accounts ALTER spent_epsilon SET DEFAULT 0",
    "lost check": "ALTER TABLE ledger_accounts DROP CONSTRAINT "
    "ledger_accounts_spent_epsilon_check",
    "new check": "ALTER TABLE ledger_accounts ADD CHECK (spent_epsilon < 5000000000)",
    "foreign key": "CREATE TABLE other (name TEXT REFERENCES ledger_accounts (name) "
    "ON DELETE CASCADE)",
    "lost index": "DROP INDEX ledger_marks_by_query",
    "not durable": "ALTER TABLE ledger_accounts SET UNLOGGED",
    "view": "ALTER TABLE ledger_keys RENAME TO hidden; "
    "CREATE VIEW ledger_keys AS SELECT * FROM hidden",
    "gone": "DROP TABLE ledger_keys",
}


@pytest.fixture
def sqlite_file(sqlite_url):
    with SQLLedger(sqlite_url) as ledger:
        opened(ledger)
        receipt = ledger.charge(asking("k1", b"x", memory=MEMORY))
        ledger.settle(receipt, [b"yes"])
    return sqlite_url.removeprefix("sqlite:///")


@pytest.mark.parametrize("kind", OF_SQLITE)
def test_foreign_object_in_sqlite_is_refused(sqlite_file, sqlite_url, kind):
    with contextlib.closing(sqlite3.connect(sqlite_file)) as other, other:
        other.execute(OF_SQLITE[kind])
    for start in ("full", "tail"):
        with pytest.raises(LedgerError, match="not as reticent made it"):
            SQLLedger(sqlite_url, start=start)
    with pytest.raises(LedgerError, match="not as reticent made it"):
        SQLLedger.write_off(sqlite_url, reason="a trigger would undo it")


def test_object_that_appears_while_in_use_fails_the_next_verification(
    sqlite_file, sqlite_url, open_ledger
):
    ledger = open_ledger(sqlite_url)
    ledger.verify()
    with contextlib.closing(sqlite3.connect(sqlite_file)) as other, other:
        other.execute(UNDOES_CHARGES)
    with pytest.raises(LedgerError, match="'generous'"):
        ledger.verify()


@pytest.mark.parametrize("kind", OF_POSTGRESQL)
def test_foreign_object_in_postgresql_is_refused(postgres_url, kind):
    with SQLLedger(postgres_url) as ledger:
        opened(ledger)
    with psycopg.connect(postgres_url) as connection:
        connection.execute(OF_POSTGRESQL[kind])
    with pytest.raises(LedgerError, match=r"not as reticent|durably|one schema"):
        SQLLedger(postgres_url)


def test_functions_of_others_are_not_put_before_those_of_postgresql(postgres_url):
    SQLLedger(postgres_url).close()
    shadowed = postgres_url + "%2Cpg_catalog"
    with pytest.raises(LedgerError, match="leave pg_catalog out"):
        SQLLedger(shadowed)


def hidden_from_its_index(path):
    """Let an index forget the keys of all requests, as a damaged page does."""
    with contextlib.closing(sqlite3.connect(path)) as other, other:
        other.execute("PRAGMA writable_schema=ON")
        (page,) = other.execute(
            "SELECT rootpage FROM sqlite_master "
            "WHERE name = 'sqlite_autoindex_ledger_entries_1'"
        ).fetchone()
        (size,) = other.execute("PRAGMA page_size").fetchone()
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x0a" + bytes(4) + size.to_bytes(2, "big") + bytes(1))
    return page


def test_key_that_its_index_does_not_find_is_refused(sqlite_file, sqlite_url):
    hidden_from_its_index(sqlite_file)
    with pytest.raises(LedgerError, match="integrity_check"):
        SQLLedger(sqlite_url)


def test_key_charged_twice_is_found_without_the_index(
    sqlite_file, sqlite_url, monkeypatch
):
    hidden_from_its_index(sqlite_file)
    with monkeypatch.context() as patch:  # as if nobody looked at the file
        patch.setattr(integrity, "check_file", lambda *_, **__: None)
        patch.setattr("reticent.ledger.sql.opening.check_file", lambda *_, **__: None)
        with SQLLedger(sqlite_url) as ledger:
            ledger.settle(ledger.charge(asking("k1", b"y", memory=MEMORY)), [b"no"])
            with pytest.raises(LedgerError, match="same request"):
                ledger.verify()


def test_key_charged_twice_in_postgresql_is_found(postgres_url):
    with SQLLedger(postgres_url) as ledger:
        opened(ledger)
        ledger.charge(asking("k1"))
        with psycopg.connect(postgres_url) as connection:
            connection.execute(
                "UPDATE pg_index SET indisunique = false, indisready = false "
                "WHERE indexrelid = 'ledger_entries_request_key'::regclass"
            )
            connection.execute(
                "INSERT INTO ledger_entries SELECT sequence + 1, kind, request, "
                "settles, charges, body, hash FROM ledger_entries WHERE request = 'k1'"
            )
        engine = create_engine(postgres_url.replace("sql:", "sql+psycopg:"))
        with engine.connect() as connection, connection.begin():
            integrity.read_by_table(connection)
            with pytest.raises(LedgerError, match="same request"):
                integrity.check_keys(connection, entries=7, marks=0)
            with pytest.raises(LedgerError, match="7 rows, and its index leads to 6"):
                integrity.check_keys(connection, entries=6, marks=0)
        engine.dispose()


def test_long_file_is_looked_at_quickly_at_a_short_start(
    sqlite_file, sqlite_url, monkeypatch
):
    engine = create_engine(sqlite_url)
    monkeypatch.setattr(integrity, "_STEPS", 1)
    with engine.connect() as connection:
        integrity.check_file(connection, seconds=-1.0)  # out of time at once
        integrity.check_file(connection, seconds=60.0)
    engine.dispose()


@pytest.mark.parametrize(
    "change",
    [
        "ledger_accounts SET cap = CAST(x'fffe' AS TEXT)",
        "ledger_accounts SET name = CAST(x'ff' AS TEXT) WHERE name LIKE 'client:a%'",
        "ledger_entries SET body = CAST(x'ff' AS TEXT) WHERE sequence = 2",
        "ledger_marks SET query = CAST(x'ff' AS TEXT)",
        "ledger_meta SET ledger = CAST(x'ff' AS TEXT)",
        "ledger_meta SET version = CAST(x'ff' AS TEXT)",
        "ledger_accounts SET spent_epsilon = x'00'",
    ],
)
def test_damaged_text_is_an_error_of_ours(sqlite_file, sqlite_url, open_ledger, change):
    ledger = open_ledger(sqlite_url)
    with contextlib.closing(sqlite3.connect(sqlite_file)) as other, other:
        other.execute(f"UPDATE {change}")
    with pytest.raises(LedgerError):
        SQLLedger(sqlite_url)
    with pytest.raises(LedgerError):
        ledger.verify()
    if "accounts" in change:
        with pytest.raises(LedgerError):
            ledger.balances()


def test_damaged_keys_are_an_error_of_ours(sqlite_file, sqlite_url):
    from reticent.home import Keyring, SQLKeys

    store = SQLKeys(sqlite_url)
    ring = Keyring(store, b"p" * 32)
    text, record = ring.create("ward-7")
    for change in ("role = 'emperor'", "models = '{'", "client = CAST(x'ff' AS TEXT)"):
        with contextlib.closing(sqlite3.connect(sqlite_file)) as other, other:
            other.execute(f"UPDATE ledger_keys SET {change}")
        with contextlib.suppress(LedgerError):
            assert ring.recognise(text) is None
            assert ring.current(record.id) is None
    store.close()
