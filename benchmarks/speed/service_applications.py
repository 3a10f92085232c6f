"""What the durable service is compared with: the same without ledger, and nothing."""

from __future__ import annotations

import json
from typing import Any

from reticent.home import BudgetSettings, Settings, SQLKeys, cap_of, client_account
from reticent.ledger import Balance, Outcome, Receipt, Request
from reticent.ledger.decisions import settled

# Budgets that no benchmark can spend.
PLENTY = {"epsilon": 1e8, "method": "basic"}


class NoLedger:
    """Remembers nothing and refuses nothing: what the ledger's work is measured by."""

    def __init__(self) -> None:
        from reticent.ledger import MemoryLedger

        self._memory = MemoryLedger()
        plenty = cap_of(BudgetSettings(**PLENTY), "replace-one")
        self._balances = (Balance(client_account("load"), plenty),)
        self.balance = self._memory.balance
        self.balances = self._memory.balances
        self.open_account = self._memory.open_account

    async def acharge(self, request: Request) -> Receipt:
        return self._receipt(request)

    def _receipt(self, request: Request) -> Receipt:
        places = tuple(range(len(request.queries)))
        return Receipt(
            key=request.key,
            outcome=Outcome.DRAW,
            sequence=1,
            entry_hash="",
            charge=request.charge,
            accounts={},
            remaining=self._balances,
            draw=places,
            answers=(None,) * len(places),
            places=places,
        )

    async def asettle(self, receipt: Receipt, answers: Any) -> Receipt:
        return settled(receipt, list(answers))

    async def aanswer(self, request: Request, draw: Any, about: Any) -> Receipt:
        receipt = await self.acharge(request)
        (answers,) = draw([(about, receipt)])
        return await self.asettle(receipt, answers)

    def answer_then(self, request: Request, draw: Any, about: Any, then: Any) -> None:
        receipt = self._receipt(request)
        (answers,) = draw([(about, receipt)])
        then(settled(receipt, list(answers)))

    def answer_all(self, asked: Any, draw: Any, then: Any) -> None:
        receipts = [self._receipt(request) for request, _ in asked]
        drawn = draw(
            [
                (about, receipt)
                for (_, about), receipt in zip(asked, receipts, strict=True)
            ]
        )
        for (_, about), receipt, answers in zip(asked, receipts, drawn, strict=True):
            then(about, settled(receipt, list(answers)))

    def close(self) -> None:
        self._memory.close()


def bare_application() -> Any:
    """Return the same application with no ledger and no model."""
    from reticent.home import open_registry
    from reticent.service import create_app
    from reticent.service.serving import keep_for_good
    from reticent.service.telemetry import configure_logging

    configure_logging()
    settings = Settings.load()
    registry = open_registry(settings)
    for served in registry:
        label = json.dumps(served.stored.classes[0]).encode()
        # The first label, whatever is asked; `draw` is kept where it was computed.
        vars(served)["draw"] = lambda table, label=label: [label] * len(table)
    app = create_app(
        settings,
        ledger=NoLedger(),
        keys=SQLKeys(settings.ledger),
        registry=registry,
    )
    keep_for_good()
    return app


# What an answer is made of, as the service sends it.
SAME_HEADERS = [
    (b"content-type", b"application/json"),
    (b"x-request-id", b"0123456789abcdef"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; " + b"x" * 155),
    (b"referrer-policy", b"same-origin"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
SAME_BODY = json.dumps(
    {
        "model": "adult",
        "answers": ["<=50K"],
        "certificate": "0" * 32,
        "charge": {
            "answers": 1,
            "each": {"per": "answer", "epsilon": 0.1, "delta": 0.0, "rho": 0.005},
        },
        "answers_left": 999_990_000,
        "sequence": 10_000,
        "request_id": "0123456789abcdef",
    }
).encode()


def floor_application() -> Any:
    """Return an application without framework that reads and sends the same bytes."""
    headers = [*SAME_HEADERS, (b"content-length", b"%d" % len(SAME_BODY))]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": SAME_BODY})

    return application
