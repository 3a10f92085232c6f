"""What is stored answers as what was fitted, by the same law and certificate."""

import copy
import dataclasses
import os
import shutil
import stat

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from reticent.ensembles import ClassifierEnsemble
from reticent.errors import (
    BudgetExhaustedError,
    InvalidDataError,
    InvalidParameterError,
    ModelFileError,
    NotDeployableError,
)
from reticent.estimators import Columns
from reticent.guarantees import Budget, Scope
from reticent.learners import OutputPerturbationClassifier
from reticent.ledger import MemoryLedger
from reticent.mechanisms import noise_source
from reticent.prediction import (
    PredictionInterface,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    VoteRule,
)
from reticent.schemas import Categorical, ClassLabel, Encoder, Numeric, Schema
from reticent.signing import new_key, public_key
from reticent.storage import Dataset, load_model, save_model, storable_kinds
from tests.stats import assert_follows
from tests.storage.workshop import (
    AMOUNT,
    CASES,
    KEY,
    THREE,
    TWO,
    fitted,
    logistic,
    table_for,
)

SECRET = new_key("aes-256-gcm")


PRIVATE = [case for case in CASES if not case.startswith("released")]


def assert_same_law(mine, other):
    """Compare every part of two laws but their sources of randomness."""
    assert type(mine) is type(other)
    assert mine.ensemble.n_shards == other.ensemble.n_shards
    for field in dataclasses.fields(mine):
        if field.name in ("source", "form", "ensemble", "classes"):
            continue
        assert getattr(mine, field.name) == getattr(other, field.name), field.name
    if other.classes is None:
        assert mine.classes is None
        assert mine.ensemble.bounds == other.ensemble.bounds
    else:
        assert mine.classes.dtype == other.classes.dtype
        assert (mine.classes == other.classes).all()
    arrays, others = (law.ensemble.fusion.models.to_arrays() for law in (mine, other))
    assert set(arrays) == set(others)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])


def stored(case, folder, **settings):
    model, encoder, _ = fitted(case)
    save_model(
        folder, model, encoder.schema, encoder=encoder, signing_key=KEY, **settings
    )
    return load_model(
        folder, signing_key=KEY, encryption_key=settings.get("encryption_key")
    )


@pytest.mark.parametrize("case", CASES)
def test_certificate_labels_and_columns_survive(case, tmp_path):
    model, encoder, _ = fitted(case)
    loaded = stored(case, tmp_path / "m", dataset=Dataset("clinic", "7"))
    assert loaded.certificate == model.certificate_
    assert loaded.schema == encoder.schema
    assert loaded.encoder.settings() == encoder.settings()
    assert loaded.dataset == Dataset("clinic", "7")
    assert loaded.n_units == model.n_units_
    released = case.startswith("released")
    assert loaded.charged is not released
    assert loaded.certificate.scope is (Scope.MODEL if released else Scope.ANSWER)
    wanted = None if loaded.schema == AMOUNT else getattr(model, "classes_", None)
    assert loaded.classes == (None if wanted is None else tuple(wanted.tolist()))


@pytest.mark.parametrize("case", PRIVATE)
def test_a_stored_model_answers_by_the_law_it_was_loaded_with(case, tmp_path):
    loaded, other = stored(case, tmp_path / "m"), stored(case, tmp_path / "n")
    law, table = loaded.predictor.law_, fitted(case)[2]
    whole = ~np.isnan(loaded.encoder.transform(table)).any(axis=1)
    asked = table.take(np.flatnonzero(whole))
    # What somebody does to the predictor later must not reach the answers.
    other_law = dataclasses.replace(other.predictor.law_, ensemble=None)
    loaded.predictor.law_ = other_law
    assert loaded.certificate is law.certificate
    assert len(loaded.answer_json(asked)) == whole.sum()
    if law.classes is not None:
        assert (loaded.votes(asked).sum(axis=1) == law.n_shards).all()


