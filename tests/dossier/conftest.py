"""What the tests of dossiers share: a browser."""

from tests.browser import browser, shared_browser

__all__ = ["browser", "shared_browser"]
