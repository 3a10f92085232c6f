"""One changed cell retrains one model: at most one vote moves, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from reticent.errors import InvalidDataError
from reticent.guarantees import recheck
from reticent.prediction import PrivateAveragingRegressor, PrivateVotingClassifier

N, SHARDS = 180, 9
RNG = np.random.default_rng(0)
AGE = RNG.integers(18, 90, N)
CODE = RNG.integers(0, 5, N)
INCOME = RNG.normal(size=N)
Y = (AGE + 20 * INCOME > 55).astype(int)
FRAME = pd.DataFrame({"age": AGE, "code": CODE, "income": INCOME})
MATRIX = FRAME.to_numpy(dtype=float)


def voters(estimator, X, y=Y, n_shards=SHARDS, **settings):
    model = PrivateVotingClassifier(
        estimator, 1.0, [0, 1], n_shards, random_state=0, **settings
    )
    return model.fit(X, y)


def votes(estimator, X, queries, **settings):
    model = voters(estimator, X, **settings)
    return model.law_.votes(queries)


def assert_one_vote_moves(estimator, table, changed, queries):
    before, after = votes(estimator, table, queries), votes(estimator, changed, queries)
    assert np.abs(before - after).sum(axis=1).max() <= 2


def with_cell(frame, column, value):
    changed = frame.astype({column: object})
    changed.loc[7, column] = value
    return changed.infer_objects()


def test_an_imputer_that_drops_a_column_in_one_shard():
    imputer = SimpleImputer(strategy="constant", missing_values=-1, fill_value=0)
    base = make_pipeline(imputer, DecisionTreeClassifier(max_depth=3, random_state=0))
    # All shards but for one cell of one of them are missing in the first column.
    table = MATRIX.copy()
    table[:, 0] = -1
    for row in range(0, N, 45):
        changed = table.copy()
        changed[row, 0] = 5.0
        assert_one_vote_moves(base, table, changed, MATRIX[:40])


@pytest.mark.parametrize(
    ("types", "cell"), [(np.number, "unknown"), ("int64", None), ("int64", 1.5)]
)
def test_columns_that_are_chosen_by_type(types, cell):
    columns = ColumnTransformer(
        [("chosen", StandardScaler(), make_column_selector(dtype_include=types))],
        remainder=OneHotEncoder(handle_unknown="ignore"),
    )
    base = make_pipeline(columns, LogisticRegression(C=0.1))
    changed = with_cell(FRAME, "age", cell)
    assert_one_vote_moves(base, FRAME, changed, FRAME.iloc[:60])


@pytest.mark.parametrize("cell", ["unknown", b"unknown", (1, 2)])
def test_one_text_in_an_array(cell):
    """Penalised weakly and unscaled, solvers disagree: the path must not depend."""
    base = LogisticRegression(C=1e4, max_iter=3, solver="saga", random_state=0)
    changed = MATRIX.astype(object)
    changed[7, 0] = cell
    assert_one_vote_moves(base, MATRIX, changed, MATRIX[:60])
    listed = [list(row) for row in changed.tolist()]
    assert_one_vote_moves(base, MATRIX, listed, MATRIX[:60])


@pytest.mark.parametrize("form", ["array", "pandas"])
def test_steps_that_write_to_the_query(form):
    base = make_pipeline(StandardScaler(copy=False), SVC())
    table = MATRIX if form == "array" else FRAME.astype(float)
    changed = table.copy()
    if form == "array":
        changed[7] = 1e6
    else:
        changed.iloc[7] = 1e6
    queries = table[:50].copy()
    assert_one_vote_moves(base, table, changed, queries)
    np.testing.assert_array_equal(np.asarray(queries), MATRIX[:50])


def test_a_single_shard_does_not_show_its_mean_in_the_callers_array():
    base = make_pipeline(StandardScaler(copy=False), SVC())
    queries = MATRIX[:5].copy()
    voters(base, MATRIX, n_shards=1).predict(queries)
    np.testing.assert_array_equal(queries, MATRIX[:5])


def outcome(model, queries, *, finite=True):
    with config_context(assume_finite=not finite):
        try:
            return model.predict(queries).shape
        except ValueError as error:
            return str(error)


def pairs_of_models():
    """Yield models with a single shard that could be trained, and could not."""
    y = np.array([0, 1, 0, 1, 0, 1])
    rows = MATRIX[: len(y)]
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    yield [voters(logistic, rows, z, n_shards=1) for z in (y, np.zeros_like(y))]
    with_text = rows.astype(object)
    with_text[3, 0] = "unknown"
    ridge = PrivateAveragingRegressor(Ridge(), n_shards=1)
    yield [clone(ridge).fit(X, y) for X in (rows, with_text)]


def test_queries_fail_or_not_whether_or_not_a_shard_could_be_trained():
    hostile = np.array([[1.0, "old", 2.0]], dtype=object)
    asked = (sparse.csr_matrix(MATRIX[:4]), MATRIX[:4], hostile)
    for pair in pairs_of_models():
        for queries in asked:
            for finite in (True, False):
                shapes = [outcome(model, queries, finite=finite) for model in pair]
                assert shapes == [(queries.shape[0],)] * 2
        missing = np.full((2, 3), np.nan)
        first, second = (outcome(model, missing, finite=False) for model in pair)
        assert first == second


def test_categories_are_refused_unless_types_are_public():
    frame = FRAME.assign(code=pd.Categorical([f"level {code}" for code in CODE]))
    base = HistGradientBoostingClassifier(max_iter=3)
    for table in (frame, pl.from_pandas(frame)):
        with pytest.raises(InvalidDataError, match="public_types=True"):
            voters(base, table)
        model = voters(base, table, public_types=True)
        assert "PUBLIC_TYPES" in {a.code for a in model.certificate_.assumptions}
        assert not model.certificate_.proved
        recheck(model.certificate_)
        assert sum(m is not None for m in model.ensemble_.models) == SHARDS
        assert model.predict(table[:3]).shape == (3,)


def test_numbers_and_text_need_no_assumption():
    base = HistGradientBoostingClassifier(max_iter=3)
    for table in (FRAME, pl.from_pandas(FRAME), MATRIX):
        model = PrivateVotingClassifier(base, 1.0, [0, 1], 3).fit(table, Y)
        assert model.certificate_.proved


def test_labels_reach_the_models_in_the_type_of_the_public_list():
    seen = []

    class Remembers(LogisticRegression):
        def fit(self, X, y):
            seen.append(y.dtype)
            return super().fit(X, y)

    for y in (Y, Y.astype(float), Y.astype(bool)):
        voters(make_pipeline(StandardScaler(), Remembers()), FRAME, y, n_shards=2)
    assert set(seen) == {np.dtype(int)}
