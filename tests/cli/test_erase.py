"""Erasing a person: gone from every file, the rest unchanged to the bit."""

import json
import math
import re

import numpy as np
import pytest

from reticent.cli.main import main
from reticent.errors import InvalidParameterError, ReticentError
from reticent.estimators import TargetRange
from reticent.home import (
    FitOptions,
    Home,
    answer_rows,
    erase_unit,
    model_versions,
    roll_back,
    train_and_store,
)
from reticent.home.on_disk.members import keyed_hash, members_key, read_members
from reticent.prediction.lasting import histories as states
from reticent.schemas import ClassLabel, Numeric, NumericTarget, Schema

# Numbers that occur nowhere else, also not by chance, in any form that is searched for.
WHO, AGE, WEIGHT = "patient-8f3a61c07e", 37.628190455821, 81.937465110283


@pytest.fixture
def clinic(tmp_path):
    """A home, and a file with three rows of one patient among others."""
    draw = np.random.default_rng(1)
    people = [f"p{number}" for number in range(150) for _ in range(2)]
    ages, weights = draw.uniform(0, 100, 300), draw.uniform(40, 120, 300)
    sick = draw.integers(0, 2, 300)
    lines = [
        f"{who},{ages[row]:.6f},{weights[row]:.6f},{sick[row]},{3 * sick[row]}"
        for row, who in enumerate(people)
    ]
    theirs = [f"{WHO},{AGE},{WEIGHT},1,3"] * 3
    rows = [*lines[:100], *theirs, *lines[100:]]
    data = tmp_path / "rows.csv"
    data.write_text("\n".join(["who,age,weight,sick,days", *rows]) + "\n")
    home = Home.at(tmp_path / "home", second_place=tmp_path / "second" / "place.json")
    home.second_place.parent.mkdir(mode=0o700)
    return home, data


COLUMNS = {"age": Numeric(0, 100), "weight": Numeric(40, 120)}
LABEL = ClassLabel("sick", [0, 1])


def schema(**settings):
    given = {"label": LABEL, "unit": "who", "ignored": ("days",), **settings}
    return Schema(COLUMNS, **given)


def fit(clinic, **options):
    home, data = clinic
    given = {
        "name": "model",
        "dataset": "clinic",
        "epsilon": 0.5,
        "budget": 8.0,
        "delta": 1e-6,
        "accept_noise": True,
    }
    form = options.pop("schema", schema())
    train_and_store(home, data, form, FitOptions(**{**given, **options}))
    return home, data


def bytes_of(home):
    return {
        path.relative_to(home.path): path.read_bytes()
        for path in sorted(home.path.rglob("*"))
        if path.is_file()
    }


def traces(home):
    """Return the files that hold the id, a hash of it, or a value of the rows."""
    sought = [WHO.encode(), WHO.encode("utf-16-le"), keyed_hash(members_key(home), WHO)]
    for value in (AGE, WEIGHT):
        sought += [str(value).encode()]
        sought += [np.array(value, kind).tobytes() for kind in ("<f8", "<f4")]
    return {
        str(path)
        for path, content in bytes_of(home).items()
        if any(each in content for each in sought)
    }


def models_of(home):
    return home.settings().load_model("model").predictor.law_.ensemble.fusion.models


def ask(home, age=50.0):
    with home.open_model("model", client="ward") as (ledger, served):
        table = served.stored.schema.rows([{"age": age, "weight": 70.0}])
        return answer_rows(ledger, served, table, client="ward").answers


@pytest.mark.parametrize("learner", ["linear", "boosting"])
def test_only_the_shard_that_held_the_person_is_fitted_again(clinic, learner):
    home, data = fit(clinic, learner=learner, shards=5)
    ask(home)
    before, shard = (
        models_of(home),
        read_members(home, "model").shard_of(keyed_hash(members_key(home), WHO)),
    )
    old = home.settings().load_model("model")
    spent = [str(each) for each in balances(home)]
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "shard refitted"
    assert traces(home) == set()
    new, after = home.settings().load_model("model"), models_of(home)
    assert (new.id, new.n_units) == (done.after, old.n_units - 1)
    assert new.certificate.guarantee == old.certificate.guarantee
    X = new.encoder.transform(
        new.schema.rows([{"age": a, "weight": 3 * a + 40} for a in range(27)])
    )
    rows = np.arange(len(X))
    changed = [
        not np.array_equal(
            before.settled_scores(
                X, rows, int(np.flatnonzero(before.shards == each)[0])
            ),
            after.settled_scores(X, rows, int(np.flatnonzero(after.shards == each)[0])),
        )
        for each in range(5)
    ]
    assert [each for each in range(5) if changed[each]] == [shard]
    # What was spent stays spent, the book is whole, and the model answers.
    assert [str(each) for each in balances(home)] == spent
    with home.settings().open_ledger() as ledger:
        ledger.verify()
    ask(home)


