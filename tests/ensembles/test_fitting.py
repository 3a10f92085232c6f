"""Fitting: shards are independent, and nothing that fails is seen from outside."""

from __future__ import annotations

import io
import sys
import threading
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from reticent.ensembles import check_base_estimator
from reticent.ensembles.fitting import fit_shards
from reticent.ensembles.suppressed_output import without_streams, without_warnings
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import partition_rows
from reticent.estimators.progress import with_progress
from reticent.mechanisms import noise_source
from tests.ensembles.base_learners import (
    POISON,
    Majority,
    Noisy,
    PanicsOnPoison,
    PlainObject,
    Raises,
    RaisesOnPoison,
)

X, Y = make_classification(n_samples=120, n_features=4, random_state=0)


def fit(estimator, X=X, y=Y, *, n_shards=6, seed=0, **options):
    source = noise_source(seed)
    partition = partition_rows(len(y), n_shards, source)
    return fit_shards(estimator, X, y, partition, source, **options)


def changed_models(estimator, *, replaced):
    """Count the shards whose model answers differently after one replaced row."""
    X2, y2 = X.copy(), Y.copy()
    X2[replaced], y2[replaced] = 3.0, 1 - Y[replaced]
    before, after = fit(estimator), fit(estimator, X2, y2)
    return sum(
        (a.predict_proba(X) != b.predict_proba(X)).any()
        for a, b in zip(before.models, after.models, strict=True)
    )


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(5),
        make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", max_iter=5)),
        BaggingClassifier(DecisionTreeClassifier(max_features=1), n_estimators=3),
    ],
    ids=["forest", "pipeline", "bagging"],
)
@pytest.mark.parametrize("replaced", [0, 60, 119])
def test_one_replaced_row_changes_the_model_of_one_shard(estimator, replaced):
    assert changed_models(estimator, replaced=replaced) == 1


def test_the_check_catches_seeds_that_depend_on_the_data():
    class SharedSeed(RandomForestClassifier):
        def fit(self, X, y):
            self.random_state = np.random.RandomState(int(total[0]) % 2**31)
            total[0] += X.sum() * 1e3
            return super().fit(X, y)

    total = [0.0]
    X2 = X.copy()
    X2[0] = 3.0
    before = fit(SharedSeed(5))
    total = [0.0]
    after = fit(SharedSeed(5), X2)
    changes = sum(
        (a.predict_proba(X) != b.predict_proba(X)).any()
        for a, b in zip(before.models, after.models, strict=True)
    )
    assert changes > 1


def test_seeds_are_drawn_for_each_shard_and_each_parameter():
    nested = BaggingClassifier(DecisionTreeClassifier(), n_estimators=2)
    models = fit(nested, n_shards=10).models
    seeds = [model.random_state for model in models]
    seeds += [model.estimator.random_state for model in models]
    assert len(set(seeds)) == 20
    assert nested.random_state is None


def test_a_seed_that_the_user_set_is_kept():
    models = fit(RandomForestClassifier(2, random_state=7)).models
    assert {model.random_state for model in models} == {7}


def test_a_learner_that_always_raises_leaves_no_model():
    fitted = fit(Raises())
    assert fitted.models == (None,) * 6
    assert fitted.failures == dict.fromkeys(range(6), "RuntimeError: no")


@pytest.mark.parametrize("learner", [RaisesOnPoison(), PanicsOnPoison()])
def test_a_record_that_breaks_its_shard_leaves_the_others_alone(learner):
    poisoned = X.copy()
    poisoned[17] = POISON
    healthy, broken = fit(learner), fit(learner, poisoned)
    assert len(broken.failures) == 1
    for shard, (a, b) in enumerate(zip(healthy.models, broken.models, strict=True)):
        assert (b is None) == (shard in broken.failures)
        assert b is None or a.answer_ == b.answer_


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_not_taken_for_a_failure(error):
    class Ends(Majority):
        def fit(self, X, y):
            raise error

    with pytest.raises(error):
        fit(Ends())


def test_a_shard_with_one_label_is_left_to_the_base_estimator():
    y = np.zeros(len(Y), dtype=int)
    assert fit(LogisticRegression(), y=y).models == (None,) * 6
    assert all(model is not None for model in fit(Majority(), y=y).models)


