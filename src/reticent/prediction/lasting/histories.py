"""Which log each model has: one, so that no unit spends its budget twice."""

from __future__ import annotations

import os
import threading
from typing import Any

from reticent.errors import InvalidParameterError, LedgerError, NotDeployableError
from reticent.ledger import (
    AccountId,
    AccountScope,
    Ledger,
    MemoryLedger,
    RecordLog,
)
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.records import REPLAY, QuestionRecord

_lock = threading.Lock()
# Held while a log is opened, so that of two threads the second one knows the first's.
_opening_log = threading.RLock()
# The mark of the first record of each model's log, as far as this process knows it;
# None for a model in a file that had no log when it was stored. A model with two logs
# would spend its units twice.
_histories: dict[str, bytes | None] = {}
# The newest record of each log that this process has read or written, by the mark of
# the log's first record: how many records there were with it, and its mark.
_newest: dict[bytes, tuple[int, bytes]] = {}
# Models that have answered outside a ledger: what they spent is lost with the process.
_in_memory: set[str] = set()
# Models whose log is in the memory of this process.
_logged_in_memory: set[str] = set()
# The processes in which models were fitted.
_fitted_in: dict[str, int] = {}


def _renew_after_fork() -> None:
    """Give a copy of the process locks that nobody holds."""
    global _lock, _opening_log
    _lock, _opening_log = threading.Lock(), threading.RLock()


os.register_at_fork(after_in_child=_renew_after_fork)


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


def only_continue(identity: str, mark: bytes | None = None) -> None:
    """Let a model that is in a file only continue its log.

    Parameters
    ----------
    identity : str
        The model's identity.
    mark : bytes or None, default=None
        The first mark of its log, if it had one when it was stored.
    """
    with _lock:
        known = _histories.setdefault(identity, mark)
        if known is None:
            _histories[identity] = mark
        elif mark is not None and mark != known:
            raise _other_log(identity)


def begin_storing(identity: str) -> bytes | None:
    """Let a model that is stored from now on only continue its log.

    Whoever loads it knows nothing of what it spends in the memory of this process, or
    of the one that this process was forked from: a model that has answered there, or
    may still do so, is refused.

    Returns
    -------
    bytes or None
        The first mark of its log, if it has one. It is stored with the model, so that
        whoever loads it begins no other.
    """
    with _opening_log, _lock:
        if identity in _in_memory | _logged_in_memory:
            raise InvalidParameterError(
                "this model has answered questions in memory, and what its records "
                "spent on them would be forgotten. Store it before the first question, "
                "or ask through a LastingInterface with a ledger that lasts."
            )
        if identity not in _histories and _is_copy(identity):
            raise NotDeployableError(
                "this process was forked from the one that fitted the model, which may "
                "still answer in its memory. Store the model where it was fitted."
            )
        return _histories.setdefault(identity, None)


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


def check_no_log(identity: str) -> None:
    """Refuse a model whose log may not begin, before its total is charged for one."""
    with _lock:
        if identity in _in_memory:
            raise _answered_outside()
        if identity in _histories:
            raise _other_log(identity)
    _refuse_to_begin_in_copies(identity)


def check_log(law: LastingLaw, ledger: Ledger) -> None:
    """Refuse a ledger that has not the log of a model, if it has one elsewhere.

    Nothing is charged and no log is begun, so a wrong ledger costs nothing.
    """
    known = _known_mark(law.identity, ledger)
    if known is None:
        return
    log = _log_of(law, ledger)
    if not len(log) or QuestionRecord.from_bytes(log.read(0)).mark != known:
        raise _other_log(law.identity)


def begin_log(law: LastingLaw, ledger: Ledger) -> None:
    """Begin the log of a model, once however often this is called.

    Only when its total is charged, and in one ledger: a second log would let units
    spend again what they have spent. From here on the model answers through it alone.
    """
    with _opening_log:
        check_log(law, ledger)
        log = _log_of(law, ledger)
        if not len(log):
            _refuse_to_begin_in_copies(law.identity)
        first = log.post(0, QuestionRecord.first(_opening(law)).to_bytes())
        _note_log(law.identity, ledger, _mark_of(first, law))


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


def note_newest(first: bytes, version: int, mark: bytes) -> None:
    """Note how far a log has come, so that an older copy of it is refused.

    Parameters
    ----------
    first : bytes
        The mark of the log's first record.
    version : int
        How many records were read or written; they are durable.
    mark : bytes
        The mark of the last of them.
    """
    with _lock:
        if version > _newest.get(first, (0, b""))[0]:
            _newest[first] = (version, mark)


def newest_known(first: bytes) -> tuple[int, bytes]:
    """Return the newest that `note_newest` was told; the first record if nothing."""
    with _lock:
        return _newest.get(first, (1, first))


def _opening(law: LastingLaw) -> dict[str, Any]:
    return {
        "identity": law.identity,
        "certificate": law.certificate.id,
        "replay": REPLAY,
    }


def _mark_of(first: bytes, law: LastingLaw) -> bytes:
    """Return the mark of a log's first record, if the log is of this model."""
    found = QuestionRecord.from_bytes(first)
    # Logs of earlier versions do not say by which rules; there was one set of them.
    opening = {"replay": 1, **(found.opening or {})}
    if opening["replay"] != REPLAY:
        raise LedgerError(
            "the log of this model was opened by a version of reticent that charges "
            "units by other rules: read by this one, it would say that they have spent "
            "something else. Use that version, or fit another model on data that "
            "nobody has used."
        )
    if opening != _opening(law):
        raise LedgerError(
            "the log of this model was opened with another certificate; the "
            "ledger belongs to another model, or was changed."
        )
    return found.mark


def log_account(identity: str) -> AccountId:
    """Return the account that counts the records of a model."""
    return AccountId(AccountScope.MODEL, f"lasting-{identity} questions")


def open_log(law: LastingLaw, ledger: Ledger) -> tuple[RecordLog, bytes]:
    """Open a model's log, or check that it is this model's; return its first mark."""
    with _opening_log:
        log = _log_of(law, ledger)
        with _lock:
            if law.identity in _in_memory:
                raise _answered_outside()
            may_begin = law.identity not in _histories
        if len(log):
            stored = log.read(0)
        elif not may_begin:
            raise _other_log(law.identity)
        else:
            _refuse_to_begin_in_copies(law.identity)
            stored = log.post(0, QuestionRecord.first(_opening(law)).to_bytes())
        mark = _mark_of(stored, law)
        _note_log(law.identity, ledger, mark)
        return log, mark


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
