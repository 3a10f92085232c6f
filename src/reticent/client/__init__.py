"""Ask a service from Python, at once or with ``await``.

Retries are safe: every question has an idempotency key, so that it is charged once
however often it is sent. Needs the extra ``reticent[client]``.
"""

from reticent.client.clients import AsyncClient, Client
from reticent.client.replies import Account, Budgets, Model, Reply

__all__ = ["Account", "AsyncClient", "Budgets", "Client", "Model", "Reply"]
