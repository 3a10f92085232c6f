"""Drafting a schema: from public samples only, outwards, and honest about doubts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.datasets import adult_sample_files, load_adult_sample
from reticent.errors import InvalidParameterError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Numeric,
    NumericTarget,
    Schema,
    read_table,
)
from reticent.schemas.sample import outward

SAMPLE = {
    "age": [17, 90, 33],
    "share": [0.031, 0.97, None],
    "ward": ["b", "a", "b"],
    "zip": ["00501", "10115", "00501"],
    "smoker": [True, False, True],
    "cost": [3.5, 1250.0, 17.25],
    "ill": ["yes", "no", "yes"],
    "patient": ["p1", "p2", "p3"],
}
DRAFT = Schema(
    {
        "age": Numeric(10, 90),
        "share": Numeric(0, 1, missing=True),
        "ward": Categorical(["a", "b"]),
        "zip": Categorical(["00501", "10115"]),
        "smoker": Categorical([False, True]),
    },
    label=ClassLabel("ill", ["no", "yes"]),
    unit="patient",
    ignored=("cost",),
)


def as_csv(path):
    pl.DataFrame(SAMPLE).write_csv(path / "sample.csv")
    return path / "sample.csv"


def as_parquet(path):
    pl.DataFrame(SAMPLE).write_parquet(path / "sample.parquet")
    return path / "sample.parquet"


@pytest.mark.parametrize(
    "build",
    [
        as_csv,
        as_parquet,
        lambda path: SAMPLE,
        lambda path: pd.DataFrame(SAMPLE),
        lambda path: pl.DataFrame(SAMPLE),
        lambda path: str(as_csv(path)),
    ],
)
def test_drafts_are_the_same_from_every_source(build, tmp_path):
    draft = Schema.from_sample(
        build(tmp_path), public=True, label="ill", unit="patient", ignored=["cost"]
    )
    assert draft == DRAFT


@pytest.mark.parametrize("public", [False, None, 1, "yes"])
def test_samples_must_be_declared_public(public):
    with pytest.raises(InvalidParameterError, match="Pass public=True"):
        Schema.from_sample(SAMPLE, public=public)


def test_public_has_no_default():
    with pytest.raises(TypeError, match="public"):
        Schema.from_sample(SAMPLE)


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_ranges_are_rounded_outwards(a, b):
    low, high = min(a, b), max(a, b)
    bottom, top = outward(low, high)
    assert bottom <= low <= high <= top
    assert bottom < top
    width = high - low if high > low else max(abs(low), 1)
    assert top - bottom <= 4 * width + 1e-300


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (17, 90, (10, 90)),
        (0.031, 0.97, (0, 1)),
        (0, 99999, (0, 100000)),
        (-3.2, 3.1, (-4, 4)),
        (5, 5, (4, 6)),
        (0, 0, (-1, 1)),
        (0.1, 0.3, (0.1, 0.3)),
    ],
)
def test_ranges_are_round_numbers(low, high, expected):
    assert outward(low, high) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ([0, 1, 1], ClassLabel("y", [0, 1])),
        ([1.0, 2.0, 1.0], ClassLabel("y", [1, 2])),
        ([True, False, True], ClassLabel("y", [False, True])),
        (["b", "a", "b"], ClassLabel("y", ["a", "b"])),
        ([0.5, 1.5, 9.0], NumericTarget("y", 0, 9)),
        (list(range(21)), NumericTarget("y", 0, 20)),
    ],
)
def test_labels_are_recognised(label, expected):
    sample = {"x": list(range(len(label))), "y": label}
    assert Schema.from_sample(sample, public=True, label="y").label == expected


def test_codes_are_named_by_the_caller(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("soil,x\n3,1\n1,2\n3,NA\n")
    draft = Schema.from_sample(path, public=True, categorical=["soil"])
    assert draft.columns["soil"] == Categorical([1, 3])
    assert draft.columns["x"] == Numeric(1, 2, missing=True)
    assert Schema.from_sample(path, public=True).columns["soil"] == Numeric(1, 3)


WRONG_SAMPLES = {
    "no label": ({"x": [1, 2]}, {"label": "y"}, "has no column 'y'; it has 'x'"),
    "no unit": ({"x": [1, 2]}, {"unit": "u"}, "has no column 'u'"),
    "no ignored": ({"x": [1, 2]}, {"ignored": ["u"]}, "has no column 'u'"),
    "nothing": ({"x": [None, None]}, {}, "column 'x' of the sample holds no value"),
    "free text": ({"x": [f"t{i}" for i in range(500)]}, {}, "more than 200 different"),
    "mixture": ({"x": ["a", 1]}, {}, "mixes text with other values"),
    "lists": ({"x": [[1], [2]]}, {}, "neither numbers nor text"),
    "infinity": ({"x": [1.0, float("inf")]}, {}, "infinite numbers"),
    "fractions as codes": ({"x": [1.5, 2]}, {"categorical": ["x"]}, "fractions or"),
    "gaps": ({"x": [1, 2], "y": ["a", None]}, {"label": "y"}, "has missing values"),
    "one class": ({"x": [1, 2], "y": ["a", "a"]}, {"label": "y"}, "at least two"),
    "spaces": ({"x": ["a", " a"]}, {}, r"column 'x' of the sample: levels\[0\] needs"),
    "no features": ({"y": ["a", "b"]}, {"label": "y"}, "at least one column"),
    "no table": (3, {}, "a table is needed"),
}


@pytest.mark.parametrize("case", WRONG_SAMPLES)
def test_wrong_samples_are_explained(case):
    sample, arguments, part = WRONG_SAMPLES[case]
    with pytest.raises(InvalidParameterError, match=part):
        Schema.from_sample(sample, public=True, **arguments)


def test_repeated_columns_of_a_sample_get_a_number(tmp_path):
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    drafted = Schema.from_sample(tmp_path / "twice.csv", public=True)
    assert list(drafted.columns) == ["a", "a (2)"]


def test_a_draft_fits_its_sample():
    data, schema = load_adult_sample()
    path = adult_sample_files().data
    draft = Schema.from_sample(path, public=True, label="income")
    assert draft.label == schema.label
    assert [type(c) for c in draft.columns.values()] == [
        type(c) for c in schema.columns.values()
    ]
    table = read_table(path, draft)
    np.testing.assert_array_equal(table["age"], data["age"])  # nothing was clipped
