"""A schema survives JSON, and JSON that is no schema says where it is wrong."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given, settings

from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.schemas import Categorical, ClassLabel, Numeric, Schema
from tests.schemas.clinic import CLINIC, schemas


@given(schemas())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_schemas_survive_json(schema):
    again = Schema.from_dict(json.loads(json.dumps(schema.as_dict())))
    assert again == schema
    assert again.digest == schema.digest
    assert again.as_dict() == schema.as_dict()
    assert list(again.columns.items()) == list(schema.columns.items())
    assert (again.label, again.unit) == (schema.label, schema.unit)


def test_schemas_survive_files_copies_and_pickles(tmp_path):
    path = tmp_path / "clinic.json"
    CLINIC.write(path)
    assert Schema.read(path) == CLINIC
    assert Schema.read(str(path)) == CLINIC
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as some editors save it
    assert Schema.read(path) == CLINIC
    assert pickle.loads(pickle.dumps(CLINIC)) == CLINIC
    assert copy.deepcopy(CLINIC) == CLINIC
    assert hash(copy.copy(CLINIC)) == hash(CLINIC)


@pytest.mark.parametrize(
    "other",
    [
        Schema({"a": Numeric(0, 1)}, ignored=["x"]),
        Schema({"a": Numeric(0, 1)}, unit="u"),
        Schema({"a": Numeric(0, 1)}, label=ClassLabel("y", [0, 1])),
        Schema({"a": Numeric(0, 1, missing=True)}),
        Schema({"a": Numeric(0, 2)}),
        Schema({"b": Numeric(0, 1)}),
        Schema({"a": Categorical([0, 1])}),
        Schema({"a": Numeric(0, 1), "b": Numeric(0, 1)}),
    ],
)
def test_different_schemas_are_not_equal(other):
    assert Schema({"a": Numeric(0, 1)}) != other
    assert Schema({"a": Numeric(0, 1)}).digest != other.digest


def test_a_schema_equals_only_schemas():
    assert CLINIC.as_dict() != CLINIC


def test_order_and_kind_of_levels_matter():
    swapped = [Schema({"a": Categorical(v)}) for v in (["0", "1"], ["1", "0"], [0, 1])]
    flags = Schema({"a": Categorical([False, True])})
    assert len({*swapped, flags}) == 4


def test_optional_keys_may_be_left_out(tmp_path):
    path = tmp_path / "short.json"
    path.write_text(
        '{"reticent_schema": 1, "columns": [{"name": "a", "kind": "numeric", '
        '"low": 0, "high": 1}]}'
    )
    assert Schema.read(path) == Schema({"a": Numeric(0, 1)})


A = '{"name": "a", "kind": "numeric", "low": 0, "high": 1}'
WRONG_DOCUMENTS = {
    "empty": ("", "not JSON"),
    "cut off": ('{"reticent_schema": 1', "line 1"),
    "a list": ("[]", "needs an object"),
    "no version": ('{"columns": []}', "lacks the key 'reticent_schema'"),
    "newer": ('{"reticent_schema": 2, "columns": []}', "reads version 1. Update"),
    "true is not 1": ('{"reticent_schema": true, "columns": []}', "version"),
    "no columns": ('{"reticent_schema": 1}', "lacks the key 'columns'"),
    "nothing in them": ('{"reticent_schema": 1, "columns": []}', "at least one"),
    "columns object": ('{"reticent_schema": 1, "columns": {}}', "needs a list"),
    "surplus key": (
        f'{{"reticent_schema": 1, "columns": [{A}], "colour": 1}}',
        "'colour', which is not known",
    ),
    "key twice": ('{"reticent_schema": 1, "columns": [], "columns": []}', "twice"),
    "column text": ('{"reticent_schema": 1, "columns": ["a"]}', r"columns\[0\] needs"),
    "no name": (
        '{"reticent_schema": 1, "columns": [{"kind": "numeric"}]}',
        r"columns\[0\] lacks the key 'name'",
    ),
    "name number": (
        '{"reticent_schema": 1, "columns": [{"name": 1, "kind": "numeric"}]}',
        r"columns\[0\].name needs text",
    ),
    "name twice": (
        f'{{"reticent_schema": 1, "columns": [{A}, {A}]}}',
        r"columns\[1\].name='a' occurs twice",
    ),
    "bad kind": (
        '{"reticent_schema": 1, "columns": [{"name": "a", "kind": "date"}]}',
        "'numeric' or 'categorical'; got 'date'",
    ),
    "kind list": (
        '{"reticent_schema": 1, "columns": [{"name": "a", "kind": []}]}',
        "'numeric' or 'categorical'",
    ),
    "no high": (
        '{"reticent_schema": 1, "columns": [{"name": "a", "kind": "numeric", '
        '"low": 0}]}',
        r"columns\[0\] \('a'\) lacks the key 'high'",
    ),
    "typing error": (
        A.join(['{"reticent_schema": 1, "columns": [', "]}"]).replace("high", "hihg"),
        "'hihg', which is not known. Keys are low, high",
    ),
    "range reversed": (
        A.join(['{"reticent_schema": 1, "columns": [', "]}"]).replace("1}", "-1}"),
        r"columns\[0\] \('a'\): low=0 and high=-1 need low < high",
    ),
    "NaN": (
        A.join(['{"reticent_schema": 1, "columns": [', "]}"]).replace("1}", "NaN}"),
        "NaN is not a JSON number",
    ),
    "1e999": (
        A.join(['{"reticent_schema": 1, "columns": [', "]}"]).replace("1}", "1e999}"),
        "high needs a finite number",
    ),
    "many digits": (
        A.join(['{"reticent_schema": 1, "columns": [', "]}"]).replace(
            "1}", "9" * 5000 + "}"
        ),
        "too many digits",
    ),
    "deep": ("[" * 100_000, "nested too deeply"),
    "label kind": (
        f'{{"reticent_schema": 1, "columns": [{A}], "label": {{"name": "y"}}}}',
        "label.kind needs 'classes' or 'numeric'",
    ),
    "label classes": (
        f'{{"reticent_schema": 1, "columns": [{A}], "label": '
        f'{{"name": "y", "kind": "classes", "classes": ["a", "a"]}}}}',
        "label: classes lists 'a' twice",
    ),
    "label text": (
        f'{{"reticent_schema": 1, "columns": [{A}], "label": "y"}}',
        "label needs an object",
    ),
    "unit number": (
        f'{{"reticent_schema": 1, "columns": [{A}], "unit": 3}}',
        "unit needs a column's name",
    ),
    "unit list": (
        f'{{"reticent_schema": 1, "columns": [{A}], "unit": ["u"]}}',
        "unit needs a column's name",
    ),
    "ignored text": (
        f'{{"reticent_schema": 1, "columns": [{A}], "ignored": "x"}}',
        "ignored needs a list",
    ),
    "ignored list of lists": (
        f'{{"reticent_schema": 1, "columns": [{A}], "ignored": [["x"]]}}',
        "printable text",
    ),
    "role twice": (
        f'{{"reticent_schema": 1, "columns": [{A}], "unit": "a"}}',
        "'a' is in columns and in unit",
    ),
}


@pytest.mark.parametrize("case", WRONG_DOCUMENTS)
def test_wrong_documents_name_file_and_key(case, tmp_path):
    text, part = WRONG_DOCUMENTS[case]
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(InvalidDataError, match=part) as caught:
        Schema.read(path)
    assert str(caught.value).startswith(f"{path} is not a schema: ")
    assert str(caught.value).endswith(".")


def test_wrong_files_are_named(tmp_path):
    with pytest.raises(InvalidDataError, match=r"nowhere\.json cannot be read"):
        Schema.read(tmp_path / "nowhere.json")
    with pytest.raises(InvalidDataError, match="cannot be read"):
        Schema.read(tmp_path)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InvalidDataError, match="is not UTF-8"):
        Schema.read(tmp_path / "binary.json")
    with pytest.raises(InvalidDataError, match="cannot be written"):
        CLINIC.write(tmp_path / "no" / "folder.json")


def test_from_dict_refuses_without_a_file():
    with pytest.raises(InvalidParameterError, match="needs an object"):
        Schema.from_dict(None)
