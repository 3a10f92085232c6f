"""What only a database ledger does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tracemalloc

import pytest
from sqlalchemy import delete, update

from reticent.errors import InvalidParameterError, LedgerError
from reticent.ledger import (
    AccountId,
    AccountScope,
    Balance,
    Cap,
    Outcome,
    SQLLedger,
    decisions,
)
from reticent.ledger.sql.schema import entries
from reticent.ledger.sql.state import flush, load
from reticent.ledger.sql.store import Store
from reticent.ledger.state import LedgerState, Needs
from tests.ledger.accounts_and_requests import (
    ALICE,
    DATASET,
    MEMORY,
    TENTH,
    asking,
    nano,
    opened,
)


def test_everything_survives_a_restart(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url))
    receipt = ledger.charge(asking("k1", b"x", memory=MEMORY))
    ledger.settle(receipt, [b"yes"])
    ledger.charge(asking("k2"))
    before = ledger.verify()
    ledger.close()
    ledger = open_ledger(sql_url)
    assert ledger.verify() == before
    assert ledger.charge(asking("k1", b"x", memory=MEMORY)).answers == (b"yes",)
    assert ledger.charge(asking("k2")).outcome is Outcome.SPENT
    assert ledger.charge(asking("k3", b"x", memory=MEMORY)).answers == (b"yes",)
    assert nano(ledger, DATASET) == 2 * TENTH.epsilon


def test_two_ledgers_on_one_database_are_one(sql_url, open_ledger):
    one, two = opened(open_ledger(sql_url)), open_ledger(sql_url)
    receipt = one.charge(asking("k1", b"x", memory=MEMORY))
    assert two.charge(asking("k1", b"x", memory=MEMORY)).outcome is Outcome.SPENT
    two.settle(receipt, [b"yes"])
    assert one.charge(asking("k2", b"x", memory=MEMORY)).answers == (b"yes",)
    assert nano(one, ALICE) == nano(two, ALICE) == TENTH.epsilon


@pytest.mark.parametrize(
    "wrong", [{"checkpoint_every": 0}, {"largest_commit": 0}, {"start": "half"}]
)
def test_settings_are_checked(sqlite_url, wrong):
    with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
        SQLLedger(sqlite_url, **wrong)


def test_pending_counts_what_waits(sqlite_url, open_ledger):
    assert open_ledger(sqlite_url).pending == 0


def test_long_lists_are_read_in_parts(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url), epsilon=1000.0)
    queries = [str(number).encode() for number in range(1200)]
    batch = asking("k1", *queries, memory=MEMORY)
    done = ledger.settle(ledger.charge(batch), queries)
    assert done.answers == tuple(queries)
    again = ledger.charge(asking("k2", *queries[::-1], memory=MEMORY))
    assert again.answers == tuple(queries[::-1])
    assert ledger.charge(batch).answers == tuple(queries)


def test_database_has_the_last_word_on_caps(sql_url, open_ledger, monkeypatch):
    # A decision that forgets to look at the cap must not get past the database.
    ledger = opened(open_ledger(sql_url), epsilon=0.1)

    def careless(page, request):
        known = page.balance(DATASET)
        page.append("charge", {}, request=request.key)
        spent = known.spent.plus(known.cap.cost(request.charge, 2))
        return decisions._put(page, Balance(DATASET, known.cap, spent))

    monkeypatch.setattr(decisions, "charge", careless)
    with pytest.raises(LedgerError, match="changed under the ledger's lock"):
        ledger.charge(asking("k"))
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="answers nothing more"):
        ledger.charge(asking("k"))
    ledger = open_ledger(sql_url)
    assert nano(ledger, DATASET) == 0
    assert ledger.verify().charges == 0


def test_bug_in_a_decision_stops_the_ledger(sqlite_url, open_ledger, monkeypatch):
    ledger = opened(open_ledger(sqlite_url))

    def bug(page, request):
        raise ZeroDivisionError

    monkeypatch.setattr(decisions, "charge", bug)
    with pytest.raises(LedgerError, match="ZeroDivisionError"):
        ledger.charge(asking("k"))
    with pytest.raises(LedgerError, match="answers nothing more"):
        ledger.balances()


def test_database_put_back_under_a_running_ledger_stops_it(sqlite_url, open_ledger):
    path = sqlite_url.removeprefix("sqlite:///")
    ledger = opened(open_ledger(sqlite_url))
    live, copy = sqlite3.connect(path), sqlite3.connect(":memory:")
    live.backup(copy)
    ledger.charge(asking("k1"))
    copy.backup(live)
    live.close()
    copy.close()
    with pytest.raises(LedgerError, match="went back"):
        ledger.charge(asking("k2"))


def test_chain_lost_under_a_running_ledger_stops_it(sql_url, open_ledger):
    ledger = opened(open_ledger(sql_url))
    store = Store(sql_url)
    store.write(lambda connection: connection.execute(delete(entries)))
    store.close()
    with pytest.raises(LedgerError, match="lost its entries"):
        ledger.charge(asking("k"))
    with pytest.raises(LedgerError, match="answers nothing more"):
        ledger.charge(asking("k"))


def test_missing_database_package_is_named(sqlite_url, monkeypatch):
    monkeypatch.setitem(sys.modules, "reticent.ledger.sql.store", None)
    with pytest.raises(LedgerError, match=r"reticent\[serve\]"):
        SQLLedger(sqlite_url)


def test_reading_a_broken_database_is_an_error_of_ours(sqlite_url, open_ledger):
    ledger = opened(open_ledger(sqlite_url))
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TABLE ledger_accounts")
    connection.close()
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.balances()


def test_error_messages_quote_no_key(sqlite_url, open_ledger):
    ledger = opened(open_ledger(sqlite_url))
    with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TABLE ledger_marks")
    connection.close()
    with pytest.raises(LedgerError) as caught:
        ledger.charge(asking("canary-4711", b"canary", memory=MEMORY))
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None


def long_chain(url, length):
    """Append `length` charges at once, as fast as the disk allows."""
    store = Store(url)

    def work(connection):
        page = load(connection, Needs(accounts={str(DATASET)}))
        before = dict(page.accounts)
        for number in range(length):
            decisions.charge(page, asking(f"k{number}", accounts=(DATASET,)))
        flush(connection, page, before)

    store.write(work)
    store.close()


def test_verification_needs_no_more_memory_for_a_longer_chain(tmp_path, open_ledger):
    peaks = []
    for length in (12_000, 36_000):
        url = f"sqlite:///{tmp_path / f'{length}.db'}"
        opened(open_ledger(url), epsilon=1e6).close()
        long_chain(url, length)
        tracemalloc.start()
        ledger = open_ledger(url)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert ledger.verify().charges == length
    assert peaks[1] < 1.25 * peaks[0]


def test_verification_adds_up_many_different_charges(monkeypatch):
    from reticent.ledger import MemoryLedger, verification

    monkeypatch.setattr(verification, "_MOST_PENDING", 3)
    ledger = opened(MemoryLedger(), epsilon=100.0)
    for number in range(1, 9):
        ledger.charge(asking(f"k{number}", *([b"x"] * number)))
    assert ledger.verify().charges == 8


def test_memory_ledger_needs_no_database_package():
    script = """
