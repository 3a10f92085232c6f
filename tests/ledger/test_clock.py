"""A clock that cannot be read is named, and nothing is charged by it."""

import time

import pytest

from reticent import _clock
from reticent.errors import LedgerError
from reticent.home import request_key
from reticent.ledger import SQLLedger
from tests.ledger.accounts_and_requests import DATASET, asking, nano, opened


@pytest.fixture
def far_ahead(monkeypatch):
    """Return what sets the clock 250 years ahead: reading it then overflows."""

    def overflow():
        raise OverflowError("timestamp too large to convert to C PyTime_t")

    return lambda: monkeypatch.setattr(time, "time_ns", overflow)


def test_clock_is_read():
    assert abs(_clock.seconds() - time.time()) < 3600
    assert _clock.milliseconds() // 1000 >= _clock.seconds() - 1


def test_impossible_clock_is_named_at_the_start_and_later(
    sqlite_url, open_ledger, far_ahead
):
    ledger = opened(open_ledger(sqlite_url))
    far_ahead()
    with pytest.raises(LedgerError, match="set the clock"):
        SQLLedger(sqlite_url)
    with pytest.raises(LedgerError, match="set the clock"):
        ledger.charge(asking("k"))
    with pytest.raises(LedgerError, match="set the clock"):
        request_key("ward-7")
    assert nano(ledger, DATASET) == 0
    ledger.verify()  # it goes on: nothing was written
