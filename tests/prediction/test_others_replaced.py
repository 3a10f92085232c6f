"""Replace the rows of all other shards: nothing about the kept one may change."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from scipy import sparse

from reticent.ensembles import ClassifierEnsemble, ensemble, fitting, model_answers
from reticent.ensembles.fusion import fusion, pipelines
from reticent.ensembles.fusion.pipelines import as_fusable_pipeline
from reticent.errors import InvalidParameterError
from tests.prediction.hostile_tables import ATTACKS, KEPT_ROWS, N_ROWS
from tests.prediction.others_replaced import (
    PREDICTORS,
    RefusedAtFitError,
    attacks_for,
    differences,
    kinds_for,
    seen,
)
from tests.prediction.zoo import ZOO

NAMES = list(ZOO)


def compared(animal, predictor, kind, attacks, **settings):
    """Return what differs under which attack, and how many tables were refused."""
    before = seen(animal, predictor, kind, **settings)
    found, refused = {}, 0
    for attack, retyped in attacks:
        try:
            after = seen(animal, predictor, kind, attack, retyped, **settings)
        except RefusedAtFitError:
            refused += 1
            continue
        if wrong := differences(before, after):
            found[attack, retyped] = wrong
    return found, refused


def test_the_zoo_is_large_and_the_kept_rows_are_a_shard():
    assert len(ZOO) >= 30
    assert len(ATTACKS) >= 8
    assert 0 < len(KEPT_ROWS) < N_ROWS / 2


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_or_two_on_every_pipeline(name):
    """Each pipeline in one kind of container; all of them in the long test."""
    turn = NAMES.index(name)
    animal = ZOO[name]
    kinds = kinds_for(animal)
    kind = kinds[turn % len(kinds)]
    attacks = attacks_for(animal, kind)
    trains = [a for a in attacks if a[0] in ("one text", "whole", "constant")]
    chosen = [trains[turn % len(trains)]]
    if not animal.mixed:
        chosen.append(attacks[(5 * turn) % len(attacks)])
    predictor = list(PREDICTORS)[turn % 3]
    found, refused = compared(animal, predictor, kind, chosen, n_queries=20)
    assert found == {}
    assert refused < len(chosen)


@pytest.mark.long
@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("name", NAMES)
def test_every_attack_on_every_pipeline_in_every_container(name, predictor):
    animal = ZOO[name]
    for kind in kinds_for(animal):
        attacks = attacks_for(animal, kind)
        found, refused = compared(animal, predictor, kind, attacks)
        assert found == {}, kind
        assert refused < len(attacks) / 2, kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mean", "pandas"),
        ("most frequent", "polars"),
        ("filled columns", "pandas"),
        ("one-hot", "polars"),
        ("boosted with named categories", "pandas"),
    ],
)
def test_a_column_that_the_first_shard_lacks_is_its_own_affair(name, kind):
    attack = [("first lacks", None)]
    assert compared(ZOO[name], "averaging", kind, attack, n_queries=12) == ({}, 0)


def flagged(monkeypatch, name, kind, attack, *patches):
    """Return what the harness finds once the given functions are broken."""
    for owner, attribute, broken in patches:
        monkeypatch.setattr(owner, attribute, broken)
    found, refused = compared(
        ZOO[name], "averaging", kind, [(attack, None)], n_queries=12
    )
    assert refused == 0
    return found.get((attack, None), [])


def test_an_encoder_of_one_shard_that_serves_all_is_noticed(monkeypatch):
    trusting = (pipelines, "is_declared", lambda step: True)
    found = flagged(monkeypatch, "declared filling", "array", "marked", trusting)
    assert "effect" in found


@pytest.mark.parametrize("name", ["numbers by type", "whole numbers by type"])
def test_a_type_that_crosses_shards_is_noticed(name, monkeypatch):
    untouched = (fitting, "canonical_table", lambda X, public_types: X)
    attack = "one text" if name == "numbers by type" else "one missing"
    assert "effect" in flagged(monkeypatch, name, "pandas", attack, untouched)


@pytest.mark.parametrize("name", ["unseeded target encoder", "shuffled splits"])
def test_draws_of_the_process_that_cross_shards_are_noticed(name, monkeypatch):
    shared = (fitting, "own_generators", lambda model, seed: nullcontext())
    kind = "pandas" if ZOO[name].mixed else "array"
    assert "effect" in flagged(monkeypatch, name, kind, "text", shared)


def test_draws_while_asked_that_cross_shards_are_noticed(monkeypatch):
    shared = (model_answers, "own_generators", lambda model, seed: nullcontext())
    assert "effect" in flagged(monkeypatch, "draws", "array", "text", shared)


def test_sums_that_are_rounded_together_are_noticed(monkeypatch):
    exact = ClassifierEnsemble.probability_sums

    def rounded(self, X):
        return exact(self, X) // 5 * 5

    broken = (ClassifierEnsemble, "probability_sums", rounded)
    assert flagged(monkeypatch, "boosted", "array", "constant", broken) == ["effect"]


def test_a_refusal_that_depends_on_a_record_is_noticed(monkeypatch):
    answered = ClassifierEnsemble.votes

    def refuses(self, X):
        if sparse.issparse(X) and len(self.fusion.shards):
            raise InvalidParameterError("these models answer dense rows")
        return answered(self, X)

    broken = (ClassifierEnsemble, "votes", refuses)
    assert "answers" in flagged(monkeypatch, "logistic", "array", "text", broken)


def test_a_query_that_models_share_is_noticed(monkeypatch):
    shared = (model_answers, "unshared_copy", lambda X: X)
    with pytest.raises(AssertionError, match="written to"):
        flagged(monkeypatch, "in-place scaler", "array", "constant", shared)
    assert "effect" in flagged(monkeypatch, "overwrites", "pandas", "constant", shared)


def test_a_path_that_depends_on_the_others_is_noticed(monkeypatch):
    encoded = ClassifierEnsemble._encoded

    def loops(self, X, fused, **asked):
        if self.fusion is None or len(self.fusion.shards) < self.n_shards:
            return []
        return encoded(self, X, fused, **asked)

    broken = (ClassifierEnsemble, "_encoded", loops)
    found = flagged(monkeypatch, "declared categories", "pandas", "text", broken)
    assert "path" in found


def test_models_that_must_be_like_the_first_one_are_noticed(monkeypatch):
    """As they were once: the first shard decided how wide the others are."""

    def like_the_first(models, labels):
        pipelines = {s: as_fusable_pipeline(m) for s, m in enumerate(models)}
        width = fusion.predicted_width(pipelines[0])
        same = {
            s: p for s, p in pipelines.items() if fusion.predicted_width(p) == width
        }
        fused = fusion._fuse_alike(same, labels)
        return () if fused is None else (fused,)

    broken = (ensemble, "fuse", like_the_first)
    assert "path" in flagged(monkeypatch, "mean", "pandas", "first lacks", broken)
