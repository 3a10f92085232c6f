"""Any number of answers under one total, durable before anybody sees them (P10)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._numbers import nonnegative
from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.ledger import AccountId, AccountScope, Ledger
from reticent.prediction.lasting.evidence import EvidencePoint
from reticent.prediction.lasting.law import LastingLaw
from reticent.prediction.lasting.records import QuestionRecord, most_rows, row_type
from reticent.prediction.lasting.snapshots import SnapshotFile
from reticent.prediction.lasting.state import LastingState


@dataclass(frozen=True, eq=False)
class LastingReply:
    """Answers with the evidence behind each; all of it is released.

    Attributes
    ----------
    answers : ndarray of shape (n_queries,)
        Labels or numbers.
    evidence : ndarray of float of shape (n_queries,)
        A noisy number of units near the question that can still pay. It may be
        negative, and on average it is not above the number of those units.
    n_new : int
        How many questions were new; the others were answered from memory.
    """

    answers: NDArray[Any]
    evidence: NDArray[np.float64]
    n_new: int

    def abstains(self, below: float) -> NDArray[np.bool_]:
        """Return which answers have less evidence than `below`."""
        return np.asarray(self.evidence < nonnegative("abstains", "below", below))


@dataclass(eq=False)
class _Waiting:
    """The rows of one caller, and what becomes of them."""

    client: str
    codes: NDArray[np.int16]
    rows: list[Any] | None = None
    n_new: int = 0
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.rows is not None or self.error is not None


class LastingAnswers:
    """Answers questions about a lasting model; its state is a log in a ledger.

    Any number of threads and processes may answer for one model, each process with a
    ledger and a `LastingAnswers` of its own.

    Parameters
    ----------
    law : LastingLaw
        What draws the answers.
    ledger : Ledger
        Where the model's total was charged, and where its log is.
    paid : str
        The key under which the total was charged.
    snapshots : SnapshotFile or None, default=None
        Where snapshots are kept, for quick restarts.

    Guarantee
    ---------
    The law's certificate, about all answers of all processes together. *Proof.* The
    state of a worker is a function of the records that it has read; if an error comes
    while one is applied, the state is built again from the log. It draws an answer
    from a copy of the state and writes the record under the next number. If another
    worker wrote that number first, the draw is discarded unseen; so the answers that
    anybody sees are one sequence of rounds, each drawn from the state after all
    earlier ones, as the law's certificate demands. A record is durable before its
    answer is returned, so a crash loses nothing that anybody has seen, and a record
    whose answer was never seen has charged units too much, never too little.
    """

    def __init__(
        self,
        law: LastingLaw,
        ledger: Ledger,
        *,
        paid: str,
        snapshots: SnapshotFile | None = None,
    ) -> None:
        if law.seeded:
            raise NotDeployableError(
                "answers that are kept in a ledger need random_state=None: a seed "
                "would draw the same noise again after a restart."
            )
        if not ledger.charged(paid):
            raise NotDeployableError(
                "the total of this model was never charged in this ledger, so neither "
                "its account nor its earlier answers are known here. Give the ledger "
                "that was charged for it."
            )
        self.law = law
        self._state = LastingState(law, ledger, snapshots)
        self._waiting: list[_Waiting] = []
        self._queue, self._answering = threading.Lock(), threading.Lock()
        self._process = os.getpid()

    def __reduce__(self) -> Any:
        raise InvalidParameterError(
            "the state of a lasting model is not pickled; open one in each process."
        )

    @property
    def n_records(self) -> int:
        """How many records of questions this process has read or written."""
        return self._state.version - 1

    def ask(self, codes: NDArray[np.int16], client: str) -> LastingReply:
        """Answer encoded questions; see `LastingLaw.encode`.

        Requests of other threads that wait share one record, and its one commit.

        Parameters
        ----------
        codes : ndarray of int16 of shape (n_queries, n_columns)
            The questions.
        client : str
            Who asks. Records name clients, and who reads them charges the same client.
        """
        AccountId(AccountScope.CLIENT, client)  # refuses what is no name
        if os.getpid() != self._process:
            raise NotDeployableError(
                "this process was forked from the one that opened the model. Open a "
                "ledger and an interface in each process."
            )
        most = self._most_rows(codes)
        parts = [
            self._ask(_Waiting(client, codes[start : start + most]))
            for start in range(0, len(codes), most)
        ]
        rows = [row for part in parts for row in part.rows or ()]
        return self._reply(rows, sum(part.n_new for part in parts))

    def evidence(self) -> list[EvidencePoint]:
        """Return how the evidence behind answers has changed, for all workers.

        It is made from released numbers, so it may be shown to whoever sees answers.
        """
        with self._answering:
            self._state.catch_up()
            return self._state.evidence.points()

    def spending(self) -> Any:
        """Return a copy of what each unit has spent, after all records: a secret."""
        with self._answering:
            self._state.catch_up()
            return self._state.spending.copy()

    def close(self) -> None:
        """Write a snapshot, so that the next start is quick."""
        with self._answering:
            self._state.snapshot()

    def _ask(self, own: _Waiting) -> _Waiting:
        with self._queue:
            self._waiting.append(own)
        while not own.done:
            with self._answering:
                if own.done:
                    break
                self._answer(self._taken())
        if own.error is not None:
            raise own.error
        return own

    def _most_rows(self, codes: NDArray[np.int16]) -> int:
        labels = self.law.classes
        return most_rows(codes.shape[1], 0 if labels is None else len(labels))

    def _taken(self) -> list[_Waiting]:
        """Take from the queue what fits into one record, the oldest first."""
        with self._queue:
            count, n_rows = 0, 0
            for each in self._waiting:
                n_rows += len(each.codes)
                if count and n_rows > self._most_rows(each.codes):
                    break
                count += 1
            taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    def _answer(self, taken: Sequence[_Waiting]) -> None:
        """Answer those who wait, or hand the error to all of them."""
        began = time.monotonic()
        try:
            new = self._learn(taken)
            for each in taken:
                each.rows = [self._row(codes, new) for codes in each.codes]
        except BaseException as error:  # noqa: BLE001 - raised by those who wait
            for each in taken:
                each.error = error
            return
        self._state.note_time(time.monotonic() - began)

    def _row(self, codes: NDArray[np.int16], new: dict[bytes, Any]) -> Any:
        found = new.get(codes.tobytes())
        return self._state.find(codes) if found is None else found

    def _learn(self, taken: Sequence[_Waiting]) -> dict[bytes, Any]:
        """Have every new question answered in the log; return those, by their codes."""
        state = self._state
        state.repair()
        while True:
            fresh = self._fresh(taken)
            spending = state.spending.copy()
            asked, drawn = [], []
            for each, codes in zip(taken, fresh, strict=True):
                each.n_new = len(codes)
                if len(codes):
                    asked.append((each.client, len(codes)))
                    drawn.append(self._draw(codes, spending, each.client))
            if not drawn:
                return {}
            rows = np.concatenate(drawn)
            record = QuestionRecord.after(state.mark, asked, rows)
            if state.write(record, spending):
                return {row["codes"].tobytes(): row for row in rows}

    def _fresh(self, taken: Sequence[_Waiting]) -> list[NDArray[np.int16]]:
        """Return for each caller the questions that nobody asked before."""
        seen: set[bytes] = set()
        fresh = []
        for each in taken:
            own = []
            for row, codes in enumerate(each.codes):
                content = codes.tobytes()
                if content not in seen and self._state.find(codes) is None:
                    own.append(row)
                seen.add(content)
            fresh.append(each.codes[own])
        return fresh

    def _draw(
        self, codes: NDArray[np.int16], spending: Any, client: str
    ) -> NDArray[Any]:
        drawn = self.law.ask(codes, spending, client)
        kind = row_type(codes.shape[1], drawn.trace.shape[1])
        rows = np.empty(len(codes), dtype=kind)
        rows["codes"], rows["trace"] = codes, drawn.trace
        rows["evidence"] = drawn.evidence
        rows["answer"] = self._places(drawn.answers)
        return rows

    def _places(self, answers: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers as they are, labels by their places."""
        if self.law.classes is None:
            return np.asarray(answers, dtype=np.float64)
        places = {label: place for place, label in enumerate(self.law.classes.tolist())}
        return np.array([places[label] for label in answers.tolist()], dtype=np.float64)

    def _reply(self, rows: Sequence[Any], n_new: int) -> LastingReply:
        answers = np.array([row["answer"] for row in rows], dtype=np.float64)
        evidence = np.array([row["evidence"] for row in rows], dtype=np.float64)
        if self.law.classes is not None:
            answers = self.law.classes[answers.astype(np.int64)]
        return LastingReply(answers, evidence, n_new)