def balances(home):
    with home.settings().open_ledger() as ledger:
        return ledger.balances()


def test_the_shard_is_fitted_as_it_would_have_been_without_the_person(clinic):
    home, data = fit(clinic, learner="linear", shards=5)
    erase_unit(home, WHO, data, "clinic")
    members, key = read_members(home, "model"), members_key(home)
    lines = data.read_text().splitlines()
    rest = [line for line in lines if not line.startswith(WHO)]
    data.write_text("\n".join(rest) + "\n")
    after = models_of(home)
    shard = int(after.shards[-1])  # the one that was put in last
    from sklearn.linear_model import LogisticRegression

    cells = [line.split(",") for line in rest[1:]]
    mine = [c for c in cells if members.shard_of(keyed_hash(key, c[0])) == shard]
    encoder = home.settings().load_model("model").encoder
    table = encoder.schema.rows(
        [{"age": float(c[1]), "weight": float(c[2])} for c in mine]
    )
    X, y = encoder.transform(table), np.array([int(c[3]) for c in mine])
    plain = LogisticRegression(tol=1e-10, max_iter=10_000).fit(X, y)
    place = int(np.flatnonzero(after.shards == shard)[0])
    np.testing.assert_allclose(
        after.weights[place, 0], plain.coef_[0], rtol=1e-3, atol=1e-4
    )


def test_a_lasting_model_drops_the_person_at_once(clinic, monkeypatch):
    home, data = fit(clinic, lasting=True, epsilon=1.0)
    ask(home)
    old = home.settings().load_model("model").predictor.law_
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "rows dropped"
    assert traces(home) == set()
    monkeypatch.setattr(states, "_histories", {})  # as another process would start
    new = home.settings().load_model("model").predictor.law_
    assert len(new.codes) == len(old.codes) - 3
    gone = set(old.unit.tolist()) - set(new.unit.tolist())
    assert len(gone) == 1
    kept = ~np.isin(old.unit, list(gone))
    assert np.array_equal(old.codes[kept], new.codes)
    assert np.array_equal(old.votes.said_by[kept], new.votes.said_by)
    assert np.array_equal(old.fitted, new.fitted)
    assert new.certificate == old.certificate
    assert new.identity == old.identity  # the log goes on: the others stay spent
    ask(home, 51.0)
    with home.settings().open_ledger() as ledger:
        ledger.verify()


def test_a_lasting_model_of_numbers_drops_the_person_too(clinic):
    numbers = schema(label=NumericTarget("days", 0, 10), ignored=("sick",))
    home, data = fit(clinic, lasting=True, epsilon=1.0, schema=numbers)
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "rows dropped"


def of_numbers(clinic, days):
    """Fit on numbers of which the person's is given; return the home and the file."""
    _, data = clinic
    data.write_text(data.read_text().replace(f"{WEIGHT},1,3", f"{WEIGHT},1,{days}"))
    numbers = schema(label=NumericTarget("days", 0, 10), ignored=("sick",))
    return fit(clinic, lasting=True, epsilon=1.0, schema=numbers)


def share_of_range(self, targets):
    """Scale targets as earlier versions did."""
    share = np.clip((targets - self.low) / (self.high - self.low), 0.0, 1.0)
    return share * 2 - 1


