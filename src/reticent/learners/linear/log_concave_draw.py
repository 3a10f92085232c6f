"""One draw from the exponential mechanism over a ball, with its certificate (L2)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from reticent._numbers import nonnegative, positive, probability, whole
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    BallProblem,
    BoundedLoss,
    Float,
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
from reticent.learners.linear.noise_plans import bounded_rows, unit_weights
from reticent.learners.selection.exponential import selected_hypothesis
from reticent.mechanisms import (
    RandomSource,
    exponential_mechanism_certificate,
    noise_source,
)

_MOST_NET_DIMENSIONS = 3

#: What is told how the sampler's chains ran.
Report: TypeAlias = Callable[[Diagnostics], object]


class LogConcaveModel(ReleasedLinear):
    """What both estimators share: the target, and one draw from it."""

    def _draw(
        self,
        X: Float,
        targets: Float,
        loss: BoundedLoss,
        reach: tuple[float, float],
        units: Any,
        report: Report | None,
        *,
        labels_from_data: bool,
    ) -> Float:
        rows, _, largest = bounded_rows(X, self.norm_bound, None, self.fit_intercept)
        weights, n_units = unit_weights(units, len(rows))
        owner = type(self).__name__
        penalty = nonnegative(owner, "regularization", self.regularization)
        target = BallTarget(
            problem=BallProblem(loss, largest, self.radius, penalty),
            rows=rows,
            targets=targets,
            weights=weights,
            n_units=n_units,
            epsilon=positive(owner, "epsilon", self.epsilon),
            low=reach[0],
            span=reach[1],
        )
        self.n_units_ = n_units
        source = noise_source(self.random_state)
        if self._method(rows.shape[1]) == "net":
            return self._from_net(
                target, units, source, labels_from_data=labels_from_data
            )
        drawn, found = self._from_sampler(
            target, source, labels_from_data=labels_from_data
        )
        # Handed to the curator and not kept: the model is made to be shared.
        if report is not None:
            report(found)
        return drawn

    def _method(self, dimension: int) -> str:
        small = dimension <= _MOST_NET_DIMENSIONS
        if self.method == "auto":
            return "net" if small else "sampler"
        if self.method not in ("net", "sampler"):
            raise InvalidParameterError(
                f"method={self.method!r} must be 'auto', 'net' or 'sampler'."
            )
        if self.method == "net" and not small:
            raise InvalidParameterError(
                f"method='net' takes at most {_MOST_NET_DIMENSIONS} coefficients, the "
                f"intercept included; got {dimension}. Use method='sampler'."
            )
        return str(self.method)

    def _from_net(
        self,
        target: BallTarget,
        units: Any,
        source: RandomSource,
        *,
        labels_from_data: bool,
    ) -> Float:
        points = whole(type(self).__name__, "net_points", self.net_points)
        net = net_of_ball(target.rows.shape[1], target.problem.radius, points)
        where = None
        if units is not None:
            where, _ = unit_positions(units, len(target.rows))
        law = net_law(target, net, where)
        self.certificate_ = selected_hypothesis(
            exponential_mechanism_certificate(
                n=target.n_units,
                epsilon=target.epsilon,
                scope="model",
                sensitivity=loss_steps(target.n_units),
                seeded=source.seeded,
            ),
            candidates=len(net),
            labels_from_data=labels_from_data,
        )
        return np.asarray(net[law.draw(source)[0]])

    def _from_sampler(
        self, target: BallTarget, source: RandomSource, *, labels_from_data: bool
    ) -> tuple[Float, Diagnostics]:
        owner = type(self).__name__
        self.certificate_ = sampled_model(
            n=target.n_units,
            epsilon=target.epsilon,
            tv_error=probability(owner, "tv_error", self.tv_error),
            labels_from_data=labels_from_data,
            seeded=source.seeded,
        )
        drawn, found = sample_ball(
            target,
            chains=whole(owner, "chains", self.chains, least=2),
            steps=whole(owner, "steps", self.steps),
            source=source,
        )
        if not found.converged:
            warnings.warn(
                "the sampler's chains have not mixed, so its law may be far from its "
                "target and the certificate's assumption fail. Raise `steps`; "
                "fit(..., report=print) says more.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return drawn, found

    def _checked_radius(self) -> float:
        if isinstance(self.radius, Real) and self.radius == math.inf:
            raise InvalidParameterError(
                "radius=inf makes the target improper: it cannot be normalised for "
                "all data. Give a finite radius."
            )
        return positive(type(self).__name__, "radius", self.radius)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws afresh
        return tags
