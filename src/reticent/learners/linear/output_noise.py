"""Linear models released with noise on their coefficients (P3)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from reticent._arrays import Floats
from reticent._numbers import below_one, positive
from reticent._sklearn import StrOptions
from reticent.estimators import (
    LONGEST_ROW,
    RELATIONS,
    BallProblem,
    BoundedLoss,
    CertifiedCoefficients,
    LinearExamples,
    LinearFacts,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    erm_sensitivity,
    is_auto,
    minimise_risk,
)
from reticent.guarantees import Certificate, ReplaceOne, Sensitivity, gaussian_ratio
from reticent.learners.linear.noise_rules import coefficient_sensitivity
from reticent.mechanisms import (
    GridNoise,
    RandomSource,
    calibrate_gaussian,
    calibrate_laplace,
)

# Share of the sensitivity that the solver's tolerance may cost.
_SOLVER_SHARE = 1e-3


@dataclass(eq=False, repr=False)
class _OutputPerturbation(ReleasedLinear):
    """The plan: minimise the regularised risk over a ball, and add noise."""

    _expects: ClassVar[bool] = True

    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 0.0
    norm_bound: float = 1.0
    regularization: float | str = "auto"
    fit_intercept: bool = True
    relation: str = "replace-one"
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinear._parameter_constraints,
        "relation": [StrOptions(set(RELATIONS))],
    }

    def _private_coefficients(self, examples: LinearExamples) -> CertifiedCoefficients:
        loss = self._loss(LONGEST_ROW * self._checked_radius())
        data = self._in_ball(examples)
        plan = OutputPlan.of(self, loss, data.facts)
        found = plan.coefficients(data.rows, data.targets, data.weights, data.source)
        self.noise_scale_ = plan.noise.scale
        self.regularization_ = plan.problem.regularization
        return found, plan.noise.certificate


@dataclass(eq=False, repr=False, kw_only=True)
class OutputPerturbationClassifier(_OutputPerturbation, ReleasedLinearClassifier):
    r"""Linear classifier released with noise on its coefficients.

    The minimiser over a ball is regularised so strongly that one unit hardly moves it;
    noise hides the rest. The simplest release. `ObjectivePerturbationClassifier` is
    more accurate at the same pure epsilon, `NoisyGradientClassifier` at the same
    epsilon and delta.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs.
    delta : float, default=0.0
        Above 0 the noise is Gaussian; at 0 each coefficient gets Laplace noise for
        the move of all in l1, about 1.4 times as long as noise of uniform direction
        and Gamma length, which cannot be drawn exactly on a grid.
    loss : {"logistic", "hinge"}, default="logistic"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data. Longer rows are scaled down when training.
    radius : float, default=10.0
        Bound on the norm of the coefficients, for rows divided by `norm_bound`.
    regularization : float or "auto", default="auto"
        Strength of the penalty; "auto" weighs it against the noise.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    relation : {"replace-one", "zero-out"}, default="replace-one"
        Which neighbours the certificate is about: another unit in one's place, or one
        that contributes nothing, which needs half the noise.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    coef_, intercept_ : ndarray
        The released model.
    certificate_ : Certificate
        What the model promises.
    classes_, n_units_, noise_scale_, regularization_
        Labels, number of units, scale of the noise and strength of the penalty.

    Guarantee
    ---------
    The model is `epsilon`-DP, or (`epsilon`, `delta`)-DP, under replacement of one
    unit, or with "zero-out" if one contributes nothing. *Proof.* P3 bounds the move of
    the coefficients, the solver's preset tolerance included; L-output states it for all
    of them; G5 adds noise for it.

    References
    ----------
    :cite:`ChaudhuriMonteleoniSarwate2011`, :cite:`DworkFeldman2018`; THEOREMS P3, G5.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = OutputPerturbationClassifier(1.0, norm_bound=5.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 3000; proved
    """

    loss: str = "logistic"
    width: float = 1.0
    radius: float = 10.0
    classes: ArrayLike | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class OutputPerturbationRegressor(_OutputPerturbation, ReleasedLinearRegressor):
    """Linear regressor released with noise on its coefficients.

    Parameters
    ----------
    epsilon, delta
        As for `OutputPerturbationClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    loss : {"huber", "squared"}, default="huber"
        The loss, of targets whose bounds are mapped to -1 and 1.
    width : float, default=0.25
        Where Huber's loss turns from a square into a straight line.
    norm_bound, radius, regularization, fit_intercept, relation, random_state
        As for `OutputPerturbationClassifier`; `radius` for targets mapped to [-1, 1].

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    certificate_, n_units_, noise_scale_, regularization_
        As for `OutputPerturbationClassifier`.

    Guarantee
    ---------
    As for `OutputPerturbationClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = OutputPerturbationRegressor(
    ...     1.0, delta=1e-4, bounds=(0, 400), norm_bound=0.25
    ... )
    >>> print(model.fit(X, y).certificate_.headline())
    (1, 0.0001)-DP for the model, replace one unit of 442; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    loss: str = "huber"
    width: float = 0.25
    radius: float = 3.0


@dataclass(frozen=True, eq=False)
class OutputPlan:
    """Noise on the minimiser over a ball (P3)."""

    problem: BallProblem
    tolerance: float
    noise: GridNoise

    @classmethod
    def of(cls, model: Any, loss: BoundedLoss, facts: LinearFacts) -> OutputPlan:
        """Check a model's parameters; scikit-learn's checks may be off."""
        owner = type(model).__name__
        epsilon = positive(owner, "epsilon", model.epsilon)
        delta = below_one(owner, "delta", model.delta)
        radius = positive(owner, "radius", model.radius)
        # Standard deviation of the noise on one coefficient, over its sensitivity.
        spread = (
            1 / gaussian_ratio(epsilon, delta)
            if delta
            else math.sqrt(2 * facts.dimension) / epsilon
        )
        lipschitz = loss.slope * facts.feature_bound
        regularization = model.regularization
        if is_auto(regularization):
            losses = 2 if model.relation == ReplaceOne.name else 1
            moved = losses * lipschitz * spread / facts.n_units
            curved = loss.curvature * facts.feature_bound**2
            # Where the costs of regularisation and of noise grow equally fast.
            regularization = (2 * curved * moved**2 / radius**2) ** (1 / 3)
        regularization = positive(owner, "regularization", regularization)
        problem = BallProblem(loss, facts.feature_bound, radius, regularization)
        tolerance = _SOLVER_SHARE * lipschitz / facts.n_units
        premise = coefficient_sensitivity(
            erm_sensitivity(
                n=facts.n_units,
                lipschitz=lipschitz,
                feature_bound=1.0,
                radius=radius,
                regularization=regularization,
                tolerance=tolerance,
                labels_from_data=facts.labels_from_data,
                relation=model.relation,
            ),
            dimension=facts.dimension,
        )
        noise = calibrated_noise(
            premise, epsilon, delta, dimension=facts.dimension, seeded=facts.seeded
        )
        return cls(problem, tolerance, noise)

    def coefficients(
        self, rows: Floats, targets: Floats, weights: Floats, source: RandomSource
    ) -> Floats:
        """Minimise the risk to the preset tolerance, and add the noise."""
        found = minimise_risk(self.problem, rows, targets, weights, self.tolerance)
        return self.noise.response(found).draw(source)


def calibrated_noise(
    premise: Certificate[Sensitivity],
    epsilon: float,
    delta: float,
    *,
    dimension: int,
    seeded: bool,
) -> GridNoise:
    """Calibrate Gaussian noise if there is a delta, Laplace noise if not."""
    facts: dict[str, Any] = {"dimension": dimension, "seeded": seeded}
    if delta:
        return calibrate_gaussian(premise, epsilon=epsilon, delta=delta, **facts)
    return calibrate_laplace(premise, epsilon=epsilon, **facts)
