"""Linear models drawn from a log-concave exponential mechanism (L2)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, validate_data

from reticent._numbers import up
from reticent._sklearn import Interval, MatrixLike, StrOptions, fit_context
from reticent.ensembles import check_bounds
from reticent.estimators import (
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    centred,
    checked_targets,
    classification_loss,
    regression_loss,
    two_labels,
)
from reticent.learners.linear.log_concave_draw import LogConcaveModel, Report
from reticent.learners.linear.noise_plans import CONSTANT, LONGEST_ROW

_POSITIVE = Interval(Real, 0, None, closed="neither")
_CONSTRAINTS: dict[str, list[Any]] = {
    "epsilon": [_POSITIVE],
    "method": [StrOptions({"auto", "net", "sampler"})],
    "width": [_POSITIVE],
    "norm_bound": [_POSITIVE],
    "radius": [_POSITIVE],
    "regularization": [Interval(Real, 0, None, closed="left")],
    "fit_intercept": ["boolean"],
    "net_points": [Interval(Integral, 1, 10**6, closed="both")],
    "chains": [Interval(Integral, 2, None, closed="left")],
    "steps": [Interval(Integral, 1, None, closed="left")],
    "tv_error": [Interval(Real, 0, 1, closed="neither")],
}


class LogConcaveClassifier(ReleasedLinearClassifier, LogConcaveModel):
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
    method : {"auto", "net", "sampler"}, default="auto"
        "auto" takes the net for at most three coefficients, the intercept included.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "loss": [StrOptions({"logistic", "hinge"})],
        "classes": ["array-like", None],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        method: str = "auto",
        *,
        loss: str = "logistic",
        width: float = 1.0,
        norm_bound: float = 1.0,
        radius: float = 5.0,
        regularization: float = 0.0,
        fit_intercept: bool = True,
        net_points: int = 2000,
        chains: int = 4,
        steps: int = 2000,
        tv_error: float = 1e-7,
        classes: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.method = method
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.net_points = net_points
        self.chains = chains
        self.steps = steps
        self.tv_error = tv_error
        self.classes = classes
        self.random_state = random_state

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
            Two labels.
        units : array-like of shape (n_rows,), default=None
            The person, or other unit, that each row belongs to. None makes every row
            a unit.
        report : callable, default=None
            Called with the `Diagnostics` of the sampler's chains. They are not private
            and not kept with the model: look, and do not share them.
        """
        radius = self._checked_radius()
        loss = classification_loss(self.loss, self.width)
        X = validate_data(self, X, dtype=np.float64)
        labels, y = two_labels("LogConcaveClassifier", self.classes, X, y)
        # The loss falls with the margin, so its extremes are at the largest margins.
        far = np.array([LONGEST_ROW * radius])
        low, high = (float(loss.loss.value(s, np.ones(1))[0]) for s in (far, -far))
        found = self._draw(
            X,
            labels.indices(y).astype(np.float64),
            loss,
            (low, up(high - low)),
            units,
            report,
            labels_from_data=self.classes is None,
        )
        constant = CONSTANT if self.fit_intercept else None
        self._release(found[:, None], constant, self.norm_bound, labels.classes)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class LogConcaveRegressor(ReleasedLinearRegressor, LogConcaveModel):
    """Linear regressor drawn from a log-concave exponential mechanism.

    Parameters
    ----------
    epsilon, method
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CONSTRAINTS,
        "bounds": ["array-like"],
        "loss": [StrOptions({"huber", "squared"})],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        method: str = "auto",
        bounds: tuple[float, float] = (0.0, 1.0),
        *,
        loss: str = "squared",
        width: float = 0.25,
        norm_bound: float = 1.0,
        radius: float = 2.0,
        regularization: float = 0.0,
        fit_intercept: bool = True,
        net_points: int = 2000,
        chains: int = 4,
        steps: int = 2000,
        tv_error: float = 1e-7,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.method = method
        self.bounds = bounds
        self.loss = loss
        self.width = width
        self.norm_bound = norm_bound
        self.radius = radius
        self.regularization = regularization
        self.fit_intercept = fit_intercept
        self.net_points = net_points
        self.chains = chains
        self.steps = steps
        self.tv_error = tv_error
        self.random_state = random_state

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
        X, units, report
            As for `LogConcaveClassifier`.
        y : array-like of shape (n_rows,)
            Targets; values outside the bounds are clipped.
        """
        radius = self._checked_radius()
        bounds = check_bounds(self.bounds)
        loss = regression_loss(self.loss, self.width, LONGEST_ROW * radius)
        X = validate_data(self, X, dtype=np.float64)
        y = checked_targets(y)
        check_consistent_length(X, y)
        farthest = np.array([LONGEST_ROW * radius + 1.0])
        high = up(float(loss.loss.value(farthest, np.zeros(1))[0]))
        found = self._draw(
            X,
            centred(y, bounds),
            loss,
            (0.0, high),
            units,
            report,
            labels_from_data=False,
        )
        constant = CONSTANT if self.fit_intercept else None
        self._release_numbers(found, constant, self.norm_bound, bounds)
        return self
