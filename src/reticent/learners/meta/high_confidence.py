"""Trains several private models on disjoint parts and keeps a good one (L6)."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from reticent._arrays import Floats, Ints
from reticent._numbers import probability
from reticent._sklearn import (
    HasMethods,
    Interval,
    MatrixLike,
    StrOptions,
    fit_context,
    safe_indexing,
)
from reticent._text import one_of
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.estimators import UnitIds, check_bounds, deal_units
from reticent.guarantees import (
    ApproxDP,
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    epsilon_delta,
    noise_assumptions,
    parallel_composition,
    rule,
)
from reticent.learners.meta.base import MetaLearner, UnitTable, privacy_of
from reticent.learners.selection.candidates import FIXED_POINT, SELECTIONS
from reticent.mechanisms import (
    checked_epsilon,
    exponential_mechanism,
    exponential_mechanism_certificate,
    noise_source,
    permute_and_flip,
    permute_and_flip_certificate,
)


@rule(
    "L6",
    name="the best of several models",
    statement="units are dealt to parts by position alone; one part chooses among the "
    "models of the others",
    source="S0 Thm 18",
    takes=(PureDP, ApproxDP),
    gives=(PureDP, ApproxDP),
    same_kind=True,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def best_of_parts(
    premise: Certificate[Any], *, labels_from_data: bool, seeded: bool
) -> Conclusion[Any]:
    """Extend the promise of disjoint parts to the model that is kept."""
    return Conclusion(
        premise.guarantee,
        premise.relation,
        premise.scope,
        noise_assumptions(seeded, labels_from_data=labels_from_data),
    )


@dataclass(eq=False, repr=False)
class HighConfidence(MetaLearner):
    r"""A learner that does well with high probability, not only on average.

    The units are dealt to `a + 1` parts. The learner is trained on each of `a` parts,
    and the last part chooses among the models, privately, by their errors on it. If
    the learner's expected excess risk is small then one of the models has at most `e`
    times that, except with probability :math:`e^{-a}`.

    Parameters
    ----------
    learner : estimator
        A learner of this room.
    confidence : float, default=0.95
        Sets the number of models, ``a = ceil(ln(3 / (1 - confidence)))``.
    epsilon : float, default=None
        Privacy of the choice. None takes that of the models, so that the choice adds no
        cost.
    selection : {"permute-and-flip", "exponential"}, default="permute-and-flip"
        How the last part chooses; "permute-and-flip" never has a larger error.
    bounds : (float, float), default=None
        Public range of the targets, needed for regressors: errors are squared, of
        values clipped to it.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    learner_ : estimator
        The model that was chosen.
    certificate_ : Certificate
        What it promises.
    n_models_ : int
        Number of models it was chosen from.
    classes_, n_units_
        As for `Subsampled`.

    Guarantee
    ---------
    The largest loss of the parts, not their sum: one unit is in one part
    (G22-parallel). The deal does not depend on the data, and the choice uses only the
    models of the other parts. What a unit adds to a score is a whole number, and a
    function of its own rows alone: units of several rows are predicted one by one.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Thm 18; THEOREMS L6.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> from reticent.learners import ExponentialMechanismClassifier
    >>> X = np.linspace(0, 1, 3000)[:, None]
    >>> base = ExponentialMechanismClassifier(
    ...     Thresholds(), epsilon=1.0, bounds=(0, 1), classes=[0, 1]
    ... )
    >>> model = HighConfidence(base, confidence=0.95).fit(X, X[:, 0] > 0.5)
    >>> model.n_models_
    5
    >>> print(model.certificate_.headline())
    1-DP for the model, replace one unit of 3000; proved
    """

    learner: Any
    confidence: float = 0.95
    _: KW_ONLY
    epsilon: float | None = None
    selection: str = "permute-and-flip"
    bounds: tuple[float, float] | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learner": [HasMethods(["fit", "predict"])],
        "confidence": [Interval(Real, 0, 1, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "selection": [StrOptions(set(SELECTIONS))],
        "bounds": ["array-like", None],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Train on every part but one, let the last choose, release the choice.

        Parameters
        ----------
        X, y, units
            As for the learner; `units` are the ids of the rows' privacy units.
        """
        confidence = probability("HighConfidence", "confidence", self.confidence)
        one_of("selection", self.selection, *SELECTIONS)
        table, labels = self._table(X, y, units)
        self._check_bounds(table.y)
        source = noise_source(self.random_state)
        n_models = math.ceil(math.log(3 / (1 - confidence)))
        part = deal_units(table.n_units, n_models + 1, source)
        models = [
            self._fitted(table, np.flatnonzero(part == each), source)
            for each in range(n_models)
        ]
        certificates = [privacy_of(model) for model in models]
        last = np.flatnonzero(part == n_models)
        epsilon = self._epsilon(certificates)
        law, choice = self._choice(models, table, last, epsilon, source.seeded)
        self.certificate_ = best_of_parts(
            parallel_composition(*certificates, choice),
            labels_from_data=labels,
            seeded=source.seeded,
        )
        chosen = models[int(law.draw(source)[0])]
        self.learner_ = self._with_certificate(chosen, table.n_units)
        self.n_models_ = n_models
        self.n_units_ = table.n_units
        return self

    def _check_bounds(self, y: NDArray[Any]) -> None:
        if is_classifier(self.learner):
            return
        if self.bounds is None:
            raise InvalidParameterError(
                "bounds=None; a regressor's errors need the public range of the "
                "targets, bounds=(low, high)."
            )
        check_bounds(self.bounds)
        if not np.isfinite(np.asarray(y, dtype=np.float64)).all():
            raise InvalidDataError("Input y contains NaN or infinity.")

    def _epsilon(self, certificates: list[Certificate[Any]]) -> float:
        if self.epsilon is not None:
            return checked_epsilon("HighConfidence", self.epsilon)
        largest = max(epsilon_delta(c.guarantee)[0] for c in certificates)
        if not largest > 0:
            raise InvalidParameterError(
                "epsilon=None takes that of the models, which is 0; give epsilon=..."
            )
        return checked_epsilon("HighConfidence", largest)

    def _choice(
        self,
        models: list[Any],
        table: UnitTable,
        last: Ints,
        epsilon: float,
        seeded: bool,
    ) -> tuple[Any, Certificate[Any]]:
        """Return the law of the choice, and its certificate for the last part."""
        X, y, units = table.take(last)
        scores = [-self._score(model, X, y, units) for model in models]
        facts = {"bound": len(last) * FIXED_POINT, "sensitivity": FIXED_POINT}
        mechanism, certify = (
            (permute_and_flip, permute_and_flip_certificate)
            if self.selection == "permute-and-flip"
            else (exponential_mechanism, exponential_mechanism_certificate)
        )
        certificate: Certificate[Any] = certify(
            n=len(last),
            epsilon=epsilon,
            scope="model",
            sensitivity=FIXED_POINT,
            seeded=seeded,
        )
        return mechanism(scores, epsilon, **facts), certificate

    def _score(
        self,
        model: Any,
        X: MatrixLike,
        y: NDArray[Any],
        units: NDArray[Any] | None,
    ) -> int:
        """Return a model's loss over units, each a whole number up to `FIXED_POINT`.

        What a unit adds is a function of its own rows. A product of matrices rounds a
        row by its place and by the number of rows, so units of several rows are
        predicted one by one; if every row is a unit, both are public.
        """
        if units is None:
            return _in_steps(self._losses(model, X, y), 1)
        ends = np.append(np.flatnonzero(np.diff(units)) + 1, len(units))
        total, start = 0, 0
        for end in ends.tolist():
            own = safe_indexing(X, np.arange(start, end))
            total += _in_steps(self._losses(model, own, y[start:end]), end - start)
            start = end
        return total

    def _losses(self, model: Any, X: MatrixLike, y: NDArray[Any]) -> NDArray[Any]:
        """Return a model's loss on each row, in [0, 1]."""
        said = np.asarray(model.predict(X))
        if is_classifier(self.learner):
            return (said != y).astype(np.float64)
        bounds: Any = self.bounds
        low, high = check_bounds(bounds)
        clipped = np.clip(np.nan_to_num(np.asarray(said, dtype=np.float64)), low, high)
        error = (clipped - np.clip(y.astype(np.float64), low, high)) / (high - low)
        return np.minimum(error**2, 1.0)


def _in_steps(losses: Floats, rows_of_unit: int) -> int:
    # Rounding down within a unit keeps its loss within one.
    return int(np.floor(losses * (FIXED_POINT // rows_of_unit)).astype(np.int64).sum())
