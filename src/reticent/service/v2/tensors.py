"""Tensors of the Open Inference Protocol, as JSON or as raw bytes, and rows of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.schemas import Categorical, Numeric, Schema
from reticent.service.requests.bodies import json_object
from reticent.service.requests.direct_routes import check_count
from reticent.service.requests.problems import ProblemError

#: The header that says where JSON ends and raw bytes begin.
LENGTH_HEADER = "inference-header-content-length"

_INTEGERS = {
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}
_FLOATS = {"FP16": "<f2", "FP32": "<f4", "FP64": "<f8"}
_RAW = {**_INTEGERS, **_FLOATS, "BOOL": "|b1"}


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A request for inference: rows by column name, and how to send the answers."""

    id: str | None
    rows: list[dict[str, Any]]
    binary_output: bool
    clip: bool


def column_type(spec: Numeric | Categorical) -> str:
    """Return the datatype that a column is announced with."""
    if isinstance(spec, Numeric):
        return "FP64"
    return {str: "BYTES", bool: "BOOL", int: "INT64"}[type(spec.levels[0])]


def label_type(classes: tuple[Any, ...] | None) -> str:
    """Return the datatype of answers."""
    if classes is None:
        return "FP64"
    return {str: "BYTES", bool: "BOOL", int: "INT64"}[type(classes[0])]


def read_request(
    body: bytes, json_length: str | None, schema: Schema, label: str, most: int
) -> InferenceRequest:
    """Read the body of an inference request.

    Parameters
    ----------
    body : bytes
        JSON, with raw tensors after it if `json_length` is given.
    json_length : str or None
        The value of the header that says how long the JSON is.
    schema : Schema
        Its columns are the inputs.
    label : str
        The name of the only output.
    most : int
        The largest number of rows.
    """
    text, raw = _split(body, json_length)
    data = json_object(text)
    if not set(data) <= {"id", "inputs", "outputs", "parameters"}:
        raise _wrong("it may have id, inputs, outputs and parameters.")
    request_id = data.get("id")
    if not (request_id is None or isinstance(request_id, str)):
        raise _wrong("id must be text.")
    columns = _columns(data.get("inputs"), raw, schema, most)
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) != 1:
        raise _wrong("all inputs must have the same number of rows.")
    names = list(columns)
    rows = [
        dict(zip(names, cells, strict=True))
        for cells in zip(*columns.values(), strict=True)
    ]
    binary = _binary_output(data.get("outputs"), data.get("parameters"), label)
    return InferenceRequest(
        request_id or None, rows, binary, _clip(data.get("parameters"))
    )


def _wrong(what: str) -> ProblemError:
    return ProblemError(400, "invalid_inference_request", f"the request: {what}")


def _split(body: bytes, json_length: str | None) -> tuple[bytes, bytes]:
    if json_length is None:
        return body, b""
    if not (json_length.isascii() and json_length.isdigit() and len(json_length) < 12):
        raise _wrong("Inference-Header-Content-Length must be a whole number.")
    length = int(json_length)
    if length > len(body):
        raise _wrong("Inference-Header-Content-Length is longer than the body.")
    return body[:length], body[length:]


def _clip(parameters: Any) -> bool:
    """Say whether numbers outside their range are moved into it, or refused."""
    clip = parameters.get("clip", False) if isinstance(parameters, Mapping) else False
    if type(clip) is not bool:
        raise _wrong("parameters.clip must be true or false.")
    return clip


def _columns(
    inputs: Any, raw: bytes, schema: Schema, most: int
) -> dict[str, list[Any]]:
    if not isinstance(inputs, list) or not inputs:
        raise _wrong("inputs must list one tensor per column.")
    columns: dict[str, list[Any]] = {}
    for place, tensor in enumerate(inputs):
        where = f"inputs[{place}]"
        if not isinstance(tensor, Mapping):
            raise _wrong(f"{where} must be an object.")
        name = tensor.get("name")
        spec = schema.columns.get(name) if isinstance(name, str) else None
        if spec is None or name in columns:
            raise _wrong(f"{where}.name must be a column of the model, each once.")
        n_rows = _n_rows(where, tensor.get("shape"))
        check_count(n_rows, most)
        cells, raw = _cells(where, tensor, n_rows, raw)
        columns[str(name)] = [_cell(cell, spec) for cell in cells]
    if raw:
        raise _wrong("there are more raw bytes than the inputs say.")
    return columns


def _n_rows(where: str, shape: Any) -> int:
    if not (
        isinstance(shape, list)
        and len(shape) in (1, 2)
        and all(type(size) is int and size >= 0 for size in shape)
        and shape[1:] in ([], [1])
    ):
        raise _wrong(f"{where}.shape must be [rows] or [rows, 1].")
    return int(shape[0])


