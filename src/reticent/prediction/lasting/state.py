"""The durable state of a lasting model: a function of the log, and of nothing else."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import (
    InvalidParameterError,
    LedgerError,
    NotDeployableError,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Ledger,
    MemoryLedger,
    RecordLog,
)
from reticent.prediction.lasting.evidence import EvidenceHistory
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.memory import QuestionIndex
from reticent.prediction.lasting.records import QuestionRecord
from reticent.prediction.lasting.snapshots import Snapshot, SnapshotFile

log = logging.getLogger("reticent.prediction")

_RECORDS_AT_HAND = 256
# A snapshot is due when answers since the last one took this many seconds, and this
# many times what the last one took: a restart replays no more, and costs stay small.
_SECONDS, _TIMES = 1.0, 20.0

_lock = threading.Lock()
# The mark of the first record of each model's log that this process has used; None for
# a model that came from a file. A model with two logs would spend its units twice.
_histories: dict[str, bytes | None] = {}
# Models that have answered outside a ledger: what they spent is lost with the process.
_in_memory: set[str] = set()
# Models whose log is in the memory of this process.
_logged_in_memory: set[str] = set()
# The processes in which models were fitted.
_fitted_in: dict[str, int] = {}


def fitted_here(identity: str) -> None:
    """Note in which process a model was fitted."""
    _fitted_in[identity] = os.getpid()


def refuse_copies(identity: str) -> None:
    """Refuse memory as the ledger of a model in a copy of the process that fitted it.

    Each copy has a memory of its own, and would let units spend again.
    """
    if _is_copy(identity):
        raise NotDeployableError(
            "this process was forked from the one that fitted the model. Give the "
            "interface a ledger that all processes share, such as SQLLedger."
        )


def _refuse_to_begin_in_copies(identity: str) -> None:
    """Refuse a new log in a copy of the process that fitted a model.

    The other copies know nothing of it, and may answer in memory or begin another.
    """
    if _is_copy(identity):
        raise NotDeployableError(
            "this process was forked from the one that fitted the model, and the model "
            "has no log in this ledger. Open a LastingInterface with a ledger that all "
            "processes share, such as SQLLedger, where the model was fitted; then this "
            "process can continue its log."
        )


def _is_copy(identity: str) -> bool:
    return _fitted_in.get(identity, os.getpid()) != os.getpid()


def only_continue(identity: str) -> None:
    """Let a model that is in a file continue its log, and never begin one."""
    with _lock:
        _histories.setdefault(identity, None)


def begin_storing(identity: str) -> None:
    """Let a model that is stored from now on only continue its log.

    Whoever loads it knows nothing of what it spends in the memory of this process, so
    a model that has answered there is refused.
    """
    with _lock:
        if identity in _in_memory | _logged_in_memory:
            raise InvalidParameterError(
                "this model has answered questions in memory, and what its records "
                "spent on them would be forgotten. Store it before the first question, "
                "or ask through a LastingInterface with a ledger that lasts."
            )
        _histories.setdefault(identity, None)


def answer_in_memory(identity: str) -> None:
    """Note that a model answers in this process's memory; refuse one with a log."""
    with _lock:
        if identity in _histories:
            raise NotDeployableError(
                "this model was stored, or what its records have spent is in the "
                "log of a ledger. Ask through reticent.prediction.LastingInterface, "
                "with the ledger in which its total was charged."
            )
        _in_memory.add(identity)


def begin_log(law: LastingLaw, ledger: Ledger) -> None:
    """Begin the log of a model, once however often this is called.

    Only when its total is charged, and in one ledger: a second log would let units
    spend again what they have spent. From here on the model answers through it alone.
    """
    known = _known_mark(law.identity, ledger)
    log = _log_of(law, ledger)
    if not len(log):
        if known is not None:
            raise _other_log(law.identity)
        _refuse_to_begin_in_copies(law.identity)
    first = log.post(0, QuestionRecord.first(_opening(law)).to_bytes())
    _note_log(law.identity, ledger, QuestionRecord.from_bytes(first).mark)


