"""One encoded matrix for all shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array

from reticent._sklearn import MatrixLike, safe_indexing
from reticent.ensembles.categories import CategoryCodes
from reticent.ensembles.looped import by_halves, n_rows
from reticent.ensembles.pipelines import Block, Parts

# Half the distance from 1 to the next float: the relative error of one operation.
DOUBLE_ROUNDOFF = 2.0**-53

# Encoded matrices that are sparse and wider than this stay sparse.
_DENSE_COLUMNS = 1024


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """The rows of a batch that could be encoded.

    Parameters
    ----------
    rows : ndarray of int
        Which rows of the batch `values` holds, in order. For the others every model
        would have raised.
    values : ndarray or csr matrix of float64
        The encoded rows, NaN where a value is missing.
    roundoff : float
        The relative error of one operation of the shards' own arithmetic on them.
    """

    rows: NDArray[np.int64]
    values: Any
    roundoff: float


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """How rows become the matrix that all shards' predictors see.

    Parameters
    ----------
    blocks : tuple of Block
        Columns and their declared encoders, taken from any one shard: they are the
        same in all.
    moves : bool
        Whether shards move the encoded columns before they predict.
    codes : CategoryCodes, default=None
        Common codes of the categories that predictors number by themselves.
    """

    blocks: tuple[Block, ...]
    moves: bool
    codes: CategoryCodes | None = None

    @classmethod
    def of(cls, parts: Parts, codes: CategoryCodes | None) -> Encoding:
        """Return the encoding of a fitted pipeline that was taken apart."""
        return cls(blocks=parts.blocks, moves=parts.moves, codes=codes)

    def takes(self, X: MatrixLike) -> bool:
        """Whether a batch can be encoded once for all shards.

        Scalers refuse sparse rows unless they leave zeros alone; such batches are
        left to the models.
        """
        return not (sparse.issparse(X) and self.moves)

    def encode(self, X: MatrixLike) -> Encoded:
        """Encode a batch, leaving out rows that no model could take."""
        if self._is_plain(X):
            values = np.asarray(X, dtype=np.float64)
            return Encoded(np.arange(len(X)), values, self._roundoff(X.dtype))
        pieces = sorted(by_halves(self._encode, X), key=lambda piece: piece[0][0])
        if not pieces:
            return Encoded(np.arange(0), np.empty((0, 0)), DOUBLE_ROUNDOFF)
        if len(pieces) == 1:
            rows, (values, roundoff) = pieces[0]
            return Encoded(rows, values, roundoff)
        stack = sparse.vstack if sparse.issparse(pieces[0][1][0]) else np.concatenate
        return Encoded(
            rows=np.concatenate([rows for rows, _ in pieces]),
            values=stack([values for _, (values, _) in pieces]),
            roundoff=max(roundoff for _, (_, roundoff) in pieces),
        )

    def _is_plain(self, X: MatrixLike) -> bool:
        """Whether the batch is its own encoding: the quick way for one row."""
        block = self.blocks[0]
        return (
            self.codes is None
            and block.columns is None
            and not block.encoders
            and isinstance(X, np.ndarray)
            and X.ndim == 2
            and X.dtype.kind in "fiub"
        )

    def _encode(self, X: MatrixLike) -> tuple[Any, float]:
        roundoff = DOUBLE_ROUNDOFF
        pieces = []
        for block in self.blocks:
            piece = X
            if block.columns is not None:
                piece = safe_indexing(X, block.columns, axis=1)
            for encoder in block.encoders:
                piece = encoder.transform(piece)
            if self.codes is not None and len(self.blocks) == 1:
                piece = self.codes.transform(piece)
            piece = check_array(
                piece, accept_sparse="csr", ensure_all_finite=False, dtype="numeric"
            )
            roundoff = max(roundoff, self._roundoff(piece.dtype))
            pieces.append(piece)
        joined = _side_by_side(pieces)
        if self.codes is not None and len(self.blocks) > 1:
            joined = self.codes.transform(joined)
        return joined, roundoff

    def _roundoff(self, dtype: np.dtype[Any]) -> float:
        """Return the error of one operation, if scalers work in the rows' own type."""
        if not self.moves or dtype.kind != "f":
            return DOUBLE_ROUNDOFF
        return max(DOUBLE_ROUNDOFF, float(np.finfo(dtype).eps) / 2)


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
