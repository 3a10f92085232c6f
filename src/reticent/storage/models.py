"""A model out of its directory: the fitted predictor, with its schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from reticent._arrays import Ints
from reticent.errors import (
    InvalidDataError,
    InvalidParameterError,
    NotDeployableError,
)
from reticent.guarantees import Budget, Certificate, Scope
from reticent.ledger import Ledger
from reticent.prediction import (
    AnswerLaw,
    LastingLaw,
    PredictionInterface,
    ShardLaw,
    law_of,
    total_key,
)
from reticent.schemas import Encoder, PackedRows, Schema, Table
from reticent.storage.kinds import FittedPredictor
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
    predictor : fitted predictor
        What was stored: it answers encoded rows. As secret as the records, unless it
        was released. `interface` answers by it under a budget. Fitting it again
        changes neither the answers of this object nor their certificate.
    certificate : Certificate
        What one answer promises; if its scope is a model, what the release promised;
        if it is an interface, what all answers together promise.
    classes : tuple or None
        The public labels as the schema has them, in the order of the columns of
        `votes`; None for numbers.
    n_units : int
        Number of privacy units; public.
    software : mapping of str to str
        Versions that the model was saved with.
    expectation : ReleaseExpectation or None
        What a release was expected to be worth, from public facts.
    """

    def __init__(self, manifest: Manifest, predictor: FittedPredictor) -> None:
        self.id = manifest.id
        self.kind = manifest.kind
        self.dataset: Dataset = manifest.dataset
        self.schema: Schema = manifest.schema
        self.encoder: Encoder = manifest.encoder
        self.software = manifest.software
        self.expectation = manifest.expectation
        if manifest.expectation is not None:
            known: Any = predictor  # as it was when it was fitted
            known.expectation_ = manifest.expectation
        self.predictor = predictor
        self.certificate: Certificate[Any] = predictor.certificate_
        # Bound now: answers are drawn from the law that the certificate is about.
        released = self.certificate.scope is Scope.MODEL
        self._law: AnswerLaw | None = None if released else law_of(predictor)
        #: The law of answers that one total covers; None for other models.
        self.lasting: LastingLaw | None = (
            self._law if isinstance(self._law, LastingLaw) else None
        )
        self.n_units: int = predictor.n_units_
        listed = manifest.parameters.get("classes")
        self.classes: tuple[Any, ...] | None = None if listed is None else tuple(listed)

    @property
    def charged(self) -> bool:
        """Whether every answer costs; False if the model, or its total, was charged."""
        return self._law is not None and self.lasting is None

    def check_released(self) -> None:
        """Refuse to let a model leave that was not released as a whole."""
        if self.certificate.scope is not Scope.MODEL:
            raise InvalidParameterError(
                f"a model of kind={self.kind!r} is not released as a whole, so it is "
                "as secret as the records. Release one: 'reticent fit --release'."
            )

    def answer(self, table: Table) -> list[Any]:
        """Return one answer per row: a label as the schema has it, or a number.

        m rows spend the certificate m times.
        """
        return self._labelled(self._predicted(table), self.classes or ())

    def answer_json(self, table: Table) -> list[bytes]:
        """Return one answer per row, each as JSON."""
        return self.as_json(self._predicted(table))

    def as_json(self, answers: NDArray[Any]) -> list[bytes]:
        """Return answers of the predictor, or of an interface on it, as JSON values."""
        if self.classes is None:
            return [repr(number).encode() for number in answers.tolist()]
        return self._labelled(answers, self._classes_json)

    def votes(self, table: Table) -> Ints:
        """Return how the shards vote, in the order of `classes`: not private."""
        law = self._law
        if not isinstance(law, ShardLaw) or law.classes is None:
            raise InvalidParameterError(f"a model of kind={self.kind!r} has no votes.")
        return law.votes(self.encoder.transform(table))

    def interface(
        self, budget: Budget, *, ledger: Ledger | None = None
    ) -> PredictionInterface:
        """Return an interface for encoded rows that charges this model's dataset.

        A model whose answers last needs the ledger in which its total was charged.
        """
        if self.lasting is not None:
            key = total_key(self.lasting.identity)
            if ledger is None or not ledger.charged(key):
                raise NotDeployableError(
                    "the total of this model was not charged in this ledger, so its "
                    "earlier answers are not known here. Give the ledger that "
                    "reticent.home.charge_release was called with."
                )
        return PredictionInterface(
            self.predictor, budget, ledger=ledger, dataset=self.dataset.name
        )

    def queries(self, table: Table | PackedRows) -> list[bytes]:
        """Return one canonical byte string per row, to recognise a query again.

        Rows that the schema validates to the same values are the same query.
        """
        if isinstance(table, PackedRows):
            return table.queries()
        numbers = table.numbers + 0.0
        # Rows come one by one, and for a few numbers Python is quicker than NumPy.
        total = sum(numbers.ravel().tolist()) if numbers.size < 64 else numbers.sum()
        if total != total:  # there is a NaN, or the sum overflows
            numbers[np.isnan(numbers)] = np.nan  # one form of "missing"
        codes = table.codes.astype("<i4", copy=False)
        left, right = numbers.astype("<f8", copy=False).tobytes(), codes.tobytes()
        wide, narrow = 8 * numbers.shape[1], 4 * codes.shape[1]
        return [
            left[wide * row : wide * (row + 1)]
            + right[narrow * row : narrow * (row + 1)]
            for row in range(len(numbers))
        ]

    def _predicted(self, table: Table) -> NDArray[Any]:
        rows = self.encoder.transform(table)
        if not self._knows_missing and np.isnan(rows).any():
            raise InvalidDataError(
                "the released model takes no missing values; give every value."
            )
        if self.lasting is not None:
            raise NotDeployableError(
                "a model whose answers last answers through the ledger that was "
                "charged its total: use interface(), 'reticent predict' or "
                "'reticent serve'."
            )
        if self._law is not None:
            return self._law.draw(rows)
        return np.asarray(self.predictor.predict(rows))

    @cached_property
    def _knows_missing(self) -> bool:
        """Whether rows may have missing values: by a law, or as the model says."""
        if self._law is not None:
            return True
        return bool(get_tags(self.predictor).input_tags.allow_nan)

    def _labelled(self, answers: NDArray[Any], names: Sequence[Any]) -> list[Any]:
        """Return what stands for each answer in a list that goes by `classes`."""
        plain: list[Any] = answers.tolist()
        if self.classes is None:
            return plain
        return [names[self._places[answer]] for answer in plain]

    @cached_property
    def _places(self) -> dict[Any, int]:
        """The place of each label that the predictor answers with."""
        known: NDArray[Any] | None = getattr(self.predictor, "classes_", None)
        if self._law is not None:
            known = self._law.classes
        labels = [] if known is None else known.tolist()
        return {label: place for place, label in enumerate(labels)}

    @cached_property
    def _classes_json(self) -> list[bytes]:
        return [json.dumps(label).encode() for label in self.classes or ()]

    def __repr__(self) -> str:
        return f"StoredModel(kind={self.kind!r}, id={self.id!r})"

    def __reduce__(self) -> Any:
        raise InvalidParameterError(
            "a stored model is not pickled; load it from its directory."
        )
