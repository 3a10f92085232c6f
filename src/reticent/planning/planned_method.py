"""The interface of all methods of a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reticent.ensembles import SHARD_TREES
from reticent.planning.facts import Facts
from reticent.planning.option import Sketch
from reticent.schemas import SchemaEncoder


class PlannedMethod(ABC):
    """One way to answer queries, before facts are known.

    Attributes
    ----------
    key : str
        Its name in plans.
    job : {"ask", "release", "public"}
        What it does.
    title : str
        What it is, for people.
    estimator : str
        The estimator's class.
    """

    key: str
    job: str
    title: str
    estimator: str

    @abstractmethod
    def sketch(self, facts: Facts) -> Sketch | None:
        """Return settings and expected error, or None if it does not fit the facts."""

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float | None:
        """Return a bound on the expected error of what `build` makes of `settings`.

        None if no theorem covers that learner; an estimate is not a bound.
        """
        return None

    @abstractmethod
    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return what all queries cost together, and the rule that proves it."""

    @abstractmethod
    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the estimator with these settings."""

    def reason(self, facts: Facts, sketch: Sketch) -> str:
        """Return a reason for the method; called once per plan."""
        return sketch.reason

    def estimator_for(self, facts: Facts) -> str:
        """Return the estimator's class for the task; a number needs a regressor."""
        if facts.classifies:
            return self.estimator
        return self.estimator.replace("Classifier", "Regressor")

    def command(self, facts: Facts, sketch: Sketch) -> str | None:
        """Return a command line that runs the method, or None."""
        return None


def shard_model(learner: str, task: str, schema: Any) -> Any:
    """Return the model for a shard: boosted trees, or a linear model."""
    classifies = task == "classification"
    if learner == "trees":
        kind = (
            HistGradientBoostingClassifier
            if classifies
            else HistGradientBoostingRegressor
        )
        model = kind(**SHARD_TREES)
        if schema is None:
            return model
        return make_pipeline(SchemaEncoder(schema, style="ordinal"), model)
    model = LogisticRegression(max_iter=1000) if classifies else Ridge()
    # Without a schema, which declares scales, they are learned inside the shard.
    front = StandardScaler() if schema is None else SchemaEncoder(schema)
    return make_pipeline(front, model)
