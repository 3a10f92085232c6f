"""The kept examples of a compression learner, the only input of its decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.errors import InvalidDataError


@dataclass(frozen=True, eq=False)
class KeptExamples:
    """A few examples, and bits of side information.

    These are records of the training data: a compression learner generalizes, but it is
    not private. Text is kept in arrays as wide as the kept text; that columns hold text
    or numbers of some type counts as public.
    """

    X: NDArray[Any]  #: shape (k, n_features); the kept rows
    y: NDArray[Any]  #: shape (k,); their labels
    #: Side information as text of 0 and 1; its length is what is counted.
    side: str = ""
    #: Shape (k,); positions in the training data, for information. No decoder reads
    #: them.
    indices: Ints | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", _own_width(np.asarray(self.X)))
        object.__setattr__(self, "y", _own_width(np.asarray(self.y)))
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise InvalidDataError(
                f"kept examples need X of shape (k, n_features) and y of shape (k,); "
                f"got {self.X.shape} and {self.y.shape}."
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def side_bits(self) -> int:
        """Length of the side information."""
        return len(self.side)


def _own_width(table: NDArray[Any]) -> NDArray[Any]:
    """Return text in an array as wide as this text needs.

    Rows that were taken from a table have its type, whose width is that of the longest
    text in the whole table.
    """
    if table.dtype.kind not in "US":
        return table
    if table.size == 0:
        return np.zeros(table.shape, dtype=f"{table.dtype.kind}1")
    return np.array(table.tolist())


def canonical_order(X: Floats, y: Ints) -> NDArray[np.intp]:
    """Return the order of examples by their values, independent of the given order.

    Decoders sort their examples, so that they depend on a set and not on a list; side
    information names examples by their place in this order. Equal examples are
    interchangeable, so ties do not matter.
    """
    return np.lexsort((y, *X.T[::-1]))
