"""A method that labels public rows privately and releases their model (M6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reticent.learners import StudentClassifier
from reticent.planning import curves, prices
from reticent.planning.asking import excess_of, limit_of
from reticent.planning.facts import Facts
from reticent.planning.option import Sketch
from reticent.planning.planned_method import PlannedMethod, shard_model
from reticent.prediction import PrivateVotingClassifier

# Numbers of public rows that are labelled; more labels are noisier.
_SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)


class StudentMethod(PlannedMethod):
    """A student of votes on public rows."""

    job = "public"
    estimator = "reticent.learners.StudentClassifier"

    def __init__(self, learner: str) -> None:
        self.learner = learner
        self.key = f"student-{learner}"
        what = "boosted trees" if learner == "trees" else "a linear model"
        self.title = f"release: {what} trained on privately labelled public rows"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Choose the number of labels, which adds noise to each, and of shards."""
        if not (facts.classifies and facts.public):
            return None
        sizes = [m for m in _SIZES if m < facts.public] or [facts.public]
        found = [self._best(replace(facts, queries=float(size))) for size in sizes]
        error, labels, shards = min(found)
        return Sketch(
            {
                "learner": self.learner,
                "labels": facts.labels,
                "epsilon": facts.epsilon,
                "delta": facts.delta,
                "n_labels": labels,
                "n_shards": shards,
            },
            estimate=min(error, facts.chance_error),
            reason=f"{labels} public rows labelled by {shards} shards of "
            f"{facts.n // shards} rows",
        )

    def _best(self, facts: Facts) -> tuple[float, int, int]:
        """Return error, labels and shards for one number of labels.

        The student inherits what most shards get wrong. A noisy label is worth less
        than one: the square of the remaining share of its advantage over guessing.
        """
        limit = min(limit_of(facts, self.learner), 0.99 * (1 - 1 / facts.labels))
        pure, soft = prices.epsilon_by_sum(facts), prices.epsilon_by_zcdp(facts, 1 / 8)

        def error(shards: int, rows: int) -> float:
            excess = excess_of(facts, limit, max(1, rows))
            weights = curves.vote_weights(shards, limit, excess)
            right = weights @ curves.soft_right(shards, max(soft, 1e-12), facts.labels)
            # For more than two labels the pure rule is at least as good as a soft one.
            if facts.labels == 2:
                other = weights @ curves.geometric_right(shards, pure)
            else:
                other = weights @ curves.soft_right(shards, pure, facts.labels)
            guess = 1 / facts.labels
            signal = (float(max(right, other)) - guess) / (1 - limit - guess)
            inherited = float(weights[: (shards + 1) // 2].sum()) - limit
            worth = facts.queries * max(0.0, signal) ** 2
            return limit + inherited + excess_of(facts, limit, max(1.0, worth))

        shards, found = curves.best_shards(facts.n, facts.units, error)
        return found, int(facts.queries), shards

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the budget: the labels spend all of it."""
        return prices.whole_budget(facts, facts.delta, "one release")

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the student; give `public` rows to its fit."""
        teacher = PrivateVotingClassifier(
            shard_model(settings["learner"], "classification", schema),
            n_shards=settings["n_shards"],
        )
        return StudentClassifier(
            **{
                "teacher": teacher,
                "student": shard_model(settings["learner"], "classification", schema),
                "epsilon": settings["epsilon"],
                "delta": settings["delta"],
                "n_labels": settings["n_labels"],
                "classes": list(range(settings["labels"])),
                **changes,
            }
        )
