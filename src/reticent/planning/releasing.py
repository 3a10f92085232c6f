"""Methods that release a model, which answers without limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sklearn.pipeline import make_pipeline

from reticent._numbers import shown_down
from reticent.errors import InvalidParameterError
from reticent.guarantees import gaussian_ratio
from reticent.learners import (
    NoisyGradientClassifier,
    NoisyGradientRegressor,
    ObjectivePerturbationClassifier,
    ObjectivePerturbationRegressor,
    OutputPerturbationClassifier,
    OutputPerturbationRegressor,
    PrivateTabularClassifier,
    PrivateTabularRegressor,
)
from reticent.planning import curves, prices
from reticent.planning.facts import KNOTS, Facts
from reticent.planning.option import Sketch
from reticent.planning.planned_method import PlannedMethod
from reticent.schemas import SchemaEncoder

_KINDS = {
    "gradient": (
        "noisy gradient descent",
        NoisyGradientClassifier,
        NoisyGradientRegressor,
    ),
    "objective": (
        "random tilt of the objective",
        ObjectivePerturbationClassifier,
        ObjectivePerturbationRegressor,
    ),
    "output": (
        "noise on the coefficients",
        OutputPerturbationClassifier,
        OutputPerturbationRegressor,
    ),
}
_MODELS = {"linear": "linear model", "splines": "additive model"}


class LinearReleaseMethod(PlannedMethod):
    """A linear model, of plain columns or of splines, released with noise."""

    job = "release"

    def __init__(self, kind: str, basis: str) -> None:
        self.kind, self.basis = kind, basis
        self.key = f"{kind}-{basis}"
        how, classifier, _ = _KINDS[kind]
        self.title = f"release: {_MODELS[basis]} by {how}"
        self.estimator = f"reticent.learners.{classifier.__name__}"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Estimate how much the noise adds to the model's error."""
        if self.kind == "gradient" and facts.delta == 0:
            return None
        if self.kind != "gradient" and facts.labels > 2:
            return None
        additive = self.basis == "splines"
        limit = facts.additive_error if additive else facts.linear_error
        room = facts.chance_error - limit
        learning = curves.learning_excess(facts.n, facts.learning_exponent, room)
        columns = facts.spline_columns if additive else facts.linear_columns
        noise = self._noise(facts, columns * max(1, facts.labels - 1))
        delta = 0.0 if self.kind == "objective" else facts.delta
        settings: dict[str, Any] = {
            "task": facts.task,
            "epsilon": facts.epsilon,
            "labels": facts.labels,
            "columns": facts.features,
        }
        if self.kind != "objective":
            settings["delta"] = delta
        return Sketch(
            settings,
            estimate=curves.noisy_error(limit, facts.chance_error, learning + noise),
            reason=f"{columns} encoded columns; queries are free",
        )

    def _noise(self, facts: Facts, columns: int) -> float:
        """Return the error that noise adds, as measured on public tables.

        For gradients it is twice the norm of the noise per unit; for the others a root
        is added, because more noise needs a stronger penalty.
        """
        root = math.sqrt(columns) / facts.units
        if self.kind == "gradient":
            return 2 * root / gaussian_ratio(facts.epsilon, facts.delta)
        if self.kind == "objective":
            noise = 2 * root * math.sqrt(facts.features) / facts.epsilon
            return float(0.3 * noise**0.7 + 0.5 * noise)
        if facts.delta:
            noise = root / gaussian_ratio(facts.epsilon, facts.delta)
            return 0.33 * math.sqrt(noise) + 2 * noise
        noise = root * math.sqrt(2 * columns) / facts.epsilon
        return 0.25 * math.sqrt(noise) + 3 * noise

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the budget: the noise is calibrated to it."""
        return prices.whole_budget(
            facts, sketch.settings.get("delta", 0.0), "one release"
        )

    def command(self, facts: Facts, sketch: Sketch) -> str | None:
        """Return the call of ``reticent fit``, which releases additive models."""
        if self.key != ("gradient-splines" if facts.delta else "objective-splines"):
            return None
        return _release_command(facts, learner="linear")

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the learner with an encoder; splines need a schema."""
        _, classifier, regressor = _KINDS[self.kind]
        known: dict[str, Any] = {
            name: settings[name] for name in ("epsilon", "delta") if name in settings
        }
        if self.kind == "objective" and schema is not None:
            known["l1_bound"] = float(schema.n_columns)
        kind: Any = regressor
        if settings["task"] == "classification":
            kind = classifier
            known["classes"] = list(range(settings["labels"]))
        if schema is None:
            # Rows with entries between -1 and 1.
            known["norm_bound"] = math.sqrt(settings["columns"])
        return encoded(kind, {**known, **changes}, schema, self.basis)