def test_an_interface_on_a_stored_model_charges_its_own_dataset(tmp_path):
    loaded = stored(PRIVATE[0], tmp_path / "m", dataset=Dataset("clinic"))
    ledger = MemoryLedger()
    loaded.interface(Budget(50.0), ledger=ledger)
    assert "dataset:clinic" in {str(each.account) for each in ledger.balances()}
    assert "dataset:data" not in {str(each.account) for each in ledger.balances()}


@pytest.mark.parametrize("case", PRIVATE)
def test_the_fitted_predictor_is_restored(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m")
    restored = loaded.predictor
    assert type(restored) is type(model)
    assert_same_law(restored.law_, model.law_)
    assert restored.certificate_ == model.certificate_
    assert not restored.law_.seeded
    assert (restored.n_units_, restored.n_shards_) == (model.n_units_, model.n_shards_)
    assert restored.n_features_in_ == model.n_features_in_
    if hasattr(model, "rule_"):
        assert restored.rule_ == model.rule_
    assert hasattr(restored, "predict_proba") == hasattr(model, "predict_proba")
    X = encoder.transform(table)
    # The same random words give the same answers.
    both = [
        dataclasses.replace(law, source=noise_source(5))
        for law in (restored.law_, model.law_)
    ]
    whole = ~np.isnan(X).any(axis=1)
    drawn = [law.draw(X[whole]) for law in both]
    np.testing.assert_array_equal(*drawn)
    if hasattr(model, "predict_proba"):
        shares = [law.draw_probabilities(X[whole]) for law in both]
        np.testing.assert_array_equal(*shares)


def test_another_law_is_told_apart():
    one, other = fitted("voting-linear")[0].law_, fitted("averaging-two")[0].law_
    assert_same_law(one, one)
    with pytest.raises(AssertionError):
        assert_same_law(one, other)
    louder = dataclasses.replace(one, vote=VoteRule("geometric", 5.0))
    with pytest.raises(AssertionError, match="vote"):
        assert_same_law(louder, one)


@pytest.mark.parametrize("case", CASES)
def test_a_restored_model_can_be_stored_again(case, tmp_path):
    loaded = stored(case, tmp_path / "m")
    settings = {"encoder": loaded.encoder, "signing_key": KEY}
    save_model(tmp_path / "n", loaded.predictor, loaded.schema, **settings)
    first, again = (
        (tmp_path / name / "manifest.json").read_bytes() for name in ("m", "n")
    )
    assert first == again


def test_two_loads_of_a_model_share_one_budget(tmp_path):
    first = stored("voting-linear", tmp_path / "m")
    again = load_model(tmp_path / "m", signing_key=KEY)
    X = first.encoder.transform(table_for(TWO).take(slice(0, 4)))
    one, other = (
        PredictionInterface(loaded.predictor, Budget(1.0)) for loaded in (first, again)
    )
    answers = one.predict(X[:2])
    assert other.remaining() == 0
    np.testing.assert_array_equal(other.predict(X[:2]), answers)
    with pytest.raises(BudgetExhaustedError):
        other.predict(X[2:])


@pytest.mark.parametrize("case", PRIVATE)
def test_what_is_stored_is_the_law_and_not_the_parameters_of_the_moment(case, tmp_path):
    model, encoder, _ = fitted(case)
    changed = copy.deepcopy(model).set_params(epsilon=50.0, n_shards=1, delta=0.3)
    for name in ("n_shards_", "n_units_", "ensemble_", "classes_", "rule_"):
        setattr(changed, name, None)
    if "classes" in changed.get_params():
        changed.set_params(classes=None)
    save_model(
        tmp_path / "m", changed, encoder.schema, encoder=encoder, signing_key=KEY
    )
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert loaded.certificate == model.certificate_
    assert_same_law(loaded.predictor.law_, model.law_)


@pytest.mark.parametrize(
    "case", [c for c in CASES if "number" not in c and "released" not in c]
)
def test_stored_shards_vote_as_the_fitted_ones(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m")
    votes = model.ensemble_.votes(encoder.transform(table))
    assert (loaded.votes(table) == votes).all()
    assert (votes.sum(axis=1) == model.n_shards_).all()


@pytest.mark.parametrize("case", ["averaging-three", "voting-gaussian"])
def test_likely_labels_are_drawn_most_often(case, tmp_path):
    loaded = stored(case, tmp_path / "m")
    table = fitted(case)[2]
    votes = loaded.votes(table)
    sure = int((votes.max(axis=1) - np.sort(votes, axis=1)[:, -2]).argmax())
    drawn = loaded.answer(table.take([sure] * 400))
    likely = loaded.classes[votes[sure].argmax()]
    assert max(set(drawn), key=drawn.count) == likely


def test_rows_that_no_model_takes_get_the_fixed_votes(tmp_path):
    _, encoder, table = fitted("voting-trees")
    X = encoder.transform(table)
    whole = ~np.isnan(X).any(axis=1)
    model = PrivateVotingClassifier(logistic(), 1.0, THREE.classes, n_shards=5)
    model.fit(X[whole], THREE.classes[table.label[whole]])
    save_model(tmp_path / "m", model, THREE, encoder=encoder, signing_key=KEY)
    votes = load_model(tmp_path / "m", signing_key=KEY).votes(table)
    assert (votes == model.ensemble_.votes(X)).all()
    assert (votes[~whole] == [2, 2, 1]).all()
    assert not (votes[whole] == [2, 2, 1]).all()


def test_ties_are_settled_by_the_arrays():
    fusion = fitted("voting-linear")[0].ensemble_.fusion
    nothing = {
        name: np.zeros_like(getattr(fusion.models, name))
        for name in ("weights", "intercepts", "bulk")
    }
    level = dataclasses.replace(
        fusion, models=dataclasses.replace(fusion.models, **nothing)
    )
    ensemble = ClassifierEnsemble([None] * 12, Columns(6, None), [0, 1], fusion=level)
    # A score of zero is not positive: the first label.
    assert ensemble.votes(np.zeros((3, 6))).tolist() == [[12, 0]] * 3


def test_ensembles_with_a_model_that_is_not_fused_are_refused(tmp_path):
    model, encoder, _ = fitted("voting-linear")
    ensemble = model.ensemble_
    fusion, models = ensemble.fusion, ensemble.models
    left_out = dataclasses.replace(
        fusion.models,
        **{
            name: array[1:]
            for name, array in fusion.models.to_arrays().items()
            if array.ndim
        },
    )
    try:
        ensemble.fusion = dataclasses.replace(fusion, models=left_out)
        ensemble.models = (logistic(), *models[1:])
        with pytest.raises(ModelFileError, match="some shards hold models as arrays"):
            save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    finally:
        ensemble.fusion, ensemble.models = fusion, models


def test_a_failed_shard_keeps_its_fixed_vote(tmp_path):
    # One label in a shard is nothing that logistic regression can learn from.
    schema = Schema({"x": Numeric(0, 1)}, label=ClassLabel("y", ["no", "yes"]))
    columns = {"x": np.linspace(0, 1, 20), "y": ["no"] * 19 + ["yes"]}
    table = schema.table(columns, labelled=True)
    encoder = Encoder(schema)
    model = PrivateVotingClassifier(
        LogisticRegression(), 1.0, schema.classes, n_shards=5
    ).fit(encoder.transform(table), schema.classes[table.label])
    save_model(tmp_path / "m", model, schema, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert len(model.ensemble_.fusion.shards) < 5
    votes = model.ensemble_.votes(encoder.transform(table))
    assert (loaded.votes(table) == votes).all()


@pytest.mark.parametrize("case", ["voting-linear", "voting-trees", "averaging-two"])
def test_stored_answers_follow_the_law_of_the_fitted_model(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m")
    law = model.response(encoder.transform(table.take([0]))).probabilities[0]
    drawn = loaded.answer(table.take(np.zeros(20_000, dtype=int)))
    assert_follows([drawn.count(label) for label in loaded.classes], law)


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith("released")])
def test_released_models_predict_as_they_were(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m")
    wanted = model.predict(encoder.transform(table)).tolist()
    assert loaded.answer(table) == wanted


@pytest.mark.parametrize("case", [c for c in CASES if c.startswith("released-table")])
def test_released_tables_come_back_to_the_bit(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m").predictor
    assert loaded.model_.values.tobytes() == model.model_.values.tobytes()
    X = encoder.transform(table)
    assert np.isnan(X).any()
    if not case.endswith("number"):
        wanted = model.predict_proba(X)
        assert loaded.predict_proba(X).tobytes() == wanted.tobytes()
    with pytest.raises(InvalidParameterError, match="not the learner"):
        loaded.fit(X, table.label)
    with pytest.raises(InvalidParameterError, match="as they are"):
        save_model(tmp_path / "n", model, encoder.schema, signing_key=KEY)


def test_a_released_table_of_other_columns_is_not_stored(tmp_path):
    model = fitted("released-table-three")[0]
    other = Schema({**TWO.columns, "age": Numeric(0, 90)}, label=THREE.label)
    with pytest.raises(InvalidParameterError, match="not those of the schema"):
        save_model(
            tmp_path / "m",
            model,
            other,
            encoder=Encoder(other, style="ordinal"),
            signing_key=KEY,
        )


def test_released_models_refuse_missing_values_and_another_fit(tmp_path):
    table, encoder = table_for(TWO), Encoder(TWO, style="ordinal")
    X = encoder.transform(table)
    whole = np.flatnonzero(~np.isnan(X).any(axis=1))
    model = OutputPerturbationClassifier(
        5.0, norm_bound=150.0, classes=TWO.classes.tolist()
    ).fit(X[whole], TWO.classes[table.label[whole]])
    save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert loaded.answer(table.take(whole)) == model.predict(X[whole]).tolist()
    with pytest.raises(InvalidDataError, match="missing"):
        loaded.answer(table)
    with pytest.raises(InvalidParameterError, match="not the learner"):
        loaded.predictor.fit(X, table.label)


def test_public_parts_are_remembered(tmp_path):
    from sklearn.frozen import FrozenEstimator
    from sklearn.preprocessing import StandardScaler

    _, encoder, table = fitted("voting-linear")
    X = encoder.transform(table)
    base = make_pipeline(FrozenEstimator(StandardScaler().fit(X)), logistic())
    model = PrivateVotingClassifier(base, 0.5, TWO.classes, n_shards=6)
    model.fit(X, TWO.classes[table.label])
    assert "PUBLIC_PARTS" in {a.code for a in model.certificate_.assumptions}
    save_model(tmp_path / "m", model, TWO, encoder=encoder, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert loaded.certificate == model.certificate_


@pytest.mark.parametrize("case", ["averaging-number", "averaging-number-trees"])
def test_stored_numbers_have_the_law_of_the_fitted_model(case, tmp_path):
    model, encoder, table = fitted(case)
    loaded = stored(case, tmp_path / "m")
    mine = loaded.predictor.response(encoder.transform(table))
    law = model.response(encoder.transform(table))
    assert (mine.location == law.location).all()
    assert (mine.scale, mine.law, mine.unit) == (law.scale, law.law, law.unit)
    answers = np.array(loaded.answer(table))
    assert ((answers >= 0) & (answers <= 50)).all()
    assert len(np.unique(loaded.answer(table.take([0] * 200)))) > 10


@pytest.mark.parametrize("case", ["voting-linear", "voting-trees", "averaging-number"])
def test_answers_are_python_values_and_json(case, tmp_path):
    import json

    loaded = stored(case, tmp_path / "m")
    table = table_for(loaded.schema).take(slice(0, 20))
    kinds = {type(answer) for answer in loaded.answer(table)}
    assert kinds == ({float} if loaded.classes is None else {str})
    read = [json.loads(answer) for answer in loaded.answer_json(table)]
    if loaded.classes is not None:
        assert set(read) <= set(loaded.classes)


def test_encrypted_arrays_need_their_key(tmp_path):
    loaded = stored("voting-linear", tmp_path / "m", encryption_key=SECRET)
    _, _, table = fitted("voting-linear")
    assert (
        loaded.votes(table) == stored("voting-linear", tmp_path / "n").votes(table)
    ).all()
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert "weights.npy.sealed" in names
    assert "weights.npy" not in names
    with pytest.raises(ModelFileError, match="encrypted; give"):
        load_model(tmp_path / "m", signing_key=KEY)
    with pytest.raises(ModelFileError, match="does not open"):
        load_model(
            tmp_path / "m", signing_key=KEY, encryption_key=new_key("aes-256-gcm")
        )
    with pytest.raises(ModelFileError, match="not encrypted"):
        load_model(tmp_path / "n", signing_key=KEY, encryption_key=SECRET)


def test_sealed_files_cannot_change_places(tmp_path):
    from reticent.storage.sealing import seal, unseal

    sealed = seal(b"weights", SECRET, "weights.npy.sealed")
    assert unseal(sealed, SECRET, "weights.npy.sealed") == b"weights"
    assert b"weights" not in sealed
    with pytest.raises(ModelFileError):
        unseal(sealed, SECRET, "bulk.npy.sealed")
    with pytest.raises(ModelFileError):
        unseal(b"short", SECRET, "weights.npy.sealed")


def test_ed25519_separates_signing_from_checking(tmp_path):
    private = new_key("ed25519-private")
    model, encoder, _ = fitted("voting-linear")
    save_model(tmp_path / "m", model, encoder.schema, signing_key=private)
    public = public_key(private)
    assert load_model(tmp_path / "m", signing_key=public).kind == "voting"
    assert load_model(tmp_path / "m", signing_key=private).kind == "voting"
    with pytest.raises(InvalidParameterError, match="cannot make them"):
        save_model(tmp_path / "n", model, encoder.schema, signing_key=public)
    other = public_key(new_key("ed25519-private"))
    with pytest.raises(ModelFileError, match="another key"):
        load_model(tmp_path / "m", signing_key=other)


def test_directory_is_for_its_owner_only_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        stored("voting-linear", tmp_path / "m")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "m").iterdir()}
    assert modes == {0o600}
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_saving_twice_needs_consent_and_replaces_as_a_whole(tmp_path):
    first = stored("voting-linear", tmp_path / "m")
    with pytest.raises(ModelFileError, match="replace=True"):
        stored("voting-trees", tmp_path / "m")
    assert load_model(tmp_path / "m", signing_key=KEY).id == first.id
    second = stored("voting-trees", tmp_path / "m", replace=True)
    assert second.id != first.id
    assert not (tmp_path / "m" / "weights.npy").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_directory_that_holds_no_model_is_never_replaced(tmp_path):
    thesis = tmp_path / "m" / "thesis.txt"
    thesis.parent.mkdir()
    assert stored("voting-linear", thesis.parent, replace=True)  # nothing was there
    shutil.rmtree(thesis.parent)
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    with pytest.raises(ModelFileError, match="it is no model"):
        stored("voting-linear", thesis.parent, replace=True)
    assert thesis.read_text() == "years of work"


def test_saving_where_nothing_can_be_written_says_so(tmp_path):
    with pytest.raises(ModelFileError, match="cannot be written"):
        stored("voting-linear", tmp_path / "nowhere" / "m")


def test_equal_queries_have_equal_bytes_and_others_do_not(tmp_path):
    loaded = stored("voting-linear", tmp_path / "m")
    row = {"age": 41.0, "dose": None, "ward": "a"}
    others = [
        {**row, "age": 41.5},
        {**row, "dose": 0},
        {**row, "ward": "b"},
        {**row, "age": 0},
    ]
    table = loaded.schema.rows([row, {**row, "age": 41}, *others])
    first, again, *rest = loaded.queries(table)
    assert first == again
    assert len({first, *rest}) == 5
    # Beyond the public range it is the same question; so is minus zero.
    edge = loaded.schema.rows([{**row, "age": v} for v in (100, 1e300, 0, -0.0)])
    a, b, c, d = loaded.queries(edge)
    assert a == b
    assert c == d


def test_models_fitted_on_codes_answer_with_labels(tmp_path):
    table, encoder = table_for(THREE), Encoder(THREE)
    model = PrivateVotingClassifier(
        LogisticRegression(max_iter=200), 50.0, [0, 1, 2], n_shards=3
    ).fit(encoder.transform(table), table.label)
    save_model(tmp_path / "m", model, THREE, signing_key=KEY)
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert loaded.classes == ("none", "mild", "grave")
    assert_same_law(loaded.predictor.law_, model.law_)
    assert set(loaded.answer(table)) <= set(loaded.classes)
    right = np.array(loaded.answer(table)) == THREE.classes[table.label]
    assert right.mean() > 0.7


def test_numbers_that_may_be_labels_or_codes_must_be_told_apart(tmp_path):
    schema = Schema({"x": Numeric(0, 1)}, label=ClassLabel("y", [1, 0]))
    x = np.linspace(0, 1, 60)
    table = schema.table({"x": x, "y": (x > 0.5).astype(int)}, labelled=True)
    encoder = Encoder(schema)
    model = PrivateVotingClassifier(
        LogisticRegression(C=1e3), 50.0, [0, 1], n_shards=3
    ).fit(encoder.transform(table), schema.classes[table.label])
    with pytest.raises(InvalidParameterError, match="labels='values'"):
        save_model(tmp_path / "m", model, schema, signing_key=KEY)
    save_model(tmp_path / "m", model, schema, signing_key=KEY, labels="values")
    loaded = load_model(tmp_path / "m", signing_key=KEY)
    assert loaded.answer(schema.rows([{"x": 0}, {"x": 1}])) == [0, 1]
    save_model(tmp_path / "n", model, schema, signing_key=KEY, labels="codes")
    turned = load_model(tmp_path / "n", signing_key=KEY)
    assert turned.answer(schema.rows([{"x": 0}, {"x": 1}])) == [1, 0]
    with pytest.raises(InvalidParameterError, match="labels='nonsense'"):
        save_model(tmp_path / "o", model, schema, signing_key=KEY, labels="nonsense")


def refused_fits():
    X = np.random.default_rng(0).uniform(size=(60, 6))
    y = np.where(X[:, 0] > 0.5, "yes", "no")

    def voting(estimator, **settings):
        return PrivateVotingClassifier(
            estimator, 1.0, TWO.classes, n_shards=3, **settings
        ).fit(X, y)

    neighbors = voting(KNeighborsClassifier(1, algorithm="kd_tree"))
    yield "not trusted", neighbors, ModelFileError
    seeded = voting(LogisticRegression(), random_state=0)
    yield "SEEDED_NOISE", seeded, NotDeployableError
    yield "fit it first", PrivateVotingClassifier(LogisticRegression()), ValueError
    yield "has no certificate_", LogisticRegression(), ValueError
    amount = PrivateAveragingRegressor(
        LogisticRegression(), 1.0, bounds=(0, 7), n_shards=2
    )
    yield "has no certificate_", amount, ValueError


@pytest.mark.parametrize(
    ("message", "model", "error"), [*refused_fits()], ids=lambda v: str(v)[:20]
)
def test_what_cannot_be_stored_is_refused(message, model, error, tmp_path):
    with pytest.raises(error, match=message):
        save_model(tmp_path / "m", model, TWO, signing_key=KEY)
    assert not (tmp_path / "m").exists()


def test_a_certified_stranger_is_refused_with_what_can_be_stored(tmp_path):
    class Stranger:
        certificate_ = fitted("voting-linear")[0].certificate_

    with pytest.raises(InvalidParameterError, match="PrivateVotingClassifier over"):
        save_model(tmp_path / "m", Stranger(), TWO, signing_key=KEY)
    assert set(storable_kinds()) >= {
        "averaging-classifier",
        "averaging-regressor",
        "voting",
    }


def test_encoder_and_schema_must_be_those_of_the_fit(tmp_path):
    model, encoder, _ = fitted("voting-linear")
    with pytest.raises(ModelFileError, match="6 features, the encoder makes 7"):
        save_model(
            tmp_path / "m",
            model,
            TWO,
            encoder=Encoder(TWO, intercept=True),
            signing_key=KEY,
        )
    with pytest.raises(InvalidParameterError, match="another schema"):
        save_model(tmp_path / "m", model, THREE, encoder=encoder, signing_key=KEY)
    with pytest.raises(InvalidParameterError, match="not the 3 labels"):
        save_model(tmp_path / "m", model, THREE, signing_key=KEY)
    with pytest.raises(InvalidParameterError, match="lists its classes"):
        save_model(tmp_path / "m", model, AMOUNT, signing_key=KEY)
    number, _, _ = fitted("averaging-number")
    with pytest.raises(InvalidParameterError, match="label is numeric"):
        save_model(tmp_path / "m", number, TWO, signing_key=KEY)
    released, _, _ = fitted("released-two")
    with pytest.raises(ModelFileError, match="6 features, the encoder makes 7"):
        save_model(
            tmp_path / "m",
            released,
            TWO,
            encoder=Encoder(TWO, intercept=True),
            signing_key=KEY,
        )
    wide = Schema(AMOUNT.columns, label=type(AMOUNT.label)("cost", 0, 99))
    with pytest.raises(InvalidParameterError, match="Fit with the label"):
        save_model(tmp_path / "m", number, wide, signing_key=KEY)
    amount, _, _ = fitted("released-number")
    with pytest.raises(InvalidParameterError, match="Fit with the label"):
        save_model(tmp_path / "m", amount, wide, signing_key=KEY)


def test_categories_numbered_by_boosted_trees_are_refused(tmp_path):
    from sklearn.ensemble import HistGradientBoostingClassifier

    schema = Schema(
        {"ward": Categorical(["a", "b", "c"])}, label=ClassLabel("y", ["no", "yes"])
    )
    encoder = Encoder(schema, style="ordinal")
    ward = ["a", "b", "c"] * 40
    table = schema.table(
        {"ward": ward, "y": ["yes" if w == "b" else "no" for w in ward]}, labelled=True
    )
    base = HistGradientBoostingClassifier(
        categorical_features=[0], max_iter=3, min_samples_leaf=1
    )
    model = PrivateVotingClassifier(base, 1.0, schema.classes, n_shards=2).fit(
        encoder.transform(table), schema.classes[table.label]
    )
    with pytest.raises(ModelFileError, match="not trusted"):
        save_model(tmp_path / "m", model, schema, encoder=encoder, signing_key=KEY)


@pytest.mark.parametrize("bad", ["", "a/b", "..", "x" * 65, "ä", None, 3])
def test_dataset_names_are_plain(bad):
    with pytest.raises(InvalidParameterError, match="dataset name"):
        Dataset(bad)


def test_numbers_have_no_votes_and_models_are_not_pickled(tmp_path):
    import pickle

    loaded = stored("averaging-number", tmp_path / "m")
    with pytest.raises(InvalidParameterError, match="has no votes"):
        loaded.votes(table_for(AMOUNT))
    with pytest.raises(InvalidParameterError, match="not pickled"):
        pickle.dumps(loaded)
    assert "weights" not in repr(loaded)
