"""Numbers that people give: refused by the name of their option, before anything."""

import math

import numpy as np
import pytest

from reticent.errors import InvalidParameterError, ReticentError
from reticent.home import (
    FitOptions,
    Home,
    Tuning,
    evaluate_model,
    train_and_store,
)
from reticent.schemas import ClassLabel, Numeric, Schema

SCHEMA = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", [0, 1]))


@pytest.fixture
def rows(tmp_path):
    ages = np.random.default_rng(1).uniform(0, 100, 300)
    path = tmp_path / "rows.csv"
    lines = [f"{age:.1f},{int(age > 50)}" for age in ages]
    path.write_text("\n".join(["age,sick", *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", ["epsilon", "budget"])
@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
def test_a_cost_that_is_none_is_named_by_its_option(name, number):
    with pytest.raises(InvalidParameterError, match=f"--{name} must be a number above"):
        FitOptions(**{name: number})


def test_other_numbers_are_named_by_their_option(tmp_path):
    with pytest.raises(InvalidParameterError, match="--delta must be at least 0"):
        FitOptions(delta=1.0)
    with pytest.raises(InvalidParameterError, match="--shards must be a whole number"):
        FitOptions(shards=0)
    with pytest.raises(InvalidParameterError, match="--epsilon must be a number above"):
        Tuning(epsilon=0.0)


@pytest.mark.parametrize("number", [0.0, math.nan])
def test_no_cost_is_announced_for_an_epsilon_that_is_refused(rows, tmp_path, number):
    home, said = Home.at(tmp_path / "home"), []
    train_and_store(
        home, rows, SCHEMA, FitOptions(release=True, learner="linear", epsilon=4.0)
    )
    with pytest.raises(ReticentError, match="epsilon"):
        evaluate_model(home, "model", rows, epsilon=number, note=said.append)
    assert said == []


@pytest.mark.parametrize("delta", [0.5, 1e-6])
def test_a_delta_that_allows_giving_a_record_away_is_warned_of(rows, tmp_path, delta):
    said = []
    options = FitOptions(release=True, learner="linear", epsilon=4.0, delta=delta)
    home = Home.at(tmp_path / "home")
    train_and_store(home, rows, SCHEMA, options, note=said.append)
    warned = [line for line in said if "a whole record is given away" in line]
    assert len(warned) == (delta == 0.5)
