"""Releases are paid for each time they are fitted, whatever came out."""

import numpy as np
import pytest

from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget
from reticent.home import (
    FitOptions,
    Home,
    charge_release,
    dataset_account,
    train_and_store,
)
from reticent.learners import LogConcaveClassifier, PrivateTabularClassifier
from reticent.ledger import Cap, MemoryLedger
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


def test_a_release_that_came_out_the_same_again_is_paid_for_again(tmp_path):
    """A draw from a short list is often the same; the second one costs as much."""
    X = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    schema = Schema({"x": Numeric(-1, 1)}, label=ClassLabel("y", [0, 1]))
    learner = LogConcaveClassifier(9.0, rule="net", net_points=4, classes=[0, 1])
    ledger, key = MemoryLedger(), new_key()
    ledger.open_account(dataset_account("clinic"), Cap.within(Budget(100.0)))
    found = set()
    for name in "abcde":
        learner.fit(X, (X[:, 0] > 0).astype(int))
        found.add(learner.coef_.tobytes() + learner.intercept_.tobytes())
        facts = {"signing_key": key, "encoder": Encoder(schema), "dataset": "clinic"}
        save_model(tmp_path / name, learner, schema, **facts)
        stored = load_model(tmp_path / name, signing_key=key)
        for _ in range(2):  # the same stored model is charged once
            charge_release(ledger, stored)
    assert len(found) < 5  # of four models
    assert ledger.balance(dataset_account("clinic")).spent.answers == 5


def test_a_fit_of_a_table_is_one_model_and_the_next_fit_another(tmp_path):
    schema = Schema({"x": Numeric(-1, 1)}, label=ClassLabel("y", [0, 1]))
    X, key = np.linspace(-1, 1, 200)[:, None], new_key()
    learner = PrivateTabularClassifier(
        5.0, columns=list(schema.columns.values()), classes=[0, 1]
    )
    encoder = Encoder(schema, style="ordinal")
    facts = {"schema": schema, "signing_key": key, "encoder": encoder}
    learner.fit(X, (X[:, 0] > 0).astype(int))
    one = save_model(tmp_path / "a", learner, **facts)
    first = learner.identity_
    again = load_model(tmp_path / "a", signing_key=key).predictor
    assert again.identity_ == first
    assert save_model(tmp_path / "b", again, **facts) == one
    assert save_model(tmp_path / "c", learner, **facts) == one
    learner.fit(X, (X[:, 0] > 0).astype(int))
    save_model(tmp_path / "d", learner, **facts)
    assert learner.identity_ != first


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
