"""Numbered records in a ledger: each is written once, and of two writers one wins.

Each record is an entry without a loss, under its own key. A key is charged once, so of
all writers that read record k and want to write record k + 1 one wins, and the others
read what it wrote: compare-and-swap. An entry is written completely or not at all, so
a crash loses only what nobody has seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from reticent._text import checked_name
from reticent.errors import BudgetExhaustedError, LedgerError
from reticent.ledger.accounts import AccountId
from reticent.ledger.caps import Cap
from reticent.ledger.charges import Charge
from reticent.ledger.entries import unpack_answers
from reticent.ledger.protocol import Ledger
from reticent.ledger.requests import Outcome, Receipt, Request

#: The relation of accounts that count records, and no loss.
RECORDS = "notes"
_MANY = 1e9
# Up to this many records are read one by one, more by going through the entries.
_FEW = 64


class RecordLog:
    """Numbered records under one name, each written once and never changed.

    Parameters
    ----------
    ledger : Ledger
        Where records are stored.
    name : str
        Name of the log: no other log of the ledger may have it.
    account : AccountId
        The account that counts the records; it is opened.
    """

    def __init__(self, ledger: Ledger, name: str, account: AccountId) -> None:
        self._ledger = ledger
        self.name = checked_name(f"name={name!r}", name, longest=80)
        self.account = account
        self._prefix = f"{name}/note/"
        ledger.open_account(account, Cap.basic(epsilon=_MANY, relation=RECORDS))

    def __len__(self) -> int:
        spent = self._ledger.balance(self.account).spent
        if spent.epsilon:
            raise BudgetExhaustedError(
                f"the ledger was written off, so what {self.name!r} spent is no "
                "longer known. Use another name, and data that nobody has used."
            )
        return spent.answers

    def post(self, index: int, record: bytes) -> bytes:
        """Write the record with this number, unless there is one; return what it is.

        Two writers may want to write equal records, so a writer that must know whether
        it was the first puts a random mark into its own.
        """
        return self._text(index, self._ledger.post(self._request(index), [record]))

    def read(self, index: int) -> bytes:
        """Return the record with this number, which must exist."""
        # A key that was charged before returns the answer stored with it.
        return self._text(index, self._ledger.charge(self._request(index)))

    def read_all(self, first: int, end: int) -> Iterator[bytes]:
        """Yield the records from `first` to `end`, without `end`; all must exist."""
        if end - first <= _FEW:
            for index in range(first, end):
                yield self.read(index)
            return
        start = self._ledger.charge(self._request(first)).sequence or 1
        waiting: int | None = None
        index = first
        for entry in self._ledger.entries(after=start - 1):
            if entry.request == f"{self._prefix}{index}":
                waiting = entry.sequence
            elif waiting is not None and entry.settles == waiting:
                (record,) = unpack_answers(entry.content()["answers"])
                yield record
                waiting, index = None, index + 1
                if index == end:
                    return
        raise self._missing(index)

    def _text(self, index: int, receipt: Receipt) -> bytes:
        (text,) = receipt.answers
        if receipt.outcome is not Outcome.ANSWERED or text is None:
            raise self._missing(index)
        return text

    def _missing(self, index: int) -> LedgerError:
        return LedgerError(
            f"record {index} of {self.name!r} has no text, so its state is unknown. "
            "Use another name."
        )

    def _request(self, index: int) -> Request:
        return Request(
            key=f"{self._prefix}{index}",
            accounts=(self.account,),
            charge=Charge.loss(epsilon=0.0, certificate="note", relation=RECORDS),
            queries=(b"note",),
        )
