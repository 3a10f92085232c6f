"""Private answers of one linear model, stable by convexity (P3)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from reticent._numbers import positive
from reticent._sklearn import Interval, StrOptions
from reticent.estimators import (
    LinearClassifier,
    LinearExamples,
    LinearModel,
    LinearRegressor,
    row_bound,
    rows_in_ball,
)
from reticent.prediction.law import AnswerLaw, LawfulPredictor, blank_of
from reticent.prediction.linear.laws import NoisyScoreLaw, NoisySignLaw
from reticent.prediction.linear.plan import LinearPlan


@dataclass(eq=False, repr=False)
class _StableLinear(LawfulPredictor, LinearModel):
    """The plan: a model that one unit hardly moves, and noise for each answer."""

    epsilon: float = 1.0
    _: KW_ONLY
    solver: str = "erm"
    norm_bound: float = 1.0
    regularization: float | str = "auto"
    fit_intercept: bool = True
    tolerance: float = 1e-3
    n_shards: int = 1
    delta: float = 0.0
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearModel._parameter_constraints,
        "solver": [StrOptions({"erm", "psgd"})],
        "n_shards": [Interval(Integral, 1, None, closed="left")],
    }

    def _learn(self, examples: LinearExamples) -> None:
        radius = positive(type(self).__name__, "radius", self.radius)
        reach = radius * row_bound(self.fit_intercept)
        rows = rows_in_ball(examples.X, self.norm_bound, self.fit_intercept)
        plan = LinearPlan.of(self, self._loss(reach), rows.shape, examples.units)
        # Noise comes first: a mistaken epsilon must not cost a fit. Nothing is kept
        # until the solver has reached its target.
        moved = plan.sensitivity(labels_from_data=examples.labels_from_data)
        noise, certificate = plan.noise(moved)
        coefficients = plan.coefficients(rows, examples.targets)
        self.law_ = self._law(
            examples,
            reach,
            certificate=certificate,
            source=plan.source,
            blank=blank_of(self),
            norm_bound=float(self.norm_bound),
            fit_intercept=bool(self.fit_intercept),
            coefficients=coefficients,
            noise=noise,
        )
        if self.law_.classes is not None:
            self.classes_ = self.law_.classes
        self.coefficients_ = coefficients
        self.n_units_, self.n_shards_ = plan.n_units, plan.n_shards
        self.regularization_ = plan.problem.regularization
        self.sensitivity_ = moved

    def _law(self, examples: LinearExamples, reach: float, **shared: Any) -> AnswerLaw:
        """Return the law of answers from scores of at most the size `reach`."""
        raise NotImplementedError  # labels and numbers each have their own law


@dataclass(eq=False, repr=False, kw_only=True)
class StableLinearClassifier(_StableLinear, LinearClassifier):
    r"""Linear classifier whose every answer is differentially private, without shards.

    One model is trained on all the data. It is regularised so strongly that one unit
    hardly moves its scores. The answer is the sign of a score with noise.

    Parameters
    ----------
    epsilon : float
        Privacy cost of one predicted label.
    solver : {"erm", "psgd"}, default="erm"
        "erm" minimises the regularised risk over a ball. "psgd" takes one pass of
        projected gradient steps through the units, in an order drawn at random.
    loss : {"hinge", "logistic"}, default="hinge"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data. Longer rows, queries too, are scaled down to it.
    radius : float, default=3.0
        Bound on the norm of the coefficients, for rows divided by `norm_bound`.
    regularization : float or "auto", default="auto"
        Strength of the penalty for "erm"; "auto" takes
        :math:`2L/(R\sqrt{n\varepsilon/(1+\varepsilon)})`.
    fit_intercept : bool, default=True
        Whether a constant feature of size `norm_bound` is added to the rows. It
        counts in their norm, and its coefficient in the radius.
    tolerance : float, default=1e-3
        How precisely the minimiser is found, as a share of the sensitivity, to which it
        is added. A fit that does not get there raises SolverError.
    n_shards : int, default=1
        Above 1, the mean of models on disjoint shards. This reduces the noise for
        "psgd", by the square root of their number, but not for "erm".
    delta : float, default=0.0
        Above 0 the noise is Gaussian instead of Laplace, and the certificate states
        its zCDP.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    certificate_ : Certificate
        What one answer promises.
    sensitivity_ : Certificate
        How far one unit moves a score; public.
    classes_, n_units_, n_shards_
        As for the other predictors.
    regularization_ : float
        Strength of the penalty; public.
    coefficients_ : ndarray
        The coefficients for rows divided by `norm_bound`; the constant's is the last.
        Not private: never release them.

    Guarantee
    ---------
    One answer is `epsilon`-DP, or zCDP as the certificate says, under replacement of
    one unit. *Proof.* P3 bounds the move of a score, solver's tolerance and rounding
    included; G6 divides it by the shards; G5 adds noise for it; the sign is
    post-processing. A unit of several rows weighs as much as one of a single row.

    References
    ----------
    :cite:`DworkFeldman2018`, Sec. 4.4; THEOREMS P3, G5, G6.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = StableLinearClassifier(1.0, norm_bound=64.0, classes=[False, True])
    >>> print(model.fit(X, y % 2 == 0).certificate_.headline())
    1-DP for one answer, replace one unit of 1797; proved
    """

    loss: str = "hinge"
    width: float = 1.0
    radius: float = 3.0
    classes: ArrayLike | None = None

    def _law(self, examples: LinearExamples, reach: float, **shared: Any) -> AnswerLaw:
        return NoisySignLaw(classes=examples.classes, reach=reach, **shared)


@dataclass(eq=False, repr=False, kw_only=True)
class StableLinearRegressor(_StableLinear, LinearRegressor):
    r"""Linear regressor whose every predicted number is private, without shards.

    Parameters
    ----------
    epsilon : float
        Privacy cost of one predicted number.
    bounds : (float, float)
        Public bounds on the target, known without looking at the data. Targets and
        answers outside are clipped.
    solver : {"erm", "psgd"}, default="erm"
        As for `StableLinearClassifier`.
    loss : {"huber", "squared"}, default="huber"
        The loss, of targets whose bounds are mapped to -1 and 1.
    width : float, default=0.1
        Where Huber's loss turns from a square into a straight line.
    norm_bound, radius, regularization, fit_intercept
        As for `StableLinearClassifier`.
    tolerance, n_shards, delta, random_state
        As for `StableLinearClassifier`; `radius`, 1 by default, is for targets mapped
        to [-1, 1].

    Attributes
    ----------
    certificate_, sensitivity_, n_units_, n_shards_, regularization_, coefficients_
        As for `StableLinearClassifier`, for targets mapped to [-1, 1].

    Guarantee
    ---------
    One answer is `epsilon`-DP, or zCDP as the certificate says, under replacement of
    one unit; P3, G6 and G5 as for `StableLinearClassifier`.

    References
    ----------
    :cite:`DworkFeldman2018`, Sec. 4.4; THEOREMS P3, G5, G6.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = StableLinearRegressor(1.0, bounds=(0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for one answer, replace one unit of 442; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    loss: str = "huber"
    width: float = 0.1
    radius: float = 1.0

    def _law(self, examples: LinearExamples, reach: float, **shared: Any) -> AnswerLaw:
        return NoisyScoreLaw(bounds=examples.bounds, **shared)
