"""Two questions are one only if the models see the same cells."""

from __future__ import annotations

import hashlib
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from reticent.guarantees import Budget
from reticent.ledger import MemoryLedger
from reticent.prediction import PredictionInterface, PrivateVotingClassifier
from reticent.prediction.queries import canonical_rows

LARGE = 2**53


def objects(*row):
    table = np.empty((1, len(row)), dtype=object)
    for place, cell in enumerate(row):
        table[0, place] = cell
    return table


def frame(*cells):
    return pd.DataFrame({"x": cells})


def levels(*names):
    return frame("a").astype(pd.CategoricalDtype(names))


PAIRS = [
    ([[1, "a"]], [["1", "a"]]),
    ([[1.0, "a"]], [["1.0", "a"]]),
    ([[float("nan"), "a"]], [["nan", "a"]]),
    ([[float("inf"), "a"]], [["Infinity", "a"]]),
    ([[None, "a"]], [["None", "a"]]),
    ([[True, "a"]], [["True", "a"]]),
    ([["a\0", "b"]], [["a", "b"]]),
    ([[1 + 2j, "a"]], [["(1+2j)", "a"]]),
    ([(1, "p")], [("1", "p")]),
    (np.array([[LARGE + 1, 0]]), np.array([[LARGE, 0]])),
    (objects(LARGE + 1, 0.5), objects(LARGE, 0.5)),
    (objects(LARGE + 1, "a"), objects(f"int:{LARGE + 1}", "a")),
    (objects(LARGE + 1, "a"), objects('["int", "9007199254740993"]', "a")),
    (objects(1 + 2j), objects("complex:(1+2j)")),
    (np.array([[1 + 2j]]), np.array([["complex:(1+2j)"]], dtype=object)),
    (objects(np.float32(0.1)), objects(0.1)),
    (objects(b"a"), objects("bytes:b'a'")),
    (objects(("a", 1)), objects(("a", "1"))),
    (objects(["a", 1]), objects(("a", 1))),
    (objects(np.arange(2000)), objects(np.arange(2000) + (np.arange(2000) == 1000))),
    (
        frame(pd.Timestamp("2020-01-01"), "a"),
        frame("Timestamp:2020-01-01 00:00:00", "a"),
    ),
    (frame(pd.NA, "a"), frame("NAType:<NA>", "a")),
    (frame(*pd.to_datetime(["2020-01-01"])), frame(1577836800000000000)),
    (frame(*pd.to_datetime(["2020-01-01"])), frame(1577836800000000)),
    (frame(*pd.to_timedelta(["1us"])), frame(1000)),
    (frame(*pd.to_timedelta(["1us"])), frame(1)),
    (frame(*pd.to_timedelta(["1us"])), frame(*pd.to_datetime([1000]))),
    (levels("a"), levels("a", "b")),
    (levels("a", "b"), levels("b", "a")),
    (levels("a"), frame("a")),
    (
        pl.DataFrame({"x": [datetime(2020, 1, 1)]}),
        pl.DataFrame({"x": [1577836800000000]}),
    ),
]


@pytest.mark.parametrize("place", range(len(PAIRS)))
def test_questions_that_models_tell_apart_have_keys_of_their_own(place):
    one, other = PAIRS[place]
    assert canonical_rows(one)[0] != canonical_rows(other)[0]
    assert canonical_rows(one)[0] == canonical_rows(one)[0]


# As in stored ledgers: questions that were paid for are recognised.
STORED = {
    "38593e1ac909ba4a": np.array([[1.5, -0.0], [np.nan, np.inf]]),
    "0a6c10b84ef38599": np.array([[1, 2], [3, -4]]),
    "6cb9bb498901a1a2": np.array([[0.1, 2]], dtype=np.float32),
    "a1c1166d30715ce6": np.array([[True, False]]),
    "9ad49ec950ece0f0": np.array([["a", "b"], ["nan", "1"]]),
    "5607abfab94140ce": [[1, 2.5], [3, 4]],
    "522b348984fa5567": [[1, 2]],
    "38c75bc070120833": [["a", "é"]],
    "b8832959c44eb78c": pd.DataFrame({"x": [1, 2], "y": [0.5, np.nan]}),
    "ed255ad7fe6bcefd": pd.DataFrame({"x": [1, 2], "y": ["p", "q"], "z": [None, "a"]}),
    "fe55f05fa0ad0e94": pd.DataFrame(np.eye(2)),
    "ba85833274e7a97d": pl.DataFrame({"x": [1, 2], "y": ["a", None]}),
    "954dc0bd6dfa509d": sparse.csr_matrix(np.eye(2)),
    "5d08a461785de706": np.array([[1, 2.5], ["a", None]], dtype=object),
    "a340d1c38bfad99e": np.array([[1e300, 2.0**60]]),
}


@pytest.mark.parametrize("stored", STORED)
def test_ordinary_tables_keep_the_keys_of_earlier_versions(stored):
    joined = b"|".join(canonical_rows(STORED[stored]))
    assert hashlib.sha256(joined).hexdigest()[:16] == stored


def test_a_remembered_answer_is_not_given_to_another_question():
    rng = np.random.default_rng(0)
    X = np.stack([rng.choice(["1", "2"], 300), rng.choice(["p", "q"], 300)], axis=1)
    columns = ColumnTransformer([("x", OneHotEncoder(handle_unknown="ignore"), [0, 1])])
    base = make_pipeline(columns, DecisionTreeClassifier(max_depth=1))
    model = PrivateVotingClassifier(base, 1.0, [0, 1], 15)
    model.fit(X.astype(object), (X[:, 0] == "1").astype(int))
    interface = PredictionInterface(model, Budget(10.0), MemoryLedger())
    text, number = [["1", "p"]], [[1, "p"]]
    assert model.law_.votes(text)[0].tolist() == [0, 15]
    assert model.law_.votes(number)[0].tolist() != [0, 15]
    interface.predict(text)
    interface.predict(number)
    assert interface.spent().guarantee.epsilon == 2.0  # two questions, each paid for
    interface.predict(text)
    assert interface.spent().guarantee.epsilon == 2.0
