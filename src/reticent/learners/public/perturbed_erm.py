"""Perturbed risk minimisation with public unlabelled points (M2)."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from reticent._arrays import Floats, Ints
from reticent._numbers import positive, probability, whole
from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent.errors import InvalidParameterError, RuleError
from reticent.estimators import UnitIds, two_labels, unit_positions
from reticent.guarantees import Certificate, gaussian_ratio
from reticent.hypotheses import HypothesisClass
from reticent.learners.public.points import public_rows
from reticent.learners.public.rules import (
    complexity_at_most,
    perturbed_minimisers,
    perturbed_move,
    projected_model,
)
from reticent.learners.public.separator_oracles import (
    OracleClassifier,
    SeparatorOracle,
    oracle_for,
)
from reticent.mechanisms import (
    ROUNDING_VARIANCE,
    GridLaw,
    RandomSource,
    RealResponse,
    draw_discrete_gaussian,
    noise_source,
    reach,
)

# No Gaussian that is ever drawn exceeds this many standard deviations.
_FARTHEST = 12
# A mistake counts at most this many steps of the random costs' grid.
_FINEST = 1 << 30


@dataclass(frozen=True, kw_only=True)
class PerturbedPlan:
    """Random costs and noise of M2, from public quantities alone."""

    eta: float  # strength of the random costs
    repeats: int  # number of minimisers that are averaged
    steps: int  # the cost of one mistake, in steps of the random costs' grid
    cost_scale: float  # standard deviation of a random cost, in steps
    # Standard deviation of the noise on the mean labels of the public points, and the
    # grid that they are rounded to.
    noise_scale: float
    grid: float
    # How far one unit may move the rounded mean labels, except with half of delta.
    farthest: float
    certificate: Certificate[Any]  # what the model promises

    @classmethod
    def of(
        cls,
        model: Any,
        oracle: SeparatorOracle,
        points: Floats,
        *,
        n_units: int,
        labels_from_data: bool,
        seeded: bool,
    ) -> PerturbedPlan:
        """Check a model's parameters; scikit-learn's checks may be off."""
        owner = type(model).__name__
        epsilon = positive(owner, "epsilon", model.epsilon)
        delta = probability(owner, "delta", model.delta)
        repeats = whole(owner, "repeats", model.repeats)
        labelings = oracle.labelings(points)
        facts = {"n": n_units, "m": len(points), "repeats": repeats}
        eta = model.eta
        if isinstance(eta, str) and eta == "auto":
            eta = _automatic_eta(epsilon, delta, labelings, **facts)
        eta = positive(owner, "eta", eta)
        deviation = 2 * n_units * eta / math.sqrt(len(points))  # in mistakes
        whole_cost = n_units + _FARTHEST * deviation * len(points)
        steps = int(min(_FINEST, oracle.room / whole_cost))
        if not steps * deviation >= 1:
            raise InvalidParameterError(
                f"eta={eta!r} is too small, or n_units={n_units} too many, for exact "
                f"sums with {oracle.name}. Raise eta."
            )
        certificate = _calibrated(
            epsilon=epsilon,
            delta=delta,
            eta=eta,
            labelings=labelings,
            weight_grid=1 / (steps * deviation),
            oracle=oracle.name,
            exact_oracle=oracle.exact,
            own_functions=oracle.own_functions,
            frozen=oracle.frozen,
            labels_from_data=labels_from_data,
            seeded=seeded,
            **facts,
        )
        details: dict[str, Any] = dict(certificate.details)
        return cls(
            eta=eta,
            repeats=repeats,
            steps=steps,
            cost_scale=steps * deviation,
            noise_scale=details["scale"],
            grid=details["grid"],
            farthest=_farthest(details, labelings),
            certificate=projected_model(certificate, points=len(points)),
        )

    def mean_labels(
        self,
        oracle: SeparatorOracle,
        rows: Floats,
        y: Ints,
        weights: Ints,
        points: Floats,
        source: RandomSource,
    ) -> Floats:
        """Average the labels -1 and 1 that perturbed minimisers give the points."""
        everything = np.concatenate([rows, points])
        zeros = np.zeros(len(points), dtype=np.int64)
        labels = np.concatenate([y, zeros])
        total = zeros.copy()
        for _ in range(self.repeats):
            costs = draw_discrete_gaussian(zeros, self.cost_scale, source)
            total += 2 * oracle.labels(
                everything, labels, np.append(weights, costs), points, self.steps
            )
        return np.asarray((total - self.repeats) / self.repeats)

    def response(self, values: Floats) -> RealResponse:
        """Return the law of noisy mean labels."""
        steps = np.rint(values / self.grid).astype(np.int64)
        scale = self.noise_scale / self.grid
        reach(
            "mean labels",
            steps[None, :],
            l2=self.farthest / self.grid,
            settings=(scale, self.grid),
        )
        return RealResponse(steps, self.grid, scale, GridLaw.GAUSSIAN)


def _farthest(details: dict[str, Any], labelings: int) -> float:
    """Return the move that rule M2 calibrates the noise to."""
    moved = perturbed_move(
        **{name: details[name] for name in ("n", "m", "eta", "repeats")},
        complexity=complexity_at_most(details["m"], labelings),
        grid=details["weight_grid"],
        delta=details["delta_stability"],
    )
    return math.sqrt(details["m"]) * (moved + 2.0**-40 + details["grid"])


def _automatic_eta(epsilon: float, delta: float, labelings: int, **facts: int) -> float:
    """Return the strength at which random costs and noise mislead least, roughly."""
    complexity = complexity_at_most(facts["m"], labelings)
    ratio = gaussian_ratio(epsilon, delta / 2)
    choices = np.logspace(-4, 0.5, 46).tolist()

    def misled(eta: float) -> float:
        moved = perturbed_move(
            **facts, eta=eta, complexity=complexity, grid=1e-12, delta=delta / 2
        )
        return 2 * eta + moved / ratio

    return float(min(choices, key=misled))


def _calibrated(**facts: Any) -> Certificate[Any]:
    """Return the certificate of the least noise that the rule accepts."""
    epsilon, delta, m = facts["epsilon"], facts["delta"], facts["m"]
    lost = delta / 2
    moved = perturbed_move(
        n=facts["n"],
        m=m,
        eta=facts["eta"],
        repeats=facts["repeats"],
        complexity=complexity_at_most(m, facts["labelings"]),
        grid=facts["weight_grid"],
        delta=lost,
    )
    ratio = gaussian_ratio(epsilon, delta - lost)
    step = 2.0 ** math.floor(math.log2(math.sqrt(m) * moved / ratio) - 20)
    far = math.sqrt(m) * (moved + 2.0**-40 + step) / ratio / step
    scale = math.sqrt(far**2 + ROUNDING_VARIANCE) * step
    for growth in (2.0**-k for k in range(48, 10, -1)):
        try:
            return perturbed_minimisers(
                **facts, scale=scale * (1 + growth), grid=step, delta_stability=lost
            )
        except RuleError:
            continue
    raise InvalidParameterError(
        f"no noise scale near {scale!r} reaches epsilon={epsilon!r}, delta={delta!r}."
    )


def nearest_labels(oracle: SeparatorOracle, points: Floats, values: Floats) -> Ints:
    """Return the labels of the class that are nearest to the noisy ones (M1)."""
    largest = max(float(np.abs(values).max()), 1e-300)
    finest = min(1 << 30, oracle.room // (2 * len(points)))
    costs = np.rint(-values / largest * finest).astype(np.int64)
    zeros = np.zeros(len(points), dtype=np.int64)
    return oracle.labels(points, zeros, costs, points, finest)


@dataclass(eq=False, repr=False)
class PerturbedERMClassifier(OracleClassifier):
    r"""Private classifier: an average of minimisers under random costs.

    Public points get random Gaussian costs, of either sign, and the oracle minimises
    mistakes plus costs, repeatedly with new costs. One unit hardly moves the mean of
    the labels that these minimisers give to the public points; noise hides the rest,
    and the hypothesis nearest to the noisy labels is released.

    It works for any class with an oracle, but its certificate follows from a long chain
    of bounds: `RRSPMClassifier` did better with a hundred units than this with ten
    thousand (docs, explain/students).

    Parameters
    ----------
    hypotheses : HypothesisClass or classifier
        The class, from `reticent.hypotheses`; or a scikit-learn classifier that takes
        `sample_weight`, as a heuristic oracle.
    epsilon, delta : float, default=1.0 and 1e-6
        Privacy cost of the released model. Half of `delta` is for the noise, half for
        costs that are unusually sensitive.
    repeats : int, default=500
        Number of minimisers that are averaged. The mean of more moves less.
    eta : float or "auto", default="auto"
        Strength of the random costs: their standard deviation is
        :math:`2 n \eta/\sqrt m` mistakes. "auto" balances it against the noise.
    classes : array-like of shape (2,), default=None
        The two public labels. None reads them from `y` and assumes them public.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    hypothesis_ : object
        The released hypothesis.
    public_values_ : ndarray of shape (n_public,)
        The noisy mean labels, which determine the hypothesis. They may be published.
    certificate_ : Certificate
        What the model promises.
    classes_, n_units_, noise_scale_, eta_
        Labels, number of units, scale of the noise and strength of the costs.

    Guarantee
    ---------
    The model is (`epsilon`, `delta`)-DP under replacement of one unit: rules M2 and
    M1. Proved for oracles that are exact in whole numbers (thresholds, intervals,
    stumps, rectangles, finite classes from a table, enumeration). For others the
    certificate assumes EXACT_ORACLE, for functions and classes of your own
    ROWWISE_QUERIES, and for a classifier with frozen parts PUBLIC_PARTS.

    References
    ----------
    :cite:`BlockEtAl2024`, Alg. 1 and 2; THEOREMS M1, M2.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> X, public = np.linspace(0, 1, 900)[:, None], np.linspace(0, 1, 20)[:, None]
    >>> model = PerturbedERMClassifier(
    ...     Thresholds(), epsilon=1.0, repeats=20, classes=[False, True]
    ... )
    >>> model = model.fit(X, X[:, 0] > 0.4, public=public)
    >>> print(model.certificate_.headline())
    (1, 1e-06)-DP for the model, replace one unit of 900; proved
    """

    hypotheses: Any
    epsilon: float = 1.0
    _: KW_ONLY
    delta: float = 1e-6
    repeats: int = 500
    eta: float | str = "auto"
    classes: ArrayLike | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "hypotheses": [HypothesisClass, HasMethods(["fit", "predict"])],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="neither")],
        "repeats": [Interval(Integral, 1, None, closed="left")],
        "eta": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "classes": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: MatrixLike,
        units: UnitIds = None,
        *,
        public: MatrixLike | None = None,
    ) -> Self:
        """Release a hypothesis.

        Parameters
        ----------
        X, y, units
            Private data, as for `ExponentialMechanismClassifier`.
        public : array-like of shape (n_public, n_features)
            Public unlabelled rows; required.
        """
        rows = np.asarray(validate_data(self, X, dtype=np.float64))
        labels, y = two_labels("PerturbedERMClassifier", self.classes, rows, y)
        points = public_rows("PerturbedERMClassifier", public, X, rows.shape[1])
        positions, n_units = unit_positions(units, len(rows))
        oracle = oracle_for(self.hypotheses, rows.shape[1])
        source = noise_source(self.random_state)
        plan = PerturbedPlan.of(
            self,
            oracle,
            points,
            n_units=n_units,
            labels_from_data=self.classes is None,
            seeded=source.seeded,
        )
        weights = plan.steps // np.bincount(positions, minlength=n_units)[positions]
        exact = plan.mean_labels(
            oracle, rows, labels.indices(y), weights, points, source
        )
        noisy = plan.response(exact).draw(source)
        # From here on only the noisy labels of public points depend on the data.
        nearest = nearest_labels(oracle, points, noisy)
        self._family = deepcopy(self.hypotheses)
        self.hypothesis_ = oracle.release(points, nearest)
        self.public_values_ = noisy
        self.certificate_ = plan.certificate
        self.noise_scale_ = plan.noise_scale
        self.eta_ = plan.eta
        self.classes_ = labels.classes
        self.n_units_ = n_units
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # every fit draws new noise
        return tags
