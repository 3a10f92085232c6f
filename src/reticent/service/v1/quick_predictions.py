"""A few ordinary rows under ``/v1``: read by a reader made for their schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import getitem, le
from struct import pack
from typing import Any

import msgspec
from msgspec.structs import astuple

from reticent.home import ServedModel
from reticent.schemas import PackedRows, Schema

# As for rows that are checked value by value elsewhere: more become arrays.
_MOST_ROWS = 3


class QuickPredictions:
    """Reads the rows of one model's requests, and writes their answers.

    Parameters
    ----------
    model : ServedModel
        The model.
    most : int
        The largest number of rows of a request.

    Guarantee
    ---------
    What it returns is what the reader of all rows returns. What it does not accept at
    once (another field, a key that occurs twice, a value that is missing, outside, not
    a level or of another type) it leaves to that reader.
    """

    def __init__(self, model: ServedModel, most: int) -> None:
        self._schema = schema = model.stored.schema
        layout = schema.layout
        self._decode = _decoder(schema)
        self._most = min(most, _MOST_ROWS)
        self._width = len(schema.columns)
        self._n_numbers = len(layout.numeric.names)
        self._low = tuple(layout.numeric.low.tolist())
        self._high = tuple(layout.numeric.high.tolist())
        self._codes = [lookup.by_value for lookup in layout.category.lookups]
        self._start = b'{"model":"%b","version":"%b","answers":[' % (
            model.name.encode(),
            model.stored.id.encode(),
        )
        self._middle = b'],"certificate":"%b","charge":{"answers":' % (
            model.certificate.id.encode()
        )
        self._loss = b',"each":%b},"answers_left":' % model.loss_json

    def rows(self, body: bytes) -> PackedRows | None:
        """Return the rows of a body, None if they need a closer look."""
        numbers: list[float] = []
        codes: list[int] = []
        split = self._n_numbers
        try:
            given = self._decode(body).rows
            n_rows = len(given)
            # All columns are there and no others. So if there are no more colons than
            # keys, no key occurs twice.
            if not 0 < n_rows <= self._most:
                return None
            if body.count(b":") != 1 + n_rows * self._width:
                return None
            for row in given:
                cells = astuple(row)
                values = cells[:split]
                if not (
                    all(map(le, self._low, values)) and all(map(le, values, self._high))
                ):
                    return None
                numbers += [value + 0.0 for value in values]  # -0.0 becomes 0.0
                codes += map(getitem, self._codes, cells[split:])
        except (msgspec.MsgspecError, LookupError, ArithmeticError, ValueError):
            return None
        return PackedRows(
            self._schema,
            pack(f"<{len(numbers)}d", *numbers),
            pack(f"<{len(codes)}i", *codes),
            n_rows,
        )

    def body(
        self,
        answers: Sequence[bytes | None],
        paid: int,
        left: int | None,
        sequence: int | None,
        request_id: str,
    ) -> bytes:
        """Return the body of an answer; every part of it is JSON already."""
        shown = b",".join(filter(None, answers))
        return b'%b%b%b%d%b%b,"sequence":%b,"request_id":"%b"}' % (
            self._start,
            shown,
            self._middle,
            paid,
            self._loss,
            b"null" if left is None else b"%d" % left,
            b"null" if sequence is None else b"%d" % sequence,
            request_id.encode(),
        )


def quick_predictions(model: ServedModel, most: int) -> QuickPredictions | None:
    """Return what reads a model's rows quickly, None if its schema does not allow that.

    Columns that are computed from others need a closer look.
    """
    if model.stored.schema.readings:
        return None
    try:
        return QuickPredictions(model, most)
    except ValueError:  # a name of a column that the compiled reader does not take
        return None


def _decoder(schema: Schema) -> Callable[[bytes], Any]:
    """Return what reads bodies with nothing but complete rows of ordinary values.

    A level must be of its column's kind: a dictionary would take 1 and 1.0 for True.
    """
    layout = schema.layout
    names = {
        f"c{place}": name
        for place, name in enumerate((*layout.numeric.names, *layout.category.names))
    }
    kinds: list[Any] = [int | float] * len(layout.numeric.names)
    kinds += [lookup.kind for lookup in layout.category.lookups]
    row = msgspec.defstruct(
        "Row",
        list(zip(names, kinds, strict=True)),
        rename=names,
        forbid_unknown_fields=True,
        gc=False,
    )
    body = msgspec.defstruct(
        "Body",
        [("rows", list[row])],  # type: ignore[valid-type]
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(body).decode
