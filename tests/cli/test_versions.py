"""Versions of a model: in order, never taken by mistake, and gone when removed."""

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.home import (
    FitOptions,
    Home,
    model_versions,
    remove_model,
    roll_back,
    train_and_store,
)
from reticent.schemas import ClassLabel, Numeric, Schema

SCHEMA = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", [0, 1]))


@pytest.fixture
def fit(tmp_path):
    draw = np.random.default_rng(1)
    lines = [f"{age:.1f},{int(age > 50)}" for age in draw.uniform(0, 100, 300)]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(["age,sick", *lines]) + "\n")
    home = Home.at(tmp_path / "home", second_place=tmp_path / "second" / "place.json")
    home.second_place.parent.mkdir(mode=0o700)

    def made(**options):
        given = {"epsilon": 0.5, "learner": "linear", "accept_noise": True, **options}
        train_and_store(home, data, SCHEMA, FitOptions(**given))
        return home

    return made


def test_a_new_version_comes_after_all_others(fit):
    home = fit(shards=5)
    fit(shards=5, replace=True)
    remove_model(home, "model", 1)
    fit(shards=5, replace=True)
    found = [(each.number, each.current) for each in model_versions(home, "model")]
    assert found == [(2, False), (3, True)]
    assert roll_back(home, "model").number == 2


def test_a_name_whose_first_version_is_gone_is_taken(fit):
    home = fit(shards=5)
    fit(shards=5, replace=True)
    remove_model(home, "model", 1)
    with pytest.raises(InvalidParameterError, match="there is a model 'model' already"):
        fit(shards=5)
    assert home.model_path("model").name == "model@2"


def test_what_an_interrupted_fit_has_left_goes_with_its_model_alone(fit):
    home = fit(shards=5)
    for left in (".model.unpaid", ".model.0a1b2c3d4e5f.new", ".model.b.unpaid"):
        (home.models / left).mkdir()
    remove_model(home, "model")
    assert [path.name for path in home.models.iterdir()] == [".model.b.unpaid"]


def test_a_lasting_fit_that_is_stopped_leaves_no_records(fit, monkeypatch, tmp_path):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setitem(train_and_store.__globals__, "charge_release", stopped)
    with pytest.raises(KeyboardInterrupt):
        fit(lasting=True, learner=None, epsilon=1.0)
    assert list((tmp_path / "home" / "models").iterdir()) == []
