"""The collaborators of an application, opened once and closed in order."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from reticent._clock import seconds
from reticent.errors import InvalidParameterError, LedgerError
from reticent.home import (
    Keyring,
    KeyStore,
    Registry,
    Settings,
    SQLKeys,
    check_prices,
    open_accounts,
    open_registry,
)
from reticent.ledger import Ledger
from reticent.service.activity import Activity
from reticent.service.answering import Answering
from reticent.service.requests.access import Access
from reticent.service.requests.limits import Gate, RateLimit
from reticent.service.requests.probes import Probes
from reticent.service.telemetry import Metrics

log = logging.getLogger("reticent.service")


@dataclass(frozen=True, eq=False)
class Service:
    """Everything that routes work with."""

    settings: Settings
    ledger: Ledger
    registry: Registry
    keyring: Keyring
    access: Access
    answering: Answering
    gate: Gate
    probes: Probes
    metrics: Metrics
    activity: Activity

    def close(self) -> None:
        """Finish what is pending and close files and threads."""
        self.access.close()
        self.registry.close()
        self.ledger.close()
        self.keyring.store.close()


def open_service(
    settings: Settings,
    *,
    ledger: Ledger | None = None,
    keys: KeyStore | None = None,
    registry: Registry | None = None,
) -> Service:
    """Open models, ledger and keys, and check that they fit together.

    Nothing is charged: a released model that was not paid for is refused. Models are
    loaded first, so that one that must not be served leaves the ledger untouched.
    """
    seconds()  # a log, too, needs a clock that can be read
    risk = settings.second_place_risk()
    if risk is not None:
        log.warning("second place", extra={"fields": {"risk": risk}})
    if not settings.models and registry is None:
        raise InvalidParameterError("models names no model to serve.")
    found = open_registry(settings) if registry is None else registry
    opened = settings.open_ledger() if ledger is None else ledger
    try:
        open_accounts(opened, found, settings)
        check_prices(opened, found)
        store = SQLKeys(settings.ledger) if keys is None else keys
    except BaseException:
        if ledger is None:
            opened.close()
        raise
    keyring = settings.keyring(store)
    metrics, gate = Metrics(), Gate(settings.max_in_flight)
    limit = RateLimit(settings.rate, settings.burst)
    return Service(
        settings=settings,
        ledger=opened,
        registry=found,
        keyring=keyring,
        access=Access(keyring, found, limit),
        answering=Answering(opened, metrics),
        gate=gate,
        probes=Probes(gate, partial(ledger_answers, opened, found)),
        metrics=metrics,
        activity=Activity(opened),
    )


def ledger_answers(ledger: Ledger, registry: Registry) -> bool:
    """Return whether the ledger can be read; released models do not need it."""
    accounts = [account for model in registry for account in model.accounts[:1]]
    try:
        for account in accounts[:1]:
            ledger.balance(account)
    except LedgerError:
        return False
    return True
