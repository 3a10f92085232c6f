"""Ranges that leave out what the rows hold are told to the curator, and nobody else."""

import warnings

import numpy as np
import pytest

from reticent.errors import ClippedValuesWarning, CuratorOnlyWarning
from reticent.estimators import STEPS, CodedColumns
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.prediction import PrivateNeighborsClassifier, PrivateNeighborsRegressor
from reticent.schemas import Categorical, Numeric

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 3))
Y = (X[:, 0] > 0).astype(int)
KINDS = [
    PrivateTabularClassifier,
    PrivateTabularRegressor,
    PrivateNeighborsClassifier,
    PrivateNeighborsRegressor,
]


def told(kind, rows, columns):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = kind(4.0, columns=columns).fit(rows, Y)
    found = [one for one in said if issubclass(one.category, ClippedValuesWarning)]
    assert len(found) <= 1
    return model, found


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_that_nobody_declared_are_told(kind):
    rows = X.copy()
    rows[17, 1] = 31.4159
    _, (said,) = told(kind, rows, None)
    assert "column 1" in str(said.message)
    assert "for you only" in str(said.message)
    assert "31" not in str(said.message)
    assert said.filename == __file__
    assert not told(kind, X, None)[1]
    assert not told(kind, rows, [(-1, 1)] * 3)[1]  # declared, and one value is clipped


@pytest.mark.parametrize("kind", KINDS)
def test_most_values_outside_are_told(kind):
    rows = X * [1, 100, 100]
    _, (said,) = told(kind, rows, [(-1, 1), (0, 1), (-100, 100)])
    assert "column 1" in str(said.message)
    assert "2" not in str(said.message).split("(")[1]


FACTS = [
    ((0.0, 1.0), [0.0, 1.0, 0.5], [-1e-9, 1.1, 1e300]),
    (3, [0.0, 1.0, 2.0], [-1.0, 3.0, 0.5]),
    (Categorical(["a", "b"]), [0.0, 1.0], [2.0, -1.0]),
    (Numeric(0, 100, transform="log1p"), [0.0, 100.0], [-0.5, 101.0, -7.0]),
]


@pytest.mark.parametrize(("fact", "inside", "outside"), FACTS)
def test_outside_is_what_is_moved(fact, inside, outside):
    (column,) = CodedColumns.of([fact], 1).columns
    assert not column.outside(np.array([*inside, np.nan])).any()
    assert column.outside(np.array(outside)).all()
    codes = column.encode(np.array(outside))
    ends = {0, STEPS - 1} if column.numeric else {column.n_codes - 1}
    assert set(codes.tolist()) <= ends


@pytest.mark.parametrize(("outside", "warned"), [(5, False), (6, True)])
def test_half_of_the_known_values_decide(outside, warned):
    rows = np.zeros((400, 3))
    rows[:390, 1] = np.nan
    rows[390 : 390 + outside, 1] = 7.0
    assert bool(told(PrivateTabularClassifier, rows, [(-1, 1)] * 3)[1]) == warned


def test_values_in_a_later_block_count(monkeypatch):
    module = "reticent.estimators.partitions.declared_ranges._BLOCK"
    monkeypatch.setattr(module, 7)
    rows = X.copy()
    rows[399, 2] = 2.0
    _, (said,) = told(PrivateTabularClassifier, rows, None)
    assert "column 2" in str(said.message)


def test_many_columns_are_counted():
    rows = RNG.uniform(2, 3, (400, 9))
    _, (said,) = told(PrivateTabularClassifier, rows, None)
    assert "columns 0, 1, 2, 3, 4 and 4 more" in str(said.message)


def test_it_is_for_the_curator_and_is_kept_nowhere():
    assert issubclass(ClippedValuesWarning, CuratorOnlyWarning)
    seeded = {"columns": None, "random_state": 0}
    inside, outside = X / 2, X / 2
    outside[17, 1] = 31.4159
    one, two = (
        PrivateTabularClassifier(4.0, **seeded).fit(rows, Y)
        for rows in (inside, outside)
    )
    assert sorted(vars(one)) == sorted(vars(two))
    assert one.certificate_.as_dict() == two.certificate_.as_dict()


def test_the_warning_comes_before_any_noise(monkeypatch):
    def drawn(*_, **__):
        raise AssertionError("noise was drawn")

    for place in ("learners.tabular.base", "prediction.neighbors.base"):
        monkeypatch.setattr(f"reticent.{place}.noise_source", drawn)
    for kind in KINDS:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ClippedValuesWarning)
            with pytest.raises(ClippedValuesWarning):
                kind(4.0).fit(X * 9, Y)
