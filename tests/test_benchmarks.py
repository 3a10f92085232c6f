"""The benchmark runner: what counts as a ratio, and what counts as worse."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import _json_in, parts
from benchmarks.report import Run, compared, ratios_of, table
from benchmarks.studies import release_table
from tests.test_layout import ROOT

PRINTED = {
    "goals": {"ratio": 3},
    "goal_ratio": 3,
    "served": {"durable / bare": 0.4},
    "walk": {"ratio": 2.0, "seconds": 1.0},
    "training": {"times_faster": 8.0},
    "ratios": {"growth": 1.02, "missing": float("nan")},
    "flag": True,
}
RATIOS = {
    "a: served, durable / bare": 0.4,
    "a: walk, ratio": 2.0,
    "a: training, times_faster": 8.0,
    "a: ratios, growth": 1.02,
}


def test_ratios_are_found_by_their_names():
    assert ratios_of({"a": {"printed": PRINTED}, "b": {"printed": None}}) == RATIOS


@pytest.mark.parametrize(
    ("name", "before", "now", "worse"),
    [
        ("ratio", 2.0, 2.9, False),
        ("ratio", 2.0, 3.1, True),
        ("ratio", 2.0, 0.1, False),
        ("times_faster", 9.0, 6.1, False),
        ("times_faster", 9.0, 5.9, True),
        ("times_faster", 9.0, 90.0, False),
    ],
)
def test_a_ratio_is_worse_beyond_the_factor(name, before, now, worse):
    (row,) = compared({name: now}, {name: before}, 1.5)
    assert row.worse == worse


def test_a_new_ratio_is_not_worse():
    (row,) = compared({"ratio": 5.0}, {}, 1.5)
    assert not row.worse
    assert row.before is None


def test_json_is_found_behind_other_lines():
    assert _json_in('progress ...\n{"a": 1}\n') == {"a": 1}
    assert _json_in("nothing") is None
    assert _json_in("{broken") is None


def test_parts_are_found_by_convention():
    found = parts({})
    assert {"speed/guarantees", "growth", "scale", "studies/ask_accuracy"} <= set(found)
    assert "studies/ask_problems" not in found


def test_the_page_shows_every_ratio():
    run = Run("full", "2 processors", {"a": {"state": "done", "seconds": 1.0}}, RATIOS)
    page = table(run, compared(RATIOS, {}, 1.5), 1.5)
    assert "| a: walk | 2 |" in page
    assert "| a: training | 8 |" in page
    assert page.index("Larger is better") < page.index("a: training")


def test_studies_that_were_quick_go_first():
    last = {
        "studies/ask_accuracy": {"state": "out of time", "seconds": 1.0},
        "studies/ask_budget": {"state": "done", "seconds": 30.0},
        "studies/release_optimal": {"state": "done", "seconds": 4.0},
    }
    order = list(parts(last))
    places = [order.index(name) for name in reversed(last)]
    assert places == sorted(places)


def test_the_table_of_releases_is_the_results():
    page = (ROOT / "docs" / "explain" / "releasing-linear.md").read_text("utf-8")
    results = json.loads(release_table.RESULTS.read_text("utf-8"))
    lines = release_table.rows(results)
    assert "\n".join(lines) in page
    results["bank"]["ours"]["1.0"] = {
        name: {**entry, "mean": entry["mean"] - 0.01}
        for name, entry in results["bank"]["ours"]["1.0"].items()
    }
    assert "\n".join(release_table.rows(results)) not in page
