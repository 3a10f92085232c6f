"""Studies of choices: settings of a release, and numbers of shards."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from benchmarks.studies import label_shards, shard_counts, tuned
from reticent.mechanisms import geometric_vote, permute_and_flip_vote


def between(text, marks):
    return text.partition(marks[0])[2].partition(marks[1])[0]


def test_the_page_on_tuning_is_the_results():
    recorded = json.loads((tuned.RESULTS / "tuned.json").read_text("utf-8"))
    found = between(tuned.PAGE.read_text("utf-8"), tuned.MARKS)
    assert found == tuned.page_table(recorded), "run it with --write"
    recorded["seeds"]["adult"][0]["tuned"] -= 0.1
    assert found != tuned.page_table(recorded)


def test_the_study_of_tuning_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    asked = []

    def compared(rows, seed):
        asked.append((rows, seed))
        if len(asked) == 4:
            raise KeyboardInterrupt
        return {"defaults": 0.8, "tuned": 0.81, "chosen": {}, "seconds": 60.0}

    monkeypatch.setattr(tuned, "compared", compared)
    monkeypatch.setattr(tuned, "rows_of", lambda name: name)
    path = tmp_path / "tuned.json"
    found = {"adult": [], "products": []}
    with pytest.raises(KeyboardInterrupt):
        tuned.run(found, path, seeds=2)
    assert asked[2:] == [("products", 0), ("products", 1)]
    done = tuned.known(path)
    assert {name: len(seeds) for name, seeds in done.items()} == {
        "adult": 2,
        "products": 1,
    }
    assert tuned.estimate(done) == 60 * (2 * tuned.SEEDS - 3)
    tuned.run(done, path, seeds=2)
    assert len(asked) == 5
    assert [len(seeds) for seeds in tuned.known(path).values()] == [2, 2]
    monkeypatch.setattr(tuned, "learner", lambda: "another")
    assert tuned.known(path) == {}
    assert "another learner" in capsys.readouterr().out


def test_the_study_of_tuning_asks_for_what_it_should():
    facts = tuned.facts()
    assert facts["settings"] >= 12
    assert tuned.SEEDS >= 10
    assert {"adult", "bank", "covtype"} < set(tuned.TABLES)
    assert max(facts["most_rows"].values()) <= 60_000
    for draw in tuned.GENERATED.values():
        X, y = draw(1)
        assert np.abs(X).max() <= 2
        assert 0.2 < y.mean() < 0.8


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_accuracies_of_a_pool_are_means_over_all_its_ensembles(count):
    rng = np.random.default_rng(0)
    said, truth = rng.integers(0, 2, size=(5, 7)), rng.integers(0, 2, size=7)
    votes = np.stack([(said == label).sum(axis=0) for label in (0, 1)], axis=1)
    found = label_shards.accuracies(votes, truth, count)
    for place, epsilon in enumerate(label_shards.EPSILONS):
        means = []
        for chosen in itertools.combinations(range(5), count):
            some = said[list(chosen)]
            drawn = np.stack([(some == label).sum(axis=0) for label in (0, 1)], axis=1)
            law = geometric_vote(drawn, epsilon).probabilities
            means.append(law[np.arange(7), truth].mean())
        assert found[place] == pytest.approx(np.mean(means), rel=1e-12)


def test_accuracies_of_several_labels_are_drawn_from_the_pool():
    rng = np.random.default_rng(0)
    votes = rng.multinomial(6, [0.5, 0.3, 0.2], size=4000)
    truth = rng.integers(0, 3, size=4000)
    everybody = permute_and_flip_vote(votes, 1.0).probabilities
    found = label_shards.accuracies(votes, truth, 6)
    exact = everybody[np.arange(4000), truth].mean()
    assert found[label_shards.EPSILONS.index(1.0)] == pytest.approx(exact, rel=1e-12)
    drawn = label_shards._several(votes, 2, rng)
    assert (drawn.sum(axis=1) == 2).all()
    assert (drawn <= votes).all()
    assert drawn.mean(axis=0) == pytest.approx(votes.mean(axis=0) / 3, abs=0.1)


def test_the_floor_is_the_count_that_fails_least():
    row = {"regret": 0.02, "standard_error": 0.001, "labels": 2}
    found = {
        "a, linear, 200 rows": {"1.0": {**row, "regrets": {"1": 0.0, "3": 0.02}}},
        "b, linear, 200 rows": {"1.0": {**row, "regrets": {"1": 0.03, "3": 0.0}}},
    }
    judged = label_shards.judged(found, ("a", "b"))
    assert judged["floor"] == {"settings": 1, "within_half_a_point": 0, "worst": 0.02}
    assert (judged["settings"], judged["clearly_not"]) == (2, 2)
    alone = label_shards.judged(found, ("a",))
    assert alone["floor"]["worst"] == 0.0


def test_the_page_on_shards_is_the_results():
    recorded = json.loads((shard_counts.RESULTS / "shard_counts.json").read_text())
    found = between(shard_counts.PAGE.read_text("utf-8"), shard_counts.MARKS)
    assert found == shard_counts.page_table(recorded), "run it with --write"
    recorded["labels_counted"]["reported on"]["settings"] += 1
    assert found != shard_counts.page_table(recorded)
