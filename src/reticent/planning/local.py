"""Unlimited local answers, for which each unit pays by itself (P10)."""

from __future__ import annotations

import math
from typing import Any

from sklearn.pipeline import make_pipeline

from reticent.estimators import RoundBudget
from reticent.guarantees import gaussian_ratio
from reticent.planning import curves, prices
from reticent.planning.asking import excess_of
from reticent.planning.facts import Facts
from reticent.planning.option import Sketch
from reticent.planning.planned_method import PlannedMethod
from reticent.prediction import PrivateNeighborsClassifier, PrivateNeighborsRegressor
from reticent.schemas import SchemaEncoder

_FEWEST_UNITS = 20
# Units that a question reaches, as many as are tried.
_REACHED = tuple(10 * 1.25**k for k in range(40))
# As the predictor's defaults: the part of a unit's budget that questions may use, the
# sizes of usual votes for labels and numbers, and the mean weight of those that vote.
_LEFT, _LABEL, _NUMBER, _WEIGHT = 0.75, 0.5, 0.25, 1 / 3


class LocalMethod(PlannedMethod):
    """Units near a question answer it, each from a budget of its own."""

    key = "neighbors"
    job = "ask"
    title = "ask: units near the question, each with its own budget"
    estimator = "reticent.prediction.PrivateNeighborsClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Take the better of local votes and of the model that is released first."""
        if not (facts.limited and facts.delta > 0 and facts.units >= _FEWEST_UNITS):
            return None
        budget = RoundBudget(gaussian_ratio(facts.epsilon, facts.delta))
        if not budget.cap > 0:  # a delta too small for any noise
            return None
        reached, local = min(
            ((k, self._local(facts, budget, k)) for k in _REACHED),
            key=lambda pair: pair[1],
        )
        settings = {
            "task": facts.task,
            "epsilon": facts.epsilon,
            "delta": facts.delta,
            "labels": facts.labels,
            "questions": int(facts.queries),
        }
        asks = self.build(settings, None, {}).local_questions(facts.units)
        estimate = self._released(facts, budget)
        how = "too few units are near a question; a released model answers"
        if asks == settings["questions"]:
            how = "few units are near a question; the model that is released first "
            how += "answers most"
            if local < estimate:
                estimate, how = local, f"about {reached:.0f} units vote on a question"
        return Sketch(
            settings,
            estimate=estimate,
            bound_says="none: no theorem says how local a table is",
            reason=f"{how}; nobody is refused",
        )

    def _local(self, facts: Facts, budget: RoundBudget, reached: float) -> float:
        """Return the error of votes of the nearest units, with their noise.

        Those who are near stand for one row each, so that a vote of `reached` units
        knows what a model of ``n / reached`` rows knows. Where labels are equally sure
        and unsure, noise in a rate flips answers as often as its variance.
        """
        if reached > max(facts.units / 50, _REACHED[0]):
            return 1.0
        many = facts.labels > 2
        vote = 1.0 if many else _LABEL if facts.classifies else _NUMBER
        left = math.sqrt(_LEFT * budget.cap / budget.weight(acute=many))
        times = facts.queries * reached / facts.units
        noise = max(1.1, 0.85 * math.sqrt(times)) * vote / (left * _WEIGHT * reached)
        limit = facts.flexible_error
        known = limit + excess_of(facts, limit, max(1.0, facts.n / reached))
        if facts.classifies:
            return curves.noisy_error(
                limit, facts.chance_error, known - limit + noise**2
            )
        # Residuals lie between -1 and 1, twice as wide as the target's range.
        return min(facts.chance_error, math.hypot(known, noise / 2))

    def _released(self, facts: Facts, budget: RoundBudget) -> float:
        """Return the error of an additive model with a share of the budget."""
        share = min(max(math.sqrt(6_000 / (facts.units * budget.mu)), 0.3), 0.9)
        columns = facts.spline_columns * max(1, facts.labels - 1)
        noise = 2 * math.sqrt(columns / share) / (facts.units * budget.mu)
        limit = facts.additive_error
        learning = excess_of(facts, limit, facts.n)
        return curves.noisy_error(limit, facts.chance_error, learning + noise)

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the budget: it covers all answers, however many."""
        return prices.whole_budget(facts, facts.delta, "G24-approx")

    def command(self, facts: Facts, sketch: Sketch) -> str | None:
        """Return the call of ``reticent fit``."""
        return (
            "reticent fit DATA.csv --schema SCHEMA.json --lasting --epsilon "
            f"{facts.epsilon!r} --budget {facts.epsilon!r} --delta {facts.delta!r}"
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the local predictor; give `bounds` of a numeric target."""
        known = {name: settings[name] for name in ("epsilon", "delta", "questions")}
        kind: Any = PrivateNeighborsRegressor
        if settings["task"] == "classification":
            kind = PrivateNeighborsClassifier
            known["classes"] = list(range(settings["labels"]))
        if schema is None:
            return kind(**{**known, **changes})
        known["columns"] = list(schema.columns.values())
        front = SchemaEncoder(schema, style="ordinal")
        return make_pipeline(front, kind(**{**known, **changes}))
