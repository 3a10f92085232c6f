"""Over HTTP: private predictions under budgets that survive crashes.

`create_app` builds an ASGI application from `Settings`; it refuses to start when
something would weaken privacy.
"""

from reticent.service.answering import idempotency_key
from reticent.service.app import create_app
from reticent.service.key_tables import SQLKeys
from reticent.service.keys import KeyRecord, Keyring, KeyStore, MemoryKeys, Role
from reticent.service.parts import build, open_keyring, open_ledger
from reticent.service.registry import client_account, dataset_account, price_problem
from reticent.service.serving import application, serve
from reticent.service.settings import (
    BudgetSettings,
    ConsensusSettings,
    ModelSettings,
    Settings,
)

__all__ = [
    "BudgetSettings",
    "ConsensusSettings",
    "KeyRecord",
    "KeyStore",
    "Keyring",
    "MemoryKeys",
    "ModelSettings",
    "Role",
    "SQLKeys",
    "Settings",
    "application",
    "build",
    "client_account",
    "create_app",
    "dataset_account",
    "idempotency_key",
    "open_keyring",
    "open_ledger",
    "price_problem",
    "serve",
]
