"""A small schema with every kind of column, records that follow it, and generators."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
from hypothesis import strategies as st

from reticent.errors import InvalidDataError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    Numeric,
    NumericTarget,
    Schema,
)

CLINIC = Schema(
    {
        "age": Numeric(0, 120),
        "blood": Categorical(["A", "B", "AB", "0"]),
        "dose": Numeric(0, 1000, transform="log1p", missing=True),
        "ward": Categorical([1, 2, 30], missing=True),
        "heat": Numeric(30, 45, outside="error"),
        "smoker": Categorical([False, True]),
        "job": Categorical(["nurse", "clerk"], other=True),
    },
    label=ClassLabel("ill", ["no", "yes"]),
    unit="patient",
    ignored=("note",),
)

RECORDS: list[dict[str, Any]] = [
    {
        "age": 37, "blood": "A", "dose": 2.5, "ward": 1, "heat": 36.6,
        "smoker": False, "job": "nurse", "ill": "no", "patient": "p1",
    },
    {
        "age": 62, "blood": "AB", "dose": None, "ward": None, "heat": 39.0,
        "smoker": True, "job": "baker", "ill": "yes", "patient": "p2",
    },
    {
        "age": 150, "blood": "0", "dose": 5000, "ward": 30, "heat": 45,
        "smoker": True, "job": "clerk", "ill": "yes", "patient": "p1",
    },
]  # fmt: skip
# Row 3 lies outside two ranges that clip.
NUMBERS = [[37, 2.5, 36.6], [62, np.nan, 39.0], [120, 1000, 45]]
CODES = [[0, 0, 0, 0], [2, -1, 1, 2], [3, 2, 1, 1]]
LABELS = [0, 1, 1]
UNITS = ["p1", "p2", "p1"]


def features(record: dict[str, Any]) -> dict[str, Any]:
    """The record as a client would send it."""
    return {name: record[name] for name in CLINIC.columns}


def columns(records: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [record[name] for record in records] for name in records[0]}


def csv_text(records: list[dict[str, Any]], **format_arguments: Any) -> str:
    """The records as Python's own module writes them; None is an empty field."""
    text = io.StringIO(newline="")
    settings = {"lineterminator": "\n", **format_arguments}
    writer = csv.DictWriter(text, fieldnames=list(records[0]), **settings)
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def changed(row: int, **cells: Any) -> list[dict[str, Any]]:
    """The records with some cells of one row (counted from 1) replaced."""
    return [
        {**record, **cells} if position == row else dict(record)
        for position, record in enumerate(RECORDS, 1)
    ]


def assert_says(error: InvalidDataError, *parts: str, never: str) -> None:
    """Fail unless the message has the parts, and nothing in the chain the value."""
    message = str(error)
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    assert message.endswith("."), message
    assert never not in message
    assert error.__cause__ is None
    assert error.__context__ is None  # even a hidden one ends up in some logs


# Generators. Names and levels are arbitrary printable text, not only letters.
texts = (
    st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
    .map(str.strip)
    .filter(lambda text: text and text.isprintable())
)
numbers = st.floats(-1e12, 1e12, allow_nan=False)


@st.composite
def ranges(draw: Any, least: float = -1e12) -> tuple[float, float]:
    low = draw(st.floats(least, 1e12))
    width = draw(st.floats(1e-3, 1e12))
    return low, low + max(width, abs(low) / 1000)


@st.composite
def numeric_columns(draw: Any) -> Numeric:
    transform = draw(st.sampled_from(["none", "log1p", "signed_log1p"]))
    low, high = draw(ranges(least=0.0 if transform == "log1p" else -1e12))
    return Numeric(low, high, transform=transform, missing=draw(st.booleans()))


levels = st.one_of(
    st.lists(texts, min_size=1, max_size=6, unique=True),
    st.lists(st.integers(-(2**53) + 1, 2**53 - 1), min_size=1, max_size=6, unique=True),
    st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
)


@st.composite
def categorical_columns(draw: Any) -> Categorical:
    return Categorical(
        draw(levels), missing=draw(st.booleans()), other=draw(st.booleans())
    )


@st.composite
def schemas(draw: Any) -> Schema:
    names = draw(st.lists(texts, min_size=3, max_size=7, unique=True))
    label_name, unit, *rest = names
    label = draw(
        st.sampled_from(
            [
                None,
                ClassLabel(label_name, ["no", "yes"]),
                ClassLabel(label_name, [0, 1, 2]),
                NumericTarget(label_name, -1.5, 2.5),
            ]
        )
    )
    return Schema(
        {n: draw(st.one_of(numeric_columns(), categorical_columns())) for n in rest},
        label=label,
        unit=draw(st.sampled_from([None, unit])),
    )


def random_rows(schema: Schema, rng: np.random.Generator, n_rows: int) -> list[Any]:
    """Rows that a client may send: inside and outside of ranges, ends, gaps."""

    def cell(spec: Numeric | Categorical) -> Any:
        if spec.missing and rng.random() < 0.2:
            return None
        if isinstance(spec, Categorical):
            if spec.other and rng.random() < 0.2:
                return "\N{SNOWMAN} no level"
            return spec.levels[rng.integers(len(spec.levels))]
        width = spec.high - spec.low
        if rng.random() < 0.3:
            return [spec.low, spec.high][rng.integers(2)]
        return float(rng.uniform(spec.low - width / 4, spec.high + width / 4))

    return [
        {name: cell(spec) for name, spec in schema.columns.items()}
        for _ in range(n_rows)
    ]
