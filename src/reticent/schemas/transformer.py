"""The encoder as a scikit-learn transformer, for pipelines."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from reticent._arrays import Floats
from reticent.schemas.encoder import Encoder
from reticent.schemas.schema import Schema
from reticent.schemas.table import Table


@dataclass(eq=False, repr=False)
class SchemaEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # untyped bases
    """Transformer that encodes tables by a public schema.

    Parameters
    ----------
    schema : Schema
        The columns with their public ranges and levels.
    style : {"dense", "ordinal"}, default="dense"
        For linear models, or for trees. See `Encoder` for all parameters.
    scale : {"symmetric", "unit"}, default="symmetric"
        The range that numbers are scaled to.
    basis : {"linear", "bins", "splines"} or dict, default="linear"
        Features of numeric columns.
    knots : int or dict, default=4
        Public knots of bins and splines.
    intercept : bool, default=False
        Whether the first feature is the constant one.

    Attributes
    ----------
    encoder_ : Encoder
        The encoder.
    n_features_in_ : int
        Number of columns of the schema.
    feature_names_in_ : ndarray of str
        Their names.

    Guarantee
    ---------
    `fit` uses no data: what it stores is a function of the parameters. So this step of
    a pipeline never makes the encoding of one record depend on another.

    Examples
    --------
    >>> from reticent.schemas import Numeric, Schema
    >>> schema = Schema({"age": Numeric(0, 100)})
    >>> SchemaEncoder(schema).fit_transform({"age": [0, 50, 200]}).ravel()
    array([-1.,  0.,  1.])
    """

    schema: Schema
    _: KW_ONLY
    style: str = "dense"
    scale: str = "symmetric"
    basis: Any = "linear"
    knots: Any = 4
    intercept: bool = False

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Build the encoder from the parameters; `X` and `y` are not used."""
        self.encoder_ = self._built()
        self.n_features_in_ = self.schema.n_columns
        self.feature_names_in_ = np.array(list(self.schema.columns), dtype=object)
        return self

    def transform(self, X: Any) -> Floats:
        """Validate and encode a data frame, a mapping of arrays, a matrix or a Table.

        Parameters
        ----------
        X : pandas or polars data frame, pyarrow table, mapping, 2-d array or Table
            The rows. The columns of a 2-d array are taken in the schema's order.
        """
        # No state is learned, so an unfitted transformer can transform as well.
        encoder = self.encoder_ if hasattr(self, "encoder_") else self._built()
        table = X if isinstance(X, Table) else self.schema.table(X, name="X")
        return encoder.transform(table)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the encoded features."""
        encoder = self.encoder_ if hasattr(self, "encoder_") else self._built()
        return np.array(encoder.names, dtype=object)

    def _built(self) -> Encoder:
        return Encoder(
            self.schema,
            style=self.style,
            scale=self.scale,
            basis=self.basis,
            knots=self.knots,
            intercept=self.intercept,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
