"""Stored votes: shards as arrays, and the rule that draws a label from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.ensembles import Fusion
from reticent.errors import ModelFileError
from reticent.estimators import fixed_ballots
from reticent.guarantees import Certificate
from reticent.mechanisms import SystemSource
from reticent.prediction import (
    RULES,
    PrivateVotingClassifier,
    Vote,
    VotingLaw,
    over_shards,
)
from reticent.schemas import Encoder
from reticent.storage import parameters as read
from reticent.storage.fused import STORABLE, fusion_of, pack_ensemble
from reticent.storage.kinds import Packed, register_kind

_NAMES = {
    "classes",
    "family",
    "frozen",
    "n_shards",
    "n_units",
    "parameter",
    "labels_from_data",
    "rule",
    "scalars",
}


class Ballots:
    """The votes of all shards on encoded rows, by arrays alone.

    A shard whose model could not be fitted casts its fixed vote, and so does every
    shard on a row that no model takes.
    """

    def __init__(self, fusion: Fusion, n_shards: int, n_labels: int) -> None:
        self._fusion = fusion
        self._n_labels = n_labels
        fixed = fixed_ballots(n_shards, n_labels)
        absent = np.setdiff1d(np.arange(n_shards), fusion.shards)
        self._absent = np.bincount(fixed[absent], minlength=n_labels)
        self._fixed = np.bincount(fixed, minlength=n_labels)

    def votes(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the shards that vote for each label, one row a query."""
        encoded = self._fusion.encode(X)
        models = self._fusion.models
        counts, (rows, places) = models.tally(encoded, self._n_labels)
        if len(rows):
            ballots = models.settle(encoded.values, rows, places)
            np.add.at(counts, (rows, ballots), 1)
        counts += self._absent
        if len(counts) == len(X):
            return counts
        everyone = np.tile(self._fixed, (len(X), 1))
        everyone[encoded.rows] = counts
        return everyone


class VotingAnswers:
    """A stored `PrivateVotingClassifier`."""

    def __init__(
        self,
        ballots: Ballots,
        vote: Vote,
        *,
        classes: tuple[Any, ...],
        n_units: int,
        n_shards: int,
        labels_from_data: bool,
        frozen: bool,
    ) -> None:
        self.classes: tuple[Any, ...] | None = classes
        self.n_units = n_units
        self.n_shards = n_shards
        self.labels_from_data = labels_from_data
        self.frozen = frozen
        self.votes = ballots.votes
        self._vote = vote
        self._source = SystemSource()
        self.certificate: Certificate[Any] = over_shards(
            vote.certificate(n_units),
            shards=n_shards,
            labels_from_data=labels_from_data,
            seeded=False,
            frozen=frozen,
        )

    def draw(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Draw the place of one private label a row, with fresh randomness."""
        return self._vote.response(self.votes(X)).draw(self._source)


class VotingKind:
    """How `PrivateVotingClassifier` is stored."""

    name = "voting"
    covers = f"PrivateVotingClassifier over {STORABLE}"

    def fits(self, fitted: Any) -> bool:
        """Return whether this is a fitted voting classifier."""
        return isinstance(fitted, PrivateVotingClassifier)

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take it apart."""
        law: VotingLaw = fitted.law_
        models = pack_ensemble(law.ensemble, encoder.n_features)
        promised = law.certificate
        relation: Any = promised.relation
        return Packed(
            {
                "classes": np.asarray(law.classes).tolist(),
                "family": models.family,
                "n_shards": promised.parameter("shards"),
                "n_units": relation.n,
                "parameter": law.vote.parameter,
                "labels_from_data": promised.parameter("labels_from_data"),
                "frozen": promised.parameter("frozen", False),
                "rule": law.vote.rule,
                "scalars": models.scalars,
            },
            models.arrays,
        )

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> VotingAnswers:
        """Put it together."""
        given = packed.parameters
        read.exactly(given, _NAMES)
        if given["rule"] not in RULES:
            raise ModelFileError(f"parameter 'rule' must be one of {', '.join(RULES)}.")
        parameter = read.number(given, "parameter")
        classes = read.stored_labels(encoder.schema, given["classes"])
        if given["rule"] == "geometric" and len(classes) != 2:
            raise ModelFileError("rule='geometric' is for two labels.")
        n_shards = read.shards(given)
        fusion = fusion_of(
            given["family"],
            given["scalars"],
            packed.arrays,
            n_shards=n_shards,
            n_labels=len(classes),
            n_features=encoder.n_features,
        )
        return VotingAnswers(
            Ballots(fusion, n_shards, len(classes)),
            Vote(given["rule"], parameter, parameter),
            classes=classes,
            n_units=read.count(given, "n_units"),
            n_shards=n_shards,
            labels_from_data=read.flag(given, "labels_from_data"),
            frozen=read.flag(given, "frozen"),
        )


register_kind(VotingKind())
