"""One encoded matrix for all shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from reticent._arrays import Ints
from reticent._sklearn import MatrixLike, safe_indexing
from reticent.ensembles.fusion.categories import CategoryCodes
from reticent.ensembles.fusion.pipelines import Block, FusablePipeline
from reticent.ensembles.model_answers import by_halves, n_rows

# Half the distance from 1 to the next float: the relative error of one operation.
DOUBLE_ROUNDOFF = 2.0**-53

# Stands for a polars data frame among the types of numbers.
POLARS = "polars"

# Encoded matrices that are sparse and wider than this stay sparse.
_DENSE_COLUMNS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The rows of a batch that could be encoded."""

    #: The rows of the batch that `values` contains, in order. For the others every
    #: model would have raised.
    rows: Ints
    values: Any  #: the encoded rows, NaN where a value is missing
    #: The types of the numbers that the shards' own arithmetic sees.
    types: frozenset[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rows become the matrix that all shards' predictors see."""

    #: Columns and their declared encoders, taken from one shard: they are the same in
    #: all.
    blocks: tuple[Block, ...]
    moves: bool  #: whether shards transform the encoded columns before they predict
    #: Common codes of the categories that predictors number themselves.
    codes: CategoryCodes | None = None

    @classmethod
    def of(cls, pipeline: FusablePipeline, codes: CategoryCodes | None) -> Encoding:
        """Return the encoding of a fusable pipeline."""
        return cls(blocks=pipeline.blocks, moves=pipeline.moves, codes=codes)

    def takes(self, X: MatrixLike) -> bool:
        """Whether a batch can be encoded once for all shards.

        Scalers refuse sparse rows unless they keep zeros, and lists have no columns to
        choose from; such batches are left to the models.
        """
        chooses = self.codes is not None or self.blocks[0].columns is not None
        return not ((sparse.issparse(X) and self.moves) or (chooses and _is_list(X)))

    def encode(self, X: MatrixLike) -> Encoded:
        """Encode a batch, without the rows that every model refuses."""
        if self._is_plain(X):
            values = np.asarray(X, dtype=np.float64)
            return Encoded(np.arange(len(X)), values, number_types(X))
        pieces = sorted(by_halves(self._encode, X), key=lambda piece: piece[0][0])
        if not pieces:
            return Encoded(np.arange(0), np.empty((0, 0)), frozenset())
        if len(pieces) == 1:
            rows, (values, types) = pieces[0]
            return Encoded(rows, values, types)
        stack = sparse.vstack if sparse.issparse(pieces[0][1][0]) else np.concatenate
        return Encoded(
            rows=np.concatenate([rows for rows, _ in pieces]),
            values=stack([values for _, (values, _) in pieces]),
            types=frozenset().union(*(types for _, (_, types) in pieces)),
        )

    def _is_plain(self, X: MatrixLike) -> bool:
        """Whether the batch is its own encoding, a fast path for single rows."""
        block = self.blocks[0]
        return (
            self.codes is None
            and block.columns is None
            and not block.encoders
            and isinstance(X, np.ndarray)
            and X.ndim == 2
            and X.dtype.kind in "fiub"
        )

    def _encode(self, X: MatrixLike) -> tuple[Any, frozenset[Any]]:
        types: frozenset[Any] = frozenset()
        pieces = []
        for block in self.blocks:
            piece = X
            if block.columns is not None:
                piece = safe_indexing(X, block.columns, axis=1)
            for encoder in block.encoders:
                piece = encoder.transform(piece)
            if self.codes is not None and len(self.blocks) == 1:
                types |= _coded_types(self.codes, piece)
                piece = self.codes.transform(piece)
            types |= number_types(piece)
            piece = check_array(
                piece, accept_sparse="csr", ensure_all_finite=False, dtype="numeric"
            )
            pieces.append(piece)
        joined = _side_by_side(pieces)
        if self.codes is not None and len(self.blocks) > 1:
            joined = self.codes.transform(joined)
        if self.blocks[0].columns is not None:
            types -= {POLARS}  # concatenated columns are an array
        return joined, types


def number_types(X: MatrixLike) -> frozenset[Any]:
    """Return the types of a table's numbers; object if they are unknown.

    Polars data frames are marked: not every library reads them as arrays of numbers.
    """
    if type(X) is np.ndarray:
        return frozenset({X.dtype})
    if sparse.issparse(X):
        # The order in which duplicate entries are added up is not known.
        single = getattr(X.tocsr(), "has_canonical_format", False)
        return frozenset({X.dtype if single else np.dtype(object)})
    return frozenset().union(*map(_number_types, getattr(X, "dtypes", [object])))


def _number_types(kind: Any) -> set[Any]:
    """Return a frame's type of columns as NumPy's, object for all but doubles."""
    if isinstance(kind, np.dtype):
        return {kind}
    polars = type(kind).__module__.startswith("polars")
    double = polars and str(kind) == "Float64"
    return {np.dtype(np.float64), POLARS} if double else {np.dtype(object)}


def _is_list(X: MatrixLike) -> bool:
    return not hasattr(X, "shape")


def _coded_types(codes: CategoryCodes, X: MatrixLike) -> frozenset[Any]:
    if not codes.takes(X):
        return frozenset({np.dtype(object)})
    return number_types(codes.numbers(X))


def _side_by_side(pieces: list[Any]) -> Any:
    width = sum(piece.shape[1] for piece in pieces)
    if any(sparse.issparse(piece) for piece in pieces) and width > _DENSE_COLUMNS:
        return sparse.hstack(pieces, format="csr", dtype=np.float64)
    dense = np.empty((n_rows(pieces[0]), width))
    start = 0
    for piece in pieces:
        stop = start + piece.shape[1]
        dense[:, start:stop] = piece.toarray() if sparse.issparse(piece) else piece
        start = stop
    return dense
