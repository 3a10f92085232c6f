"""Students are paid for each time they are taught, whatever they were taught."""

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.home import FitOptions, Home, dataset_account, train_and_store
from reticent.schemas import ClassLabel, Encoder, Numeric, Schema
from reticent.signing import new_key
from reticent.storage import load_model, save_model

SCHEMA = Schema({"age": Numeric(0, 100)}, label=ClassLabel("sick", [0, 1]))
GIVEN = {"dataset": "clinic", "epsilon": 8.0, "budget": 60.0, "delta": 1e-6}
GIVEN |= {"learner": "linear", "accept_noise": True, "replace": True}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ages = np.random.default_rng(0).uniform(0, 100, 400)
    lines = [f"{age:.3f},{int(age > 50)}" for age in ages]
    (tmp_path / "first.csv").write_text("\n".join(["age,sick", *lines]) + "\n")
    return Home.at(tmp_path / "home")


def taught(home, tmp_path, ages):
    public = tmp_path / "public.csv"
    public.write_text("\n".join(["age", *map(str, ages)]) + "\n")
    options = FitOptions(**GIVEN, public=public)
    return train_and_store(home, tmp_path / "first.csv", SCHEMA, options)


def spent(home):
    with home.settings().open_ledger() as ledger:
        ledger.verify()
        return ledger.balance(dataset_account("clinic")).spent


def test_a_student_who_was_taught_the_same_again_is_paid_for_again(home, tmp_path):
    """With this epsilon and clear labels, both fits are taught the same."""
    one = taught(home, tmp_path, [5, 20, 80, 95])
    once = spent(home)
    first = home.settings().load_model("model").id
    two = taught(home, tmp_path, [5, 20, 80, 95])
    assert np.array_equal(one.student_.coef_, two.student_.coef_)
    assert home.settings().load_model("model").id != first
    assert once.answers == 1
    assert (spent(home).rho, spent(home).answers) == (2 * once.rho, 2)


def test_one_fit_is_one_model_however_often_it_is_stored(home, tmp_path):
    model, key = taught(home, tmp_path, [5, 20, 80, 95]), new_key()
    facts = {"schema": SCHEMA, "signing_key": key, "encoder": Encoder(SCHEMA)}
    ids = {save_model(tmp_path / name, model, **facts) for name in "ab"}
    assert len(ids) == 1
    again = load_model(tmp_path / "a", signing_key=key).predictor
    assert save_model(tmp_path / "c", again, **facts) in ids
    assert again.identity_ == model.identity_


def test_a_student_that_cannot_be_stored_is_paid_for(home, tmp_path):
    """All answers were the same label: that is private, and now it is known."""
    taught(home, tmp_path, [5, 20, 80, 95])
    once = spent(home)
    with pytest.raises(InvalidParameterError, match="taught every label"):
        taught(home, tmp_path, [90, 95])
    assert spent(home).answers == 2
    assert spent(home).rho > once.rho
