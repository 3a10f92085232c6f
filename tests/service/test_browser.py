"""The dashboard in a real browser: what people do, see, and might stumble over."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium.common.exceptions import (
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from reticent.home import MemoryKeys, Role, client_account
from reticent.ledger import MemoryLedger
from reticent.service import create_app
from tests import browser as looking_for
from tests.service.clinic import Clinic, settings_for, store
from tests.service.live_server import in_thread

LOOKING = Path(__file__).with_name("looking.js").read_text("utf-8")
PATIENCE = 180  # on a busy machine; a quick one waits for moments
# A status that a page was sent with is no mistake of the page.
EXPECTED = "the server responded with a status of"


class Board:
    """A running dashboard, and somebody before a browser."""

    def __init__(self, browser, url, app=None, admin="", analyst=""):
        self.browser, self.driver = browser, browser.driver
        self.service, self.url = app and app.state.service, url
        self.admin, self.analyst = admin, analyst

    def go(self, path):
        self.driver.get(self.url + path)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, condition):
        return WebDriverWait(self.driver, PATIENCE).until(lambda _: condition())

    def press(self, selector):
        """Press a button and wait for the page that follows."""
        here = self.find("html")
        self.find(selector).click()
        self.until(lambda: self.gone(here))

    def gone(self, node):
        """Say whether the page of a node was replaced by another, whole one."""
        try:
            node.is_enabled()
        except StaleElementReferenceException:
            state = self.driver.execute_script("return document.readyState")
            return state == "complete"
        except WebDriverException:  # between two pages
            return False
        return False

    def log_in(self, key):
        self.go("/login")
        self.find("#key").send_keys(key)
        self.press("main button")
        assert urlsplit(self.driver.current_url).path == "/"

    def fill(self, age="41"):
        """Fill the form to try a question."""
        self.find("#c0").clear()
        self.find("#c0").send_keys(age)
        for name, text in (("#c2", "b"), ("#c3", "true"), ("#c4", "2")):
            Select(self.find(name)).select_by_visible_text(text)

    def spent(self):
        return self.service.ledger.balance(client_account("ward-7")).spent.answers

    def complaints(self):
        return self.driver.execute_script(LOOKING)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return store(tmp_path_factory.mktemp("models"))


@pytest.fixture
def board(browser, tmp_path, path):
    settings = settings_for(tmp_path, models={"triage": path, "twin": path})
    app = create_app(settings, ledger=MemoryLedger(), keys=MemoryKeys())
    clinic = Clinic(app, None, "", "")
    admin, analyst = clinic.key("boss", Role.ADMIN), clinic.key("ward-7")
    with in_thread(app) as url:
        yield Board(browser, url, app, admin, analyst)
        # Whatever was done: nothing was complained about, nobody else was asked.
        told = [line for line in browser.console() if EXPECTED not in line]
        asked = {urlsplit(address).netloc for address in browser.requests()}
        browser.driver.get("about:blank")  # lets go of its connections
    assert told == []
    assert asked - {""} == {urlsplit(url).netloc}


def test_why_there_is_no_browser_is_said(tmp_path, monkeypatch):
    script = tmp_path / "browser"
    script.write_text("#!/bin/sh\necho 'no chromium here' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(looking_for, "_SCRIPT", script)
    with pytest.raises(looking_for.NoBrowserError, match="no chromium here"):
        looking_for.find()


def test_a_person_logs_in_asks_and_logs_out(board):
    board.go("/models/triage")
    assert urlsplit(board.driver.current_url).path == "/login"
    board.find("#key").send_keys("rk_wrong")
    board.press("main button")
    assert "unknown" in board.find("[role=alert]").text
    board.log_in(board.analyst)
    (cookie,) = board.driver.get_cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert board.driver.execute_script("return document.cookie") == ""
    board.press("a[href='/models/triage']")
    board.fill()
    board.press("form[action$='/try'] button")
    answer = board.find("#answer").text
    assert answer in {"yes", "no"}
    assert "cost 1 answer" in board.find(".answer").text
    assert board.spent() == 1
    board.driver.refresh()  # sends the form again
    assert board.find("#answer").text == answer
    assert board.spent() == 1
    board.go("/")
    assert "1 answer" in board.find(".bars").text
    board.press("form[action='/logout'] button")
    assert board.driver.get_cookies() == []
    board.go("/")
    assert urlsplit(board.driver.current_url).path == "/login"


def test_a_wrong_number_is_explained_where_it_was_typed(board):
    board.log_in(board.analyst)
    board.go("/models/triage")
    board.fill(age="")
    board.find("form[action$='/try'] button").click()
    assert board.find("#c0:invalid")  # the browser asks for it itself
    board.driver.execute_script("document.querySelector('#c0').required = false")
    board.press("form[action$='/try'] button")
    assert "age" in board.find("[role=alert]").text
    assert board.find("#c4").get_attribute("value") == "2"
    assert board.spent() == 0


def test_the_derivation_opens_step_by_step(board):
    board.log_in(board.analyst)
    board.press("td a[href^='/certificates/']")
    steps = board.all("details.node")
    certificate = board.service.registry.models["triage"].certificate
    assert len(steps) == len(list(certificate.walk())) > 1
    assert not any(step.get_attribute("open") for step in steps)
    steps[0].find_element(By.TAG_NAME, "summary").click()
    assert steps[0].get_attribute("open")
    assert certificate.rule in steps[0].text
    assert not steps[1].get_attribute("open")
    board.find("[data-open]").click()
    assert all(step.get_attribute("open") for step in steps)
    assert steps[-1].find_element(By.CSS_SELECTOR, ".statement").is_displayed()
    board.find("[data-close]").click()
    assert not any(step.get_attribute("open") for step in steps)
    board.find(".as-text summary").click()
    assert board.find(".as-text pre").text.split() == str(certificate).split()


def test_an_admin_makes_and_revokes_a_key(board):
    board.log_in(board.admin)
    board.press("nav a[href='/keys']")
    board.find("#client").send_keys("ward-9")
    board.find("#epsilon").send_keys("1.5")
    board.find("input[name='m-twin']").click()
    board.press("form[action='/keys'] button")
    key = board.find("#new-key").text
    record = board.service.keyring.recognise(key)
    assert (record.client, record.models) == ("ward-9", ("twin",))
    board.go("/keys")
    assert key not in board.driver.page_source
    revoke = f"form[action='/keys/{record.id}/revoke'] button"
    board.find(revoke).click()
    board.driver.switch_to.alert.dismiss()
    assert board.service.keyring.recognise(key)
    here = board.find("html")
    board.find(revoke).click()
    board.driver.switch_to.alert.accept()
    board.until(lambda: board.gone(here))
    assert "is revoked" in board.find("[role=status]").text
    assert board.service.keyring.recognise(key) is None
    Select(board.find("#account")).select_by_value("client:ward-7")
    board.find("#cap-epsilon").send_keys("33")
    board.press("form[action='/accounts'] button")
    cap = board.service.ledger.balance(client_account("ward-7")).cap
    assert cap.limits.epsilon == 33 * 10**9


def test_an_analyst_finds_no_way_to_keys(board):
    board.log_in(board.analyst)
    assert board.all("a[href='/keys']") == []
    board.go("/keys")
    assert "Not allowed" in board.find("h1").text


def test_pages_work_without_scripts(board):
    board.browser.command("Emulation.setScriptExecutionDisabled", value=True)
    board.log_in(board.analyst)
    board.go("/models/triage")
    assert not board.find("[data-open]").is_displayed()
    board.find("details.node summary").click()
    assert board.find("details.node").get_attribute("open")
    board.fill()
    board.press("form[action$='/try'] button")
    assert board.find("#answer").text in {"yes", "no"}


def test_pages_work_from_the_keyboard_alone(board):
    def type_(*keys):
        ActionChains(board.driver).send_keys(*keys).perform()

    def active():
        return board.driver.switch_to.active_element

    board.go("/login")
    assert active().get_attribute("id") == "key"  # ready to type
    here = board.find("html")
    type_(board.analyst, Keys.ENTER)
    board.until(lambda: board.gone(here))
    board.go("/models/triage")
    type_(Keys.TAB)
    assert active().get_attribute("class") == "skip"
    type_(Keys.ENTER, Keys.TAB)  # over the header, into the content
    assert active().get_attribute("href").endswith("/")
    reached = []
    for _ in range(20):
        type_(Keys.TAB)
        if active().tag_name == "body":
            break  # past the end
        outline = active().value_of_css_property("outline-style")
        assert outline != "none", active().get_attribute("outerHTML")[:100]
        reached.append(active())
    for selector in ("#c0", "#c4", "form[action$='/try'] button", "summary"):
        assert board.find(f"main {selector}") in reached
    board.driver.execute_script("document.querySelector('details summary').focus()")
    type_(Keys.ENTER)
    assert board.find("details.node").get_attribute("open")
    board.find("#c0").send_keys("41")
    type_(Keys.TAB, Keys.TAB, "b", Keys.TAB, "t")
    here = board.find("html")
    board.find("#c0").send_keys(Keys.ENTER)
    board.until(lambda: board.gone(here))
    assert board.find("#answer").text in {"yes", "no"}


PAGES = ["/", "/keys", "/models/triage", "CERTIFICATE", "/models/none"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_stumbles_over_a_page(board, scheme):
    board.browser.prefer(scheme)
    board.go("/login")
    assert board.complaints() == []
    board.log_in(board.admin)
    certificate = board.service.registry.models["triage"].certificate.id
    titles = set()
    for page in PAGES:
        board.go(page.replace("CERTIFICATE", f"/certificates/{certificate}"))
        for closed in board.all("details:not([open]) > summary"):
            closed.click() if closed.is_displayed() else None
        assert board.complaints() == [], page
        titles.add(board.driver.title)
        for node in board.all("main a, main input, main select, main button"):
            if node.is_displayed():
                assert node.accessible_name.strip(), node.get_attribute("outerHTML")
    assert len(titles) == len(PAGES)
    board.go("/models/triage")
    board.fill()
    board.press("form[action$='/try'] button")
    assert board.complaints() == []
    for width in (390, 768):
        board.browser.resize(width, 800)
        for page in ("/", "/keys", "/models/triage"):
            board.go(page)
            assert board.complaints() == [], (page, width)


SPOILED = {
    "contrast": "document.querySelector('h1').style.color = '#bbb'",
    "no label": "document.querySelector('label').remove()",
    "heading level": "document.querySelector('h2').outerHTML = '<h4>x</h4>'",
    "not one h1": "document.querySelector('h1').remove()",
    "no alt": "document.querySelector('img').removeAttribute('alt')",
    "leads nowhere": "document.querySelector('#try').id = 'other'",
    "wider than": "document.querySelector('main').style.minWidth = '3000px'",
    "of a shape": "document.querySelector('select').style.borderColor = '#eee'",
}


def test_the_stumbling_is_noticed(board):
    board.log_in(board.analyst)
    for expected, spoil in SPOILED.items():
        board.go("/models/triage")
        board.driver.execute_script(spoil)
        assert any(expected in line for line in board.complaints()), expected
    assert board.browser.console() == []


def test_scripts_and_hosts_from_elsewhere_are_blocked(board):
    """The control for the console's silence: the policy bites, and it is heard."""
    board.go("/login")
    board.driver.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hit = 1';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'http://127.0.0.2:9/x.png';"
        "document.body.append(i);"
    )
    heard = board.until(lambda: board.browser.console())
    assert any("Content Security Policy" in line for line in heard)
    assert board.driver.execute_script("return window.hit") is None
    board.browser.requests()
    board.go("/login")
