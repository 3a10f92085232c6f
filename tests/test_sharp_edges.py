"""The page of sharp edges: every line of ours and every broken mechanism is there."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent.learners import PrivateTabularClassifier
from tests.audit.catalogue import CONTROLS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explain" / "sharp-edges.md"
_ROW = re.compile(r"^\| \*\*(.+?)\*\*(.*?) \| (.+?) \| (.+?) \|$")
_PLACE = re.compile(r"`([^`]+\.py|[^`]+/[a-z_]+)`: `(.+)`")


def rows(text):
    """Return title, place of ours and place of the harm of every row."""
    inside = re.findall(r"<!-- edges -->\n(.*?)<!-- /edges -->", text, re.S)
    lines = [line for block in inside for line in block.splitlines()[2:]]
    found = []
    for line in lines:
        match = _ROW.match(line)
        assert match, line
        found.append((match[1], match[3], match[4]))
    return found


def missing(root, place):
    """Say what is not there of `path`: `text`; nothing if all of it is."""
    path, text = _PLACE.fullmatch(place).groups()
    where = root / path
    files = sorted(where.rglob("*.py")) if where.is_dir() else [where]
    if not all(file.is_file() for file in files) or not files:
        return f"{path} is not there"
    wanted = " ".join(text.split())
    for file in files:
        # A sentence of a docstring may go over two lines.
        if wanted in " ".join(file.read_text("utf-8").split()):
            return ""
    return f"{text!r} is not in {path}"


EDGES = rows(PAGE.read_text("utf-8"))


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge[0][:40])
def test_what_prevents_a_pitfall_and_what_shows_its_harm_are_there(edge):
    _, ours, harm = edge
    assert missing(ROOT / "src" / "reticent", ours) == ""
    assert missing(ROOT / "tests", harm) == ""


def test_there_are_enough_and_every_broken_mechanism_is_among_them():
    assert len(EDGES) >= 20
    assert len({title for title, *_ in EDGES}) == len(EDGES)
    shown = " ".join(harm for *_, harm in EDGES)
    for control in CONTROLS:
        name = control.name.replace("-", "_")
        assert f"`{name}`" in shown, control.name


def test_a_broken_link_is_noticed(tmp_path):
    (tmp_path / "here.py").write_text("def there():\n    ...\n")
    assert missing(tmp_path, "`here.py`: `def there(`") == ""
    assert "is not in" in missing(tmp_path, "`here.py`: `def gone(`")
    assert "is not there" in missing(tmp_path, "`gone.py`: `def there(`")
    table = "<!-- edges -->\n| a | b | c |\n|---|---|---|\n| no title | x | y |\n"
    with pytest.raises(AssertionError):
        rows(table + "<!-- /edges -->")


PAGES = ("README.md", "docs/explain/sharp-edges.md", "docs/start/release.md")


def test_no_certificate_sees_a_step_in_front_of_a_learner():
    """What the pages say of such pipelines is true, and they say it."""
    X = np.random.default_rng(0).uniform(0, 9, (300, 2))
    front = make_pipeline(
        StandardScaler(), PrivateTabularClassifier(4.0, classes=[0, 1])
    )
    front.fit(X, (X[:, 0] > 4).astype(int))
    assert front[0].mean_.tolist() == X.mean(axis=0).tolist()  # without noise
    assert front[-1].certificate_.proved
    for page in PAGES:
        text = " ".join((ROOT / page).read_text("utf-8").split())
        assert re.search(r"(scaler|StandardScaler).{0,250}in front of", text, re.I), (
            page
        )
