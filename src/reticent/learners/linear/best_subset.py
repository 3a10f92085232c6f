"""Regression on the best few features, privately chosen (L3)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from reticent._arrays import Floats, Ints
from reticent._numbers import below_one, nonnegative, positive, up, whole
from reticent._sklearn import Interval
from reticent.errors import InvalidParameterError, RuleError
from reticent.estimators import (
    LONGEST_ROW,
    LinearExamples,
    ReleasedLinearRegressor,
    UnitIds,
    bounded_rows,
    unit_weights,
)
from reticent.guarantees import (
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    compose,
    rule,
)
from reticent.hypotheses import HuberLoss, LinearBall
from reticent.learners.linear.log_concave_laws import (
    LARGEST_SCORE,
    MOST_STEPS_OF_A_LOSS,
)
from reticent.learners.linear.objective_noise import ObjectivePerturbationRegressor
from reticent.mechanisms import (
    RandomSource,
    noise_source,
    permute_and_flip,
    permute_and_flip_certificate,
)

_MOST_SUPPORTS = 5000


@rule(
    "L3",
    name="best subset of features",
    statement="the least risk on a support moves by range/n, computed to a gap g by "
    "range/n + g; scores in fixed point allow for both",
    source="S0 Ex. 5",
    paper="exact minima, and a gap paid as eps n g / range",
    takes=PureDP,
    gives=PureDP,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def selected_support(
    premise: Certificate[PureDP], *, supports: int, steps: int, gap: float
) -> Conclusion[PureDP]:
    """Carry the promise of a selection over to the rows behind its scores.

    `gap` is the solver's, as a share of the loss's range; `steps` make up one loss.

    *Proof.* Each of `supports` scores is minus the computed least risk, times `n`, in
    steps of a loss, rounded down. Exact least risks of neighbours differ by at most
    one loss in `n`; computed ones lie at most a gap above them; so scores differ by at
    most ``steps + n gap steps + 1``, to which the selection must have been calibrated.
    """
    owner = "rule L3"
    whole(owner, "supports", supports)
    steps = whole(owner, "steps", steps)
    gap = nonnegative(owner, "gap", gap)
    needed = score_sensitivity(premise.relation.n, steps, gap)  # type: ignore[union-attr]
    told = dict(premise.details).get("sensitivity")
    if not (isinstance(told, int) and told >= needed):
        raise RuleError(
            f"rule L3 needs a selection for sensitivity={needed}; got {told}."
        )
    return Conclusion(premise.guarantee, premise.relation, premise.scope)


def score_sensitivity(n: int, steps: int, gap: float) -> int:
    """Return by how many steps a computed score may move."""
    return steps + math.ceil(up(n * gap * steps)) + 1


@dataclass(eq=False, repr=False)
class BestSubsetRegressor(ReleasedLinearRegressor):
    r"""Huber regression on the best `n_selected` features, privately chosen.

    First permute-and-flip selects one of all sets of `n_selected` features by its
    least risk; then the coefficients on that set are released by objective
    perturbation. The epsilons of the two steps add up.

    Parameters
    ----------
    epsilon : float, default=1.0
        What releasing the model costs.
    bounds : (float, float), default=(0.0, 1.0)
        Public bounds on the target. Targets and predictions outside are clipped.
    n_selected : int, default=2
        Size of the subset; there may be at most 5000 subsets.
    share : float, default=0.4
        Share of epsilon for the choice of the subset.
    width : float, default=0.25
        Where Huber's loss, of targets mapped to [-1, 1], turns into a straight line.
    norm_bound : float, default=1.0
        Public bound on the Euclidean norm of a row. Longer rows are scaled down when
        training.
    radius : float, default=2.0
        Bound on the norm of the coefficients by whose risk subsets are judged, for
        rows divided by `norm_bound`.
    fit_intercept : bool, default=True
        Whether a constant feature of half of `norm_bound` is in every subset.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    support_ : ndarray of int
        The selected features.
    coef_, intercept_ : ndarray and float
        The released model; zero outside the support.
    certificate_ : Certificate
        What subset and model promise together.
    n_units_ : int
        Number of units.

    Guarantee
    ---------
    Subset and model together are `epsilon`-DP under replacement of one unit, by L3,
    L-objective and basic composition. *Proof.* See the rules; least risks are
    computed to a preset gap, which the selection's sensitivity includes.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Ex. 5; THEOREMS L3.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 5))
    >>> model = BestSubsetRegressor(4.0, bounds=(-3, 3), n_selected=1, norm_bound=2.5)
    >>> model.fit(X, 2 * X[:, 3]).support_
    array([3])
    """

    epsilon: float = 1.0
    _: KW_ONLY
    bounds: tuple[float, float] = (0.0, 1.0)
    n_selected: int = 2
    share: float = 0.4
    width: float = 0.25
    norm_bound: float = 1.0
    radius: float = 2.0
    fit_intercept: bool = True
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ReleasedLinearRegressor._parameter_constraints,
        "n_selected": [Interval(Integral, 1, None, closed="left")],
        "share": [Interval(Real, 0, 1, closed="neither")],
    }

    def _learn(self, examples: LinearExamples) -> None:
        owner = type(self).__name__
        epsilon = positive(owner, "epsilon", self.epsilon)
        first = epsilon * positive(
            owner, "share", below_one(owner, "share", self.share)
        )
        n_features = examples.X.shape[1]
        rows, _, _ = bounded_rows(examples.X, self.norm_bound, None, self.fit_intercept)
        supports = self._supports(n_features)
        # One source for both steps: a second one with the same seed would repeat its
        # noise.
        source = noise_source(self.random_state)
        chosen, selection = self._select(
            rows, examples.targets, examples.units, supports, first, source
        )
        kept = supports[chosen]
        # Rows in the ball stay in it when entries are left out.
        inner = rows[:, kept] * self.norm_bound
        model = ObjectivePerturbationRegressor(
            (epsilon - first) * (1 - 2.0**-50),
            bounds=(-1.0, 1.0),
            width=self.width,
            norm_bound=self.norm_bound,
            fit_intercept=self.fit_intercept,
            random_state=source,
        ).fit(inner, examples.targets, examples.units)
        self.__dict__.pop("identity_", None)
        self.certificate_ = compose([selection, model.certificate_])
        self.n_units_, self.support_ = model.n_units_, kept
        self.coef_, self.intercept_ = np.zeros((1, n_features)), [model.intercept_]
        self.coef_[0, kept] = model.coef_
        self._keep_targets(examples)

    def _supports(self, n_features: int) -> Ints:
        size = whole(type(self).__name__, "n_selected", self.n_selected)
        size = min(size, n_features)
        if not math.comb(n_features, size) <= _MOST_SUPPORTS:
            raise InvalidParameterError(
                f"n_selected={size} of {n_features} features gives "
                f"{math.comb(n_features, size)} subsets; at most {_MOST_SUPPORTS} are "
                "searched. Select fewer, or drop features first."
            )
        return np.array(list(combinations(range(n_features), size)), dtype=np.int64)

    def _select(
        self,
        rows: Floats,
        targets: Floats,
        units: UnitIds,
        supports: Ints,
        epsilon: float,
        source: RandomSource,
    ) -> tuple[int, Certificate[PureDP]]:
        """Select a support by its least risk."""
        loss = HuberLoss(positive(type(self).__name__, "width", self.width))
        radius = positive(type(self).__name__, "radius", self.radius)
        farthest = np.array([LONGEST_ROW * radius + 1.0])
        span = up(float(loss.value(farthest, np.zeros(1))[0]))
        weights, n = unit_weights(units, len(rows))
        steps = min(MOST_STEPS_OF_A_LOSS, LARGEST_SCORE // n)
        gap = 1e-3 / n  # of the range; a thousandth of one unit's loss
        ball = LinearBall(radius)
        constant = [rows.shape[1] - 1] if self.fit_intercept else []
        scores = np.empty(len(supports), dtype=np.int64)
        for index, support in enumerate(supports):
            columns = [*support.tolist(), *constant]
            least = ball.minimise(
                rows[:, columns],
                targets,
                weights * len(rows),
                loss=loss,
                gap=gap * span * 0.5,
            )
            # Half the gap is for the rounding of the value itself.
            share = min(max(least.value / span, 0.0), 1.0)
            scores[index] = -math.floor(share * n * steps)
        sensitivity = score_sensitivity(n, steps, gap)
        law = permute_and_flip(
            scores, epsilon, bound=n * steps, sensitivity=sensitivity
        )
        certificate = permute_and_flip_certificate(
            n=n,
            epsilon=epsilon,
            scope="model",
            sensitivity=sensitivity,
            seeded=source.seeded,
        )
        selection = selected_support(
            certificate, supports=len(supports), steps=steps, gap=gap
        )
        return int(law.draw(source)[0]), selection
