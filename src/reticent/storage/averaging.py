"""Stored averages: shards as arrays, and the noise that their sums carry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.ensembles import OUTPUT_STEPS, RegressorEnsemble
from reticent.errors import InvalidParameterError, ModelFileError
from reticent.guarantees import Certificate
from reticent.mechanisms import SystemSource, average_vote, average_vote_certificate
from reticent.prediction import (
    BoundedAnswers,
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    over_shards,
    sum_noise,
)
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.fused import STORABLE, fusion_of, pack_ensemble, regressors_of
from reticent.storage.kinds import Packed, register_kind
from reticent.storage.voting import Ballots

_SHARED = {"delta", "epsilon", "family", "frozen", "n_shards", "n_units", "scalars"}


class AveragedLabels:
    """A stored `PrivateAveragingClassifier`, answering with labels."""

    def __init__(
        self,
        ballots: Ballots,
        *,
        epsilon: float,
        delta: float,
        classes: tuple[Any, ...],
        n_units: int,
        n_shards: int,
        labels_from_data: bool,
        frozen: bool,
    ) -> None:
        self.classes: tuple[Any, ...] | None = classes
        self.n_units = n_units
        self.votes = ballots.votes
        self._epsilon = epsilon
        self._source = SystemSource()
        if len(classes) == 2:
            promised: Certificate[Any] = average_vote_certificate(
                n=n_units, voters=n_shards, epsilon=epsilon
            )
        else:
            self._noise, promised = sum_noise(
                n_units, len(classes), epsilon, delta, False
            )
        self.certificate: Certificate[Any] = over_shards(
            promised,
            shards=n_shards,
            labels_from_data=labels_from_data,
            seeded=False,
            frozen=frozen,
        )

    def draw(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw the place of one private label a row, with fresh randomness."""
        votes = self.votes(X)
        if votes.shape[1] == 2:
            return average_vote(votes, self._epsilon).draw(self._source)
        noisy = self._noise.response(votes * float(OUTPUT_STEPS)).draw(self._source)
        return np.asarray(noisy.argmax(axis=1))


class AveragedNumbers:
    """A stored `PrivateAveragingRegressor`."""

    classes: tuple[Any, ...] | None = None

    def __init__(
        self,
        ensemble: RegressorEnsemble,
        *,
        epsilon: float,
        delta: float,
        n_units: int,
        frozen: bool,
    ) -> None:
        self.n_units = n_units
        self._ensemble = ensemble
        self._source = SystemSource()
        self._noise, promised = sum_noise(n_units, 1, epsilon, delta, False)
        self.certificate: Certificate[Any] = over_shards(
            promised,
            shards=ensemble.n_shards,
            labels_from_data=False,
            seeded=False,
            frozen=frozen,
        )

    def response(self, X: NDArray[np.float64]) -> BoundedAnswers:
        """Return the exact law of the answers before clipping: for trusted eyes."""
        sums = self._ensemble.output_sums(X).astype(float)
        low, high = self._ensemble.bounds
        unit = (high - low) / (self._ensemble.n_shards * OUTPUT_STEPS)
        return BoundedAnswers(self._noise.response(sums), low, unit, high)

    def draw(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Draw one private number a row, with fresh randomness."""
        return self.response(X).draw(self._source)


class AveragingClassifierKind:
    """How `PrivateAveragingClassifier` is stored."""

    name = "averaging-classifier"
    covers = f"PrivateAveragingClassifier over {STORABLE}"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a fitted averaging classifier."""
        return isinstance(fitted, PrivateAveragingClassifier)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        shared, arrays = _packed(fitted, encoder)
        classes = np.asarray(fitted.law_.classes).tolist()
        public = fitted.law_.certificate.parameter("labels_from_data")
        return Packed(
            {**shared, "classes": classes, "labels_from_data": public}, arrays
        )

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> AveragedLabels:
        """Put it together."""
        given = packed.parameters
        read.exactly(given, {*_SHARED, "classes", "labels_from_data"})
        classes = read.stored_labels(encoder.schema, given["classes"])
        n_shards = read.shards(given)
        fusion = fusion_of(
            given["family"],
            given["scalars"],
            packed.arrays,
            n_shards=n_shards,
            n_labels=len(classes),
            n_features=encoder.n_features,
        )
        return AveragedLabels(
            Ballots(fusion, n_shards, len(classes)),
            epsilon=read.number(given, "epsilon"),
            delta=_delta(given),
            classes=classes,
            n_units=read.count(given, "n_units"),
            n_shards=n_shards,
            labels_from_data=read.flag(given, "labels_from_data"),
            frozen=read.flag(given, "frozen"),
        )


class AveragingRegressorKind:
    """How `PrivateAveragingRegressor` is stored."""

    name = "averaging-regressor"
    covers = f"PrivateAveragingRegressor over {STORABLE}"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a fitted averaging regressor."""
        return isinstance(fitted, PrivateAveragingRegressor)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        bounds = fitted.law_.ensemble.bounds
        if bounds != read.bounds_of(encoder.schema):
            raise InvalidParameterError(
                f"bounds={bounds} of the model are not those of the "
                f"schema's label, {read.bounds_of(encoder.schema)}. Fit with these."
            )
        return Packed(*_packed(fitted, encoder))

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> AveragedNumbers:
        """Put it together."""
        given = packed.parameters
        read.exactly(given, _SHARED)
        n_shards = read.shards(given)
        fusion = fusion_of(
            given["family"],
            given["scalars"],
            packed.arrays,
            n_shards=n_shards,
            n_labels=None,
            n_features=encoder.n_features,
        )
        ensemble = regressors_of(
            fusion,
            read.bounds_of(encoder.schema),
            n_shards=n_shards,
            n_features=encoder.n_features,
        )
        return AveragedNumbers(
            ensemble,
            epsilon=read.number(given, "epsilon"),
            delta=_delta(given),
            n_units=read.count(given, "n_units"),
            frozen=read.flag(given, "frozen"),
        )


def _packed(fitted: Any, encoder: Encoder) -> tuple[dict[str, Any], dict[str, Any]]:
    law = fitted.law_
    models = pack_ensemble(law.ensemble, encoder.n_features)
    shared = {
        "delta": law.delta,
        "epsilon": law.epsilon,
        "family": models.family,
        "frozen": law.certificate.parameter("frozen", False),
        "n_shards": law.n_shards,
        "n_units": law.certificate.relation.n,
        "scalars": models.scalars,
    }
    return shared, models.arrays


def _delta(given: Any) -> float:
    delta = read.number(given, "delta", above=-1.0)
    if not 0 <= delta < 1:
        raise ModelFileError("parameter 'delta' must lie in [0, 1).")
    return delta


register_kind(AveragingClassifierKind())
register_kind(AveragingRegressorKind())
