"""Consensus of shards on many queries, and answers of one stable linear model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent.estimators import row_bound
from reticent.guarantees import ApproxDP
from reticent.mechanisms import consensus_margin, sparse_scale
from reticent.planning import bounds, curves, prices
from reticent.planning.asking import excess_of
from reticent.planning.facts import Facts
from reticent.planning.option import LOSS, Sketch
from reticent.planning.planned_method import PlannedMethod, shard_model
from reticent.planning.releasing import encoded
from reticent.prediction import (
    PrivateVotingClassifier,
    StableLinearClassifier,
    shards_for_consensus,
)

# For fewer queries plain answers cost less.
_FEW_QUERIES = 50


class ConsensusMethod(PlannedMethod):
    """Thousands of easy queries for one price, while shards agree (P9)."""

    key = "consensus-trees"
    job = "ask"
    title = "ask: consensus of boosted trees on many shards"
    estimator = "reticent.prediction.ConsensusInterface"
    _share = 0.3  # of the budget for votes in doubt, the same as in the interface
    _doubts = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)

    def sketch(self, facts: Facts) -> Sketch | None:
        """Find the number of doubtful answers to allow, and of shards."""
        if not (facts.limited and facts.classifies and facts.delta > 0):
            return None
        if facts.queries < _FEW_QUERIES:
            return None
        tried = [
            found
            for unstable in self._doubts
            # Queries that no model learns stay in doubt with any number of shards.
            if facts.queries * facts.flexible_error <= unstable
            for found in self._errors(facts, unstable)
        ]
        if not tried:
            return None
        error, unstable, shards = min(tried)
        settings = {
            "n_shards": shards,
            "labels": facts.labels,
            "queries": int(facts.queries),
            "unstable": unstable,
            "budget": {"epsilon": facts.epsilon, "delta": facts.delta},
        }
        return Sketch(
            settings,
            estimate=error,
            reason=f"{shards} shards of {facts.n // shards} rows; at most {unstable} "
            f"of {int(facts.queries)} answers in doubt",
        )

    def _errors(self, facts: Facts, unstable: int) -> list[tuple[float, int, int]]:
        """Return expected errors for shards that keep doubtful answers few enough."""
        epsilon = (1 - self._share) * facts.epsilon
        scale = sparse_scale(epsilon, unstable)
        margin = consensus_margin(
            epsilon=epsilon,
            delta=facts.delta / 2,
            unstable=unstable,
            queries=int(facts.queries),
        )
        least = shards_for_consensus(margin, epsilon=epsilon, unstable=unstable)
        most = min(facts.units, facts.n // curves.FEWEST_ROWS)
        found = []
        for shards in curves.SHARDS:
            if not least <= shards <= most:
                continue
            wrong, doubt = _consensus_error(facts, shards, margin, scale)
            expected = facts.queries * doubt
            if expected + 3 * math.sqrt(expected) <= unstable:
                found.append((wrong, unstable, shards))
        return found

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the budget: all of it is spent."""
        return ApproxDP(facts.epsilon, facts.delta), "P9"

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the voters; wrap them, once fitted, in a `ConsensusInterface`."""
        return PrivateVotingClassifier(
            **{
                "estimator": shard_model("trees", "classification", schema),
                "epsilon": settings["budget"]["epsilon"],
                "classes": list(range(settings["labels"])),
                "n_shards": settings["n_shards"],
                "rule": "soft",
                **changes,
            }
        )


def _consensus_error(
    facts: Facts, shards: int, margin: int, scale: float
) -> tuple[float, float]:
    """Return the expected error, and the share of queries in doubt.

    All queries on which models err even with unlimited data count as in doubt.
    """
    limit = facts.flexible_error
    excess = excess_of(facts, limit, facts.n // shards)
    weights = curves.vote_weights(shards, 0.0, excess / (1 - limit))
    votes = np.arange(shards + 1)
    lead = np.maximum(0, np.ceil(np.abs(2 * votes - shards) / 2) - 1)
    doubt = limit + (1 - limit) * float(weights @ _fails(margin - lead, scale))
    wrong = limit + (1 - limit) * float(weights[votes < shards / 2].sum())
    return min(facts.chance_error, wrong + doubt / 2), doubt


def _fails(distance: Any, scale: float) -> Any:
    """Return the probability that noise of scales s and 2 s keeps a query in doubt."""
    far = np.abs(distance)
    tail = (4 * np.exp(-far / (2 * scale)) - np.exp(-far / scale)) / 6
    return np.where(distance >= 0, 1 - tail, tail)


class StableLinearMethod(PlannedMethod):
    """A linear model so stable that a little noise hides any unit (P3)."""

    key = "stable-linear"
    job = "ask"
    title = "ask: stable linear model, noise on each score"
    estimator = "reticent.prediction.StableLinearClassifier"
    _radius, _tolerance = 3.0, 1e-3
    # Measured: excess error per root of the effective number of units.
    _excess = 3.0

    def sketch(self, facts: Facts) -> Sketch | None:
        """Calibrate noise for one answer; two labels only."""
        if not (facts.limited and facts.labels == 2 and facts.classifies):
            return None
        step, delta = prices.epsilon_by_sum(facts), 0.0
        worth = step
        epsilon, ratio = prices.gaussian_noise(facts)
        if math.sqrt(2) * ratio > step:
            step, delta, worth = epsilon, facts.delta, math.sqrt(2) * ratio
        excess = self._excess / math.sqrt(facts.units * worth / (1 + worth))
        settings = {
            "epsilon": step,
            "delta": delta,
            "radius": self._radius,
            "tolerance": self._tolerance,
        }
        return Sketch(
            settings,
            estimate=curves.noisy_error(facts.linear_error, facts.chance_error, excess),
            bound=self.proved(facts, settings),
            bound_on=LOSS,
            bound_says="expected smooth hinge loss of a noisy score, above the best in "
            "the ball, for rows scaled to norm 1; S1 Cor. 4.11",
            reason="no shards; one regularised model",
        )

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float | None:
        """Return S1 Cor. 4.11, which is about Laplace noise."""
        if settings["delta"]:
            return None
        # The hinge has slope one; rows have an additional constant.
        return bounds.erm_excess_loss(
            row_bound(True),
            settings["radius"],
            facts.units,
            settings["epsilon"],
            settings["tolerance"],
        )

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Add up epsilons, or state the budget that Gaussian noise was set for."""
        delta = sketch.settings["delta"]
        return prices.whole_budget(facts, delta, "G22-zcdp" if delta else "G22-basic")

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the stable classifier, with an encoder in front of it."""
        return encoded(
            StableLinearClassifier,
            {"classes": [0, 1], **settings, **changes},
            schema,
            "linear",
        )