@pytest.mark.parametrize("version", ["now", "earlier"])
def test_a_person_is_found_whose_number_is_not_even(clinic, version, monkeypatch):
    """The last bit of the number depends on the formula that scaled it."""
    days = 3.7
    target = TargetRange(0.0, 10.0)
    assert target.centred(np.array(days)) != share_of_range(target, np.array(days))
    with monkeypatch.context() as patch:
        if version == "earlier":
            patch.setattr(TargetRange, "centred", share_of_range)
        home, data = of_numbers(clinic, days)
    # Nobody else's number is taken for theirs, however near it is.
    near = data.with_name("near.csv")
    for other in (3.71, 3.7000000001, days + 4 * math.ulp(days)):
        near.write_text(data.read_text().replace(f",1,{days}", f",1,{other!r}"))
        (done,) = erase_unit(home, WHO, near, "clinic")
        assert done.action == "not found"
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "rows dropped"
    assert traces(home) == set()


def test_what_cannot_be_done_is_said(clinic):
    home, data = fit(clinic, learner="linear", shards=5, name="asked")
    fit(clinic, release=True, name="released")
    plain = schema(unit=None, ignored=("days", "who"))
    fit(clinic, learner="linear", shards=5, name="rows", schema=plain)
    before = bytes_of(home)
    actions = {
        each.model: each.action for each in erase_unit(home, "nobody", data, "clinic")
    }
    assert actions == {
        "asked": "not in it",
        "released": "released",
        "rows": "fit again",
    }
    after = bytes_of(home)
    record = after.pop(next(path for path in after if path.name == "erasures.jsonl"))
    assert b"nobody" not in record
    assert {k: v for k, v in after.items() if "ledger" not in k.name} == {
        k: v for k, v in before.items() if "ledger" not in k.name
    }
    with pytest.raises(InvalidParameterError, match="no model on the dataset"):
        erase_unit(home, WHO, data, "another")


def test_a_changed_list_of_members_is_refused(clinic):
    home, data = fit(clinic, learner="linear", shards=5)
    path = home.path / "members" / "model"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "fit again"
    assert "changed" in done.explanation


def test_the_search_would_find_a_trace(clinic):
    home, _ = fit(clinic, learner="linear", shards=5)
    assert traces(home) == {"members/model"}
    (home.path / "left").write_text(WHO)
    assert "left" in traces(home)


