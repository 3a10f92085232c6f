"""Regularised risk minimisation with public unlabelled rows (M3)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import clone

from reticent._arrays import Floats
from reticent._sklearn import MatrixLike, fit_context
from reticent.errors import InvalidParameterError
from reticent.estimators import (
    CertifiedCoefficients,
    LinearExamples,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    UnitIds,
    bounded_rows,
)
from reticent.learners.linear.fourier_features import FourierFeatures
from reticent.learners.public.linear_plan import RegularizedPlan, leverage_at_most
from reticent.learners.public.points import public_rows


@dataclass(eq=False, repr=False)
class _RegularizedERM(ReleasedLinear):
    """The plan: coefficients from noisy values at public rows."""

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 0.0
    width: float = 0.5
    features: FourierFeatures | None = None
    norm_bound: float = 1.0
    regularization: float | str = "auto"
    tolerance: float = 0.05
    fit_intercept: bool = True
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinear._parameter_constraints,
        "features": [FourierFeatures, None],
    }
    _prediction: ClassVar[float]
    features_: FourierFeatures | None = field(init=False)

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        public: MatrixLike | None = None,
    ) -> Self:
        """Train the model and release it.

        Parameters
        ----------
        X, y, units
            Private data, as for the other linear models.
        public : array-like of shape (n_public, n_features)
            Public unlabelled rows; required.

        Raises
        ------
        SolverError
            If the preset gap is not reached; nothing is released then.
        """
        examples = self._examples(X, y, units)
        owner, n_features = type(self).__name__, examples.X.shape[1]
        Z = public_rows(owner, public, examples.X, n_features)
        features = self._drawn_features(Z)
        if features is not None:
            Z = features.transform(Z)
            examples = replace(examples, X=features.transform(examples.X))
        found, certificate = self._regularized(examples, Z)
        self.features_ = features
        self._release(examples, found, certificate)
        return self

    def _regularized(
        self, examples: LinearExamples, Z: Floats
    ) -> CertifiedCoefficients:
        data = self._in_ball(examples)
        facts = data.facts
        public, _, _ = bounded_rows(Z, self._row_scale, None, self.fit_intercept)
        leverage = leverage_at_most(public, facts.feature_bound)
        plan = RegularizedPlan.of(self, facts, n_public=len(public), leverage=leverage)
        exact = plan.values(data.rows, data.targets, data.weights, public)
        noisy = plan.noisy(exact, data.source)
        self.noise_scale_ = plan.noise.scale
        self.regularization_ = plan.regularization
        self.public_values_ = noisy
        return plan.project(public, noisy), plan.certificate

    def _drawn_features(self, Z: Floats) -> FourierFeatures | None:
        if self.features is None:
            return None
        if not isinstance(self.features, FourierFeatures):
            raise InvalidParameterError(
                f"features={self.features!r} must be FourierFeatures(...) or None."
            )
        drawn: FourierFeatures = clone(self.features).fit(Z)
        return drawn

    def _features_of(self, rows: Floats) -> Floats:
        return rows if self.features_ is None else self.features_.transform(rows)

    @property
    def _row_scale(self) -> Any:
        """What rows are divided by: waves have norm one."""
        return self.norm_bound if self.features is None else 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class RegularizedERMClassifier(_RegularizedERM, ReleasedLinearClassifier):
    r"""Linear classifier released through its values on public unlabelled rows.

    The risk is minimised with a penalty on the mean square of the predictions at the
    public rows. One unit hardly moves these predictions; noise hides the rest; and the
    released model is the linear function nearest to the noisy predictions. Only they
    have seen private data.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs.
    delta : float, default=0.0
        Above 0 the noise is Gaussian, and does not grow with the number of public
        rows; at 0 it is Laplace, and does.
    loss : {"logistic", "squared", "huber", "absolute"}, default="logistic"
        The loss, divided by its range at one example. All but the logistic one
        compare predictions with -1 and 1.
    width : float, default=0.5
        Where Huber's loss turns from a square into a straight line.
    features : FourierFeatures or None, default=None
        Random waves for a kernel model, drawn at each fit without looking at
        rows. None takes the columns as they are.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row. Longer rows are scaled down when
        training. Not used with `features`, whose rows have norm one.
    radius : float, default=5.0
        Bound on the norm of the coefficients, for rows divided by `norm_bound`.
    regularization : float or "auto", default="auto"
        Strength of the penalty at the public rows; "auto" weighs it against the noise.
    tolerance : float, default=0.05
        Tolerance of the solver, as a share of the sensitivity. Fixed in advance.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    public_values_ : ndarray of shape (n_public,)
        The noisy predictions at the public rows. The certificate covers them, so they
        may be shown.
    features_ : FourierFeatures or None
        The waves that were drawn.
    certificate_ : Certificate
        What the model promises.
    classes_, n_units_, noise_scale_, regularization_
        Labels, number of units, scale of the noise and strength of the penalty.

    Guarantee
    ---------
    The model is `epsilon`-DP, or (`epsilon`, `delta`)-DP, under replacement of one
    unit of the private rows, whatever the public rows are: that these resemble the
    private ones matters for accuracy alone. *Proof.* M3 bounds the move of the values
    at public rows, the solver's preset gap included; G5 adds noise for it; M1: the
    model is a function of the noisy values. A solver that misses its gap raises, and
    nothing is released.

    References
    ----------
    :cite:`BlockEtAl2024`, Alg. 1 and 3; THEOREMS M1, M3.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = RegularizedERMClassifier(
    ...     1.0, delta=1e-6, norm_bound=5.0, classes=[0, 1]
    ... )
    >>> model = model.fit(X[1000:], y[1000:], public=X[:1000])
    >>> print(model.certificate_.headline())
    (1, 1e-06)-DP for the model, replace one unit of 2000; proved
    """

    loss: str = "logistic"
    radius: float = 5.0
    classes: ArrayLike | None = None

    _prediction = 0.15

    def _examples(self, X: MatrixLike, y: MatrixLike, units: UnitIds) -> LinearExamples:
        examples = super()._examples(X, y, units)
        if self.loss == "logistic":
            return examples
        return replace(examples, targets=2 * examples.targets - 1)


@dataclass(eq=False, repr=False, kw_only=True)
class RegularizedERMRegressor(_RegularizedERM, ReleasedLinearRegressor):
    """Linear regressor released through its values on public unlabelled rows.

    Parameters
    ----------
    epsilon, delta
        As for `RegularizedERMClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    loss : {"absolute", "huber", "squared"}, default="absolute"
        The loss, of targets whose bounds are mapped to -1 and 1.
    width, features, norm_bound, radius, regularization, tolerance, fit_intercept, \
random_state
        As for `RegularizedERMClassifier`; `radius` for targets mapped to [-1, 1].

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    public_values_ : ndarray of shape (n_public,)
        The noisy predictions at the public rows, of targets mapped to [-1, 1].
    features_, certificate_, n_units_, noise_scale_, regularization_
        As for `RegularizedERMClassifier`.

    Guarantee
    ---------
    As for `RegularizedERMClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RegularizedERMRegressor(
    ...     1.0, delta=1e-4, bounds=(0, 400), norm_bound=0.25
    ... )
    >>> model = model.fit(X[100:], y[100:], public=X[:100])
    >>> print(model.certificate_.headline())
    (1, 0.0001)-DP for the model, replace one unit of 342; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    loss: str = "absolute"
    radius: float = 2.0

    _prediction = 0.3

    def _examples(self, X: MatrixLike, y: MatrixLike, units: UnitIds) -> LinearExamples:
        if self.loss == "logistic":
            raise InvalidParameterError(
                "loss='logistic' is for classes; use 'squared', 'huber' or 'absolute'."
            )
        return super()._examples(X, y, units)
