"""Consensus answers in service: one session a process, paid before its first answer."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from reticent.errors import BudgetExhaustedError, InvalidParameterError
from reticent.guarantees import Budget
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    Ledger,
    Method,
    Receipt,
    Request,
)
from reticent.prediction import ConsensusInterface, PrivateVotingClassifier
from reticent.service.requests.problems import ProblemError
from reticent.service.settings import ConsensusSettings

if TYPE_CHECKING:
    from reticent.schemas import Table
    from reticent.storage import StoredModel


class ConsensusDesk:
    """Answers by consensus (P9).

    Parameters
    ----------
    name : str
        The model's public name.
    stored : StoredModel
        Whose shards vote; of kind ``voting``.
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
        self._account = AccountId(AccountScope.MODEL, f"{name}/session/{self._session}")
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
        self._lock = asyncio.Lock()

    async def admit(
        self, ledger: Ledger, accounts: tuple[AccountId, ...], client: AccountId
    ) -> tuple[AccountId, ...]:
        """Have the session paid for by dataset and client; return what counts queries.

        Raises
        ------
        BudgetExhaustedError
            If one of them cannot pay.
        """
        if str(client) not in self._paid:
            async with self._lock:
                if not self._paid:
                    await self._pay(ledger, "session", accounts)
                    await asyncio.to_thread(
                        ledger.open_account, self._account, self._cap
                    )
                await self._pay(ledger, f"client/{client.name}", (client,))
                self._paid.add(str(client))
        return (self._account,)

    async def _pay(
        self, ledger: Ledger, payer: str, accounts: tuple[AccountId, ...]
    ) -> Receipt:
        # Charged once however often this runs: the key names session and payer.
        return await ledger.acharge(
            Request(
                key=f"/consensus/{self._session}/{payer}",
                accounts=accounts,
                charge=self.charge,
                queries=(b"a consensus session",),
            )
        )

    def answer_json(self, table: Table) -> list[bytes]:
        """Return one label a row, each as JSON.

        Raises
        ------
        ProblemError
            If the session has no doubtful answers left; that it says so is part of
            what it paid for.
        """
        try:
            labels = self._interface.predict(self._stored.encoder.transform(table))
        except BudgetExhaustedError:
            raise ProblemError(
                403,
                "consensus_exhausted",
                "this consensus session has used up its answers in doubt.",
            ) from None
        return self._stored.as_json(labels)