def test_from_a_shell(clinic, capsys):
    home, data = fit(clinic, learner="linear", shards=5)
    words = ["erase", str(data), "--unit", WHO, "--dataset", "clinic"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--home", str(home.path), "--json"])
    assert ended.value.code == 0
    (done,) = json.loads(capsys.readouterr().out)["models"]
    assert done["action"] == "shard refitted"
    assert not re.search(WHO, (home.path / "erasures.jsonl").read_text())


def test_models_on_other_datasets_are_named(clinic, capsys):
    home, data = fit(clinic)
    fit(clinic, name="m2", dataset="other")
    fit(clinic, name="m3", dataset="other")
    words = ["erase", str(data), "--unit", WHO, "--home", str(home.path)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--dataset", "clinic"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "model: shard re" in told
    assert "on the dataset 'other' (m2, m3)" in told
    assert "run it with --dataset other." in told
    with pytest.raises(SystemExit) as ended:
        main([*words, "--dataset", "other", "--json"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["other_datasets"] == {
        "clinic": ["model"]
    }
    with pytest.raises(SystemExit) as ended:  # "data", which is not there
        main(words)
    assert ended.value.code == 2
    assert "it has models on 'clinic', 'other'" in capsys.readouterr().err


def test_earlier_versions_go_with_the_person(clinic):
    home, data = clinic
    fit(clinic, shards=5, learner="linear")
    fit(clinic, shards=5, learner="linear", replace=True)
    assert home.model_path("model").name == "model@2"
    roll_back(home, "model", 1)
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action in ("shard refitted", "shard retired")
    # The members of version 1 were used, and version 2 cannot come back.
    key = members_key(home)
    assert read_members(home, "model").shard_of(keyed_hash(key, WHO)) is None
    assert read_members(home, "model@2") is None
    assert [version.number for version in model_versions(home, "model")] == [1]


def without(data, who=WHO):
    """Return a copy of a file without the rows of one person."""
    kept = [line for line in data.read_text().splitlines() if not line.startswith(who)]
    other = data.with_name("without.csv")
    other.write_text("\n".join(kept) + "\n")
    return other


def test_nobody_is_told_that_a_person_is_not_in_a_lasting_model_who_is(clinic):
    home, data = fit(clinic, lasting=True, epsilon=1.0)
    before = (home.models / "model" / "codes.npy").read_bytes()
    (done,) = erase_unit(home, WHO, without(data), "clinic")
    assert (done.action, done.done) == ("not found", False)
    assert "the file has no row of this unit" in done.explanation
    changed = data.with_name("changed.csv")
    changed.write_text(data.read_text().replace(str(AGE), "38"))
    (done,) = erase_unit(home, WHO, changed, "clinic")
    assert (done.action, done.done) == ("not found", False)
    assert (home.models / "model" / "codes.npy").read_bytes() == before
    words = ["--unit", WHO, "--dataset", "clinic", "--home", str(home.path)]
    with pytest.raises(SystemExit) as ended:
        main(["erase", str(changed), *words])
    assert ended.value.code == 1


def test_a_mistyped_id_deletes_no_earlier_version(clinic):
    home, data = fit(clinic, shards=5, learner="linear")
    fit(clinic, shards=5, learner="linear", replace=True)
    (done,) = erase_unit(home, WHO.upper(), data, "clinic")
    assert done.action == "not in it"
    assert "nor in the file" in done.explanation
    assert [version.number for version in model_versions(home, "model")] == [1, 2]
    # A version that has never seen the person stays, too.
    train = without(data)
    fit((home, train), shards=5, learner="linear", replace=True)
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert done.action == "not in it"
    assert [version.number for version in model_versions(home, "model")] == [3]
    fit((home, train), shards=5, learner="linear", replace=True)
    erase_unit(home, WHO, data, "clinic")
    assert [version.number for version in model_versions(home, "model")] == [3, 4]


def test_a_model_from_another_file_does_not_stop_the_erasure(clinic):
    home, data = fit(clinic, shards=5, learner="linear", name="first")
    other = data.with_name("other.csv")
    other.write_text(data.read_text().replace("who,age", "person,age", 1))
    fit(
        (home, other),
        shards=5,
        learner="linear",
        name="second",
        schema=schema(unit="person"),
    )
    done = {each.model: each for each in erase_unit(home, WHO, data, "clinic")}
    assert done["first"].action == "shard refitted"
    assert done["second"].action == "not found"
    assert "'person'" in done["second"].explanation
    assert not done["second"].done
    log = (home.path / "erasures.jsonl").read_text().splitlines()
    assert [json.loads(line)["action"] for line in log] == [
        "shard refitted",
        "not found",
    ]
    done = {each.model: each.action for each in erase_unit(home, WHO, other, "clinic")}
    assert done == {"first": "not in it", "second": "shard refitted"}
    assert traces(home) == set()


def test_a_file_that_fits_no_model_changes_nothing(clinic):
    home, data = fit(clinic, shards=5, learner="linear")
    before = bytes_of(home)
    wrong = data.with_name("wrong.csv")
    wrong.write_text("a,b\n1,2\n")
    with pytest.raises(ReticentError, match="are missing"):
        erase_unit(home, WHO, wrong, "clinic")
    with pytest.raises(ReticentError, match="id"):
        erase_unit(home, 1.5, data, "clinic")
    assert bytes_of(home) == before


def test_what_an_interrupted_fit_has_left_goes_with_the_person(clinic):
    home, data = fit(clinic, lasting=True, epsilon=1.0)
    for left in (".model.unpaid", ".model.0a1b2c3d4e5f.old", ".x.0a1b2c3d4e5f.new"):
        (home.models / left).mkdir()
        (home.models / left / "codes.npy").write_text(WHO)
    erase_unit(home, WHO, data, "clinic")
    assert traces(home) == set()
    assert [path.name for path in home.models.iterdir()] == ["model"]


def test_erasing_warns_about_nothing_that_is_not_so(clinic, recwarn):
    home, data = fit(clinic, shards=5, learner="boosting")
    recwarn.clear()
    erase_unit(home, WHO, data, "clinic")
    assert not recwarn.list


def test_a_model_that_has_to_be_fitted_again_says_that_versions_have_to_go(clinic):
    plain = schema(unit=None, ignored=("days", "who"))
    home, data = fit(clinic, learner="linear", shards=5, schema=plain)
    (done,) = erase_unit(home, WHO, data, "clinic")
    assert "reticent models remove model --version" in done.explanation
