"""Each field flipped, each row lost, doubled or forged: the start is refused."""

from __future__ import annotations

import contextlib
import json

import pytest
from sqlalchemy import create_engine, delete, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from reticent.errors import LedgerError
from reticent.ledger import Cap, SQLLedger
from reticent.ledger.entries import GENESIS, canonical, seal
from reticent.ledger.sql.schema import accounts, entries, marks, meta
from tests.ledger.accounts_and_requests import BOB, DATASET, MEMORY, asking, opened

KEY = b"k" * 32


@pytest.fixture
def book(sql_url):
    """A ledger with every kind of entry, and an engine to change it with."""
    with SQLLedger(sql_url) as ledger:
        opened(ledger, epsilon=5.0)
        ledger.set_cap(BOB, Cap.basic(epsilon=6.0))
        receipt = ledger.charge(asking("k1", b"x", b"y", memory=MEMORY))
        ledger.settle(receipt, [b"yes", b"no"])
        ledger.charge(asking("k2", b"x", client=BOB, memory=MEMORY))
        ledger.charge(asking("k3"))
    SQLLedger.write_off(sql_url, reason="exercise")
    with SQLLedger(sql_url) as ledger:
        ledger.set_cap(DATASET, Cap.basic(epsilon=9.0))
    url = sql_url.replace("postgresql:", "postgresql+psycopg:")
    engine = create_engine(url)
    yield sql_url, engine
    engine.dispose()


def flipped(value):
    if value is None:
        return "x"
    if isinstance(value, int):
        return value + 1000
    changed = "0" if value[-1:] != "0" else "1"
    return value[:-1] + changed


def refused(url):
    with pytest.raises(LedgerError):
        SQLLedger(url).close()


def columns(table):
    return [column for column in table.columns if column.name != "id"]


FIELDS = [
    pytest.param(table, column, id=f"{table.name}.{column.name}")
    for table in (entries, marks, accounts, meta)
    for column in columns(table)
]


@pytest.mark.parametrize(("table", "column"), FIELDS)
def test_flipped_field_is_refused(book, table, column):
    url, engine = book
    keys = list(table.primary_key.columns)
    with engine.connect() as connection:
        rows = connection.execute(select(table)).all()
    # Every row on one database, some on the other: the check is the same code.
    for row in rows if engine.name == "sqlite" else rows[::4]:
        here = [key == getattr(row, key.name) for key in keys]
        value = getattr(row, column.name)
        change = flipped(value)
        if column.name == "settles" and value is None:
            change = 99
        with engine.begin() as connection:
            connection.execute(update(table).where(*here).values({column: change}))
        refused(url)
        moved = [
            key == (change if key is column else getattr(row, key.name)) for key in keys
        ]
        with engine.begin() as connection:
            connection.execute(update(table).where(*moved).values({column: value}))
    SQLLedger(url).close()  # everything is back, so the refusals were about the flips


@pytest.mark.parametrize(
    "table", [entries, marks, accounts, meta], ids=lambda t: t.name
)
def test_lost_row_is_refused(book, table):
    url, engine = book
    with engine.connect() as connection:
        rows = connection.execute(select(table)).all()
    for row in rows:
        if table is entries and row.sequence == rows[-1].sequence:
            continue  # a shorter chain with its totals is an older copy
        here = [key == getattr(row, key.name) for key in table.primary_key.columns]
        with engine.begin() as connection:
            connection.execute(delete(table).where(*here))
        refused(url)
        with engine.begin() as connection:
            connection.execute(insert(table).values(row._mapping))
    SQLLedger(url).close()


def test_cut_tail_is_refused_by_its_totals(book):
    url, engine = book
    with engine.begin() as connection:
        last = connection.execute(text("SELECT max(sequence) FROM ledger_entries"))
        connection.execute(delete(entries).where(entries.c.sequence == last.scalar()))
    refused(url)


def test_emptied_chain_is_refused(book):
    url, engine = book
    with engine.begin() as connection:
        connection.execute(delete(entries))
    refused(url)
    with pytest.raises(LedgerError, match="lost its entries"):
        SQLLedger.write_off(url, reason="nothing there")


@pytest.mark.parametrize("sequence", [0, -1, 999])
def test_mark_of_no_entry_is_refused(book, sequence):
    url, engine = book
    stray = {"position": 0, "query": "q", "account": "client:bob", "release": 9}
    with engine.begin() as connection:
        connection.execute(insert(marks).values(sequence=sequence, **stray))
    refused(url)


