"""Consensus answers: one session per process, paid for before its first answer."""

from __future__ import annotations

import secrets
import threading

from reticent.errors import (
    BudgetExhaustedError,
    ConsensusExhaustedError,
    InvalidParameterError,
)
from reticent.guarantees import Budget
from reticent.home.model_settings import ConsensusSettings
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Method,
    Request,
)
from reticent.prediction import ConsensusInterface, PrivateVotingClassifier
from reticent.schemas import Table
from reticent.storage import StoredModel


class ConsensusSession:
    """Answers of one process by consensus (P9).

    Parameters
    ----------
    name : str
        The model's public name.
    stored : StoredModel
        The model whose shards vote; its kind must be ``voting``.
    settings : ConsensusSettings
        The price and the length of a session.
    place : str
        Names the model's remembered answers.

    Guarantee
    ---------
    Every session charges its whole price to the dataset before its first answer, and
    to a client before that client's first answer. A session lives in one process and
    ends with it: what a crash leaves unused is lost, never used twice. Queries are
    counted, and answers stored, in the ledger before anybody sees them.
    """

    def __init__(
        self, name: str, stored: StoredModel, settings: ConsensusSettings, place: str
    ) -> None:
        if not isinstance(stored.predictor, PrivateVotingClassifier):
            raise InvalidParameterError(
                f"model {name!r} is of kind {stored.kind!r}; consensus answers need "
                "kind 'voting'."
            )
        self._stored = stored
        self._interface = ConsensusInterface(
            stored.predictor,
            Budget(settings.epsilon, settings.delta),
            queries=settings.queries,
            unstable=settings.unstable,
            vote_share=settings.vote_share,
        )
        self.certificate = self._interface.certificate
        self.charge = Charge.of(self.certificate)
        self._session = secrets.token_hex(8)
        self.account = AccountId(AccountScope.MODEL, f"{name}/session/{self._session}")
        self._cap = Cap(
            method=Method.COUNT,
            relation=self.charge.relation,
            epsilon=self.charge.epsilon,
            delta=self.charge.delta,
            answers=settings.queries,
            certificate=self.certificate.id,
        )
        self.memory = f"{place}/{self._session}"
        self._paid: set[str] = set()
        self._lock = threading.Lock()

    def admits(self, client: str) -> bool:
        """Return whether a client has paid for this session."""
        return client in self._paid

    def admit(
        self, ledger: Ledger, accounts: tuple[AccountId, ...], client: str
    ) -> None:
        """Charge the session to its dataset and to a client, each of them once.

        Parameters
        ----------
        ledger : Ledger
            The ledger that is charged.
        accounts : tuple of AccountId
            The accounts of the model, its dataset's among them.
        client : str
            The client.

        Raises
        ------
        BudgetExhaustedError
            If one of them cannot pay.
        """
        with self._lock:
            if not self._paid:
                self._pay(ledger, "session", accounts)
                ledger.open_account(self.account, self._cap)
            if client not in self._paid:
                account = AccountId(AccountScope.CLIENT, client)
                self._pay(ledger, f"client/{client}", (account,))
                self._paid.add(client)

    def _pay(self, ledger: Ledger, payer: str, accounts: tuple[AccountId, ...]) -> None:
        # Charged once however often this runs: the key names session and payer.
        ledger.charge(
            Request(
                key=f"/consensus/{self._session}/{payer}",
                accounts=accounts,
                charge=self.charge,
                queries=(b"a consensus session",),
            )
        )

    def answer_json(self, table: Table) -> list[bytes]:
        """Return one label per row, each as JSON.

        Raises
        ------
        ConsensusExhaustedError
            If the session has no answers in doubt left. The price of the session covers
            this message.
        """
        try:
            labels = self._interface.predict(self._stored.encoder.transform(table))
        except BudgetExhaustedError:
            raise ConsensusExhaustedError(
                "this consensus session has used up its answers in doubt."
            ) from None
        return self._stored.as_json(labels)
