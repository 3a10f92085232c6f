"""Methods that keep the model and answer queries by votes and averages."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import shown_down
from reticent.mechanisms import average_vote_certificate, soft_vote_certificate
from reticent.mechanisms import geometric_vote_certificate as geometric_certificate
from reticent.mechanisms import (
    permute_and_flip_vote_certificate as permute_and_flip_certificate,
)
from reticent.planning import curves, prices
from reticent.planning.facts import Facts
from reticent.planning.option import Sketch
from reticent.planning.planned_method import PlannedMethod, shard_model
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)

_CERTIFY: dict[str, Any] = {
    "soft": soft_vote_certificate,
    "geometric": geometric_certificate,
    "permute-and-flip": permute_and_flip_certificate,
}
_WHAT = {"trees": "boosted trees", "linear": "linear models"}
_LEARNERS = {"trees": "boosting", "linear": "linear"}  # their names in `reticent fit`


def limit_of(facts: Facts, learner: str) -> float:
    """Return the error that such a model reaches with unlimited data."""
    return facts.flexible_error if learner == "trees" else facts.linear_error


def excess_of(facts: Facts, limit: float, rows: float) -> float:
    """Return the error above its limit of a model trained on `rows` rows."""
    room = facts.chance_error - limit
    return curves.learning_excess(rows, facts.learning_exponent, room)


class VoteMethod(PlannedMethod):
    """Votes of models on disjoint shards (P1)."""

    job = "ask"
    estimator = "reticent.prediction.PrivateVotingClassifier"

    def __init__(self, learner: str) -> None:
        self.learner = learner
        self.key = f"vote-{learner}"
        self.title = f"ask: votes of {_WHAT[learner]} on shards"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Try both kinds of composition, each with its best number of shards."""
        if not (facts.limited and facts.classifies):
            return None
        pure = "geometric" if facts.labels == 2 else "permute-and-flip"
        ways = [(pure, prices.epsilon_by_sum(facts), 0.0)]
        if facts.delta > 0:
            ways.append(("soft", prices.epsilon_by_zcdp(facts, 1 / 8), facts.delta))
        tried = [
            (self._best(facts, rule, step), rule, step, d) for rule, step, d in ways
        ]
        (error, shards), rule, step, delta = min(tried)
        settings = {
            "learner": self.learner,
            "labels": facts.labels,
            "rule": rule,
            "epsilon": step,
            "n_shards": shards,
            "budget": {"epsilon": facts.epsilon, "delta": delta},
        }
        return Sketch(
            settings,
            estimate=error,
            bound_says="none: S1 Thm 4.1 is about learners that fit their shard "
            f"without error, which {_WHAT[self.learner]} need not",
            reason=f"{shards} shards of {facts.n // shards} rows, each answer "
            f"{step:.3g}-DP by the {rule} rule",
        )

    def _best(self, facts: Facts, rule: str, step: float) -> tuple[float, int]:
        limit = limit_of(facts, self.learner)

        def error(shards: int, rows: int) -> float:
            excess = excess_of(facts, limit, max(1, rows))
            weights = curves.vote_weights(shards, limit, excess)
            right = (
                curves.geometric_right(shards, step)
                if rule == "geometric"
                else curves.soft_right(shards, step, facts.labels)
            )
            return float(1 - weights @ right)

        shards, found = curves.best_shards(facts.n, facts.units, error)
        return found, shards

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Compose the rule's certificate."""
        settings = sketch.settings
        return prices.total_price(
            facts,
            lambda: _CERTIFY[settings["rule"]](
                n=facts.units, epsilon=settings["epsilon"]
            ),
            basic=settings["budget"]["delta"] == 0,
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the voting classifier."""
        return PrivateVotingClassifier(
            **{
                "estimator": shard_model(settings["learner"], "classification", schema),
                "epsilon": settings["epsilon"],
                "classes": list(range(settings["labels"])),
                "n_shards": settings["n_shards"],
                "rule": settings["rule"],
                **changes,
            }
        )

    def command(self, facts: Facts, sketch: Sketch) -> str | None:
        """Return the call of ``reticent fit``."""
        settings = sketch.settings
        return (
            "reticent fit DATA.csv --schema SCHEMA.json "
            f"--learner {_LEARNERS[self.learner]} --shards {settings['n_shards']} "
            f"--epsilon {shown_down(settings['epsilon'])} --budget {facts.epsilon!r} "
            f"--delta {settings['budget']['delta']!r}"
        )


class AverageMethod(PlannedMethod):
    """A label drawn from the noisy average vote of shards (P2)."""

    key = "average-trees"
    job = "ask"
    title = "ask: a label drawn from the shards' average"
    estimator = "reticent.prediction.PrivateAveragingClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Find the number of shards; two labels only."""
        if not (facts.limited and facts.labels == 2 and facts.classifies):
            return None
        basic = prices.epsilon_by_sum(facts)
        step = max(basic, prices.epsilon_by_zcdp(facts, 1 / 2))
        limit = facts.flexible_error

        def error(shards: int, rows: int) -> float:
            excess = excess_of(facts, limit, max(1, rows))
            weights = curves.vote_weights(shards, limit, excess)
            return float(1 - weights @ curves.average_right(shards, step))

        shards, found = curves.best_shards(facts.n, facts.units, error)
        return Sketch(
            {
                "epsilon": step,
                "n_shards": shards,
                "labels": 2,
                "basic": step == basic,
            },
            estimate=found,
            bound_says="none: S1 Cor. 4.7 is about learners that make the fewest "
            f"mistakes on their shard, which {_WHAT['trees']} need not",
            reason=f"{shards} shards of {facts.n // shards} rows",
        )

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Compose the exact loss of one drawn label."""
        settings = sketch.settings
        return prices.total_price(
            facts,
            lambda: average_vote_certificate(
                n=facts.units,
                voters=settings["n_shards"],
                epsilon=settings["epsilon"],
            ),
            basic=settings["basic"],
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the averaging classifier."""
        return PrivateAveragingClassifier(
            **{
                "estimator": shard_model("trees", "classification", schema),
                "epsilon": settings["epsilon"],
                "classes": list(range(settings["labels"])),
                "n_shards": settings["n_shards"],
                **changes,
            }
        )


class AverageRegressionMethod(PlannedMethod):
    """The noisy average of regressors on disjoint shards (P2)."""

    key = "average-numbers"
    job = "ask"
    title = "ask: noisy average of boosted trees on shards"
    estimator = "reticent.prediction.PrivateAveragingRegressor"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Choose shards: more of them mean less noise but fewer rows per shard."""
        if facts.classifies or not facts.limited:
            return None
        step, delta = prices.epsilon_by_sum(facts), 0.0
        noise = math.sqrt(2) / step
        epsilon, ratio = prices.gaussian_noise(facts)
        if ratio * noise > 1:
            step, delta, noise = epsilon, facts.delta, 1 / ratio
        limit = facts.flexible_error

        def error(shards: int, rows: int) -> float:
            excess = excess_of(facts, limit, max(1, rows))
            return min(facts.chance_error, math.hypot(limit + excess, noise / shards))

        shards, found = curves.best_shards(facts.n, facts.units, error)
        return Sketch(
            {"epsilon": step, "delta": delta, "n_shards": shards},
            estimate=found,
            reason=f"{shards} shards of {facts.n // shards} rows",
        )

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Add up epsilons, or state the budget that Gaussian noise was set for."""
        delta = sketch.settings["delta"]
        return prices.whole_budget(facts, delta, "G22-zcdp" if delta else "G22-basic")

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the averaging regressor; `bounds` of the target must be given."""
        return PrivateAveragingRegressor(
            **{
                "estimator": shard_model("trees", "regression", schema),
                **settings,
                **changes,
            }
        )
