"""Where earlier questions stand in the log: sixteen bytes for each."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

# Places within a record take this many bits; see `records.most_rows`.
_BITS = 12
_FEW = 4096


class QuestionIndex:
    """Finds the record in which a question was answered.

    Answers stay in the log. A hash of 64 bits stands for each question, so whoever
    finds a place compares the codes there.

    Parameters
    ----------
    keys, places : ndarray of uint64, ndarray of int64
        As `packed` returned them.
    """

    def __init__(
        self,
        keys: NDArray[np.uint64] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> None:
        self._keys = np.empty(0, np.uint64) if keys is None else keys
        self._places = np.empty(0, np.int64) if places is None else places
        self._recent: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)

    def find(self, codes: NDArray[np.int16]) -> tuple[int, int] | None:
        """Return the record and the row of a question; None if it is new."""
        key = _hash(codes)
        place = self._recent.get(key)
        if place is None and len(self._keys):
            at = int(np.searchsorted(self._keys, np.uint64(key)))
            if at < len(self._keys) and int(self._keys[at]) == key:
                place = int(self._places[at])
        if place is None:
            return None
        return place >> _BITS, place & ((1 << _BITS) - 1)

    def add(self, codes: NDArray[np.int16], record: int) -> None:
        """Remember the questions of a record; the first place of a question stays."""
        for row, each in enumerate(codes):
            if self.find(each) is None:
                self._recent[_hash(each)] = record << _BITS | row
        if len(self._recent) > max(_FEW, len(self._keys) // 8):
            self._keys, self._places = self.packed()
            self._recent = {}

    def packed(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return everything as two arrays, sorted by key."""
        fresh = np.fromiter(self._recent, np.uint64, len(self._recent))
        keys = np.concatenate([self._keys, fresh])
        fresh_places = np.fromiter(self._recent.values(), np.int64, len(self._recent))
        places = np.concatenate([self._places, fresh_places])
        order = np.argsort(keys, kind="stable")
        return keys[order], places[order]


def _hash(codes: NDArray[np.int16]) -> int:
    content = np.ascontiguousarray(codes, dtype="<i2").tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
