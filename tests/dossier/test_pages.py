"""A dossier in a real browser: on a wide and a narrow screen, and on paper."""

import base64
import os
import re
import zlib
from pathlib import Path

import pytest

from reticent.dossier import Dossier, Texts, read_facts
from reticent.dossier.rendering import as_html
from tests.dossier.test_dossier import Places

LONG = "Records of the clinic in Aberdeen, https://example.org/" + "long/" * 40
TEXTS = Texts(curator="A clinic", intended_use="Triage, by nurses.", collection=LONG)

# What a reader could not read: too wide for the screen, or cut off.
UNREADABLE = """
const found = [];
const wide = document.documentElement.scrollWidth;
if (wide > innerWidth) found.push(`the page is ${wide} wide`);
for (const node of document.querySelectorAll("body *")) {
  const box = node.getBoundingClientRect(), style = getComputedStyle(node);
  if (box.width && box.right > innerWidth + 1 && style.position !== "absolute")
    found.push(`${node.tagName} ${node.id} ends at ${box.right}`);
  if (box.width && node.scrollWidth > node.clientWidth + 2
      && style.overflowX === "hidden")
    found.push(`${node.tagName} ${node.id} is cut off`);
}
return found.slice(0, 9);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    places = Places(folder)
    places.facts("base")  # trains it
    facts = read_facts(places.home("base"), "model", texts=TEXTS)
    path = folder / "dossier.html"
    path.write_text(as_html(Dossier.of(facts)), "utf-8")
    return path


def kept(browser, name):
    """Keep a picture, if somebody wants to look at it."""
    folder = os.environ.get("RETICENT_TEST_PICTURES")
    if folder:
        browser.photograph(Path(folder) / name)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_all_of_it_can_be_read_on_a_screen(browser, page, width, scheme):
    browser.prefer(scheme)
    browser.resize(width, 800)
    browser.driver.get(page.as_uri())
    kept(browser, f"dossier-{width}-{scheme}.png")
    assert browser.driver.execute_script(UNREADABLE) == []
    assert browser.console() == []
    assert [each for each in browser.requests() if not each.startswith("file:")] == []


def test_what_is_too_wide_is_noticed(browser, page, tmp_path):
    wide = tmp_path / "wide.html"
    text = page.read_text("utf-8")
    wide.write_text(
        text.replace("<h1", '<p style="width: 3000px">x</p><h1', 1), "utf-8"
    )
    browser.resize(390, 800)
    browser.driver.get(wide.as_uri())
    assert browser.driver.execute_script(UNREADABLE) != []


def test_it_prints_on_pages_of_paper_with_nothing_lost(browser, page):
    browser.driver.get(page.as_uri())
    browser.command("Emulation.setEmulatedMedia", media="print", features=[])
    # The width of A4 within its margins, at 96 points per inch.
    browser.resize(718, 1000)
    kept(browser, "dossier-print.png")
    assert browser.driver.execute_script(UNREADABLE) == []
    hidden = browser.driver.execute_script(
        "return [...document.querySelectorAll('[id]')].filter(n => n.innerText && "
        "!n.getClientRects().length).map(n => n.id)"
    )
    assert hidden == []
    settings = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
    printed = browser.command("Page.printToPDF", **settings)
    content = base64.b64decode(printed["data"])
    folder = os.environ.get("RETICENT_TEST_PICTURES")
    if folder:
        (Path(folder) / "dossier.pdf").write_bytes(content)
    assert content.startswith(b"%PDF")
    assert 2 <= pages_of(content) < 60


def pages_of(content: bytes) -> int:
    """Count the pages of a PDF, whose objects may be compressed."""
    parts = [content]
    for part in re.findall(rb"stream\r?\n(.*?)endstream", content, re.DOTALL):
        try:
            parts.append(zlib.decompress(part))
        except zlib.error:
            continue
    return sum(len(re.findall(rb"/Type\s*/Page\b(?!s)", part)) for part in parts)
