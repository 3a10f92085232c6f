"""The durable state of a lasting model: a function of the log, and of nothing else."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import LedgerError
from reticent.ledger import Ledger
from reticent.prediction.lasting.evidence import EvidenceHistory
from reticent.prediction.lasting.histories import (
    newest_known,
    note_newest,
    open_log,
)
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.memory import QuestionIndex
from reticent.prediction.lasting.records import QuestionRecord
from reticent.prediction.lasting.snapshots import Snapshot, SnapshotFile

log = logging.getLogger("reticent.prediction")

_RECORDS_AT_HAND = 256
# A snapshot is due when answers since the last one took this many seconds, and this
# many times what the last one took: a restart replays no more, and costs stay small.
_SECONDS, _TIMES = 1.0, 20.0


class LastingState:
    """What units have spent and what was asked, as far as the log was read.

    Not for several threads at once.

    Parameters
    ----------
    law : LastingLaw
        The model.
    ledger : Ledger
        Where its log is.
    snapshots : SnapshotFile or None, default=None
        Where snapshots are kept.

    Attributes
    ----------
    spending : UnitSpending
        What each unit has spent after these records: a secret.
    index, evidence : QuestionIndex and EvidenceHistory
        What was asked, and with what evidence.
    version : int
        How many records were read.
    """

    spending: Any
    index: QuestionIndex
    evidence: EvidenceHistory
    version: int
    _mark: bytes
    _at_hand: OrderedDict[int, QuestionRecord]
    _kept: int  # the version of the snapshot

    def __init__(
        self, law: LastingLaw, ledger: Ledger, snapshots: SnapshotFile | None = None
    ) -> None:
        self._law = law
        self._snapshots = snapshots
        self._log, self._first = open_log(law, ledger)
        self._since, self._took = 0.0, 0.0
        # Whether every record that was begun was applied to its end. Errors may come
        # from anywhere in between: an interrupt, no memory, a worker out of reach.
        self._whole = False
        self.catch_up()

    def repair(self) -> None:
        """Begin again if a record was applied only in part; else do nothing."""
        if not self._whole:
            self.catch_up()

    def catch_up(self) -> None:
        """Read the records that other workers wrote."""
        if not self._whole:
            self._begin()
        newest = self._checked_length()
        for content in self._log.read_all(self.version, newest):
            self._apply(QuestionRecord.from_bytes(content))

    def write(self, record: QuestionRecord, spending: Any) -> bool:
        """Write the next record, durably; return False if another worker was quicker.

        In that case what the other wrote is applied, and `record` must never be shown.

        Parameters
        ----------
        record : QuestionRecord
            From `QuestionRecord.after` with `mark`.
        spending : UnitSpending
            What units have spent after it.
        """
        content = record.to_bytes()
        stored = self._log.post(self.version, content)
        if stored != content:
            self._apply(QuestionRecord.from_bytes(stored))
            self.catch_up()
            return False
        self._whole = False
        self.spending = spending
        self._follow(record)
        self._whole = True
        return True

    @property
    def mark(self) -> bytes:
        """The mark of the last record."""
        return self._mark

    def record(self, number: int) -> QuestionRecord:
        """Return a record that was read before."""
        found = self._at_hand.get(number)
        if found is None:
            found = QuestionRecord.from_bytes(self._log.read(number))
            self._hold(number, found)
        return found

    def find(self, codes: NDArray[np.int16]) -> Any | None:
        """Return the row of an earlier question; None if it is new."""
        place = self.index.find(codes)
        if place is None:
            return None
        row = self.record(place[0]).rows[place[1]]
        return row if np.array_equal(row["codes"], codes) else None

    def note_time(self, seconds: float) -> None:
        """Count the time that answers took, and write a snapshot if one is due."""
        self._since += seconds
        if self._since >= max(_SECONDS, _TIMES * self._took):
            self.snapshot()

    def snapshot(self) -> None:
        """Write a snapshot, unless there is nothing new; a failure is only logged."""
        if self._snapshots is None or not self._whole or self._kept == self.version:
            return
        keys, places = self.index.packed()
        kept = Snapshot(
            self._law.identity,
            self.version,
            self._mark,
            self.spending.to_bytes(),
            keys,
            places,
            self.evidence,
        )
        began = time.monotonic()
        try:
            self._snapshots.write(kept)
        except OSError:
            log.warning("a snapshot could not be written; the log is replayed instead")
        self._took, self._since = time.monotonic() - began, 0.0
        self._kept = self.version

    def _checked_length(self) -> int:
        """Return how many records there are, unless some that were known are gone."""
        # Before the length, which others make larger meanwhile.
        version, mark = newest_known(self._first)
        length = len(self._log)
        if length < max(version, self.version):
            raise _rolled_back(self._log.name)
        found = self._mark
        if version > self.version:
            found = QuestionRecord.from_bytes(self._log.read(version - 1)).mark
        if version >= self.version and found != mark:
            raise _rolled_back(self._log.name)
        return length

    def _begin(self) -> None:
        """Forget what was read, and begin with the fit or the snapshot."""
        self._mark, self.version, self._kept = self._first, 1, 1
        self._at_hand = OrderedDict()
        self.spending = self._law.start()
        self.index = QuestionIndex()
        self.evidence = EvidenceHistory()
        self._restore()
        self._whole = True

    def _restore(self) -> None:
        """Continue from the snapshot, if there is one and it fits the log."""
        if self._snapshots is None:
            return
        found = self._snapshots.read()
        if found is None:
            return
        if found.identity != self._law.identity:
            raise LedgerError(
                f"the snapshot {str(self._snapshots.path)!r} is of another model; "
                "delete it, and everything is replayed from the ledger."
            )
        if not 1 <= found.version <= len(self._log):
            raise _rolled_back(self._log.name)
        if self.record(found.version - 1).mark != found.mark:
            raise _rolled_back(self._log.name)
        self.spending = self.spending.from_bytes(found.spending)
        self.index = QuestionIndex(found.keys, found.places)
        self.evidence = found.evidence
        self.version = self._kept = found.version
        self._mark = found.mark
        note_newest(self._first, self.version, self._mark)

    def _apply(self, record: QuestionRecord) -> None:
        """Charge the units what a record of the log cost them."""
        if record.before != self._mark:
            raise LedgerError(
                f"record {self.version} of {self._log.name!r} does not follow the one "
                "before it: the ledger lacks questions that were answered. Restore "
                "the ledger, or fit another model on data that nobody has used."
            )
        self._whole = False
        for client, rows in record.by_client():
            self._law.replay(rows["codes"], rows["trace"], self.spending, client)
        self._follow(record)
        self._whole = True

    def _follow(self, record: QuestionRecord) -> None:
        self.index.add(record.rows["codes"], self.version)
        self.evidence.add(record.rows["evidence"].tolist())
        self._hold(self.version, record)
        self._mark = record.mark
        self.version += 1
        note_newest(self._first, self.version, self._mark)

    def _hold(self, number: int, record: QuestionRecord) -> None:
        self._at_hand[number] = record
        while len(self._at_hand) > _RECORDS_AT_HAND:
            self._at_hand.popitem(last=False)


def _rolled_back(name: str) -> LedgerError:
    return LedgerError(
        f"the log {name!r} is older than what this model has answered: the ledger was "
        "put back from a copy, so what units have spent is not in it. Restore the "
        "newest ledger. If it is lost, the model must not answer again; fit another "
        "one on data that nobody has used."
    )