def _cells(
    where: str, tensor: Mapping[str, Any], n_rows: int, raw: bytes
) -> tuple[list[Any], bytes]:
    """Return the cells of a tensor, and the raw bytes after it."""
    datatype = tensor.get("datatype")
    if not (isinstance(datatype, str) and (datatype in _RAW or datatype == "BYTES")):
        raise _wrong(f"{where}.datatype is not supported.")
    parameters = tensor.get("parameters", {})
    size = (
        parameters.get("binary_data_size") if isinstance(parameters, Mapping) else None
    )
    if size is None:
        cells = _flat(tensor.get("data"))
        if cells is None or len(cells) != n_rows:
            raise _wrong(f"{where}.data must have as many values as its shape says.")
        return _typed(where, cells, datatype), raw
    if not (type(size) is int and 0 <= size <= len(raw)) or "data" in tensor:
        raise _wrong(f"{where}.parameters.binary_data_size does not fit the body.")
    mine, rest = raw[:size], raw[size:]
    found = _texts(mine) if datatype == "BYTES" else _numbers(mine, datatype)
    if found is None or len(found) != n_rows:
        raise _wrong(f"{where} must have as many raw values as its shape says.")
    return found, rest


def _flat(data: Any) -> list[Any] | None:
    if not isinstance(data, list):
        return None
    if data and all(isinstance(cell, list) and len(cell) == 1 for cell in data):
        return [cell[0] for cell in data]
    return data


def _typed(where: str, cells: list[Any], datatype: str) -> list[Any]:
    """Refuse JSON values that are not what the datatype says; null is missing."""
    allowed: tuple[type, ...] = {"BYTES": (str,), "BOOL": (bool,)}.get(
        datatype, (int, float) if datatype in _FLOATS else (int,)
    )
    for cell in cells:
        if cell is not None and type(cell) not in allowed:
            raise _wrong(f"{where}.data has values that are not {datatype}.")
    return cells


def _numbers(raw: bytes, datatype: str) -> list[Any] | None:
    dtype = np.dtype(_RAW[datatype])
    if len(raw) % dtype.itemsize:
        return None
    if datatype == "BOOL":
        return [byte != 0 for byte in raw]
    cells: list[Any] = np.frombuffer(raw, dtype=dtype).tolist()
    return cells


def _texts(raw: bytes) -> list[Any] | None:
    """Read texts, each preceded by its length in four bytes."""
    cells, place = [], 0
    while place < len(raw):
        length = int.from_bytes(raw[place : place + 4], "little")
        end = place + 4 + length
        if place + 4 > len(raw) or end > len(raw):
            return None
        try:
            cells.append(raw[place + 4 : end].decode("utf-8"))
        except UnicodeDecodeError:
            return None
        place = end
    return cells


def _cell(cell: Any, spec: Numeric | Categorical) -> Any:
    """Return a cell as a row of JSON would hold it; NaN and "" are missing."""
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(spec, Categorical) and isinstance(cell, float):
        return object  # no level is a fraction; validation will say so
    return None if cell == "" else cell


def _binary_output(outputs: Any, parameters: Any, label: str) -> bool:
    if outputs is None or outputs == []:
        wanted = isinstance(parameters, Mapping) and parameters.get(
            "binary_data_output"
        )
        return wanted is True
    if not (
        isinstance(outputs, list)
        and len(outputs) == 1
        and isinstance(outputs[0], Mapping)
        and outputs[0].get("name") == label
    ):
        raise _wrong("outputs may name the model's one output, or be left out.")
    settings = outputs[0].get("parameters", {})
    if isinstance(settings, Mapping) and "binary_data" in settings:
        return settings["binary_data"] is True
    return (
        isinstance(parameters, Mapping) and parameters.get("binary_data_output") is True
    )


def write_response(
    head: dict[str, Any],
    name: str,
    datatype: str,
    answers: list[bytes],
    *,
    binary: bool,
    more: list[dict[str, Any]] | None = None,
) -> tuple[bytes, int | None]:
    """Return the body of a response, and how long its JSON is if raw bytes follow.

    `more` are further outputs, always in JSON.
    """
    rest = more or []
    output: dict[str, Any] = {
        "name": name,
        "shape": [len(answers)],
        "datatype": datatype,
    }
    values = [json.loads(answer) for answer in answers]
    if not binary:
        body = json.dumps({**head, "outputs": [{**output, "data": values}, *rest]})
        return body.encode(), None
    raw = _raw_values(values, datatype)
    output["parameters"] = {"binary_data_size": len(raw)}
    text = json.dumps({**head, "outputs": [output, *rest]}).encode()
    return text + raw, len(text)


def _raw_values(values: list[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.array(values, dtype=_RAW[datatype]).tobytes()
    texts = [value.encode() for value in values]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
