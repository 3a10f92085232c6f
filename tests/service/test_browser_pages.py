"""The dashboard's further pages in a real browser: charts, files, code, phones."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from reticent.home import MemoryKeys, Role, client_account
from reticent.ledger import Cap, MemoryLedger
from reticent.service import create_app
from tests.service.clinic import Clinic, settings_for
from tests.service.live_server import in_thread
from tests.service.test_browser import Board, path  # noqa: F401 (a fixture)

# The part of the page, if there is one, behind whose scroll bar a node may be.
CUT_OFF = """
let node = arguments[0];
while ((node = node.parentElement)) {
  const style = getComputedStyle(node);
  if (node.scrollHeight > node.clientHeight + 2 && style.overflowY !== "visible")
    return node.className;
}
return null;
"""
NAMES = [f"triage-{place}" for place in range(9)]


@pytest.fixture
def board(browser, tmp_path, path):  # noqa: F811 (a fixture)
    models = dict.fromkeys([*NAMES, "a-model-with-a-rather-long-name"], path)
    app = create_app(
        settings_for(tmp_path, models=models), ledger=MemoryLedger(), keys=MemoryKeys()
    )
    clinic = Clinic(app, None, "", "")
    admin, analyst = clinic.key("boss", Role.ADMIN), clinic.key("ward-7")
    with in_thread(app) as url:
        yield Board(browser, url, app, admin, analyst)
        browser.driver.get("about:blank")


def test_every_model_is_seen_on_a_screen_and_on_a_phone(board):
    board.log_in(board.admin)
    for scheme in ("light", "dark"):
        board.browser.prefer(scheme)
        for width in (1280, 390):
            board.browser.resize(width, 800)
            for page in ("/", "/keys", "/ledger", "/glossary", "/docs"):
                board.go(page)
                assert board.complaints() == [], (page, width, scheme)
            board.go("/")
            links = board.all("a[href^='/models/']")
            assert len(links) == 10
            for link in links:
                box = link.rect
                assert 0 <= box["x"] < box["x"] + box["width"] <= width
                # Nothing is hidden behind a scroll bar of a part of the page.
                hidden = board.driver.execute_script(CUT_OFF, link)
                assert hidden in (None, ""), hidden


def test_a_chart_follows_the_choice(board):
    board.log_in(board.analyst)
    board.go(f"/models/{NAMES[0]}")
    board.fill()
    board.press("form[action$='/try'] button")
    board.go("/")
    here = board.find("html")
    Select(board.find("#window")).select_by_value("7d")
    board.until(lambda: board.gone(here))
    assert "the last 7 days" in board.find("section[aria-labelledby=time]").text
    assert board.all(".chart rect")
    labels = board.find(".plot .along").text.split("\n")
    assert labels[-1] == "now"
    assert len(labels) == 5


def test_a_file_is_uploaded_and_answered(board, tmp_path):
    sheet = tmp_path / "rows.csv"
    sheet.write_text("age,dose,ward,smokes,floor\n41,,b,true,2\n12,3,a,false,1\n")
    board.log_in(board.analyst)
    board.go(f"/models/{NAMES[0]}")
    board.find("#file").send_keys(str(sheet))
    board.until(lambda: "41,,b" in board.find("#csv").get_attribute("value"))
    board.press("form[data-upload] button")
    assert "2 rows answered" in board.find("section[aria-labelledby=many]").text
    assert board.spent() == 2
    assert board.complaints() == []


def test_nothing_can_be_pressed_when_nothing_is_left(board):
    account = client_account("ward-7")
    board.service.ledger.set_cap(account, Cap.basic(epsilon=0.25))
    board.log_in(board.analyst)
    board.go(f"/models/{NAMES[0]}")
    buttons = board.all("main form button[type=submit]")
    assert len(buttons) == 2
    assert not any(button.is_enabled() for button in buttons)
    assert "Nothing is left" in board.find("[role=status]").text


def test_words_lead_to_their_meaning(board):
    board.log_in(board.analyst)
    board.press("h2 a.term")
    assert board.driver.current_url.endswith("/glossary#budget")
    assert "budget" in board.find("#budget dt").text
    assert board.find("#budget").find_element(By.TAG_NAME, "dd").text
