"""Linear models drawn from a log-concave exponential mechanism (L2)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from reticent._numbers import nonnegative, positive, probability, up, whole
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent._text import one_of
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    LONGEST_ROW,
    BallExamples,
    BallProblem,
    BoundedLoss,
    CertifiedCoefficients,
    LinearExamples,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    UnitIds,
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

#: Called with a report on the sampler's chains.
Report: TypeAlias = Callable[[Diagnostics], object]


@dataclass(eq=False, repr=False)
class _LogConcave(ReleasedLinear):
    """The plan: one draw from the target, on a net or by a sampler."""

    epsilon: float = 1.0
    _: KW_ONLY
    rule: str = "auto"
    norm_bound: float = 1.0
    regularization: float = 0.0
    fit_intercept: bool = True
    net_points: int = 2000
    chains: int = 4
    steps: int = 2000
    tv_error: float = 1e-7
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinear._parameter_constraints,
        "rule": [StrOptions({"auto", "net", "sampler"})],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "net_points": [Interval(Integral, 1, 10**6, closed="both")],
        "chains": [Interval(Integral, 2, None, closed="left")],
        "steps": [Interval(Integral, 1, None, closed="left")],
        "tv_error": [Interval(Real, 0, 1, closed="neither")],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        report: Report | None = None,
    ) -> Self:
        """Draw the model and release it.

        Parameters
        ----------
        X, y, units
            As for the other linear models.
        report : callable, default=None
            Called with the `Diagnostics` of the sampler's chains. They are not private
            and not kept with the model: do not share them.
        """
        examples = self._examples(X, y, units)
        self._release(examples, *self._drawn(examples, report))
        return self

    def _loss_range(self, loss: BoundedLoss, reach: float) -> tuple[float, float]:
        """Return the least loss for scores up to `reach`, and the range of the loss."""
        raise NotImplementedError  # a classifier and a regressor each have their own

    def _drawn(
        self, examples: LinearExamples, report: Report | None
    ) -> CertifiedCoefficients:
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
        if one_of("rule", self.rule, "auto", "net", "sampler") == "auto":
            return "net" if small else "sampler"
        if self.rule == "net" and not small:
            raise InvalidParameterError(
                f"rule='net' takes at most {_MOST_NET_DIMENSIONS} coefficients, the "
                f"intercept included; got {dimension}. Use rule='sampler'."
            )
        return str(self.rule)

    def _from_net(
        self, target: BallTarget, data: BallExamples, units: UnitIds
    ) -> CertifiedCoefficients:
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
        return np.asarray(net[law.draw(data.source)[0]]), certificate

    def _from_sampler(
        self, target: BallTarget, data: BallExamples, report: Report | None
    ) -> CertifiedCoefficients:
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
                "target and the certificate's assumption may fail. Raise `steps`; "
                "fit(..., report=print) says more.",
                ConvergenceWarning,
                stacklevel=6,
            )
        # Handed to the curator and not kept: the model is made to be shared.
        if report is not None:
            report(found)
        return drawn, certificate

    def _checked_radius(self) -> float:
        if isinstance(self.radius, Real) and self.radius == math.inf:
            raise InvalidParameterError(
                "radius=inf makes the target improper: it cannot be normalised for "
                "all data. Give a finite radius."
            )
        return super()._checked_radius()


@dataclass(eq=False, repr=False, kw_only=True)
class LogConcaveClassifier(_LogConcave, ReleasedLinearClassifier):
    r"""Linear classifier drawn with :math:`\Pr[w] \propto e^{-\varepsilon n F(w)/2r}`.

    The exponential mechanism over all linear functions in a ball: `F` is the mean
    loss plus a penalty, `r` the range of the loss. Up to three coefficients it runs
    exactly on a public net of points; above that a sampler draws, and the certificate
    is conditional on how near the sampler comes to its target, which no code can
    check. For kernels put `FourierFeatures` before it.

    Parameters
    ----------
    epsilon : float, default=1.0
        What one exact draw costs.
    rule : {"auto", "net", "sampler"}, default="auto"
        How the model is drawn. "auto" takes the net for at most three coefficients,
        the intercept included.
    loss : {"logistic", "hinge"}, default="logistic"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row. Longer rows are scaled down when
        training.
    radius : float, default=5.0
        Radius of the ball, for rows divided by `norm_bound`. It must be finite: the
        target is improper otherwise. The range of the loss, and so the spread of the
        draw, grows with it.
    regularization : float, default=0.0
        Strength of the penalty; it costs no privacy.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    net_points : int, default=2000
        About how many points the net has.
    chains, steps : int, default=4 and 2000
        Chains of the sampler, and steps of each.
    tv_error : float, default=1e-7
        The total variation distance of the sampler from its target that is taken on
        trust; it costs ``(1 + e^epsilon) tv_error`` of delta.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    certificate_ : Certificate
        Proved for the net; for the sampler conditional, always.
    classes_, n_units_
        Labels and number of units.

    Guarantee
    ---------
    Net: bounded range `epsilon`, by G2 and L1, with exact whole-number losses.
    Sampler: ``(epsilon, (1 + e^epsilon) tv_error)``-DP by L2-sampler, if its law is
    within `tv_error` of the target. A unit's loss is the mean over its rows.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Ex. 4 and Prop. 19; THEOREMS L2.

    Examples
    --------
    >>> X, y = [[-0.9], [-0.5], [0.4], [0.8]] * 50, [0, 0, 1, 1] * 50
    >>> model = LogConcaveClassifier(2.0, classes=[0, 1]).fit(X, y)
    >>> print(model.certificate_.headline())
    2-bounded-range DP for the model, replace one unit of 200; proved
    """

    loss: str = "logistic"
    width: float = 1.0
    radius: float = 5.0
    classes: ArrayLike | None = None

    def _loss_range(self, loss: BoundedLoss, reach: float) -> tuple[float, float]:
        # The loss falls with the margin, so its extremes are at the largest margins.
        far = np.array([reach])
        low, high = (float(loss.loss.value(s, np.ones(1))[0]) for s in (far, -far))
        return low, up(high - low)


@dataclass(eq=False, repr=False, kw_only=True)
class LogConcaveRegressor(_LogConcave, ReleasedLinearRegressor):
    """Linear regressor drawn from a log-concave exponential mechanism.

    Parameters
    ----------
    epsilon, rule
        As for `LogConcaveClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target. Targets and predictions outside are clipped.
    loss : {"huber", "squared"}, default="squared"
        The loss, of targets whose bounds are mapped to -1 and 1.
    width : float, default=0.25
        Where Huber's loss turns from a square into a straight line.
    norm_bound, radius, regularization, fit_intercept, net_points, chains, steps, \
tv_error, random_state
        As for `LogConcaveClassifier`; `radius` for targets mapped to [-1, 1].

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    certificate_, n_units_
        As for `LogConcaveClassifier`.

    Guarantee
    ---------
    As for `LogConcaveClassifier`.

    Examples
    --------
    >>> X, y = [[-0.9], [-0.5], [0.4], [0.8]] * 50, [1, 3, 7, 9] * 50
    >>> model = LogConcaveRegressor(2.0, bounds=(0, 10)).fit(X, y)
    >>> model.coef_.shape
    (1,)
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    loss: str = "squared"
    width: float = 0.25
    radius: float = 2.0

    def _loss_range(self, loss: BoundedLoss, reach: float) -> tuple[float, float]:
        farthest = np.array([reach + 1.0])
        return 0.0, up(float(loss.loss.value(farthest, np.zeros(1))[0]))
