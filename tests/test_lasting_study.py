"""The study of lasting answers: what is measured, and what its page shows."""

from __future__ import annotations

import numpy as np

from benchmarks import local_speed
from benchmarks.studies import lasting, lasting_table, local_or_release


class Counted:
    """A rival that counts how often it is measured."""

    def __init__(self):
        self.measured = []

    def suits(self, name):
        return name != "california"

    def score(self, cell, rows):
        self.measured.append(cell)
        return {"score": cell.total + cell.seed}


def test_the_study_of_lasting_answers_chooses_cells():
    methods = lasting.rivals()
    some = list(lasting.cells(methods, seeds=2, only="covtype/lasting/1"))
    assert {cell.data for cell in some} == {"covtype"}
    assert {cell.total for cell in some} == {1.0}
    assert {cell.method for cell in some} == {
        "lasting, replace-one",
        "lasting, zero-out",
    }
    assert len(some) == 2 * 2 * len(lasting.QUESTIONS)
    every = list(lasting.cells(methods, seeds=1))
    assert {cell.data for cell in every} == set(lasting.DATA)
    pate = {cell.data for cell in every if cell.method.startswith("PATE")}
    assert "california" not in pate


def test_the_study_of_lasting_answers_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(lasting.Rows, "train", np.arange(3))
    monkeypatch.setattr(lasting.Rows, "sessions", lambda *_: [np.arange(5)])
    path, rival = tmp_path / "lasting.json", Counted()
    methods = {"counted": rival}
    wanted = list(lasting.cells(methods, seeds=2, only="adult", questions=(100, 1000)))
    lasting.run(wanted[:5], methods, path)
    lasting.run(wanted, methods, path)
    assert rival.measured == wanted
    assert [lasting.key_of(each) for each in lasting.read(path)] == wanted
    lasting.run(wanted[:1], methods, path, again=True)
    assert len(rival.measured) == len(wanted) + 1
    assert len(lasting.read(path)) == len(wanted)


def test_the_page_on_individual_accounting_has_the_measured_scores():
    found = lasting.read(lasting.RESULTS)
    page = local_speed.PAGE.read_text("utf-8")
    assert lasting_table.table(found) in page, "run benchmarks.studies.lasting_table"
    found[0]["score"] += 0.01
    assert lasting_table.table(found) not in page


def test_the_page_on_individual_accounting_compares_votes_with_releases():
    found = local_or_release.read(local_or_release.RESULTS)
    page = local_or_release.PAGE.read_text("utf-8")
    assert local_or_release.table(found) in page, "run local_or_release --page"
    assert {each["table"] for each in found} == set(local_or_release.TABLES)
    found[0]["votes"] += 0.5
    assert local_or_release.table(found) not in page


def test_votes_are_compared_with_a_release_of_the_same_rows(monkeypatch):
    monkeypatch.setattr(local_or_release, "QUESTIONS", (5, 20))
    for name in ("waves, 7 labels", "patches, numbers"):
        case = local_or_release.Case(name, "replace-one", 300, 4.0)
        few, many = local_or_release.compared(case)
        assert few["wanted"] <= many["wanted"]
        assert not few["automatic"]  # there are too few units
        assert few["votes"] != many["votes"]


def test_a_table_of_lasting_answers_says_how_many_seeds_each_line_has():
    known = {"data": "adult", "method": "DP-EBM", "total": 1.0, "questions": 100}
    two = [{**known, "score": score} for score in (0.5, 1.5)]
    more = {**known, "questions": 1_000, "score": 0.25}
    shown = lasting_table.table([*two, more])
    assert "| Adult | DP-EBM | 1 to 2 | 1.0000 (0.5000) | 0.2500 | - | - | - |" in shown
