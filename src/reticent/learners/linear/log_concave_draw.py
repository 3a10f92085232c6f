"""One draw from the exponential mechanism over a ball, with its certificate (L2)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from reticent._numbers import nonnegative, positive, probability, whole
from reticent._sklearn import MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    LONGEST_ROW,
    BallExamples,
    BallProblem,
    BoundedLoss,
    LearnedLinear,
    LinearExamples,
    ReleasedLinear,
    unit_positions,
)
from reticent.learners.linear.log_concave_laws import (
    BallTarget,
    Diagnostics,
    loss_steps,
    net_law,
    net_of_ball,
    sample_ball,
    sampled_model,
)
from reticent.learners.selection.exponential import selected_hypothesis
from reticent.mechanisms import exponential_mechanism_certificate

_MOST_NET_DIMENSIONS = 3

#: What is told how the sampler's chains ran.
Report: TypeAlias = Callable[[Diagnostics], object]


class LogConcaveModel(ReleasedLinear):
    """The plan: one draw from the target, on a net or by a sampler."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: Any = None,
        *,
        report: Report | None = None,
    ) -> Self:
        """Draw the model and release it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Numbers; rows beyond `norm_bound` are scaled down.
        y : array-like of shape (n_rows,)
            Two labels, or numbers; numbers outside the bounds are clipped.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to. None makes every row
            a unit.
        report : callable, default=None
            Called with the `Diagnostics` of the sampler's chains. They are not private
            and not kept with the model: do not share them.
        """
        examples = self._examples(X, y, units)
        return self._release(examples, self._drawn(examples, report))

    def _loss_range(self, loss: BoundedLoss, reach: float) -> tuple[float, float]:
        """Return the least loss for scores up to `reach`, and the range of the loss."""
        raise NotImplementedError

    def _drawn(self, examples: LinearExamples, report: Report | None) -> LearnedLinear:
        owner, radius = type(self).__name__, self._checked_radius()
        regularization = nonnegative(owner, "regularization", self.regularization)
        loss = self._loss(LONGEST_ROW * radius)
        low, span = self._loss_range(loss, LONGEST_ROW * radius)
        data = self._in_ball(examples)
        target = BallTarget(
            problem=BallProblem(loss, data.facts.feature_bound, radius, regularization),
            rows=data.rows,
            targets=data.targets,
            weights=data.weights,
            n_units=data.facts.n_units,
            epsilon=positive(owner, "epsilon", self.epsilon),
            low=low,
            span=span,
        )
        if self._checked_rule(data.facts.dimension) == "net":
            return self._from_net(target, data, examples.units)
        return self._from_sampler(target, data, report)

    def _checked_rule(self, dimension: int) -> str:
        small = dimension <= _MOST_NET_DIMENSIONS
        if self.rule == "auto":
            return "net" if small else "sampler"
        if self.rule not in ("net", "sampler"):
            raise InvalidParameterError(
                f"rule={self.rule!r} must be 'auto', 'net' or 'sampler'."
            )
        if self.rule == "net" and not small:
            raise InvalidParameterError(
                f"rule='net' takes at most {_MOST_NET_DIMENSIONS} coefficients, the "
                f"intercept included; got {dimension}. Use rule='sampler'."
            )
        return str(self.rule)

    def _from_net(
        self, target: BallTarget, data: BallExamples, units: Any
    ) -> LearnedLinear:
        points = whole(type(self).__name__, "net_points", self.net_points)
        net = net_of_ball(data.facts.dimension, target.problem.radius, points)
        where = None if units is None else unit_positions(units, len(data.rows))[0]
        law = net_law(target, net, where)
        certificate = selected_hypothesis(
            exponential_mechanism_certificate(
                n=target.n_units,
                epsilon=target.epsilon,
                scope="model",
                sensitivity=loss_steps(target.n_units),
                seeded=data.facts.seeded,
            ),
            candidates=len(net),
            labels_from_data=data.facts.labels_from_data,
        )
        drawn = np.asarray(net[law.draw(data.source)[0]])
        return LearnedLinear(drawn, certificate, target.n_units)

    def _from_sampler(
        self, target: BallTarget, data: BallExamples, report: Report | None
    ) -> LearnedLinear:
        owner = type(self).__name__
        certificate = sampled_model(
            n=target.n_units,
            epsilon=target.epsilon,
            tv_error=probability(owner, "tv_error", self.tv_error),
            labels_from_data=data.facts.labels_from_data,
            seeded=data.facts.seeded,
        )
        drawn, found = sample_ball(
            target,
            chains=whole(owner, "chains", self.chains, least=2),
            steps=whole(owner, "steps", self.steps),
            source=data.source,
        )
        if not found.converged:
            warnings.warn(
                "the sampler's chains have not mixed, so its law may be far from its "
                "target and the certificate's assumption fail. Raise `steps`; "
                "fit(..., report=print) says more.",
                ConvergenceWarning,
                stacklevel=5,
            )
        # Handed to the curator and not kept: the model is made to be shared.
        if report is not None:
            report(found)
        return LearnedLinear(drawn, certificate, target.n_units)

    def _checked_radius(self) -> float:
        if isinstance(self.radius, Real) and self.radius == math.inf:
            raise InvalidParameterError(
                "radius=inf makes the target improper: it cannot be normalised for "
                "all data. Give a finite radius."
            )
        return super()._checked_radius()