import sys
for name in ("sqlalchemy", "psycopg", "cryptography"):
    sys.modules[name] = None
from reticent.errors import LedgerError
from reticent.ledger import Cap, MemoryLedger, SQLLedger, AccountId, AccountScope
with MemoryLedger() as ledger:
    account = AccountId(AccountScope.CLIENT, "a")
    print(ledger.open_account(account, Cap.basic(epsilon=1.0)))
for settings in ({}, {"checkpoints": "c", "signer": b"k" * 32}):
    try:
        SQLLedger("sqlite:///x.db", **settings)
    except LedgerError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "client:a: epsilon 0 of 1, delta 0 of 0"
    assert all("reticent[serve]" in line for line in lines[1:])
    assert len(lines) == 3


def test_page_lists_are_independent():
    assert LedgerState().accounts is not LedgerState().accounts


def test_names_and_keys_are_written_as_they_are(sql_url, open_ledger):
    # They travel inside arrays and statements, next to quotes of their own.
    ledger = open_ledger(sql_url)
    names = ['"', "\\", "{a,b}", "NULL", "%s ?", "ä\u2603'", ' "x\\" ']
    clients = [AccountId(AccountScope.CLIENT, name) for name in names]
    keys = ['"', "\\", "{}", ",", "NULL", "%s", "?1"]
    for client in clients:
        ledger.open_account(client, Cap.basic(epsilon=1.0))
    for key, client in zip(keys, clients, strict=True):
        request = asking(key, accounts=(client,), memory=MEMORY)
        assert ledger.settle(ledger.charge(request), [b"yes"]).answers == (b"yes",)
        assert ledger.charge(request).answers == (b"yes",)
    assert {str(balance.account) for balance in ledger.balances()} == {
        str(client) for client in clients
    }
    assert {nano(ledger, client) for client in clients} == {100_000_000}
    found = [entry.request for entry in ledger.entries() if entry.kind == "charge"]
    assert found == keys
    ledger.close()
    open_ledger(sql_url).verify()


def test_charge_at_hand_is_not_trusted_over_the_database(sql_url, open_ledger):
    # A charge that somebody else changed meanwhile does not get its answer.
    ledger = opened(open_ledger(sql_url))
    receipt = ledger.charge(asking("k"))
    store = Store(sql_url)
    forged = (
        update(entries)
        .where(entries.c.sequence == receipt.sequence)
        .values(hash="0" * 64)
    )
    other = ledger.charge(asking("k2"))
    store.write(lambda connection: connection.execute(forged))
    store.close()
    with pytest.raises(LedgerError, match="not of this ledger"):
        ledger.settle(receipt, [b"yes"])
    assert ledger.settle(other, [b"yes"]).answers == (b"yes",)


def test_answer_by_another_process_is_seen(sql_url, open_ledger):
    ours, theirs = opened(open_ledger(sql_url)), open_ledger(sql_url)
    receipt = ours.charge(asking("k"))
    theirs.settle(receipt, [b"yes"])
    with pytest.raises(LedgerError, match="another answer already"):
        ours.settle(receipt, [b"no"])
    assert ours.settle(receipt, [b"yes"]).answers == (b"yes",)
