"""64 workers on the last slots: overspend 0 units."""

from __future__ import annotations

from reticent.ledger import SQLLedger
from tests.ledger.accounts_and_requests import (
    ALICE,
    DATASET,
    MODEL,
    TENTH,
    nano,
    opened,
)
from tests.ledger.concurrent_charges import (
    CheckThenSpendInMemory,
    charge_from_many_processes,
    threads_rush,
)

SLOTS = 20


def test_threads_share_the_last_slots(ledger):
    opened(ledger, epsilon=SLOTS / 10)
    assert threads_rush(ledger, 2) == SLOTS
    assert nano(ledger, DATASET) == nano(ledger, MODEL) == SLOTS * TENTH.epsilon
    assert nano(ledger, ALICE) == 0
    assert ledger.verify().charges == SLOTS


def test_threads_of_a_ledger_that_checks_first_overspend():
    ledger = opened(CheckThenSpendInMemory(), epsilon=SLOTS / 10)
    assert threads_rush(ledger, 2) > SLOTS


def test_processes_share_the_last_slots(sql_url):
    assert (
        charge_from_many_processes(url=sql_url, slots=SLOTS, tries=1, broken=False)
        == SLOTS
    )
    with SQLLedger(sql_url) as ledger:
        assert nano(ledger, DATASET) == nano(ledger, MODEL) == SLOTS * TENTH.epsilon
        assert ledger.verify().charges == SLOTS


def test_processes_of_a_ledger_that_checks_first_overspend(sql_url):
    assert (
        charge_from_many_processes(url=sql_url, slots=SLOTS, tries=1, broken=True)
        > SLOTS
    )


def test_threads_share_commits(sql_url, open_ledger):
    # Group commit: far fewer durable commits than charges.
    ledger = opened(open_ledger(sql_url), epsilon=1000.0)
    commits = 0
    original = ledger._store.commit

    def counted(*args, **kwargs):
        nonlocal commits
        commits += 1
        return original(*args, **kwargs)

    ledger._store.commit = counted
    assert threads_rush(ledger, 4) == 256
    assert commits <= 128