def test_extra_account_is_refused(book):
    url, engine = book
    with engine.begin() as connection:
        row = connection.execute(select(accounts).limit(1)).one()
        extra = {**row._mapping, "name": "client:mallory"}
        connection.execute(insert(accounts).values(extra))
    refused(url)


def test_raised_cap_in_the_row_alone_is_refused(book):
    url, engine = book
    cap = Cap.basic(epsilon=50.0)
    with engine.begin() as connection:
        connection.execute(
            update(accounts)
            .where(accounts.c.name == str(BOB))
            .values(cap=cap.to_json(), limit_epsilon=cap.limits.epsilon)
        )
    refused(url)


def test_cap_spelled_otherwise_is_refused(book):
    url, engine = book
    with engine.begin() as connection:
        text_ = connection.execute(select(accounts.c.cap).limit(1)).scalar_one()
        spaced = json.dumps(json.loads(text_), indent=1)
        connection.execute(
            update(accounts).where(accounts.c.cap == text_).values(cap=spaced)
        )
    refused(url)


def test_unknown_kind_is_refused_even_with_a_right_hash(book):
    url, engine = book
    with engine.begin() as connection:
        last = connection.execute(
            select(entries).order_by(entries.c.sequence.desc()).limit(1)
        ).one()
        row = (last.sequence + 1, "gift", None, None, "", "{}")
        sealed = seal(last.hash, *row)
        connection.execute(insert(entries).values((*row, sealed)))
    with pytest.raises(LedgerError, match="kind='gift'"):
        SQLLedger(url)


def forge(engine):
    """Rewrite history so that everything agrees and nobody has spent anything."""
    with engine.begin() as connection:
        rows = connection.execute(select(entries).order_by(entries.c.sequence)).all()
        head = GENESIS
        for row in rows:
            charges = row.charges
            if charges:
                free = {name: [0, 0, 0, 0] for name in json.loads(charges)}
                charges = canonical(free)
            noted = connection.execute(
                select(marks.c.query, marks.c.account, marks.c.release)
                .where(marks.c.sequence == row.sequence)
                .order_by(marks.c.position)
            ).all()
            fields = (
                row.sequence,
                row.kind,
                row.request,
                row.settles,
                charges,
                row.body,
            )
            head = seal(head, *fields, noted)
            connection.execute(
                update(entries)
                .where(entries.c.sequence == row.sequence)
                .values(charges=charges, hash=head)
            )
        nothing = {
            f"spent_{kind}": 0 for kind in ("epsilon", "delta", "rho", "answers")
        }
        connection.execute(update(accounts).values(nothing))


@pytest.mark.parametrize("start", ["full", "tail"])
def test_forged_history_is_refused_by_the_checkpoint(sql_url, tmp_path, start):
    settings = {"checkpoints": tmp_path / "checkpoint", "signer": KEY}
    with SQLLedger(sql_url, **settings) as ledger:
        opened(ledger)
        ledger.charge(asking("k1"))
    engine = create_engine(sql_url.replace("postgresql:", "postgresql+psycopg:"))
    forge(engine)
    engine.dispose()
    with contextlib.closing(SQLLedger(sql_url)) as fooled:  # a chain alone is fooled
        assert fooled.balance(DATASET).spent.epsilon == 0
    with pytest.raises(LedgerError, match="not what the checkpoint signed"):
        SQLLedger(sql_url, **settings, start=start)


def test_writing_off_repairs_totals_but_no_broken_chain(book):
    url, engine = book
    with engine.begin() as connection:
        connection.execute(update(accounts).values(spent_epsilon=0))
    refused(url)
    SQLLedger.write_off(url, reason="totals were changed")
    with SQLLedger(url) as ledger:
        assert {balance.remaining.epsilon for balance in ledger.balances()} == {0}
    with engine.begin() as connection:
        connection.execute(
            update(entries).where(entries.c.sequence == 3).values(body="{}")
        )
    with pytest.raises(LedgerError, match="sequence=3"):
        SQLLedger.write_off(url, reason="the chain was changed")


def test_database_refuses_negative_numbers(book):
    _, engine = book
    with pytest.raises(DBAPIError), engine.begin() as connection:
        connection.execute(update(accounts).values(spent_epsilon=-1))
