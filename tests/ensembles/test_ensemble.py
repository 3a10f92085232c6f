"""Ensembles: every shard casts one vote, whatever its model does."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from reticent.ensembles import OUTPUT_STEPS, ClassifierEnsemble, RegressorEnsemble
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import Columns
from tests.ensembles.base_learners import (
    POISON,
    Majority,
    Noisy,
    PanicsOnPoison,
    PlainObject,
    PredictsStranger,
    Raises,
    RaisesOnRow,
    WrongShape,
)
from tests.ensembles.fused_cases import classifiers, problem, regressors

X, Y = problem(0)
FIXED = [4, 3]  # seven shards vote for 0, 1, 0, 1, 0, 1, 0


def ensemble_of(estimator, **options):
    return classifiers(estimator, X, Y, [0, 1], n_shards=7, **options)


@pytest.mark.parametrize("learner", [Raises(), PredictsStranger(), WrongShape()])
def test_shards_without_an_answer_cast_fixed_votes(learner):
    votes = ensemble_of(learner).votes(X[:5])
    assert votes.tolist() == [FIXED] * 5


@pytest.mark.parametrize("learner", [RaisesOnRow(), PanicsOnPoison()])
def test_a_row_that_models_cannot_answer_leaves_other_rows_alone(learner):
    queries = X[:9].copy()
    queries[4] = POISON
    votes = ensemble_of(learner).votes(queries)
    expected = ensemble_of(Majority()).votes(queries)
    assert votes[4].tolist() == FIXED
    assert np.array_equal(np.delete(votes, 4, axis=0), np.delete(expected, 4, axis=0))


def test_one_failing_shard_moves_one_vote():
    whole = ensemble_of(Majority())
    for shard in range(7):
        models = list(whole.models)
        models[shard] = None
        broken = ClassifierEnsemble(models, whole.columns, [0, 1])
        assert np.abs(broken.votes(X[:3]) - whole.votes(X[:3])).sum(axis=1).max() <= 2


def test_models_that_warn_while_predicting_are_not_heard(capsys):
    assert (ensemble_of(Noisy()).votes(X[:3]).sum(axis=1) == 7).all()
    assert capsys.readouterr() == ("", "")


def test_answers_of_any_form_are_counted():
    class Column(Majority):
        def predict(self, X):
            return super().predict(X)[:, None]

    expected = ensemble_of(Majority()).votes(X[:3])
    assert np.array_equal(ensemble_of(Column()).votes(X[:3]), expected)
    assert (ensemble_of(PlainObject()).votes(X[:3]).sum(axis=1) == 7).all()


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_asking_side_by_side_gives_the_same_votes(n_jobs):
    alone = ensemble_of(KNeighborsClassifier())
    together = ClassifierEnsemble(alone.models, alone.columns, [0, 1], n_jobs=n_jobs)
    assert np.array_equal(alone.votes(X[:30]), together.votes(X[:30]))


@pytest.mark.parametrize("estimator", [GaussianNB(), LogisticRegression()])
def test_probabilities_add_up_over_shards(estimator):
    ensemble = ensemble_of(estimator)
    sums = ensemble.probability_sums(X[:20])
    assert (sums.sum(axis=1) == 7 * OUTPUT_STEPS).all()
    expected = sum(model.predict_proba(X[:20]) for model in ensemble.models)
    assert np.abs(sums / OUTPUT_STEPS - expected).max() < 7 / OUTPUT_STEPS


def test_a_model_that_has_not_seen_a_label_gives_it_no_probability():
    ensemble = classifiers(GaussianNB(), X, Y, [0, 1, 2], n_shards=7)
    sums = ensemble.probability_sums(X[:20])
    assert (sums[:, 2] == 0).all()
    assert (sums.sum(axis=1) == 7 * OUTPUT_STEPS).all()


def test_shards_without_probabilities_add_uniform_ones():
    class Wrong(GaussianNB):
        def predict_proba(self, X):
            return np.full((len(X), 2), np.nan)

    class Wide(GaussianNB):
        def predict_proba(self, X):
            return np.ones((len(X), 5))

    half = [7 * OUTPUT_STEPS // 2] * 2
    for learner in (Raises(), Wrong(), Wide()):
        assert ensemble_of(learner).probability_sums(X[:2]).tolist() == [half] * 2


@pytest.mark.parametrize("estimator", [KNeighborsRegressor(), Ridge()])
def test_outputs_are_clipped_and_added_up(estimator):
    ensemble = regressors(estimator, X, X[:, 2], (4.9, 5.1), n_shards=7)
    sums = ensemble.output_sums(X[:20])
    outputs = [model.predict(X[:20]) for model in ensemble.models]
    expected = np.mean(np.clip(outputs, 4.9, 5.1), axis=0)
    assert (
        np.abs(4.9 + 0.2 * sums / (7 * OUTPUT_STEPS) - expected).max()
        < 0.2 / OUTPUT_STEPS
    )
    assert ((sums >= 0) & (sums <= 7 * OUTPUT_STEPS)).all()


def test_regressors_that_fail_answer_with_the_middle():
    class Broken(Ridge):
        def predict(self, X):
            return np.full(len(X), np.nan)

    for learner in (Raises(), Broken()):
        sums = regressors(learner, X, X[:, 2], (0, 1), n_shards=7).output_sums(X[:2])
        assert sums.tolist() == [7 * OUTPUT_STEPS // 2] * 2


def test_bounds_of_outputs_are_checked():
    with pytest.raises(InvalidParameterError, match="bounds"):
        RegressorEnsemble([None], Columns(2, None), (1, float("nan")))


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, np.asarray])
def test_rows_of_another_width_are_refused_before_any_model_is_asked(convert):
    frame = convert(X)
    ensemble = classifiers(LogisticRegression(), frame, Y, [0, 1], n_shards=7)
    assert (ensemble.votes(frame[:3]).sum(axis=1) == 7).all()
    with pytest.raises(InvalidDataError, match="5 features"):
        ensemble.votes(convert(X[:, :5]))


def test_columns_with_other_names_are_refused():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    ensemble = classifiers(LogisticRegression(), frame, Y, [0, 1], n_shards=7)
    for wrong in (frame[list("bacdef")], frame.rename(columns={"a": "z"}), X):
        with pytest.raises(InvalidDataError, match="a, b, c, d, e, f"):
            ensemble.votes(wrong)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_and_arrays_give_the_same_votes(kind):
    names = list("abcdef")
    frame = kind({name: X[:, i] for i, name in enumerate(names)})
    for estimator in (LogisticRegression(), KNeighborsClassifier()):
        with_names = classifiers(estimator, frame, Y, [0, 1], n_shards=7)
        without = ensemble_of(estimator)
        assert np.array_equal(with_names.votes(frame[:30]), without.votes(X[:30]))


def test_an_ensemble_can_be_pickled():
    ensemble = ensemble_of(LogisticRegression())
    before = ensemble.votes(X[:9])
    assert np.array_equal(pickle.loads(pickle.dumps(ensemble)).votes(X[:9]), before)


def test_models_held_as_arrays_cannot_be_asked_one_by_one():
    ensemble = ensemble_of(LogisticRegression())
    stored = ClassifierEnsemble(
        [None] * 7, ensemble.columns, [0, 1], fusion=ensemble.fusion
    )
    with pytest.raises(InvalidParameterError, match="arrays only"):
        stored.votes(X[:3], fused=False)


def test_no_rows_get_no_votes():
    for estimator in (LogisticRegression(), KNeighborsClassifier()):
        assert ensemble_of(estimator).votes(X[:0]).shape == (0, 2)
