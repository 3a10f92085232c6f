"""Budgets as gauges: what share of each account is spent, for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from reticent.errors import ReticentError
from reticent.ledger import AccountScope, Ledger
from reticent.service.telemetry import Metrics

log = logging.getLogger("reticent.service")

# Clients come and go; a gauge for each would grow without end.
_SHOWN = (AccountScope.DATASET, AccountScope.MODEL)
_SECONDS = 15.0


def show_budgets(ledger: Ledger, metrics: Metrics) -> None:
    """Set the gauges to what the ledger says; this depends on charges alone."""
    for balance in ledger.balances():
        # Accounts of our own, such as the log of a lasting model, have a space in them.
        own = " " in balance.account.name
        if balance.account.scope in _SHOWN and not own:
            share = min(balance.share[0], 1.0)
            metrics.budget.labels(str(balance.account)).set(share)


@contextlib.asynccontextmanager
async def shown_budgets(
    ledger: Ledger, metrics: Metrics, seconds: float = _SECONDS
) -> AsyncIterator[None]:
    """Keep the gauges up to date in the background.

    Parameters
    ----------
    ledger : Ledger
        Whose accounts are shown.
    metrics : Metrics
        Where they are shown.
    seconds : float, default=15.0
        How long they may lag behind.
    """
    task = asyncio.create_task(_watch(ledger, metrics, seconds))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _watch(ledger: Ledger, metrics: Metrics, seconds: float) -> None:
    while True:
        try:
            await asyncio.to_thread(show_budgets, ledger, metrics)
        except ReticentError:
            # Answers fail for the same reason and say so; a gauge just keeps its value.
            log.warning("gauges are not updated", extra={"fields": {}})
        await asyncio.sleep(seconds)
