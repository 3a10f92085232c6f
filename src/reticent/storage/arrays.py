"""Arrays as npy files, without pickle and without surprises."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from reticent.errors import ModelFileError

#: The only types of stored arrays: numbers and flags, little-endian, of fixed size.
DTYPES = ("<f8", "<i8", "<i4", "<i2", "|i1", "<u4", "<u2", "|b1")

_LONGEST_HEADER = 4096
_MOST_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class ArrayEntry:
    """What the manifest says about one array: type, shape, and hash of its file."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {"dtype": self.dtype, "shape": list(self.shape), "sha256": self.sha256}

    @classmethod
    def from_dict(cls, name: str, data: Any) -> ArrayEntry:
        """Read what `as_dict` wrote."""
        if not (
            isinstance(data, Mapping) and set(data) == {"dtype", "shape", "sha256"}
        ):
            raise _wrong(name, "needs dtype, shape and sha256")
        shape, dtype, digest = data["shape"], data["dtype"], data["sha256"]
        if not (isinstance(dtype, str) and dtype in DTYPES):
            raise _wrong(name, f"must be one of {', '.join(DTYPES)}")
        if not (
            isinstance(shape, list)
            and len(shape) <= _MOST_DIMENSIONS
            and all(type(size) is int and size >= 0 for size in shape)
        ):
            raise _wrong(name, f"needs a shape of at most {_MOST_DIMENSIONS} sizes")
        if not (
            isinstance(digest, str)
            and len(digest) == hashlib.sha256().digest_size * 2
            and set(digest) <= set("0123456789abcdef")
        ):
            raise _wrong(name, "needs a sha256 of 64 hexadecimal digits")
        return cls(dtype, tuple(shape), digest)

    @property
    def n_bytes(self) -> int:
        """How many bytes the numbers take."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def _wrong(name: str, what: str) -> ModelFileError:
    return ModelFileError(f"array {name!r} of the manifest {what}.")


def array_bytes(name: str, array: NDArray[Any]) -> tuple[bytes, str, tuple[int, ...]]:
    """Return an array as npy bytes, with its type and shape."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    dtype = plain.dtype.str
    if dtype not in DTYPES:
        raise _wrong(name, f"has dtype {dtype}; it must be one of {', '.join(DTYPES)}")
    buffer = io.BytesIO()
    # ascontiguousarray makes a 0-d array 1-d, so the shape is the given one again.
    npy.write_array(buffer, plain.reshape(array.shape), allow_pickle=False)
    return buffer.getvalue(), dtype, tuple(array.shape)


def array_of(name: str, content: bytes, entry: ArrayEntry) -> NDArray[Any]:
    """Return the array in npy bytes, if it is exactly what the manifest says.

    The header is read and compared before a byte is allocated for the numbers, so
    a header that promises more than the file holds costs nothing. Nothing is ever
    unpickled.
    """
    file = io.BytesIO(content)
    try:
        version = npy.read_magic(file)
        shape, fortran, dtype = npy.read_array_header_1_0(
            file, max_header_size=_LONGEST_HEADER
        )
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ModelFileError(
            f"array {name!r} is not an npy file of version 1.0; the model is damaged. "
            "Save it again."
        ) from None
    if (
        version != (1, 0)
        or fortran
        or dtype.hasobject
        or dtype.str != entry.dtype
        or shape != entry.shape
        or len(content) - file.tell() != entry.n_bytes
    ):
        raise ModelFileError(
            f"array {name!r} does not have the type, shape and length that the "
            "manifest says; the model is damaged. Save it again."
        )
    numbers = np.frombuffer(content, dtype=dtype, offset=file.tell())
    array = numbers.reshape(shape).copy()
    array.setflags(write=False)
    return array
