"""Tables at the boundary: the same cells have the same form, whatever carried them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from reticent.errors import InvalidDataError
from reticent.estimators import (
    Columns,
    canonical_table,
    check_column_types,
    partition_rows,
)
from reticent.estimators.cells import canonical_cells
from reticent.estimators.tables import as_table, numbers_by_shard, unshared_copy
from reticent.mechanisms import noise_source

NUMBERS = [5, 0, 1]


def same(one, other):
    """Whether two arrays are the same to the bit, types of cells included."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype != object:
        return one.tobytes() == other.tobytes() and one.flags.c_contiguous
    pairs = zip(one.ravel(), other.ravel(), strict=True)
    return all(type(a) is type(b) and (a is b or a == b) for a, b in pairs)


@pytest.mark.parametrize(
    "carrier",
    ["int8", "uint64", "float16", "float32", "longdouble", "object", ">f8"],
)
def test_numbers_are_floats_whatever_type_carried_them(carrier):
    expected = np.array(NUMBERS, dtype=np.float64)
    assert same(canonical_cells(np.array(NUMBERS, dtype=carrier)), expected)


def test_odd_numbers_and_missing_values():
    cells = [True, np.int8(5), Decimal("0.5"), 10**400, -(10**400), None, pd.NA, pd.NaT]
    found = canonical_cells(np.array(cells, dtype=object))
    assert found.dtype == np.float64
    assert found[:5].tolist() == [1, 5, 0.5, np.inf, -np.inf]
    assert np.isnan(found[5:]).all()


def test_one_text_leaves_the_other_cells_what_they_were():
    cells = np.array([5, 2.5, None, np.str_("a"), b"b", date(2024, 1, 1)], dtype=object)
    found = canonical_cells(cells).tolist()
    assert [type(cell) for cell in found] == [float, float, float, str, bytes, date]
    assert found[2] is np.nan
    assert type(canonical_cells(np.array(["a", "bb"]))[0]) is str


@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_rows_do_not_show_what_stood_beside_them(kind):
    """Cut out of larger tables of any type, the same rows look the same."""
    own = [[1, "a"], [0, "b"]]
    forms = []
    for beside in ([2, "c"], ["x", 3.5], [None, None], [2.5, b"y"], [True, (1, 2)]):
        rows = [*own, beside]
        if kind == "array":
            table = np.array(rows, dtype=object)[:, ::-1]
            forms.append(canonical_table(table[:2]))
            continue
        columns = {"n": [row[0] for row in rows], "t": [row[1] for row in rows]}
        if kind == "pandas":
            table = pd.DataFrame(columns, index=[9, 4, 4])
            found = canonical_table(table.iloc[:2])
        else:
            series = [pl.Series(n, c, dtype=pl.Object) for n, c in columns.items()]
            table = pl.DataFrame(series)
            found = canonical_table(table[:2])
        forms.append(found)
    for form in forms[1:]:
        if kind == "array":
            assert same(form, forms[0])
        elif kind == "pandas":
            pd.testing.assert_frame_equal(form, forms[0])
            assert form.dtypes["n"] == np.float64
        else:
            assert form.schema == forms[0].schema == {"n": pl.Float64, "t": pl.String}
            assert form.equals(forms[0])


def test_pandas_types_that_stand_for_numbers_or_text():
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None], dtype="Int64"),
            "flag": pd.array([True, None], dtype="boolean"),
            "few": pd.arrays.SparseArray([0.0, 2.0]),
            "text": pd.array(["a", None], dtype="string"),
            "arrow": pd.array([1.5, None], dtype="float64[pyarrow]"),
        }
    )
    check_column_types(frame, public_types=False)
    found = canonical_table(frame)
    expected = {"nullable": [1, 1], "flag": [1, 1], "few": [0, 2], "arrow": [1.5, 1.5]}
    for name, (first, filled) in expected.items():
        assert found[name].dtype == np.float64
        assert found[name].fillna(filled).tolist() == [first, filled]
    assert found["text"][0] == "a"
    assert found["text"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": pd.Categorical(["x", "y"])}),
        pd.DataFrame({"a": pd.to_datetime(["2024-01-01", "2024-01-02"])}),
        pd.DataFrame({"a": pd.interval_range(0, 2)}),
        pl.DataFrame({"a": [date(2024, 1, 1)]}),
        pl.DataFrame({"a": ["x"]}, schema={"a": pl.Categorical}),
        pl.DataFrame({"a": [[1]]}),
    ],
)
def test_types_that_cells_do_not_show_are_refused_or_public(table):
    with pytest.raises(InvalidDataError, match="column 'a' of X has the type"):
        check_column_types(table, public_types=False)
    check_column_types(table, public_types=True)
    kept = canonical_table(table, public_types=True)
    assert str(kept["a"].dtype) == str(table["a"].dtype)
    assert str(canonical_table(table)["a"].dtype) != str(table["a"].dtype)


def test_other_tables_are_refused():
    class Table:
        columns = ("a",)

    with pytest.raises(InvalidDataError, match="a table of pandas or polars"):
        as_table(Table())
    with pytest.raises(InvalidDataError, match="array of datetime64"):
        check_column_types(np.array(["2024"], dtype="datetime64[D]"), public_types=True)


def test_sparse_rows_are_sorted_floats():
    rows = sparse.csr_matrix(([1, 2, 3], [2, 0, 0], [0, 3, 3]), shape=(2, 3))
    found = canonical_table(rows)
    assert found.dtype == np.float64
    assert found.indices.tolist() == [0, 2]
    assert found.toarray().tolist() == [[5, 0, 1], [0, 0, 0]]
    assert rows.indices.tolist() == [2, 0, 0]


def test_copies_share_nothing():
    lists = np.array([[[1]], ["a"]], dtype=object)
    copied = unshared_copy(lists)
    copied[0, 0].append(2)
    assert lists[0, 0] == [1]
    frame = pd.DataFrame({"a": pd.Series([[1], "b"], dtype=object), "b": [1.0, 2.0]})
    other = unshared_copy(frame)
    other["a"][0].append(2)
    other.iloc[0, 1] = 9
    assert frame["a"][0] == [1]
    assert frame["b"][0] == 1


def test_a_text_costs_its_own_shard_alone():
    X = np.arange(24.0).reshape(12, 2)
    partition = partition_rows(12, 3, noise_source(0))
    changed = X.astype(object)
    changed[0, 0] = "unknown"
    found = numbers_by_shard(changed, partition)
    mine = partition.shard_of_row == partition.shard_of_row[0]
    assert np.isnan(found[mine]).all()
    assert same(found[~mine], X[~mine])


def test_queries_come_in_the_container_that_models_know():
    numbers = np.array([[1.0, 2.0]])
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    of_arrays = Columns(2, None)
    for query in (numbers, frame, pl.DataFrame(frame), sparse.csr_matrix(numbers)):
        assert same(of_arrays.read(query), numbers)
    of_frames = Columns.of(frame)
    read = of_frames.read(pl.DataFrame(frame))
    pd.testing.assert_frame_equal(read, frame)
    assert isinstance(Columns.of(pl.DataFrame(frame)).read(frame), pl.DataFrame)
    mixed = frame.assign(b="x")
    assert of_arrays.read(mixed).tolist() == [[1.0, "x"]]
