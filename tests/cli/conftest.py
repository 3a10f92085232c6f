"""What the tests of commands share: a browser."""

from tests.browser import browser, shared_browser

__all__ = ["browser", "shared_browser"]
