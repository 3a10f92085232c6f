"""Encoders serve all shards only if what they learned follows from parameters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)

from reticent.ensembles.fusion.declared_steps import alike, is_declared, is_identity
from reticent.ensembles.fusion.pipelines import as_fusable_pipeline

ROWS = np.array([[1.0, 2.0], [3.0, 1.0], [2.0, 3.0]])
CODES = [[1, 2, 3], [1, 2, 3]]
WORDS = pd.DataFrame({"w": ["a", "b", "a"]})


class Sub(Binarizer):
    pass


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (OneHotEncoder(categories=CODES), ROWS),
        (OneHotEncoder(categories=CODES, drop="first"), ROWS),
        (OneHotEncoder(categories=[["a", "b"]], drop="if_binary"), WORDS),
        (OrdinalEncoder(categories=[["b", "a"]]), WORDS),
        (SimpleImputer(strategy="constant", fill_value=0), ROWS),
        (SimpleImputer(strategy="constant", fill_value="c"), WORDS),
        (PolynomialFeatures(2), ROWS),
        (Normalizer(), ROWS),
        (Binarizer(), ROWS),
        (FunctionTransformer(np.log1p), ROWS),
        (HashingVectorizer(), WORDS["w"]),
    ],
)
def test_steps_that_do_what_their_parameters_say(step, rows):
    assert is_declared(step.fit(rows))


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (OneHotEncoder(), ROWS),
        (OneHotEncoder(categories=CODES, min_frequency=2), ROWS),
        (OneHotEncoder(categories=CODES, max_categories=2), ROWS),
        # The same list, read as the type of the rows that happened to be there.
        (OneHotEncoder(categories=[["1", "2", "3"]] * 2), ROWS),
        (OneHotEncoder(categories=CODES), ROWS.astype(object)),
        (SimpleImputer(strategy="constant"), ROWS),
        (SimpleImputer(strategy="constant", fill_value=0), ROWS.astype(object)),
        (SimpleImputer(strategy="constant", fill_value=0, add_indicator=True), ROWS),
        (
            SimpleImputer(strategy="constant", missing_values=-1, fill_value=0),
            np.full((3, 1), -1.0),
        ),
        (SimpleImputer(), ROWS),
        (KBinsDiscretizer(2, quantile_method="averaged_inverted_cdf"), ROWS),
        (Binarizer(copy=False), ROWS),
        (Sub(), ROWS),
        (Binarizer().set_output(transform="pandas"), ROWS),
        (FunctionTransformer(lambda X: X), ROWS),
        (FunctionTransformer(np.add, kw_args={"x2": 1}), ROWS),
        (HashingVectorizer(tokenizer=str.split, token_pattern=None), WORDS["w"]),
        (HashingVectorizer(analyzer=str.split), WORDS["w"]),
    ],
)
def test_steps_that_may_learn_something_else(step, rows):
    assert not is_declared(step.fit(rows))


def test_an_identity_that_validates_is_none():
    assert is_identity("passthrough")
    assert is_identity(FunctionTransformer())
    assert not is_identity(FunctionTransformer(validate=True))


def test_settings_are_compared_by_value():
    assert alike(
        OneHotEncoder(categories=[[1, np.nan]]), OneHotEncoder(categories=[[1, np.nan]])
    )
    assert not alike(OneHotEncoder(categories=[[1]]), OneHotEncoder(categories=[[1.0]]))
    assert not alike(Binarizer(threshold=1.0), Binarizer(threshold=2.0))
    assert not alike(np.zeros(2), np.zeros(2, dtype=int))


def test_columns_that_a_function_chooses_are_not_shared():
    y = [0, 1, 0]
    for columns, shared in (([0, 1], True), (lambda X: [0, 1], False)):
        chosen = ColumnTransformer([("all", Normalizer(), columns)])
        model = make_pipeline(chosen, LogisticRegression()).fit(ROWS, y)
        assert (as_fusable_pipeline(model) is not None) == shared
