"""Notes in a ledger: durable, in order, and no two writers at once."""

import pytest

from reticent.errors import LedgerError
from reticent.generalization.costs import Purse, SessionCost
from reticent.generalization.notebook import Notebook, open_notebook
from reticent.ledger import MemoryLedger, SQLLedger


def test_notes_come_back_in_order(tmp_path):
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'notes.db'}")
    notes = Notebook(ledger, "trial")
    for number in range(3):
        notes.append({"number": number})
    ledger.close()
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'notes.db'}")
    notes = Notebook(ledger, "trial")
    assert [note["number"] for note in notes.read()] == [0, 1, 2]
    assert notes.first() == {"number": 0}
    assert notes.last() == {"number": 2}
    assert Notebook(ledger, "another").last() is None
    ledger.verify()
    ledger.close()


def test_a_note_lost_in_a_crash_is_left_out(tmp_path):
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'notes.db'}")
    notes = Notebook(ledger, "trial")
    notes.append({"number": 0})
    ledger.charge(notes._request(1))  # the process dies before it settles
    ledger.close()
    ledger = SQLLedger(f"sqlite:///{tmp_path / 'notes.db'}")
    notes = Notebook(ledger, "trial")
    assert notes.last() == {"number": 0}
    notes.append({"number": 2})
    assert [note["number"] for note in notes.read()] == [0, 2]
    ledger.close()


class Late:
    """A ledger whose balance is out of date: somebody else wrote in between."""

    def __init__(self, ledger):
        self._ledger = ledger
        self._frozen = None

    def __getattr__(self, name):
        return getattr(self._ledger, name)

    def freeze(self, account):
        self._frozen = self._ledger.balance(account)

    def balance(self, account):
        frozen = self._frozen
        same = frozen is not None and frozen.account == account
        return frozen if same else self._ledger.balance(account)


def test_two_writers_at_once_are_noticed():
    ledger = Late(MemoryLedger())
    notes = Notebook(ledger, "trial")
    ledger.freeze(notes._account)
    notes.append({"number": 0})
    with pytest.raises(LedgerError, match="at the same time"):
        notes.append({"number": 1})


def test_two_payers_at_once_are_noticed():
    ledger = Late(MemoryLedger())
    purse = Purse(ledger, "trial", SessionCost(bits=10.0))
    ledger.freeze(purse._account("bits"))
    purse.pay(SessionCost(bits=1.0))
    with pytest.raises(LedgerError, match="at the same time"):
        purse.pay(SessionCost(bits=1.0))


def test_an_opening_is_written_once():
    ledger = MemoryLedger()
    for _ in range(2):
        notes = open_notebook(ledger, "trial", {"n": 3}, seeded=False)
    assert notes.read() == [{"n": 3}]
    with pytest.raises(LedgerError, match="other data"):
        open_notebook(ledger, "trial", {"n": 4}, seeded=False)
