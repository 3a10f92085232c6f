"""Encoding: a function of the schema alone, inside the ball that it promises."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline
from sklearn.preprocessing import KBinsDiscretizer

from reticent.errors import InvalidParameterError
from reticent.schemas import Categorical, Encoder, Numeric, Schema
from tests.schemas.clinic import CLINIC, RECORDS, features, random_rows, schemas
from tests.stats import rejects

ROWS = [features(record) for record in RECORDS]


def test_dense_rows_by_hand():
    schema = Schema(
        {
            "age": Numeric(20, 60),
            "gain": Numeric(0, np.expm1(4.0), transform="log1p", missing=True),
            "job": Categorical(["a", "b"], missing=True, other=True),
        }
    )
    encoder = Encoder(schema, intercept=True)
    rows = [
        {"age": 30, "gain": float(np.expm1(3.0)), "job": "b"},
        {"age": 90, "gain": None, "job": "c"},
        {"age": 20, "gain": -7, "job": None},
    ]
    assert encoder.names == (
        *["(intercept)", "age", "gain", "gain=(missing)"],
        *["job=a", "job=b", "job=(other)", "job=(missing)"],
    )
    np.testing.assert_allclose(
        encoder.transform(schema.rows(rows)),
        [
            [1, -0.5, 0.5, 0, 0, 1, 0, 0],
            [1, 1, 0, 1, 0, 0, 1, 0],
            [1, -1, -1, 0, 0, 0, 0, 1],
        ],
        rtol=1e-15,
    )
    unit = Encoder(schema, scale="unit").transform(schema.rows(rows))
    np.testing.assert_allclose(unit[:, 0], [0.25, 1, 0])
    np.testing.assert_allclose(unit[:, 1], [0.75, 0, 0])


def test_ordinal_rows_by_hand():
    encoder = Encoder(CLINIC, style="ordinal")
    assert encoder.names == tuple(CLINIC.columns)
    nan = float("nan")
    np.testing.assert_array_equal(
        encoder.transform(CLINIC.rows(ROWS)),
        [
            [37, 0, 2.5, 0, 36.6, 0, 0],
            [62, 2, nan, nan, 39, 1, 2],
            [120, 3, 1000, 2, 45, 1, 1],
        ],
    )


@pytest.mark.parametrize("transform", ["none", "log1p", "signed_log1p"])
def test_transforms_are_monotone_and_reach_both_ends(transform):
    low = 0 if transform == "log1p" else -300
    schema = Schema({"x": Numeric(low, 1000, transform=transform)})
    x = np.linspace(low, 1000, 1001)
    z = Encoder(schema).transform(schema.table({"x": x}))[:, 0]
    assert z[0] == -1
    assert z[-1] == 1
    assert (np.diff(z) > 0).all()
    if transform == "signed_log1p":
        exact = np.sign(x) * np.log1p(np.abs(x))
        share = (exact - exact[0]) / (exact[-1] - exact[0])
        np.testing.assert_allclose(z, 2 * share - 1, atol=1e-15)


def squared_norms(matrix):
    """Without rounding, so that the bound is compared with the truth."""
    return [sum(Fraction(value) ** 2 for value in row) for row in matrix.tolist()]


def assert_within(encoder, matrix):
    bound = Fraction(encoder.row_norm_bound) ** 2
    assert all(square <= bound for square in squared_norms(matrix))


ENCODINGS = st.fixed_dictionaries(
    {
        "scale": st.sampled_from(["symmetric", "unit"]),
        "basis": st.sampled_from(["linear", "bins", "splines"]),
        "knots": st.integers(1, 9),
        "intercept": st.booleans(),
    }
)


@given(schemas(), ENCODINGS, st.integers(0, 2**32 - 1))
@settings(derandomize=True, deadline=None, max_examples=120)
def test_rows_stay_within_the_norm_bound_and_reach_it(schema, encoding, number):
    encoder = Encoder(schema, **encoding)
    rows = random_rows(schema, np.random.default_rng(number), 30)
    # The upper end of each range, the first level: nothing is longer.
    rows.append(
        {
            name: spec.high if isinstance(spec, Numeric) else spec.levels[0]
            for name, spec in schema.columns.items()
        }
    )
    matrix = encoder.transform(schema.rows(rows))
    assert matrix.shape == (31, encoder.n_features)
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()
    assert_within(encoder, matrix)
    longest = np.linalg.norm(matrix[-1])
    assert longest >= encoder.row_norm_bound * (1 - 1e-11)


def test_norm_bound_of_one_column_less_is_caught():
    encoder = Encoder(CLINIC)
    matrix = encoder.transform(CLINIC.rows([{**ROWS[2], "heat": 45}]))
    assert_within(encoder, matrix)
    encoder.row_norm_bound = np.sqrt(CLINIC.n_columns - 1)
    assert rejects(assert_within, encoder, matrix)


def test_norm_bound_of_ordinal_rows(seed):
    schema = Schema(
        {"a": Numeric(-7, 3), "b": Categorical(["x", "y", "z"], other=True)}
    )
    encoder = Encoder(schema, style="ordinal")
    rng = np.random.default_rng(seed)
    matrix = encoder.transform(schema.rows(random_rows(schema, rng, 300)))
    assert_within(encoder, matrix)
    far = encoder.transform(schema.rows([{"a": -9, "b": "other"}]))
    np.testing.assert_allclose(np.linalg.norm(far), encoder.row_norm_bound, rtol=1e-11)
    assert Encoder(CLINIC, style="ordinal").row_norm_bound == np.inf


SIZES = [5e-324, 1e-320, 3e-308, 1e-200, 1e-163, 1e-162, 1e-5, 1, 1e5, 1e153, 1e154]
SIZES += [1e155, 1e200, 8.9e307]


@pytest.mark.parametrize("style", ["ordinal", "dense"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_columns", [1, 2, 3, 40])
def test_norm_bound_of_tiny_and_huge_ranges(style, size, n_columns):
    schema = Schema({f"x{j}": Numeric(-size, size) for j in range(n_columns)})
    encoder = Encoder(schema, style=style)
    matrix = encoder.transform(
        schema.table({name: [-size, 0.0, size] for name in schema.columns})
    )
    assert np.isfinite(matrix).all()
    assert encoder.row_norm_bound > 0
    if np.isfinite(encoder.row_norm_bound):
        assert_within(encoder, matrix)
        longest = max(squared_norms(matrix))
        # Not far above: at most 18 steps of floating point, or a relative 1e-11.
        slack = Fraction(18 * 5e-324) + Fraction(encoder.row_norm_bound) / 10**11
        least = max(Fraction(0), Fraction(encoder.row_norm_bound) - slack)
        assert least**2 <= longest
    else:
        assert max(squared_norms(matrix)) >= Fraction(1.79e308) ** 2


def test_norm_bound_of_rounded_squares_is_caught():
    schema = Schema({"x": Numeric(0, 1e-163)})
    encoder = Encoder(schema, style="ordinal")
    matrix = encoder.transform(schema.rows([{"x": 1e-163}]))
    assert_within(encoder, matrix)
    encoder.row_norm_bound = np.sqrt((1e-163) ** 2)  # what squares without care give
    assert rejects(assert_within, encoder, matrix)


@given(schemas(), ENCODINGS, st.integers(0, 2**32 - 1))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_encoding_depends_on_schema_and_row_only(schema, encoding, number):
    rows = random_rows(schema, np.random.default_rng(number), 20)
    whole = Encoder(schema, **encoding).transform(schema.rows(rows))
    twin = Schema.from_dict(json.loads(json.dumps(schema.as_dict())))
    settings_again = json.loads(json.dumps(Encoder(schema, **encoding).settings()))
    again = Encoder.from_settings(twin, settings_again)
    alone = [again.transform(twin.rows([row])) for row in reversed(rows)]
    np.testing.assert_array_equal(np.vstack(alone)[::-1], whole)
    assert again.names == Encoder(schema, **encoding).names
    # An equal schema is the same schema, whoever built it.
    np.testing.assert_array_equal(again.transform(schema.rows(rows)), whole)


def test_bins_match_scikit_learn():
    schema = Schema({"x": Numeric(0, 12)})
    x = np.linspace(0, 12, 97)
    ours = Encoder(schema, basis="bins", knots=3).transform(schema.table({"x": x}))
    reference = KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform")
    np.testing.assert_array_equal(ours, reference.fit_transform(x[:, None]))


def test_splines_match_scipy_and_add_up_to_one():
    schema = Schema({"x": Numeric(0, np.expm1(2), transform="log1p")})
    u = np.linspace(0, 2, 101)
    encoder = Encoder(schema, basis="splines", knots={"x": list(np.expm1([0.5, 1.5]))})
    ours = encoder.transform(schema.table({"x": np.expm1(u)}))
    knots = np.array([0, 0, 0, 0, 0.5, 1.5, 2, 2, 2, 2])
    scipys = BSpline.design_matrix(np.clip(u, 0, 2), knots, 3).toarray()
    np.testing.assert_allclose(ours, scipys, atol=1e-14)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-14)
    assert encoder.names[0] == "x spline 0"
    assert encoder.n_features == 6


def test_basis_is_chosen_by_column():
    schema = Schema({"a": Numeric(0, 10), "b": Numeric(0, 10, missing=True)})
    encoder = Encoder(schema, basis={"b": "bins"}, knots={"b": [2, 5]})
    assert encoder.names == (
        *["a", "b in [0, 2)", "b in [2, 5)", "b in [5, 10]", "b=(missing)"],
    )
    rows = [{"a": 5, "b": 2}, {"a": 5, "b": 10}, {"a": 5, "b": None}]
    np.testing.assert_array_equal(
        encoder.transform(schema.rows(rows)),
        [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    )


ONE = Schema({"a": Numeric(0, 1), "c": Categorical(["x"])})


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"schema": "clinic.json"}, "schema needs a Schema; got str"),
        ({"style": "sparse"}, "style needs one of"),
        ({"scale": "robust"}, "scale needs one of"),
        ({"basis": "fourier"}, "basis needs one of"),
        ({"basis": None}, "basis needs one of"),
        ({"basis": {"a": "fourier"}}, "basis needs one of"),
        ({"basis": {"b": "bins"}}, "'b', which is not a numeric column"),
        ({"basis": {"c": "bins"}}, "'c', which is not a numeric column"),
        ({"basis": "bins", "knots": 0}, "from 1 to 1000"),
        ({"basis": "bins", "knots": 10**9}, "from 1 to 1000"),
        ({"basis": "bins", "knots": 2.5}, "knots needs a whole number"),
        ({"basis": "bins", "knots": True}, "knots needs a whole number"),
        ({"basis": "bins", "knots": [0.5]}, "knots needs a whole number"),
        ({"basis": "bins", "knots": {"a": []}}, "strictly between 0 and 1"),
        ({"basis": "bins", "knots": {"a": [0.5, 0.5]}}, "increasing numbers"),
        ({"basis": "bins", "knots": {"a": [0.0, 0.5]}}, "strictly between"),
        ({"basis": "bins", "knots": {"a": [float("nan")]}}, "finite number"),
        ({"basis": "bins", "knots": {"a": "many"}}, "a whole number or a list"),
        ({"basis": "bins", "knots": {"z": 3}}, "'z', which is not a numeric column"),
        ({"intercept": 1}, "intercept needs true or false"),
        ({"style": "ordinal", "intercept": True}, "no intercept and no basis"),
        ({"style": "ordinal", "basis": "bins"}, "no intercept and no basis"),
    ],
)
def test_encoders_refuse(arguments, part):
    with pytest.raises(InvalidParameterError, match=part):
        Encoder(**{"schema": ONE, **arguments})


def test_features_need_different_names():
    schema = Schema({"a": Categorical(["b=c"]), "a=b": Categorical(["c"])})
    with pytest.raises(InvalidParameterError, match="two features would be called"):
        Encoder(schema)


def test_rows_of_another_schema_are_refused():
    other = Schema({"a": Numeric(0, 2), "c": Categorical(["x"])})
    table = other.rows([{"a": 1, "c": "x"}])
    with pytest.raises(InvalidParameterError, match="Table of this encoder's schema"):
        Encoder(ONE).transform(table)
    with pytest.raises(InvalidParameterError, match="Table of this encoder's schema"):
        Encoder(ONE).transform(np.zeros((1, 2)))


def test_settings_are_strict():
    with pytest.raises(InvalidParameterError, match="an encoder's settings are"):
        Encoder.from_settings(ONE, {"stlye": "dense"})


@pytest.mark.parametrize("value", [5e-324, 1e-308, 1.0])
def test_tiny_ranges_are_scaled(value):
    schema = Schema({"x": Numeric(0, value)})
    rows = schema.rows([{"x": 0}, {"x": value}, {"x": value / 2}])
    scaled = Encoder(schema).transform(rows)[:, 0]
    assert scaled.tolist()[:2] == [-1, 1]
    assert -1 <= scaled[2] <= 1
