"""One person is one unit, however each batch of rows has read the id."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from reticent.errors import InvalidDataError
from reticent.estimators import unit_positions
from reticent.estimators.unit_ids import unit_key
from reticent.estimators.units import UnitCounter
from reticent.prediction import PrivateVotingClassifier

NUMBERS = [7, 3, 7, 12]
DAYS = [dt.date(2024, 1, day) for day in NUMBERS]
NOON = [dt.datetime(2024, 1, day, 12, 0, 0, 250_000) for day in NUMBERS]
IN_PARIS = [
    moment.replace(tzinfo=dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=1)))
    for moment in NOON
]
NAMES = ["ann", "b\u00e4r", "ann", "eve"]

NUMBER_BATCHES = {
    "list": NUMBERS,
    "int64": np.array(NUMBERS),
    "uint8": np.array(NUMBERS, dtype=np.uint8),
    "float16": np.array(NUMBERS, dtype=np.float16),
    "float32": np.array(NUMBERS, dtype=np.float32),
    "float64": np.array(NUMBERS, dtype=np.float64),
    "long double": np.array(NUMBERS, dtype=np.longdouble),
    "text": [str(n) for n in NUMBERS],
    "array of text": np.array(NUMBERS).astype(str),
    "text of floats": [f"{n}.0" for n in NUMBERS],
    "text with exponents": [f"{n * 10}e-1" for n in NUMBERS],
    "leading zeros": [f"{n:05d}" for n in NUMBERS],
    "spaces and signs": [f" +{n} " for n in NUMBERS],
    "bytes": [b"%d" % n for n in NUMBERS],
    "array of bytes": np.array(NUMBERS).astype("S"),
    "decimals": [Decimal(n) for n in NUMBERS],
    "objects": np.array([7, "3", 7.0, b"12"], dtype=object),
    "pandas": pd.Series(NUMBERS),
    "pandas Int16": pd.Series(NUMBERS, dtype="Int16"),
    "pandas Float32": pd.Series(NUMBERS, dtype="Float32"),
    "pandas text": pd.Series(NUMBERS).astype("string"),
    "pandas category": pd.Series(NUMBERS, dtype="category"),
    "pandas text category": pd.Series(NUMBERS).astype(str).astype("category"),
    "polars": pl.Series(NUMBERS),
    "polars text": pl.Series([str(n) for n in NUMBERS]),
    "polars category": pl.Series([str(n) for n in NUMBERS], dtype=pl.Categorical),
    "polars bytes": pl.Series([b"%d" % n for n in NUMBERS]),
    "polars decimal": pl.Series([Decimal(n) for n in NUMBERS], dtype=pl.Decimal(10, 2)),
    "arrow": pa.array(NUMBERS),
    "arrow dictionary": pa.array(NUMBERS).dictionary_encode(),
}
DAY_BATCHES = {
    "dates": DAYS,
    "midnights": [dt.datetime(d.year, d.month, d.day) for d in DAYS],
    **{
        unit: np.array(DAYS, dtype=f"M8[{unit}]")
        for unit in ("D", "h", "s", "us", "ns")
    },
    "pandas": pd.Series(pd.to_datetime(DAYS)),
    "polars": pl.Series(DAYS),
    "polars times": pl.Series(np.array(DAYS, dtype="M8[ms]")),
    "text": [day.isoformat() for day in DAYS],
    "text of times": [f"{day} 00:00:00.000" for day in DAYS],
}
NOON_BATCHES = {
    "datetimes": NOON,
    "paris": IN_PARIS,
    "ms": np.array(NOON, dtype="M8[ms]"),
    "ns": np.array(NOON, dtype="M8[ns]"),
    "pandas": pd.Series(NOON),
    "pandas UTC": pd.Series(NOON).dt.tz_localize("UTC"),
    "pandas Tokyo": pd.Series(NOON).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
    "polars": pl.Series(np.array(NOON, dtype="M8[us]")),
    "text": [moment.isoformat() for moment in NOON],
    "text of Paris": [str(moment) for moment in IN_PARIS],
    "text with Z": [f"{moment:%Y-%m-%dT%H:%M:%S.25Z}" for moment in NOON],
}
NAME_BATCHES = {
    "list": NAMES,
    "array": np.array(NAMES),
    "bytes": [name.encode() for name in NAMES],
    "array of bytes": np.array([name.encode() for name in NAMES]),
    "ends in NUL": [name + "\0" for name in NAMES],
    "category": pd.Series(NAMES, dtype="category"),
    "pyarrow text": pd.Series(NAMES, dtype="string[pyarrow]"),
    "polars": pl.Series(NAMES),
    "polars bytes": pl.Series([name.encode() for name in NAMES]),
}


@pytest.mark.parametrize(
    "batches",
    [NUMBER_BATCHES, DAY_BATCHES, NOON_BATCHES, NAME_BATCHES],
    ids=["numbers", "days", "moments", "names"],
)
def test_batches_of_all_types_hold_the_same_units(batches):
    for first, second in permutations(batches, 2):
        counter = UnitCounter()
        before = counter.positions(batches[first], 4)
        after = counter.positions(batches[second], 4)
        assert before.tolist() == after.tolist() == [0, 1, 0, 2], (first, second)
        assert counter.n_units == 3
    for units in batches.values():
        positions, n_units = unit_positions(units, 4)
        assert positions.tolist() == [0, 1, 0, 2]
        assert n_units == 3


def test_different_people_stay_different():
    ids = [
        0, 1, -1, 10, 2**53, 2**53 + 1, 2**63, -(2**63), 10**400,
        "a", "A", "a b", "", ".", "-", "1-", "1_0", "1,0", "1.5", "1.50", "0x1",
        "1e400", "9e99", "nan", "\u0661", b"\xff", b"\xfe", "2024-01-05",
        "2024-01-05T00:00:01", "2024-01-05T00:00:00.5",
        "05/01/2024", "2024-13-45", (1, 2), (1, 2, 3), (12,),
        ("a", (1, 2)), uuid.UUID(int=1),
    ]  # fmt: skip
    positions, n_units = unit_positions(ids, len(ids))
    assert positions.tolist() == list(range(len(ids)))
    assert n_units == len(ids)


@given(
    st.integers(),
    st.sampled_from([str, lambda n: f"{n}.00", lambda n: f"{n}".encode()]),
)
@settings(derandomize=True, max_examples=300)
def test_whole_numbers_of_any_size_are_exact(number, spelt):
    assert unit_key(spelt(number)) == unit_key(number) == number
    assert unit_key(spelt(number + 1)) != number


@given(st.one_of(st.text(max_size=12), st.text("0123456789+-.eETZ: ", max_size=14)))
@settings(derandomize=True, max_examples=1000)
def test_keys_of_text_are_their_own_keys(text):
    key = unit_key(text)
    assert unit_key(key) == key
    assert unit_key(text.encode()) == key
    assert unit_key(np.str_(text)) == key
    assert unit_key((text, 1)) == (key, 1)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "g"])
def test_numbers_that_precision_may_have_rounded_are_refused(kind):
    digits = min(np.finfo(kind).nmant + 1, 53)
    largest = np.array([2**digits - 1, -(2**digits) + 1], dtype=kind)
    assert unit_positions(largest, 2)[1] == 2
    assert unit_positions(list(largest), 2)[0].tolist() == [0, 1]
    assert [unit_key(n) for n in largest] == [2**digits - 1, -(2**digits) + 1]
    # The next whole number is rounded to this one: one of two people would be lost.
    with np.errstate(over="ignore"):
        rounded = np.array([2**digits, 0.5, np.inf], dtype=kind)
    for number in rounded:
        for units in (np.array([number]), [number], [(number, 1)]):
            with pytest.raises(InvalidDataError, match="units holds ids in floating"):
                unit_positions(units, 1)


@pytest.mark.parametrize("order", [(2**53, 2.0**53), (2.0**53, 2**53)])
def test_a_rounded_number_does_not_hide_behind_an_exact_one(order):
    with pytest.raises(InvalidDataError, match="floating point"):
        unit_positions(list(order), 2)
    with pytest.raises(InvalidDataError, match="floating point"):
        unit_positions([(number,) for number in order], 2)


@pytest.mark.parametrize(
    "units",
    [
        [True, False],
        np.array([True, False]),
        np.array([1, 2], dtype="m8[s]"),
        [dt.timedelta(1), dt.timedelta(2)],
        [1j, 2j],
        [frozenset({1}), frozenset({2})],
        pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
        [Decimal("0.5"), Decimal(1)],
        np.array([(1, "a"), (2, "b")], dtype=[("x", int), ("y", "U1")]),
    ],
    ids=str,
)
def test_ids_that_may_come_in_another_type_are_refused(units):
    with pytest.raises(InvalidDataError, match="units holds ids"):
        unit_positions(units, 2)


@pytest.mark.parametrize(
    "missing", [None, np.nan, pd.NaT, pd.NA, Decimal("NaN"), np.datetime64("NaT")]
)
@pytest.mark.parametrize("within", [lambda id_: id_, lambda id_: ("site", id_)])
def test_missing_ids_are_refused_in_every_type(missing, within):
    with pytest.raises(InvalidDataError, match="missing id"):
        unit_positions([within(1), within(missing)], 2)


def test_a_model_of_mixed_batches_is_that_of_the_whole_table(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 2))
    y = (X[:, 0] > 0).astype(int)
    people = np.arange(120) % 40
    read = [
        people[:30],
        people[30:60].astype(str),
        people[60:90].astype(np.float32),
        people[90:].astype("S"),
    ]
    batches = [
        (X[30 * k : 30 * k + 30], y[30 * k : 30 * k + 30], units)
        for k, units in enumerate(read)
    ]
    model = PrivateVotingClassifier(
        LogisticRegression(), epsilon=1.0, n_shards=8, classes=[0, 1], random_state=seed
    )
    model.fit_batches(batches)
    assert model.n_units_ == 40
    before = model.ensemble_.votes(X)
    assert np.array_equal(before, model.fit(X, y, units=people).ensemble_.votes(X))
