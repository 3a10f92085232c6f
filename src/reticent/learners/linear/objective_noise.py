"""Linear models released by tilting their objective at random: pure and accurate."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Floats
from reticent._numbers import positive
from reticent._sklearn import StrOptions
from reticent.errors import InvalidParameterError, SolverError
from reticent.estimators import (
    POSITIVE,
    RELATIONS,
    ROUND_OFF,
    BallProblem,
    BoundedLoss,
    CertifiedCoefficients,
    LinearExamples,
    LinearFacts,
    ReleasedLinear,
    ReleasedLinearClassifier,
    ReleasedLinearRegressor,
    Risk,
    is_auto,
    regression_loss,
)
from reticent.guarantees import Certificate, ReplaceOne
from reticent.learners.linear.noise_rules import (
    objective_noise,
    objective_release,
    solver_distance,
)
from reticent.mechanisms import (
    GridNoise,
    RandomSource,
    calibrate_laplace,
    draw_discrete_laplace,
)

# Share of epsilon that the solver's tolerance may cost.
_SOLVER_SHARE = 1e-3
# Coefficients of about this size are looked for, for rows in the unit ball.
_COEFFICIENT = 2.0
_NEWTON_STEPS = 100


@dataclass(eq=False, repr=False)
class _ObjectivePerturbation(ReleasedLinear):
    """The plan: tilt the regularised risk, minimise it, add noise for the solver."""

    _expects: ClassVar[bool] = True

    epsilon: float = 1.0
    _: KW_ONLY
    norm_bound: float = 1.0
    l1_bound: float | None = None
    regularization: float | str = "auto"
    fit_intercept: bool = True
    relation: str = "replace-one"
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinear._parameter_constraints,
        "l1_bound": [POSITIVE, None],
        "relation": [StrOptions(set(RELATIONS))],
    }

    def _private_coefficients(self, examples: LinearExamples) -> CertifiedCoefficients:
        # No ball bounds predictions here; the losses have bounded slopes without one.
        loss = self._loss(reach=1.0)
        limit = self.l1_bound
        if limit is not None:
            limit = positive(type(self).__name__, "l1_bound", limit)
        data = self._in_ball(examples, l1_bound=limit)
        plan = ObjectivePlan.of(self, loss, data.facts)
        found = plan.coefficients(data.rows, data.targets, data.weights, data.source)
        self.tilt_scale_ = plan.tilt_scale
        self.regularization_ = plan.regularization
        return found, plan.certificate


@dataclass(eq=False, repr=False, kw_only=True)
class ObjectivePerturbationClassifier(_ObjectivePerturbation, ReleasedLinearClassifier):
    r"""Linear classifier released by tilting its objective at random.

    A linear term with Laplace coefficients is added to the regularised risk before it
    is minimised. The most accurate pure release of a linear model here, above all for
    encoded tables: their rows have few entries that are not zero, so that the sum of
    their absolute entries is far below what the norm bound implies.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs; no delta.
    loss : {"logistic", "hinge"}, default="logistic"
        The loss; the hinge is smoothed over `width`.
    width : float, default=1.0
        Where the hinge bends.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row, known without looking at the
        data. Longer rows are scaled down when training.
    l1_bound : float or None, default=None
        Public bound on the sum of a row's absolute entries; longer rows are scaled
        down. For rows of a `reticent.schemas.Encoder` it is the number of the
        schema's columns. None takes what the norm bound implies.
    regularization : float or "auto", default="auto"
        Strength of the penalty, for rows divided by `norm_bound`; "auto" weighs it
        against the noise.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is added.
    relation : {"replace-one", "zero-out"}, default="replace-one"
        Which neighbours the certificate is about: another unit in one's place, or one
        that contributes nothing, which needs about half the noise.
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
    classes_, n_units_, tilt_scale_, regularization_
        Labels, number of units, scale of the tilt and strength of the penalty.

    Guarantee
    ---------
    The model is `epsilon`-DP under replacement of one unit, or with "zero-out" if one
    contributes nothing. *Proof.* L-objective for the exact minimiser; the computed one
    is within a preset distance of it, and a little noise covers that distance
    (L-objective-solver, L-objective-release).

    References
    ----------
    :cite:`ChaudhuriMonteleoniSarwate2011`, :cite:`KiferSmithThakurta2012`,
    :cite:`IyengarEtAl2019`.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(3000, random_state=0)
    >>> model = ObjectivePerturbationClassifier(1.0, norm_bound=5.0, classes=[0, 1])
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 3000; proved
    """

    loss: str = "logistic"
    width: float = 1.0
    classes: ArrayLike | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class ObjectivePerturbationRegressor(_ObjectivePerturbation, ReleasedLinearRegressor):
    """Linear regressor with Huber's loss, released by tilting its objective.

    Parameters
    ----------
    epsilon
        As for `ObjectivePerturbationClassifier`.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target, known without looking at the data. Targets and
        predictions outside are clipped.
    width : float, default=0.25
        Where Huber's loss, of targets whose bounds are mapped to -1 and 1, turns from
        a square into a straight line.
    norm_bound, l1_bound, regularization, fit_intercept, relation, random_state
        As for `ObjectivePerturbationClassifier`.

    Attributes
    ----------
    coef_, intercept_ : ndarray and float
        The released model, in the target's units.
    certificate_, n_units_, tilt_scale_, regularization_
        As for `ObjectivePerturbationClassifier`.

    Guarantee
    ---------
    As for `ObjectivePerturbationClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ObjectivePerturbationRegressor(1.0, bounds=(0, 400), norm_bound=0.25)
    >>> print(model.fit(X, y).certificate_.headline())
    1-DP for the model, replace one unit of 442; proved
    """

    bounds: tuple[float, float] = (0.0, 1.0)
    width: float = 0.25

    def _loss(self, reach: float) -> BoundedLoss:
        return regression_loss("huber", self.width, reach)


@dataclass(frozen=True, eq=False)
class ObjectivePlan:
    """Noise in the objective: a random tilt, then an almost exact minimiser."""

    loss: BoundedLoss
    n_units: int
    feature_bound: float
    regularization: float
    tilt_scale: float
    tilt_grid: float
    tolerance: float
    noise: GridNoise
    certificate: Certificate[Any]

    @classmethod
    def of(cls, model: Any, loss: BoundedLoss, facts: LinearFacts) -> ObjectivePlan:
        """Share out epsilon; all but a little goes to the tilt."""
        epsilon = positive(type(model).__name__, "epsilon", model.epsilon)
        n_units, dimension = facts.n_units, facts.dimension
        curved = loss.curvature * facts.feature_bound**2
        gradients = 2 if model.relation == ReplaceOne.name else 1
        steep = gradients * loss.slope * facts.l1_bound
        regularization, scale = _tilt(model, epsilon, n_units, curved, steep)
        # So fine that drawing from the grid costs less than 2^-31 of epsilon.
        grid = 2.0 ** math.floor(math.log2(scale * epsilon / dimension) - 32)
        exact = objective_noise(
            n=n_units,
            slope=loss.slope,
            curvature=loss.curvature,
            l1_bound=facts.l1_bound,
            l2_bound=facts.feature_bound,
            regularization=regularization,
            scale=scale,
            grid=grid,
            dimension=dimension,
            labels_from_data=facts.labels_from_data,
            seeded=facts.seeded,
            relation=model.relation,
        )
        tolerance = _SOLVER_SHARE * epsilon * scale / (n_units * dimension)
        distance = solver_distance(
            n=n_units,
            regularization=regularization,
            tolerance=tolerance,
            grid=grid,
            dimension=dimension,
            relation=model.relation,
        )
        noise = calibrate_laplace(
            distance,
            epsilon=epsilon * (1 - 2.0**-40) - exact.guarantee.epsilon,
            dimension=dimension,
            seeded=facts.seeded,
        )
        return cls(
            loss=loss,
            n_units=n_units,
            feature_bound=facts.feature_bound,
            regularization=regularization,
            tilt_scale=scale,
            tilt_grid=grid,
            tolerance=tolerance,
            noise=noise,
            certificate=objective_release(exact, noise.certificate, epsilon=epsilon),
        )

    def coefficients(
        self, rows: Floats, targets: Floats, weights: Floats, source: RandomSource
    ) -> Floats:
        """Draw the tilt, minimise to the preset tolerance, and add the last noise."""
        zero = np.zeros(rows.shape[1], dtype=np.int64)
        drawn = draw_discrete_laplace(zero, self.tilt_scale / self.tilt_grid, source)
        tilt = drawn * self.tilt_grid / self.n_units
        found = self._minimiser(rows, targets, weights, tilt)
        return self.noise.response(found).draw(source)

    def _minimiser(
        self, rows: Floats, targets: Floats, weights: Floats, tilt: Floats
    ) -> Floats:
        problem = BallProblem(
            self.loss, self.feature_bound, math.inf, self.regularization
        )
        tilted = _Tilted(problem, rows, targets, weights, tilt)
        w = np.zeros(rows.shape[1])
        for _ in range(_NEWTON_STEPS):
            gradient = tilted.gradient(w)
            if np.linalg.norm(gradient) + tilted.error(w) <= self.tolerance:
                return w
            moved = _newton_step(tilted, w, gradient)
            if moved is None:
                break
            w = moved
        raise SolverError(
            f"the preset solver tolerance of {self.tolerance:.3g} was not reached. "
            "Raise `regularization` or `epsilon`, or rescale the features."
        )


@dataclass(frozen=True, eq=False)
class _Tilted(Risk):
    """The tilted objective with its derivatives."""

    tilt: Floats

    def value(self, w: Floats) -> float:
        losses = self.problem.loss.loss.value(self.rows @ w, self.y)
        penalty = self.problem.regularization * (w @ w) / 2
        return float(self.weights @ losses + penalty + self.tilt @ w)

    def gradient(self, w: Floats) -> Floats:
        return np.asarray(super().gradient(w) + self.tilt)

    def error(self, w: Floats) -> float:
        """Bound the rounding of the gradient at `w`."""
        ball = replace(self.problem, radius=2 * float(np.linalg.norm(w)))
        tilt = 8 * ROUND_OFF * float(np.linalg.norm(self.tilt))
        return ball.gradient_error(*self.rows.shape) + tilt


def _newton_step(tilted: _Tilted, w: Floats, gradient: Floats) -> Floats | None:
    """Return a point with a lower value, or a gradient half as long; None if none."""
    step = np.linalg.solve(tilted.hessian(w), gradient)
    here, slope = tilted.value(w), float(gradient @ step)
    norm = float(np.linalg.norm(gradient))
    length = 1.0
    while length > 1e-10:
        there = w - length * step
        if tilted.value(there) <= here - 1e-4 * length * slope < here:
            return np.asarray(there)
        if np.linalg.norm(tilted.gradient(there)) <= 0.5 * norm:
            return np.asarray(there)
        length /= 2
    return None


def _tilt(
    model: Any, epsilon: float, n_units: int, curved: float, steep: float
) -> tuple[float, float]:
    """Return the regularisation and the scale of the tilt's noise."""
    regularization = model.regularization
    if is_auto(regularization):
        volume = 5 * curved / (epsilon * n_units)  # a fifth of epsilon at most
        balance = math.sqrt(2) * steep / (epsilon * n_units * _COEFFICIENT)
        regularization = max(volume, balance)
    regularization = positive(type(model).__name__, "regularization", regularization)
    last = 0.01 * epsilon
    left = epsilon * (1 - 2.0**-30) - last - curved / (n_units * regularization)
    if not left > 0:
        raise InvalidParameterError(
            f"regularization={regularization!r} is too small for epsilon={epsilon!r} "
            f"and n_units={n_units}: it must exceed {1.02 * curved / n_units:.3g} / "
            'epsilon. Leave it "auto".'
        )
    return regularization, steep / left * (1 + 2.0**-30)
