"""What the service's tests share: a browser, and a PostgreSQL server."""

from tests.browser import browser, shared_browser
from tests.postgres import postgres_server, postgres_url

__all__ = ["browser", "postgres_server", "postgres_url", "shared_browser"]
