"""Models whose answers last, as one process serves them."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InternalError, InvalidParameterError
from reticent.home.model_settings import ModelSettings
from reticent.home.settings import Settings
from reticent.ledger import Ledger
from reticent.prediction import (
    EvidencePoint,
    LastingAnswers,
    LastingLaw,
    PaidAnswers,
    SnapshotFile,
    total_key,
)
from reticent.schemas import Table
from reticent.signing import HMACSigner
from reticent.storage import StoredModel

#: How the names of snapshots end; they begin with a dot and the model's name.
SNAPSHOT = ".snapshot"


class LastingSession:
    """Answers of one process for a model whose total is charged.

    Parameters
    ----------
    stored : StoredModel
        What answers.
    law : LastingLaw
        Its law.
    snapshots : SnapshotFile or None, default=None
        Where snapshots are kept.
    abstain_below : float, default=0.0
        Answers with less evidence are withheld by whoever shows them.

    Guarantee
    ---------
    See `reticent.prediction.LastingAnswers`.
    """

    def __init__(
        self,
        stored: StoredModel,
        law: LastingLaw,
        snapshots: SnapshotFile | None = None,
        abstain_below: float = 0.0,
    ) -> None:
        self._stored = stored
        self._law = law
        self._snapshots = snapshots
        self.abstain_below = abstain_below
        self._opened: tuple[Ledger, LastingAnswers] | None = None
        self._lock = threading.Lock()

    @property
    def local(self) -> bool:
        """Whether records near a question vote on its answer.

        Where they do not, what was released at the fit answers every question.
        """
        return bool(getattr(self._stored.predictor, "local_", True))

    def level(self, wanted: float | None) -> float:
        """Return the evidence below which nothing is answered.

        Parameters
        ----------
        wanted : float or None
            What a request asks for, in addition to the settings; None for nothing.
        """
        asked = max(self.abstain_below, wanted or 0.0)
        if asked and not self.local:
            raise InvalidParameterError(
                "abstain_below is for answers from records near a question. A released "
                "model answers every question here; it has no evidence that could run "
                "out. Leave it out, or fit with --local always."
            )
        return asked

    def check(self, name: str) -> None:
        """Refuse a setting that has no meaning for this model, by its name."""
        try:
            self.level(None)
        except InvalidParameterError as error:
            raise InvalidParameterError(f"models.{name}: {error}") from None

    def open(self, ledger: Ledger) -> None:
        """Read the model's log in a ledger, in which its total must be charged."""
        with self._lock:
            if self._opened is None or self._opened[0] is not ledger:
                answers = LastingAnswers(
                    self._law,
                    ledger,
                    paid=total_key(self._law.identity),
                    snapshots=self._snapshots,
                )
                self._opened = (ledger, answers)

    def answer(self, table: Table, client: str) -> PaidAnswers:
        """Answer rows for a client, with the evidence behind each."""
        codes = self._law.encode(self._stored.encoder.transform(table))
        reply = self._answers.ask(np.asarray(codes), client)
        return PaidAnswers(
            self._stored.as_json(reply.answers),
            evidence=reply.evidence.tolist(),
            remembered=len(reply.answers) - reply.n_new,
        )

    def evidence(self) -> list[EvidencePoint]:
        """Return how the evidence behind answers has changed."""
        return self._answers.evidence()

    def spent(self) -> NDArray[np.uint32]:
        """Return what each unit has spent so far: a secret."""
        return np.asarray(self._answers.spending().spent)

    def close(self) -> None:
        """Write a snapshot, so that the next start is quick."""
        if self._opened is not None:
            self._opened[1].close()

    @property
    def _answers(self) -> LastingAnswers:
        if self._opened is None:
            raise InternalError("a lasting model was asked before its log was read.")
        return self._opened[1]


def lasting_session(
    stored: StoredModel, name: str, wanted: ModelSettings | None, settings: Settings
) -> LastingSession:
    """Return the session of a stored model, under its settings.

    Its snapshot is next to the model, signed with a key of the installation.
    """
    if stored.lasting is None:
        raise InternalError(f"the answers of model {name!r} do not last.")
    if wanted is None:
        return LastingSession(stored, stored.lasting)
    if wanted.consensus is not None or wanted.budget is not None:
        raise InvalidParameterError(
            f"models.{name}: all answers of this model are covered by one total, so "
            "it takes neither consensus nor a budget of its own."
        )
    if not wanted.remember:
        raise InvalidParameterError(
            f"models.{name}: a lasting model remembers every question, because what "
            "its records have spent follows from them; leave remember out."
        )
    path = wanted.path
    return LastingSession(
        stored,
        stored.lasting,
        SnapshotFile(
            path.parent / f".{path.name}.{stored.lasting.identity}{SNAPSHOT}",
            HMACSigner(settings.derived("lasting-snapshots")),
        ),
        wanted.abstain_below,
    )