def _known_mark(identity: str, ledger: Ledger) -> bytes | None:
    """Return the first mark of a model's log, if it is known, and let none begin."""
    with _lock:
        if identity in _in_memory:
            raise _answered_outside()
        stored = identity in _histories and _histories[identity] is None
        if stored and isinstance(ledger, MemoryLedger):
            raise NotDeployableError(
                "this model is stored, and a ledger in memory ends with this process: "
                "the next one would spend again what the model's records have spent. "
                "Give a ledger that lasts, such as SQLLedger."
            )
        return _histories.setdefault(identity, None)


def _note_log(identity: str, ledger: Ledger, mark: bytes) -> None:
    """Note the log of a model, unless it has another, or has answered in memory."""
    with _lock:
        if identity in _in_memory:
            raise _answered_outside()
        known = _histories.get(identity)
        if known is not None and known != mark:
            raise _other_log(identity)
        _histories[identity] = mark
        if isinstance(ledger, MemoryLedger):
            _logged_in_memory.add(identity)


def _log_of(law: LastingLaw, ledger: Ledger) -> RecordLog:
    return RecordLog(ledger, f"lasting-{law.identity}", log_account(law.identity))


def _opening(law: LastingLaw) -> dict[str, Any]:
    return {"identity": law.identity, "certificate": law.certificate.id}


def log_account(identity: str) -> AccountId:
    """Return the account that counts the records of a model."""
    return AccountId(AccountScope.MODEL, f"lasting-{identity} questions")


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
    version : int
        How many records were read.
    """

    def __init__(
        self, law: LastingLaw, ledger: Ledger, snapshots: SnapshotFile | None = None
    ) -> None:
        self._law = law
        self._snapshots = snapshots
        self._ledger = ledger
        self._log = _log_of(law, ledger)
        self._at_hand: OrderedDict[int, QuestionRecord] = OrderedDict()
        self._mark = self._opened()
        self.version = 1
        self.spending: Any = law.start()
        self.index = QuestionIndex()
        self.evidence = EvidenceHistory()
        self._since, self._took = 0.0, 0.0
        self._kept = 1
        self._restore()
        self.catch_up()

    def catch_up(self) -> None:
        """Read the records that other workers wrote."""
        newest = len(self._log)
        if newest < self.version:
            raise _rolled_back(self._log.name)
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
        self.spending = spending
        self._follow(record)
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
        if self._snapshots is None or self._kept == self.version:
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

    def _opened(self) -> bytes:
        """Open the log, or check that it is this model's; return its first mark."""
        law, opening = self._law, _opening(self._law)
        with _lock:
            if law.identity in _in_memory:
                raise _answered_outside()
            may_begin = law.identity not in _histories
        if len(self._log):
            stored = self._log.read(0)
        elif not may_begin:
            raise _other_log(law.identity)
        else:
            _refuse_to_begin_in_copies(law.identity)
            stored = self._log.post(0, QuestionRecord.first(opening).to_bytes())
        found = QuestionRecord.from_bytes(stored)
        if found.opening != opening:
            raise LedgerError(
                "the log of this model was opened with another certificate; the "
                "ledger belongs to another model, or was changed."
            )
        _note_log(law.identity, self._ledger, found.mark)
        return found.mark

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

    def _apply(self, record: QuestionRecord) -> None:
        """Charge the units what a record of the log cost them."""
        if record.before != self._mark:
            raise LedgerError(
                f"record {self.version} of {self._log.name!r} does not follow the one "
                "before it: the ledger lacks questions that were answered. Restore "
                "the ledger, or fit another model on data that nobody has used."
            )
        for client, rows in record.by_client():
            self._law.replay(rows["codes"], rows["trace"], self.spending, client)
        self._follow(record)

    def _follow(self, record: QuestionRecord) -> None:
        self.index.add(record.rows["codes"], self.version)
        self.evidence.add(record.rows["evidence"].tolist())
        self._hold(self.version, record)
        self._mark = record.mark
        self.version += 1

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


def _answered_outside() -> NotDeployableError:
    return NotDeployableError(
        "this model has answered questions in memory, outside a ledger, and its "
        "records would spend again what they spent on them. Fit it again, and ask "
        "through the interface from the first question."
    )


def _other_log(identity: str) -> NotDeployableError:
    return NotDeployableError(
        f"the model {identity} has answered questions whose log is elsewhere. Two logs "
        "would spend its units twice: give the ledger of the first one."
    )
