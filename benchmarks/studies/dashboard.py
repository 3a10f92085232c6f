"""Draws docs/figures/dashboard.png: the first page of the dashboard in a browser.

    python -m benchmarks.studies.dashboard

Two days of made-up questions to the models of the service's own tests.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from unittest import mock

from selenium.webdriver.common.by import By

from reticent.home import MemoryKeys, Role
from reticent.ledger import MemoryLedger
from reticent.service import create_app
from tests.browser import Browser
from tests.service.clinic import ROW, Clinic, settings_for, store
from tests.service.live_server import ask, in_thread

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "dashboard.png"
HOUR = 3600
WIDTH = 1160


def history(url: str, keys: list[str]) -> None:
    """Ask as a clinic would: more by day than by night."""
    draw = random.Random(3)
    now = time.time()
    for back in range(47, -1, -1):
        moment = now - back * HOUR
        busy = 4 if 7 <= time.gmtime(moment).tm_hour <= 19 else 1
        with mock.patch("reticent.ledger.decisions.time.time", return_value=moment):
            for _ in range(draw.randint(0, busy)):
                ask(
                    "POST",
                    f"{url}/v1/models/{draw.choice(['triage', 'cost'])}/predict",
                    json={"rows": [{**ROW, "age": draw.uniform(0, 100)}]},
                    headers={"x-api-key": draw.choice(keys)},
                )


def photograph(browser: Browser, url: str, key: str) -> None:
    """Log in and take the picture of the whole page."""
    driver = browser.driver
    browser.resize(WIDTH, 900)
    driver.get(url)
    driver.find_element(By.ID, "key").send_keys(key)
    driver.find_element(By.CSS_SELECTOR, "main button").click()
    bottom = driver.find_element(By.CSS_SELECTOR, "main section:last-child").rect
    browser.resize(WIDTH, int(bottom["y"] + bottom["height"]) + 24)
    driver.save_screenshot(str(FIGURE))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {kind: store(folder, kind) for kind in ("triage", "cost")}
        settings = settings_for(
            folder,
            models=models,
            datasets={"clinic": {"epsilon": 60}},
            client_budget={"epsilon": 25},
        )
        app = create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())
        clinic = Clinic(app, None, "", "")  # type: ignore[arg-type]
        admin = clinic.key("registrar", Role.ADMIN)
        wards = [clinic.key(f"ward-{number}") for number in (3, 5, 7)]
        wards.append(clinic.key("laboratory", budget={"epsilon": 8}))
        with in_thread(app) as url:
            history(url, [wards[0], *wards])
            browser = Browser()
            try:
                photograph(browser, url, admin)
            finally:
                browser.driver.quit()


if __name__ == "__main__":
    main()
