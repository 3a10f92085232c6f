"""A model out of its directory: it answers validated rows, and shows nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError
from reticent.guarantees import Certificate, Scope
from reticent.schemas import Encoder, Schema, Table
from reticent.storage.kinds import Answerer
from reticent.storage.manifests import Dataset, Manifest


class StoredModel:
    """A private predictor, or a released model, loaded from a directory.

    Made by `load_model`; every answer draws fresh randomness from the operating
    system.

    Attributes
    ----------
    id : str
        Hash of the manifest, which pins everything: another model, another id.
    kind : str
        Which kind of model.
    dataset : Dataset
        Whose budget answers spend.
    schema : Schema
        The columns that rows must have.
    encoder : Encoder
        How they become a matrix.
    certificate : Certificate
        What one answer promises; if its scope is a model, what the release promised.
    classes : tuple or None
        The public labels, in the order of the columns of `votes`; None for numbers.
    n_units : int
        Number of privacy units; public.
    software : mapping of str to str
        Versions that the model was saved with.
    """

    def __init__(self, manifest: Manifest, digest: str, answerer: Answerer) -> None:
        self.id = digest
        self.kind = manifest.kind
        self.dataset: Dataset = manifest.dataset
        self.schema: Schema = manifest.schema
        self.encoder: Encoder = manifest.encoder
        self.certificate: Certificate[Any] = answerer.certificate
        self.classes = answerer.classes
        self.n_units = answerer.n_units
        self.parameters: Mapping[str, Any] = manifest.parameters
        self.software = manifest.software
        self._answerer = answerer

    @property
    def charged(self) -> bool:
        """Whether every answer costs; False if the model itself was released."""
        return self.certificate.scope is not Scope.MODEL

    @property
    def answerer(self) -> Answerer:
        """What answers encoded rows; as secret as the records."""
        return self._answerer

    def answer(self, table: Table) -> list[Any]:
        """Return one answer a row: a label as the schema spells it, or a number.

        m rows spend the certificate m times.
        """
        drawn: list[Any] = self.draw(table).tolist()
        if self.classes is None:
            return drawn
        return [self.classes[place] for place in drawn]

    def answer_json(self, table: Table) -> list[bytes]:
        """Return one answer a row, each as JSON."""
        return self.spelt(self.draw(table))

    def spelt(self, drawn: NDArray[Any]) -> list[bytes]:
        """Return what `draw` returned as JSON values."""
        if self.classes is None:
            return [repr(number).encode() for number in drawn.tolist()]
        labels = self._spelt_classes
        return [labels[place] for place in drawn.tolist()]

    def draw(self, table: Table) -> NDArray[Any]:
        """Return one answer a row: a place in `classes`, or a number."""
        return self._answerer.draw(self.encoder.transform(table))

    def votes(self, table: Table) -> NDArray[np.int64]:
        """Return how the shards vote, in the order of `classes`: for trusted eyes."""
        count = getattr(self._answerer, "votes", None)
        if count is None:
            raise InvalidParameterError(f"a model of kind={self.kind!r} has no votes.")
        counted: NDArray[np.int64] = count(self.encoder.transform(table))
        return counted

    def queries(self, table: Table) -> list[bytes]:
        """Return one canonical byte string a row, to recognise a query again.

        Rows that the schema validates to the same values are the same query.
        """
        numbers = table.numbers + 0.0
        numbers[np.isnan(numbers)] = np.nan  # one spelling of "missing"
        codes = table.codes.astype("<i4", copy=False)
        left, right = numbers.astype("<f8", copy=False).tobytes(), codes.tobytes()
        wide, narrow = 8 * numbers.shape[1], 4 * codes.shape[1]
        return [
            left[wide * row : wide * (row + 1)]
            + right[narrow * row : narrow * (row + 1)]
            for row in range(len(table))
        ]

    @cached_property
    def _spelt_classes(self) -> list[bytes]:
        return [json.dumps(label).encode() for label in self.classes or ()]

    def __repr__(self) -> str:
        return f"StoredModel(kind={self.kind!r}, id={self.id!r})"

    def __reduce__(self) -> Any:
        raise InvalidParameterError(
            "a stored model is not pickled; load it from its directory."
        )


def manifest_id(manifest: bytes) -> str:
    """Return the id of the model that a manifest describes."""
    return hashlib.sha256(manifest).hexdigest()[:32]
