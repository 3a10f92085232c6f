"""Predictors over shards: their models as arrays, their law from its parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from reticent.ensembles import ClassifierEnsemble, RegressorEnsemble
from reticent.errors import InvalidParameterError, ModelFileError
from reticent.estimators import Columns
from reticent.guarantees import Certificate
from reticent.mechanisms import SystemSource
from reticent.prediction import (
    VOTE_RULES,
    AverageLabelLaw,
    AverageNumberLaw,
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
    ShardLaw,
    SumNoise,
    TableForm,
    TrainedShards,
    VoteRule,
    VotingLaw,
    label_noise,
)
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.fused import STORABLE, fusion_of, pack_ensemble
from reticent.storage.kinds import Packed, register_kind
from reticent.storage.pipelines import SKOPS, unpack_models

_SHARED = {"family", "frozen", "identity", "n_shards", "n_units", "scalars"}
_LABELLED = {"classes", "labels", "labels_from_data"}


class ShardedKind(ABC):
    """How a predictor over shards is stored: as its law, never as its parameters.

    A subclass names the predictor and the parameters of its law.
    """

    name: str
    predictor: ClassVar[type[Any]]
    settings: ClassVar[set[str]]

    @property
    def covers(self) -> str:
        """What can be stored, for messages."""
        return f"{self.predictor.__name__} over {STORABLE}"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a fitted predictor of this kind."""
        return isinstance(fitted, self.predictor)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        law: ShardLaw = fitted.law_
        models = pack_ensemble(law.ensemble, encoder.n_features)
        promised = law.certificate
        relation: Any = promised.relation
        facts = {
            "family": models.family,
            "frozen": promised.parameter("frozen", False),
            "identity": law.identity,
            "n_shards": law.n_shards,
            "n_units": relation.n,
            "scalars": models.scalars,
        }
        if law.classes is not None:
            facts["classes"] = law.classes.tolist()
            facts["labels_from_data"] = promised.parameter("labels_from_data")
        return Packed(facts | self._settings_of(law), models.arrays)

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> Any:
        """Return the predictor that was stored.

        Its certificate is derived again, from the parameters by which it draws.
        """
        given = packed.parameters
        labelled = "classes" in self.settings
        read.exactly(given, _SHARED | self.settings)
        classes = read.fitted_classes(encoder.schema, given) if labelled else None
        n_shards, n_columns = read.shards(given), encoder.n_features
        columns = Columns(n_columns, None)
        n_labels = None if classes is None else len(classes)
        models, held = _models(given, packed, n_shards, n_labels, n_columns)
        trained = TrainedShards(
            ensemble=(
                RegressorEnsemble(
                    models, columns, read.bounds_of(encoder.schema), **held
                )
                if classes is None
                else ClassifierEnsemble(models, columns, classes, **held)
            ),
            n_units=read.count(given, "n_units"),
            source=SystemSource(),
            # Every row that the encoder makes is answered, missing values included.
            form=TableForm.of_matrix(self.predictor, n_columns),
            classes=classes,
            labels_from_data=labelled and read.flag(given, "labels_from_data"),
            frozen=read.flag(given, "frozen"),
        )
        identity = read.identity(given)
        return self.predictor.from_law(self._law(trained, given, identity))

    @abstractmethod
    def _settings_of(self, law: Any) -> dict[str, Any]:
        """Return the parameters of a law."""

    @abstractmethod
    def _law(
        self, trained: TrainedShards, given: Mapping[str, Any], identity: str
    ) -> ShardLaw:
        """Return the law with these parameters."""


