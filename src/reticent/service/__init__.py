"""Over HTTP: private predictions under budgets that survive crashes.

`create_app` builds an ASGI application from `reticent.home.Settings`; it refuses to
start when something would weaken privacy.
"""

from reticent.service.app import create_app
from reticent.service.service import Service, open_service
from reticent.service.serving import application, serve

__all__ = [
    "Service",
    "application",
    "create_app",
    "open_service",
    "serve",
]