class TabularReleaseMethod(PlannedMethod):
    """A model of the table, released by noisy gradients: its own rule sets its size."""

    job = "release"
    key = "tabular"
    title = "release: linear, additive and tree parts by noisy gradient descent"
    estimator = "reticent.learners.PrivateTabularClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """Estimate the error of the richest model that the noise allows.

        Trees gain about half of what boosting gains over additive models, as measured
        on public tables.
        """
        if facts.delta == 0:
            return None
        half = (facts.additive_error + facts.flexible_error) / 2
        ratio = gaussian_ratio(facts.epsilon, facts.delta)
        found = []
        for limit, columns in (
            (facts.linear_error, facts.linear_columns),
            (facts.additive_error, facts.spline_columns),
            (half, 4 * facts.spline_columns),
        ):
            room = facts.chance_error - limit
            learning = curves.learning_excess(facts.n, facts.learning_exponent, room)
            scores = columns * max(1, facts.labels - 1)
            noise = 2 * math.sqrt(scores) / facts.units / ratio
            found.append(
                curves.noisy_error(limit, facts.chance_error, learning + noise)
            )
        settings = {
            "task": facts.task,
            "epsilon": facts.epsilon,
            "delta": facts.delta,
            "labels": facts.labels,
        }
        return Sketch(
            settings,
            estimate=min(found),
            reason="size by number of rows and budget; queries are free",
        )

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the budget: the noise is calibrated to it."""
        return prices.whole_budget(facts, facts.delta, "one release")

    def command(self, facts: Facts, sketch: Sketch) -> str | None:
        """Return the call of ``reticent fit``."""
        return _release_command(facts)

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the learner, after an encoder if there is a schema."""
        known = {"epsilon": settings["epsilon"], "delta": settings["delta"], **changes}
        kind: Any = PrivateTabularRegressor
        if settings["task"] == "classification":
            kind = PrivateTabularClassifier
            known.setdefault("classes", list(range(settings["labels"])))
        if schema is None:
            return kind(**known)
        known.setdefault("columns", list(schema.columns.values()))
        return make_pipeline(SchemaEncoder(schema, style="ordinal"), kind(**known))


def _release_command(facts: Facts, learner: str | None = None) -> str:
    """Return the call of ``reticent fit`` that releases a model."""
    epsilon = facts.epsilon
    if facts.delta:
        # The ledger adds up rhos, by which the same noise costs slightly more.
        epsilon = prices.gaussian_noise(replace(facts, queries=1))[0]
    how = "" if learner is None else f" --learner {learner}"
    return (
        f"reticent fit DATA.csv --schema SCHEMA.json --release{how} --epsilon "
        f"{shown_down(epsilon)} --budget {facts.epsilon!r} --delta {facts.delta!r}"
    )


def encoded(kind: Any, parameters: dict[str, Any], schema: Any, basis: str) -> Any:
    """Return a linear learner, after an encoder if there is a schema."""
    if schema is None:
        if basis == "splines":
            raise InvalidParameterError(
                "an additive model needs public ranges; give build() the schema="
            )
        return kind(**parameters)
    front = SchemaEncoder(schema, basis=basis, knots=KNOTS)
    norm = front.fit().encoder_.row_norm_bound
    return make_pipeline(front, kind(**{"norm_bound": norm, **parameters}))