class VotingKind(ShardedKind):
    """How `PrivateVotingClassifier` is stored."""

    name = "voting"
    predictor = PrivateVotingClassifier
    settings: ClassVar[set[str]] = _LABELLED | {"parameter", "rule"}

    def _settings_of(self, law: VotingLaw) -> dict[str, Any]:
        return {"parameter": law.vote.parameter, "rule": law.vote.rule}

    def _law(
        self, trained: TrainedShards, given: Mapping[str, Any], identity: str
    ) -> VotingLaw:
        rule, parameter = given["rule"], read.number(given, "parameter")
        if rule not in VOTE_RULES:
            raise ModelFileError(
                f"parameter 'rule' must be one of {', '.join(VOTE_RULES)}."
            )
        if rule == "geometric" and trained.n_labels != 2:
            raise ModelFileError("rule='geometric' is for two labels.")
        return VotingLaw.of(trained, VoteRule(rule, parameter), identity=identity)


class AveragingClassifierKind(ShardedKind):
    """How `PrivateAveragingClassifier` is stored."""

    name = "averaging-classifier"
    predictor = PrivateAveragingClassifier
    settings: ClassVar[set[str]] = _LABELLED | {"delta", "epsilon"}

    def _settings_of(self, law: AverageLabelLaw) -> dict[str, Any]:
        return {"delta": law.delta, "epsilon": law.epsilon}

    def _law(
        self, trained: TrainedShards, given: Mapping[str, Any], identity: str
    ) -> AverageLabelLaw:
        sums = label_noise(
            trained.n_units, trained.n_labels, seeded=False, **_noise(given)
        )
        return AverageLabelLaw.of(
            trained,
            sums,
            probabilities=_gives_probabilities(trained.ensemble),
            identity=identity,
        )


class AveragingRegressorKind(ShardedKind):
    """How `PrivateAveragingRegressor` is stored."""

    name = "averaging-regressor"
    predictor = PrivateAveragingRegressor
    settings: ClassVar[set[str]] = {"delta", "epsilon"}

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart, if its bounds are those of the schema."""
        bounds, declared = fitted.law_.ensemble.bounds, read.bounds_of(encoder.schema)
        if bounds != declared:
            raise InvalidParameterError(
                f"bounds={bounds} of the model are not those of the schema's label, "
                f"{declared}. Fit with the label's."
            )
        return super().pack(fitted, encoder)

    def _settings_of(self, law: AverageNumberLaw) -> dict[str, Any]:
        return {"delta": law.delta, "epsilon": law.epsilon}

    def _law(
        self, trained: TrainedShards, given: Mapping[str, Any], identity: str
    ) -> AverageNumberLaw:
        sums = SumNoise.calibrated(trained.n_units, 1, seeded=False, **_noise(given))
        return AverageNumberLaw.of(trained, sums, identity=identity)


def _models(
    given: Mapping[str, Any],
    packed: Packed,
    n_shards: int,
    n_labels: int | None,
    n_features: int,
) -> tuple[list[Any], dict[str, Any]]:
    """Return the models of all shards, or none of them and their arrays."""
    if given["family"] == SKOPS:
        if given["scalars"] != {}:
            raise ModelFileError("parameter 'scalars' must be empty for such models.")
        models = unpack_models(packed.arrays, n_shards=n_shards, n_features=n_features)
        return models, {}
    fusion = fusion_of(
        given["family"],
        given["scalars"],
        packed.arrays,
        n_shards=n_shards,
        n_labels=n_labels,
        n_features=n_features,
    )
    return [None] * n_shards, {"fusion": fusion, "only_arrays": True}


def _gives_probabilities(ensemble: Any) -> bool:
    """Say whether models give probabilities, which is a fact about their kind."""
    if ensemble.fusion is not None:
        return bool(ensemble.fusion.models.gives_probabilities)
    present = [model for model in ensemble.models if model is not None]
    return bool(present) and hasattr(present[0], "predict_proba")


def _noise(given: Mapping[str, Any]) -> dict[str, float]:
    delta = read.number(given, "delta", above=-1.0)
    if not 0 <= delta < 1:
        raise ModelFileError("parameter 'delta' must lie in [0, 1).")
    return {"epsilon": read.number(given, "epsilon"), "delta": delta}


register_kind(VotingKind())
register_kind(AveragingClassifierKind())
register_kind(AveragingRegressorKind())
