"""What the documents say is true: their examples run, their commands exist."""

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reticent.guarantees import rules
from tests.stats import rejects
from tests.test_layout import MODULES, PACKAGE, ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "changes").glob("*.md"),
        *(
            page
            for page in (ROOT / "docs").rglob("*.md")
            if not {"_build", "_generated"} & set(page.parts)
        ),
    ]
)
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
# A citation: a chain of capitalised names and a year, as BibTeX keys are written here.
KEY = re.compile(r"\b(?:[A-Z][A-Za-z]*[a-z]){1,4}(?:EtAl)?(?:19|20)\d\d\b")

# What people read, as globs from the root. Add "src/reticent/**/*.py" when its
# docstrings and comments are clean.
PROSE = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "changes/README.md",
    "docs/**/*.md",
    "examples/**/*.py",
    "src/reticent/**/templates/*.html",
    "src/reticent/**/*.py",
)
_COUNT = r"(?:an?|one|two|few|handful|\d[\d,]*)"
_EACH = "(?:row|unit|shard|feature|column|face|round|commit|worker|line|entry|person)"
# Phrases that readers found hard, each with an example of it.
HARD_PHRASES = {
    rf"\b{_COUNT} [a-z]+ an? {_EACH}\b": "one label a row",
    r"\b(?:requests|answers|queries|rows|charges) a second\b": "10 rows a second",
    r"(?<!, )\bso many\b": "after so many rows",
    r"\b(?:anew|afresh)\b": "it is drawn anew",
    r"\btrusted eyes\b": "for trusted eyes",
    r"\bcannot be meant\b": "this cannot be meant",
    r"\bhangs? on one\b": "an answer may hang on one record",
    r"\bmend(?:s|ed|ing)?\b": "mend it",
    r"\bbears?\b": "what databases bear",
    r"\bin earnest\b": "to run it in earnest",
    r"\bfor ever\b": "it is kept for ever",
    r"\bcome in\b": "Come in, or be refused",
    r"\b(?:in crowds|mighty|(?:its|their) fate)\b": "coroutines come in crowds",
    r"\bat leisure\b": "verify it at leisure",
    r"\bnext to nothing\b": "it costs next to nothing",
    r"\bsome (?:dozen|hundred|thousand)\b": "after some hundred looks",
    r"\bone \w+ after the other\b": "one question after the other",
    r"\bspeaks? of\b": "the page speaks of a file",
    r"\bbut for\b": "it is near the truth but for 0.05",
    r"\b(?:no|not|nothing|nobody)\b[^.]{0,40}\bany more\b": "nothing is drawn any more",
    r"\b(?:goes|go) on (?:with|from|where|alone|in its)\b": "this copy goes on alone",
    r"\b(?:busy or|is|was) away\b(?! from)": "the database is away",
    r"\b(?:this|it|that|which) (?:is|are) no (?!longer|more|less|[a-z]+er\b|worse)": (
        "this is no certificate"
    ),
    r"[;.] (?:stored|known|served) are\b": "it is refused; known are two kinds",
    r"\bstands? (?:twice|beside each other)\b": "a key that stands twice",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python_blocks(page: Path) -> list[str]:
    return FENCE.findall(page.read_text(encoding="utf-8"))


def run_block(code: str, namespace: dict[str, object], label: str) -> None:
    """Run one block; a block with prompts must also print what it shows."""
    if ">>>" not in code:
        exec(compile(code, label, "exec"), namespace)
        return
    test = doctest.DocTestParser().get_doctest(code, namespace, label, label, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    namespace.update(test.globs)


@pytest.mark.parametrize("page", [*filter(python_blocks, PAGES)], ids=name_of)
def test_examples_in_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, code in enumerate(python_blocks(page), 1):
        run_block(code, namespace, f"{name_of(page)}, example {number}")


def test_run_block_notices_a_wrong_output():
    assert rejects(run_block, ">>> 1 + 1\n3\n", {}, "wrong")
    run_block(">>> 1 + 1\n2\n", {}, "right")


@pytest.mark.parametrize("script", EXAMPLES, ids=name_of)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kept = script.with_suffix(".out").read_text(encoding="utf-8")
    assert without_numbers(done.stdout) == without_numbers(kept)


def without_numbers(text: str) -> str:
    """Return what a script prints, without what is drawn at random."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "#", text)
    return re.sub(r"[0-9][0-9.e+-]*", "#", text)


def test_another_output_is_noticed():
    said = "after 59 answers: (7.98392, 1e-06)-DP d5f2a4741066"
    assert without_numbers(said) == "after # answers: (#, #)-DP #"
    assert without_numbers(said) != without_numbers("after 59 answers: nothing")


def test_make_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    asked = {
        (name_of(page), target)
        for page in PAGES
        for target in re.findall(
            r"(?:`|\$ )make ([a-z-]+)", page.read_text(encoding="utf-8")
        )
    }
    assert len(asked) > 5
    assert not {each for each in asked if each[1] not in targets}


def test_readme_opens_with_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```console\n(.*?)```", text, re.DOTALL)
    commands = re.findall(r"^\$ (make \w+)", block.group(1), re.MULTILINE)
    assert commands == ["make demo", "make test"]


def test_links_between_pages_lead_somewhere():
    links = {
        (name_of(page), link): page.parent / link
        for page in PAGES
        for link in LINK.findall(page.read_text(encoding="utf-8"))
    }
    assert len(links) > 100
    assert [each for each, target in links.items() if not target.exists()] == []


def hard_phrases(text: str) -> list[str]:
    """Return the phrases in a text that are hard to read, also across line ends."""
    plain = re.sub(r"[\s#]+", " ", text)
    found = [re.search(phrase, plain, re.IGNORECASE) for phrase in HARD_PHRASES]
    return [match[0] for match in found if match]


def test_what_people_read_is_plain_english():
    pages = {page for glob in PROSE for page in ROOT.glob(glob)}
    pages = {page for page in pages if not {"_build", "_generated"} & set(page.parts)}
    assert len(pages) > len(PROSE)
    found = {
        name_of(page): phrases
        for page in pages
        if (phrases := hard_phrases(page.read_text(encoding="utf-8")))
    }
    assert not found, "say it in plain words"


@pytest.mark.parametrize(("phrase", "example"), HARD_PHRASES.items())
def test_hard_phrases_are_noticed(phrase, example):
    assert hard_phrases(example)
    assert hard_phrases(example.replace(" ", "\n    # "))
    assert re.search(phrase, example, re.IGNORECASE)


def test_plain_phrases_are_accepted():
    text = "One label per row. Rounding is small, so many answers agree. A bearer key."
    assert not hard_phrases(text)


def test_every_citation_is_in_the_bibliography():
    for module in MODULES:
        importlib.import_module(module)  # rooms register their rules
    bibliography = (ROOT / "docs" / "references.bib").read_text(encoding="utf-8")
    known = set(re.findall(r"^@\w+\{(\w+),", bibliography, re.MULTILINE))
    cited = {key for rule in rules.values() for key in KEY.findall(rule.source)}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for keys in re.findall(r":cite:`([^`]+)`", text):
            cited |= {key.strip() for key in keys.split(",")}
    assert cited
    assert cited <= known


@pytest.mark.parametrize("kind", ["guarantee", "fix"])
def test_changelog_collects_fragments(kind, tmp_path):
    (tmp_path / "changes").mkdir()
    fragment = tmp_path / "changes" / f"vote.{kind}.md"
    fragment.write_text("Before 2, now 1.\n", encoding="utf-8")
    page = tmp_path / "CHANGELOG.md"
    page.write_text((ROOT / "CHANGELOG.md").read_text("utf-8"), encoding="utf-8")
    script = [sys.executable, ROOT / "scripts" / "changelog", "--root", tmp_path]
    subprocess.run([*script, "9.9.9"], check=True)
    heading = {"guarantee": "Changed guarantees", "fix": "Fixed"}[kind]
    released = f"## 9.9.9\n\n### {heading}\n\n- Before 2, now 1.\n"
    assert released in page.read_text(encoding="utf-8")
    assert not fragment.exists()


def test_change_fragments_are_well_formed():
    script = [sys.executable, ROOT / "scripts" / "changelog", "--preview"]
    subprocess.run(script, check=True, capture_output=True)


_LIST_RULES = """
import importlib, pkgutil, reticent
from reticent.guarantees import rules
for room in pkgutil.iter_modules(reticent.__path__):
    importlib.import_module(f"reticent.{room.name}")
print(*rules)
"""


def test_documentation_builds_without_a_warning_and_offline(tmp_path):
    done = subprocess.run(
        [ROOT / "scripts" / "docs", tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    fetched = [
        f"{page.name}: {tag}"
        for page in (tmp_path / "html").rglob("*.html")
        for tag in re.findall(
            r'<(?:script|link|img)\b[^>]*(?:src|href)="https?://[^>]*>',
            page.read_text(encoding="utf-8"),
        )
    ]
    assert not fetched
    theory = (tmp_path / "html" / "explain" / "guarantees.html").read_text("utf-8")
    assert "<math " in theory
    table = (tmp_path / "html" / "explain" / "theorems.html").read_text("utf-8")
    # A fresh interpreter: other tests register rules of their own in this one.
    listed = subprocess.run(
        [sys.executable, "-c", _LIST_RULES], capture_output=True, text=True, check=True
    )
    assert [name for name in listed.stdout.split() if name not in table] == []