@pytest.mark.parametrize("backend", ["threading", "loky", "sequential"])
def test_learners_that_warn_and_print_are_not_heard(backend, capfd):
    with joblib.parallel_config(backend=backend):
        fitted = fit(Noisy(), n_jobs=2)
    assert not fitted.failures
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.parametrize(
    "estimator", [RandomForestClassifier(3), LogisticRegression()], ids=["rf", "lr"]
)
def test_every_backend_gives_the_same_models(backend, estimator):
    alone = fit(estimator)
    with joblib.parallel_config(backend=backend):
        together = fit(estimator, n_jobs=2)
    for a, b in zip(alone.models, together.models, strict=True):
        assert np.array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize(
    "convert",
    [
        lambda X: pd.DataFrame(X, columns=list("abcd"), index=range(120, 0, -1)),
        lambda X: pl.DataFrame(X, schema=list("abcd")),
        sparse.csr_matrix,
        sparse.coo_array,
        np.asfortranarray,
        lambda X: X.tolist(),
    ],
    ids=["pandas", "polars", "csr", "coo", "fortran", "list"],
)
def test_every_kind_of_table_gives_the_same_models(convert):
    plain, other = fit(LogisticRegression()), fit(LogisticRegression(), convert(X))
    for a, b in zip(plain.models, other.models, strict=True):
        assert np.allclose(a.coef_, b.coef_, rtol=0, atol=1e-3)
        assert hasattr(b, "feature_names_in_") == hasattr(convert(X), "columns")


@pytest.mark.parametrize("kind", [pd.Series, pl.Series, list])
def test_labels_are_taken_by_position(kind):
    y = pd.Series(Y, index=range(120, 0, -1)) if kind is pd.Series else kind(Y)
    plain, other = fit(LogisticRegression()), fit(LogisticRegression(), y=y)
    for a, b in zip(plain.models, other.models, strict=True):
        assert np.array_equal(a.coef_, b.coef_)


def test_rows_labels_and_partition_must_fit_together():
    partition = partition_rows(120, 6, noise_source(0))
    for rows, labels in ((X[:-1], Y), (X, Y[:-1]), (X[:-1], Y[:-1])):
        with pytest.raises(InvalidDataError, match="partition deals 120"):
            fit_shards(Majority(), rows, labels, partition, noise_source(0))


def test_an_object_without_parameters_is_copied_and_fitted():
    template = PlainObject()
    fitted = fit(template)
    assert not fitted.failures
    assert not hasattr(template, "answer")


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (LogisticRegression, "is a class"),
        (StandardScaler(), "no method predict"),
        (object(), "no method fit"),
        (None, "no method fit"),
        (LogisticRegression(C=-1), "'C' parameter"),
        (make_pipeline(StandardScaler(), LogisticRegression(C=0)), "'C' parameter"),
        (DecisionTreeClassifier(max_depth="deep"), "'max_depth' parameter"),
    ],
    ids=["class", "scaler", "object", "none", "logistic", "pipeline", "tree"],
)
def test_mistakes_that_no_record_can_mend_are_found_before_fitting(estimator, reason):
    with pytest.raises(InvalidParameterError, match=reason):
        check_base_estimator(estimator, "predict")


def test_warnings_come_back_whatever_the_order_of_leaving():
    """Two threads that enter and leave crosswise restore the filters in the end."""
    before, stdout = list(warnings.filters), sys.stdout
    first_in, second_in = threading.Event(), threading.Event()

    def first():
        with without_streams, without_warnings:
            first_in.set()
            second_in.wait(180)

    thread = threading.Thread(target=first)
    thread.start()
    assert first_in.wait(180)
    with without_warnings, without_streams:
        second_in.set()
        thread.join()
        warnings.warn("unheard", UserWarning, stacklevel=1)
        sys.stdout.write("unread")
    assert warnings.filters == before
    assert sys.stdout is stdout


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only():
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe, None):
        shown = with_progress(range(3), total=3, label="fitting", stream=stream)
        assert list(shown) == [0, 1, 2]
    assert "fitting" in terminal.getvalue()
    assert "0/3" in terminal.getvalue()
    assert pipe.getvalue() == ""


def test_progress_needs_no_other_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    terminal = Terminal()
    shown = with_progress(range(2), total=2, label="fitting", stream=terminal)
    assert list(shown) == [0, 1]
    assert terminal.getvalue() == "\rfitting: 0/2\rfitting: 1/2\rfitting: 2/2\n"


def test_a_verbose_fit_is_still_silent_about_the_learners(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fit(Noisy(), verbose=True)
    assert "fitting shards" in terminal.getvalue()
    assert "such rows" not in terminal.getvalue()
