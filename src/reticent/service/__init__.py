"""Over HTTP: private predictions under budgets that survive crashes.

`create_app` builds an ASGI application from `Settings`; it refuses to start when
something would weaken privacy.
"""

from reticent.service.app import create_app
from reticent.service.keys import KeyRecord, Keyring, KeyStore, MemoryKeys, Role
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
    "Settings",
    "application",
    "create_app",
    "serve",
]
