"""The collaborators of an application, built once and closed in order."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from reticent.ledger import Ledger, SQLLedger, end_process
from reticent.service.activity import Activity
from reticent.service.answering import AnswerDesk
from reticent.service.key_tables import SQLKeys
from reticent.service.keys import Keyring, KeyStore
from reticent.service.registry import Registry, open_accounts, open_registry
from reticent.service.requests.access import Access
from reticent.service.requests.limits import Gate, RateLimit
from reticent.service.settings import Settings
from reticent.service.telemetry import Metrics

log = logging.getLogger("reticent.service")


@dataclass(frozen=True, eq=False)
class Parts:
    """Everything that routes work with."""

    settings: Settings
    ledger: Ledger
    registry: Registry
    keyring: Keyring
    access: Access
    desk: AnswerDesk
    gate: Gate
    metrics: Metrics
    activity: Activity

    def close(self) -> None:
        """Finish what is pending and let go of files and threads."""
        self.ledger.close()
        self.keyring.store.close()


def open_ledger(settings: Settings) -> SQLLedger:
    """Open the ledger of the settings; a failed write ends the process."""
    second = settings.second_place
    return SQLLedger(
        settings.ledger,
        checkpoints=second,
        signer=None if second is None else settings.derived("checkpoints"),
        checkpoint_every=settings.checkpoint_every,
        start=settings.start,
        on_fatal=end_process,
    )


def open_keyring(settings: Settings, store: KeyStore) -> Keyring:
    """Return what makes and recognises the keys in a store."""
    return Keyring(
        store,
        settings.derived("api-keys"),
        cache_seconds=settings.key_cache_seconds,
    )


def build(
    settings: Settings,
    *,
    ledger: Ledger | None = None,
    keys: KeyStore | None = None,
    registry: Registry | None = None,
) -> Parts:
    """Open models, ledger and keys, and check that they go together.

    Models are loaded first: a model that must not be served costs nothing.
    """
    found = open_registry(settings) if registry is None else registry
    book = open_ledger(settings) if ledger is None else ledger
    try:
        open_accounts(book, found, settings)
        store = SQLKeys(settings.ledger) if keys is None else keys
    except BaseException:
        if ledger is None:
            book.close()
        raise
    keyring = open_keyring(settings, store)
    metrics = Metrics()
    limit = RateLimit(settings.rate, settings.burst)
    return Parts(
        settings=settings,
        ledger=book,
        registry=found,
        keyring=keyring,
        access=Access(keyring, found, limit),
        desk=AnswerDesk(book, metrics),
        gate=Gate(settings.max_in_flight),
        metrics=metrics,
        activity=Activity(book),
    )
