"""The comparison of releases: verdicts, relations, and a run that goes on."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from benchmarks.studies import release, release_peers, release_table, student_release
from benchmarks.studies.release_boosting import RandomBoosting
from reticent.guarantees import gaussian_ratio
from reticent.planning import plan
from reticent.schemas import Numeric


def records_of_releases():
    return json.loads(release_table.RESULTS.read_text("utf-8"))


def test_the_page_that_compares_releases_is_the_results():
    text, records = release_table.PAGE.read_text("utf-8"), records_of_releases()
    found = text.partition(release_table.BEGIN)[2].partition(release_table.END)[0]
    again = "run python -m benchmarks.studies.release_table"
    assert found == release_table.rendered(records), again
    for record in records:
        if record["data"] == "bank" and record["method"] == release_table.OURS:
            record["scores"] = dict.fromkeys(record["scores"], 0.5)
    assert found != release_table.rendered(records)


def made_up_releases(ours, theirs, who="DP-EBM"):
    rows = {"data": "adult", "epsilon": 1.0, "train": 9, "test": 9, "seconds": 1.0}
    return [
        {**rows, "method": method, "seed": seed, "scores": {"a": score, "b": 0.1}}
        for method, scores in (
            (release_table.OURS, ours),
            (who, theirs),
            ("random boosting by hand", [0.5]),
        )
        for seed, score in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([0.80, 0.82], [0.70, 0.72], []),
        ([0.80, 0.82], [0.79, 0.81], ["DP-EBM"]),  # by less than the error
        ([0.80, 0.82], [0.90, 0.92], ["DP-EBM"]),
        ([0.80, 0.82], [0.79], []),  # their error counts as large as ours
        ([0.80, 0.82], [0.80], ["DP-EBM"]),
        ([0.80], [0.70, 0.72], None),  # no error is known
    ],
)
def test_ours_is_ahead_beyond_the_standard_error(ours, theirs, verdict):
    found = release_table.Results(made_up_releases(ours, theirs))
    assert found.verdict("adult", 1.0) == verdict
    assert found.best("adult", "DP-EBM", 1.0)["setting"] == "a"


def test_without_a_strong_peer_nothing_is_said():
    records = made_up_releases([0.8, 0.81], [0.5, 0.51], who="diffprivlib")
    assert release_table.Results(records).verdict("adult", 1.0) is None
    records += made_up_releases([0.8, 0.81], [0.5, 0.51])
    assert release_table.Results(records).verdict("adult", 1.0) == []


def test_a_weaker_promise_is_no_rival():
    records = made_up_releases([0.8, 0.81], [0.9, 0.91], who=release_table.ZEROED)
    records += made_up_releases([0.8, 0.81], [0.7, 0.71])
    assert release_table.Results(records).verdict("adult", 1.0) == []


def test_the_study_of_releases_chooses_cells_and_goes_on_where_it_was(
    tmp_path, monkeypatch
):
    wanted = list(
        release.cells(release.methods(), seeds=2, only="adult+bank/reticent/1")
    )
    assert {cell.data for cell in wanted} == {"adult", "bank"}
    assert {cell.method for cell in wanted} == {"reticent"}
    assert [cell.seed for cell in wanted] == [0, 0, 1, 1]
    asked = []

    def measured(cell, most):
        asked.append(cell)
        if len(asked) == 3:
            raise KeyboardInterrupt
        numbers = {"scores": {"default": 0.8}, "train": 1, "test": 1, "seconds": 60.0}
        return {**asdict(cell), **numbers}

    monkeypatch.setattr(release, "measured", measured)
    path = tmp_path / "release.json"
    with pytest.raises(KeyboardInterrupt):
        release.run(wanted, path)
    known = {release.key_of(record) for record in release.read(path)}
    assert known == set(wanted[:2])
    left = [cell for cell in wanted if cell not in known]
    assert release.estimate(left, release.read(path)) == (120.0, 0)
    release.run(left, path)
    assert {release.key_of(record) for record in release.read(path)} == set(wanted)


def test_dp_ebm_gets_half_of_its_mu():
    for epsilon in (0.1, 1.0, 4.0):
        own = release_peers.boosting_epsilon(epsilon, 1e-6)
        parts = [gaussian_ratio(own * share, 5e-7) for share in (0.1, 0.9)]
        assert 2 * np.hypot(*parts) == pytest.approx(gaussian_ratio(epsilon, 1e-6))
        # Its own accounting, by groups of two, would allow less.
        assert own > epsilon / 2


@pytest.mark.parametrize("labels", [None, 2, 3])
def test_boosting_by_hand_learns_and_its_noise_covers_a_replaced_row(labels):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    y = X[:, 0] if labels is None else (X[:, 0] * labels).astype(int)
    columns = [Numeric(0, 1), Numeric(0, 1)]
    model = RandomBoosting(50.0, 1e-6, 40, 4, 0.3, 0, labels).fit(X, y, columns)
    answers = model.predict(X)
    if labels is None:
        assert np.mean((answers - y) ** 2) < y.var() / 2
    else:
        assert (answers == y).mean() > 0.8
    # The largest change of all noisy sums that one row can make, by hand.
    change = {None: 1.0, 2: np.sqrt(4 + 1 / 16), 3: np.sqrt(8 + 3 / 16)}[labels]
    mu = gaussian_ratio(50.0, 1e-6)
    assert model.noise == pytest.approx(change * np.sqrt(40) / mu)


def test_the_table_of_students_is_the_results():
    text = student_release.PAGE.read_text("utf-8")
    found = json.loads(student_release.RESULTS.read_text("utf-8"))
    shown = text.partition(student_release.BEGIN)[2].partition(student_release.END)[0]
    assert shown == student_release.table(found)
    for one in found.values():
        votes = [mean for who, mean in one["accuracy"].items() if "votes" in who]
        best = one["accuracy"]["released default"]["mean"]
        assert all(each["mean"] < best for each in votes)


def test_the_planner_offers_no_students():
    found = plan("classification", 100_000, 1.0, delta=1e-6, queries=100, public=5_000)
    assert not [option.method for option in found.options if "student" in option.method]
