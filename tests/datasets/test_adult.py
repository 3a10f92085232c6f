"""The bundled census sample: what it says it is, and readable in every way."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from reticent.datasets import adult_sample_files, load_adult_sample
from reticent.schemas import Numeric, Schema, read_table


def test_sample_is_the_published_one():
    columns, schema = load_adult_sample()
    assert {len(column) for column in columns.values()} == {5000}
    assert list(columns) == [*schema.columns, "income"]
    # 7,841 of the 32,561 published records earn more; a draw of 5,000 has 1,204 +- 28.
    assert (columns["income"] == ">50K").sum() == 1174
    assert (columns["sex"] == "Male").mean().round(2) == 0.67
    assert (columns["age"].min(), columns["age"].max()) == (17, 90)


def test_every_cell_is_inside_the_public_schema():
    columns, schema = load_adult_sample()
    table = schema.table(columns, labelled=True)
    for name, spec in schema.columns.items():
        if isinstance(spec, Numeric):
            np.testing.assert_array_equal(table[name], columns[name])
        else:
            assert [spec.levels[code] for code in table[name]] == columns[name].tolist()


def test_file_and_arrays_agree():
    columns, schema = load_adult_sample()
    files = adult_sample_files()
    from_file = read_table(files.data, Schema.read(files.schema))
    from_arrays = schema.table(columns, labelled=True)
    np.testing.assert_array_equal(from_file.numbers, from_arrays.numbers)
    np.testing.assert_array_equal(from_file.codes, from_arrays.codes)
    np.testing.assert_array_equal(from_file.label, from_arrays.label)


def test_licence_and_source_come_with_the_data():
    text = adult_sample_files().licence.read_text(encoding="utf-8")
    for part in ("CC BY 4.0", "10.24432/C5XW20", "Becker", "Kohavi", "## Changes"):
        assert part in text
    assert sum(f.stat().st_size for f in adult_sample_files()) < 150_000


def test_sample_needs_no_optional_package():
    code = (
        "import sys\n"
        "for name in ('pandas', 'polars', 'pyarrow'): sys.modules[name] = None\n"
        "from reticent.datasets import load_adult_sample\n"
        "from reticent.schemas import Encoder\n"
        "columns, schema = load_adult_sample()\n"
        "assert Encoder(schema).transform(schema.table(columns)).shape == (5000, 91)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
