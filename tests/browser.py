"""A real browser for tests of pages, found or installed by ``scripts/browser``.

Use it by importing the fixture into a conftest::

    from tests.browser import browser
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

REQUIRED = "RETICENT_REQUIRE_BROWSER"
_SCRIPT = Path(__file__).parent.parent / "scripts" / "browser"
_PATIENCE = 180  # on a busy machine; a quick one waits for moments


class NoBrowserError(Exception):
    """No browser can be had on this machine; the message says why."""


def find() -> tuple[str, str]:
    """Return where the browser and its driver are; install them if that is possible."""
    lock = Path(tempfile.gettempdir()) / f"reticent-browser-{os.getuid()}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # test processes must not install at once
        done = subprocess.run(
            [_SCRIPT], capture_output=True, text=True, check=False, timeout=600
        )
    if done.returncode:
        raise NoBrowserError(done.stderr.strip()[-300:])
    program, driver = done.stdout.split()
    return program, driver


class Browser:
    """Chromium without a window, and what it noticed: its console and its requests."""

    def __init__(self) -> None:
        program, driver = find()
        options = webdriver.ChromeOptions()
        options.binary_location = program
        for flag in (
            *("--headless=new", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", "--no-first-run", "--disable-sync"),
            *("--disable-background-networking", "--disable-component-update"),
            *("--hide-scrollbars", "--force-prefers-reduced-motion"),
        ):
            options.add_argument(flag)
        logs = {"browser": "ALL", "performance": "ALL"}
        options.set_capability("goog:loggingPrefs", logs)
        service = webdriver.ChromeService(executable_path=driver)
        try:
            self.driver = webdriver.Chrome(options=options, service=service)
        except WebDriverException as error:
            raise NoBrowserError(str(error.msg)[-300:]) from None
        self.driver.set_page_load_timeout(_PATIENCE)
        self.resize(1280, 900)

    def resize(self, width: int, height: int) -> None:
        """Show pages on a screen of another size."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.command("Emulation.setDeviceMetricsOverride", mobile=False, **screen)

    def command(self, name: str, **settings: Any) -> Any:
        """Send a command of the developer tools."""
        return self.driver.execute_cdp_cmd(name, settings)

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark pages."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", media="", features=features)

    def photograph(self, path: Path) -> None:
        """Keep a picture of the whole page."""
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "scale": 1}
        clip |= {"width": size["width"], "height": min(size["height"], 8000)}
        shown = self.command(
            "Page.captureScreenshot", captureBeyondViewport=True, clip=clip
        )
        path.write_bytes(base64.b64decode(shown["data"]))

    def console(self) -> list[str]:
        """Return what pages complained about since the last call."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that pages asked for since the last call."""
        found = []
        for line in self.driver.get_log("performance"):
            event = json.loads(line["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                found.append(event["params"]["request"]["url"])
        return found

    def forget(self) -> None:
        """Be as a browser that was never used."""
        self.driver.get("about:blank")
        self.command("Network.clearBrowserCookies")
        self.command("Emulation.setScriptExecutionDisabled", value=False)
        self.prefer("light")
        self.resize(1280, 900)
        self.console()
        self.requests()


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[Browser]:
    """A running browser; skipped aloud where none can be had."""
    try:
        started = Browser()
    except NoBrowserError as reason:
        message = f"THE DASHBOARD IS NOT TESTED IN A BROWSER: {reason}"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        print(f"\n{'!' * 72}\n{message}\n{'!' * 72}", file=sys.__stderr__)
        pytest.skip(message)
    try:
        yield started
    finally:
        started.driver.quit()


@pytest.fixture
def browser(shared_browser: Browser) -> Browser:
    """A browser without memories."""
    shared_browser.forget()
    return shared_browser
