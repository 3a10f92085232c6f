"""The benchmark runner: what counts as a ratio, and what counts as worse."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from benchmarks import headline, local_speed, page, peers
from benchmarks.__main__ import (
    Unfinished,
    committed,
    estimate,
    merged,
    runner,
    settle,
    verdict,
)
from benchmarks.parts import FIRST, RESULTS, Part, json_in, parts, run_part
from benchmarks.report import FACTOR, Run, accuracies_of, compared, ratios_of
from benchmarks.studies import equal_terms
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
BASELINE = json.loads((RESULTS / "bench_quick.json").read_text("utf-8"))


def run_with(mode="quick", **numbers):
    return Run(mode, "2 processors", **numbers)


def test_ratios_are_found_by_their_names():
    assert ratios_of("a", PRINTED) == RATIOS
    assert ratios_of("b", None) == {}


@pytest.mark.parametrize("mode", ["quick", "full"])
@pytest.mark.parametrize(
    ("name", "before", "losses"),
    [("ratio", 2.0, lambda f: 2.0 * f), ("times_faster", 9.0, lambda f: 9.0 / f)],
    ids=["smaller is better", "larger is better"],
)
def test_a_ratio_is_worse_beyond_the_factor(mode, name, before, losses):
    for factor, worse in ((0.1, False), (0.99, False), (1.01, True), (5.0, True)):
        now = losses(FACTOR[mode] * factor)
        run = run_with(mode, ratios={name: now})
        (row,) = compared(run, {"ratios": {name: before}})
        assert row.worse == worse


def test_an_exponent_is_worse_by_a_difference():
    before = {"ratios": {"growth: exponent": 1.0}}
    for now, worse in ((1.05, False), (1.15, True)):
        run = run_with("full", ratios={"growth: exponent": now})
        (row,) = compared(run, before)
        assert row.worse == worse


@pytest.mark.parametrize(
    ("who", "mean", "error", "worse"),
    [
        ("reticent, vote", 0.82, 0.0, False),
        ("reticent, vote", 0.80, 0.0, True),
        ("reticent, vote", 0.80, 0.01, False),
        ("DP-EBM", 0.50, 0.0, False),
    ],
)
def test_accuracy_is_worse_only_if_it_is_ours_and_beyond_chance(
    who, mean, error, worse
):
    name = f"studies/equal_terms: adult, {who}"
    before = {"accuracy": {name: {"mean": 0.83, "standard_error": 0.0}}}
    found = {name: {"mean": mean, "standard_error": error}}
    (row,) = compared(run_with(accuracy=found), before)
    assert row.worse == worse


def test_a_new_number_is_not_worse():
    (row,) = compared(run_with(ratios={"ratio": 5.0}), {})
    assert not row.worse
    assert row.before is None


def made_up_part(tmp_path, numbers):
    """A part that prints the next of some ratios each time it is run."""
    script, left = tmp_path / "part.py", tmp_path / "left.json"
    left.write_text(json.dumps(numbers))
    script.write_text(
        "import json, pathlib\n"
        f"left = pathlib.Path({str(left)!r})\n"
        "first, *rest = json.loads(left.read_text())\n"
        "left.write_text(json.dumps(rest))\n"
        "print('progress')\n"
        "print(json.dumps({'walk': {'ratio': first}}))\n"
    )
    return Part("speed/made-up", (str(script),))


@pytest.mark.parametrize(
    ("numbers", "code", "kept", "runs"),
    [
        ([1.0], 0, 1.0, None),
        ([9.0, 1.1], 0, 1.1, 2),  # once: another's noise
        ([9.0, 8.0], 1, 8.0, 2),  # twice: a regression
    ],
    ids=["as before", "noise", "regression"],
)
def test_a_made_up_regression_fails_the_run(tmp_path, numbers, code, kept, runs):
    part = made_up_part(tmp_path, numbers)
    last = {"ratios": {"speed/made-up: walk, ratio": 1.0}}
    run = run_with()
    run.add(part.name, runner(quick=True)(part))
    settle(run, last, {part.name: part}, quick=True)
    assert verdict(run) == code
    assert run.ratios == {"speed/made-up: walk, ratio": kept}
    assert run.parts[part.name].get("runs") == runs
    assert len(run.summary()["comparison"]["worse"]) == code


def test_every_committed_number_would_be_missed_if_it_became_worse():
    before = deepcopy(BASELINE)
    same = run_with(ratios=before["ratios"], accuracy=before["accuracy"])
    assert not [row for row in compared(same, BASELINE) if row.worse]
    assert len(same.ratios) > 50
    for name, value in BASELINE["ratios"].items():
        larger = "times_faster" in name or " / " in name or "ensembles: t" in name
        now = value / 4 if larger else value * 4
        rows = compared(run_with(ratios={name: now}), BASELINE)
        assert [row.name for row in rows if row.worse] == [name]


def test_the_committed_run_was_compared_with_one_before():
    found = BASELINE["comparison"]
    assert found["with"]
    assert found["numbers"] > 50
    assert found["worse"] == []
    assert found["factor"] == FACTOR["quick"]


def test_the_committed_quick_run_left_nothing_out():
    assert {part.name for part in parts()} == set(BASELINE["parts"])
    ended = {name: part["state"] for name, part in BASELINE["parts"].items()}
    assert set(ended.values()) == {"done"}, ended
    who = " ".join(name for name in BASELINE["accuracy"] if "equal_terms" in name)
    for peer in ("reticent", "diffprivlib", "DP-EBM", "PATE", "without privacy"):
        assert peer in who
    assert any("service" in name for name in BASELINE["ratios"])


def test_the_last_committed_run_is_read_from_the_repository():
    assert committed("benchmarks/results/no such file.json") == ({}, "")


def test_json_is_found_behind_other_lines():
    assert json_in('progress ...\n{"a": 1}\n') == {"a": 1}
    assert json_in('{\'a\': 1}\n{"b": 2}\nmore\n{\n "c": 3\n}\n') == {"c": 3}
    assert json_in("nothing") is None
    assert json_in("{broken") is None


def test_parts_are_found_by_convention():
    found = [part.name for part in parts()]
    assert tuple(found[: len(FIRST)]) == FIRST
    assert {"speed/guarantees", "growth", "scale", "studies/ask_theory"} <= set(found)
    assert "studies/ask_problems" not in found
    assert len(found) == len(set(found))


def test_what_takes_times_runs_alone():
    timed = {part.name for part in parts() if part.timed}
    assert {"growth", "scale", "studies/scale_plan", "speed/service"} <= timed
    assert not timed & set(FIRST)


def test_a_slow_part_is_ended_and_a_broken_one_reported(tmp_path):
    slow, broken = tmp_path / "slow.py", tmp_path / "broken.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    broken.write_text("raise SystemExit('no such thing')\n")
    ended = run_part(Part("speed/slow", (str(slow),)), quick=True, limit=0.5)
    assert ended["state"] == "out of time"
    ended = run_part(Part("speed/broken", (str(broken),)), quick=True, limit=30)
    assert (ended["state"], ended["reason"]) == ("failed", ["no such thing"])


def test_parts_that_were_run_anew_replace_the_known_ones():
    known = {
        "parts": {"a": {"state": "failed"}, "b": {"state": "done"}},
        "ratios": {"a: old, ratio": 1.0, "b: x, ratio": 2.0},
        "accuracy": {},
    }
    new = {"parts": {"a": {"state": "done"}}, "ratios": {"a: new, ratio": 3.0}}
    result = merged(known, {**new, "accuracy": {}})
    assert result["ratios"] == {"b: x, ratio": 2.0, "a: new, ratio": 3.0}
    assert result["parts"]["a"]["state"] == "done"


def test_without_their_environment_a_quick_run_says_how_to_get_it(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(peers, "PYTHON", tmp_path / "python")
    (words,) = peers.skipped(quick=True)
    assert "python -m benchmarks.peers" in words
    script = tmp_path / "part.py"
    script.write_text(f"print({json.dumps({'skipped': [words]})!r})\n")
    ended = run_part(Part("speed/part", (str(script),)), quick=True, limit=30)
    assert ended["skipped"] == [words]


def test_without_data_the_sample_of_the_package_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(equal_terms.data, "PLACES", [tmp_path])
    ((name, table),) = equal_terms.tables(quick=True)
    assert "sample" in name
    assert len(table.y) == 5000
    assert table.encoded(style="ordinal").shape == (5000, 12)


def test_accuracies_are_collected_by_table_and_method():
    found = {"mean": 0.8, "standard_error": 0.01, "shards": 3}
    printed = {"accuracy": {"adult": {"reticent, vote": found, "broken": {"error": 1}}}}
    assert accuracies_of("studies/a", printed) == {
        "studies/a: adult, reticent, vote": {"mean": 0.8, "standard_error": 0.01}
    }


def test_the_page_is_made_of_the_results():
    assert page.PAGE.read_text("utf-8") == page.rendered()


def test_a_full_run_goes_on_where_it_was_interrupted(tmp_path):
    script = tmp_path / "part.py"
    script.write_text('print(\'{"walk": {"ratio": 2.0}}\')\n')
    part = Part("studies/made-up", (str(script),))
    path = tmp_path / "unfinished.json"
    run_full = runner(quick=False, unfinished=Unfinished(path, resume=True))
    assert run_full(part)["state"] == "done"
    script.write_text("raise SystemExit('run again')\n")
    known = {"parts": {"studies/made-up": {"seconds": 60.0}}}
    resumed = Unfinished(path, resume=True)
    assert runner(quick=False, unfinished=resumed)(part)["printed"] == {
        "walk": {"ratio": 2.0}
    }
    assert estimate([part], known, resumed).startswith("0 parts")
    over = Unfinished(path, resume=False)
    assert estimate([part], known, over).startswith("1 parts: about 0 minutes")
    assert runner(quick=False, unfinished=over)(part)["state"] == "failed"
    resumed.end()
    assert not path.exists()


def test_the_headline_numbers_are_the_results(monkeypatch):
    text = headline.README.read_text("utf-8")
    found = text.partition(headline.BEGIN)[2].partition(headline.END)[0]
    assert found == headline.rendered(), "run python -m benchmarks.headline"
    known = headline.load

    def changed(name):
        result = known(name)
        if name == "speed_prediction":
            result["one answer"]["ratio"] *= 2
        return result

    monkeypatch.setattr(headline, "load", changed)
    assert found != headline.rendered()


def lines_of(page):
    return (ROOT / "docs" / "explain" / page).read_text("utf-8").splitlines()


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_the_page_on_throughput_has_the_measured_numbers():
    lines, found = lines_of("throughput.md"), results("service")
    shown = " ".join(line.strip() for line in lines)
    for key, name in (
        ("sqlite", "SQLite, 1 worker"),
        ("sqlite, 2 workers", "SQLite, 2 workers"),
        ("postgresql, 1 workers", "PostgreSQL, 1 worker"),
        ("postgresql, 2 workers", "PostgreSQL, 2 workers"),
    ):
        part = found[key]
        floor, bare, durable = (part[kind] for kind in ("floor", "bare", "durable"))
        assert floor["errors"] == bare["errors"] == durable["errors"] == 0
        rates = (each["per_second"] for each in (floor, bare, durable))
        cells = [
            name,
            *(f"{rate:,.0f}" for rate in rates),
            *(f"{part[f'durable / {under}']:.2f}" for under in ("bare", "floor")),
            *(f"{each['cpu_us']:.0f} µs" for each in (bare, durable)),
            f"{part['p99_ms at 200/s']:.0f} ms",
            f"{part['p99_ms at 60 % of the top']:.0f} ms",
        ]
        assert f"| {' | '.join(cells)} |" in lines
        many = part["128 connections"]
        rate, ratio = many["durable"]["per_second"], many["durable / bare"]
        assert f"{rate:,.0f} ({ratio:.2f} of bare)" in shown
    for kind in ("sqlite", "postgresql"):
        part = found[f"{kind}, long ledger"]
        assert f"{part['start']['processor_seconds']:.1f} s" in shown
        assert f"{part['charges']['long / empty']:.3f} on" in shown


def test_the_page_on_asking_has_the_measured_cost_of_a_counted_answer():
    found = results("speed_accounting")["counted answers"]
    assert f"{found['microseconds']:.0f} µs in memory" in "\n".join(
        lines_of("asking.md")
    )
    assert 0.8 < found["over a charge of rho"] < 1.25


def test_what_the_page_on_throughput_calls_met_is_met():
    """The aims that the run missed are those that the page says it missed."""
    missed = {name for name, (*_, met) in results("service")["aims"].items() if not met}
    ratios = {name for name in missed if name.endswith(("/ bare", "/ floor"))}
    assert len(ratios) == 8
    assert missed - ratios == {"sqlite, long ledger: rate, long / empty"}


def test_the_page_on_individual_accounting_has_the_measured_speed():
    page = local_speed.PAGE.read_text("utf-8")
    shown = page.partition(local_speed.BEGIN)[2].partition(local_speed.END)[0]
    assert shown == local_speed.rendered(), "run python -m benchmarks.local_speed"


def test_a_table_of_speed_says_what_was_measured():
    ratios = {name: {"ratio": 0.125} for name in local_speed.RATIOS}
    size = {"recorded": 20_000, "asked": 1_000}
    found = ratios | {"size": size, "restart": {"seconds": 4.06}}
    shown = local_speed.rendered(found | {"through a ledger": {"ratio": 3.21}})
    assert shown.count("| 0.12 |") == 4
    assert "to 20,000 rows, takes 3.2 times" in shown
    assert "after 1,000" in shown
    assert "needs 4.1 s" in shown


def test_the_page_on_growing_has_the_simulated_rows():
    shown = lines_of("scale.md")
    for row in results("scale_plan")["10,000 a second"]["rows"]:
        assert (
            f"| {row['workers']} | {row['chains']} | {row['answered_share']:.0%} | "
            f"{row['p50_ms']:.0f} ms | {row['p99_ms']:.0f} ms | {row['lock_used']} | "
            f"{row['worker_used']:.2f} |"
        ).replace("%", " %") in shown


def test_the_page_on_growing_has_the_measured_costs():
    page, found = " ".join(lines_of("scale.md")), results("scale_plan")
    fixed, each = (found["planned"][part] for part in ("fixed", "each"))
    assert f"a commit takes {1e3 * fixed:.1f} ms and {1e3 * each:.2f} ms for" in page
    bears = round(256 / (2 * (fixed + 256 * each)), -2)
    assert f"{bears:,.0f} with the costs above" in page
