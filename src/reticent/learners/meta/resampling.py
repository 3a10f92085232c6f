"""Runs a learner on a subsample (L7) or on a resample (L10) of the units."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np

from reticent._numbers import whole
from reticent._sklearn import HasMethods, Interval, MatrixLike, StrOptions, fit_context
from reticent.errors import InvalidParameterError, TooFewRecordsError
from reticent.estimators import UnitIds
from reticent.guarantees import (
    ApproxDP,
    Certificate,
    Conclusion,
    PerfectGeneralization,
    PureDP,
    ReplaceOne,
    Scope,
    noise_assumptions,
    resample_perfect,
    rule,
    subsample,
)
from reticent.learners.meta.base import MetaLearner, privacy_of, released
from reticent.mechanisms import noise_source

_PRIVATE = (PureDP, ApproxDP)


@rule(
    "L7",
    name="a learner on a subsample",
    statement="units are drawn uniformly, in fresh random order, whatever they hold",
    source="S0 Lemmas 4 and 10",
    takes=_PRIVATE,
    gives=_PRIVATE,
    same_kind=True,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def subsampled_learner(
    premise: Certificate[Any], *, labels_from_data: bool, seeded: bool
) -> Conclusion[Any]:
    """Extend amplification to a learner whose units were drawn by this code."""
    return _kept(premise, labels_from_data, seeded)


@rule(
    "L10",
    name="a perfect generalizer on a resample",
    statement="n units are drawn with replacement, whatever they hold",
    source="S3 Alg. 2 and Thm 33",
    takes=_PRIVATE,
    gives=_PRIVATE,
    same_kind=True,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def resampled_learner(
    premise: Certificate[Any], *, labels_from_data: bool, seeded: bool
) -> Conclusion[Any]:
    """Extend G16 to a learner whose units were drawn by this code."""
    return _kept(premise, labels_from_data, seeded)


def _kept(premise: Certificate[Any], labels: bool, seeded: bool) -> Conclusion[Any]:
    return Conclusion(
        premise.guarantee,
        premise.relation,
        premise.scope,
        noise_assumptions(seeded, labels_from_data=labels),
    )


@dataclass(eq=False, repr=False)
class Subsampled(MetaLearner):
    r"""A learner that sees only some of the units: less privacy loss, less data.

    Run on :math:`\lfloor\sqrt n\rfloor` units, any private learner becomes one whose
    epsilon vanishes as `n` grows.

    Parameters
    ----------
    learner : estimator
        A learner of this room.
    size : int or "sqrt", default="sqrt"
        Number of units it sees; "sqrt" is the square root of the total, rounded down.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    learner_ : estimator
        The released model.
    certificate_ : Certificate
        What it promises to each of all `n_units_` units.
    classes_ : ndarray
        The public labels, for classifiers.
    n_units_ : int
        Number of privacy units.

    Guarantee
    ---------
    ``ln(1 + q (e^epsilon - 1))`` and ``q delta``, with `q` the share of units drawn
    (G8). The subsample is in random order, because the rule is false for learners that
    depend on the order of their units. Which units were drawn is secret and not stored.

    References
    ----------
    :cite:`WangLeiFienberg2016`, Lemmas 4, 10; THEOREMS L7, G8.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> from reticent.learners import ExponentialMechanismClassifier
    >>> X = np.linspace(0, 1, 10_000)[:, None]
    >>> base = ExponentialMechanismClassifier(
    ...     Thresholds(), epsilon=1.0, bounds=(0, 1), resolution=100, classes=[0, 1]
    ... )
    >>> print(Subsampled(base).fit(X, X[:, 0] > 0.5).certificate_.headline())
    0.0170369-DP for the model, replace one unit of 10000; proved
    """

    learner: Any
    size: int | str = "sqrt"
    _: KW_ONLY
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learner": [HasMethods(["fit", "predict"])],
        "size": [Interval(Integral, 1, None, closed="left"), StrOptions({"sqrt"})],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Draw units, train on them, and release the model.

        Parameters
        ----------
        X, y, units
            As for the learner; `units` are the ids of the rows' privacy units.
        """
        table, labels = self._table(X, y, units)
        n = table.n_units
        size = self._size(n)
        source = noise_source(self.random_state)
        # subset() returns the units in random order, as rule G8 needs.
        learner = self._fitted(table, source.subset(n, size), source)
        certificate = subsampled_learner(
            subsample(privacy_of(learner), n=n, order="shuffled"),
            labels_from_data=labels,
            seeded=source.seeded,
        )
        self.learner_, self.certificate_ = learner, certificate
        self.n_units_ = n
        return self

    def _size(self, n: int) -> int:
        if isinstance(self.size, str):
            if self.size != "sqrt":
                raise InvalidParameterError(
                    f"size={self.size!r} must be 'sqrt' or a number of units."
                )
            return math.isqrt(n)
        size = whole("Subsampled", "size", self.size)
        if not size <= n:
            raise TooFewRecordsError(
                f"size={size} needs as many units; got n_units={n}. Lower size."
            )
        return size


class Resampled(MetaLearner):
    r"""Make a perfectly generalizing learner private by bootstrapping its data.

    The learner is run on `n` of the `n` units, drawn with replacement. For the learner
    the data are then a distribution, and its output hardly depends on which sample of
    it was drawn; so one unit cannot matter much.

    Parameters
    ----------
    learner : estimator
        A learner whose `certificate_` is a `PerfectGeneralization` with
        ``epsilon <= ln 2``, such as `PerfectlyGeneralizingClassifier`.
    random_state : int, RandomState instance or None, default=None
        None draws from the operating system; anything else is for experiments.

    Attributes
    ----------
    learner_, certificate_, classes_, n_units_
        As for `Subsampled`; the certificate is `ApproxDP`.

    Guarantee
    ---------
    ``(4 epsilon, delta (e^{4 epsilon} - 1)/(e^epsilon - 1) + beta/(1 - beta))`` by
    G16. A learner that is differentially private itself, such as L9, usually promises
    more by its own `privacy_certificate_`: this is for learners that are not.

    References
    ----------
    :cite:`CummingsEtAl2016`, Thm 33; THEOREMS L10, G16.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> from reticent.learners import PerfectlyGeneralizingClassifier
    >>> X = np.linspace(0, 1, 1000)[:, None]
    >>> base = PerfectlyGeneralizingClassifier(
    ...     Thresholds(), 0.25, 1e-6, points=np.linspace(0, 1, 9), classes=[0, 1]
    ... )
    >>> print(Resampled(base).fit(X, X[:, 0] > 0.5).certificate_.headline())
    (1, 1.00001e-06)-DP for the model, replace one unit of 1000; proved
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learner": [HasMethods(["fit", "predict"])],
    }

    def __init__(self, learner: Any, *, random_state: Any = None) -> None:
        self.learner = learner
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Draw units with replacement, train on them, and release the model.

        Parameters
        ----------
        X, y, units
            As for the learner; `units` are the ids of the rows' privacy units.
        """
        table, labels = self._table(X, y, units)
        n = table.n_units
        source = noise_source(self.random_state)
        chosen = source.below(np.full(n, n, dtype=np.uint64)).astype(np.int64)
        model = self._fitted(table, chosen, source)
        perfect = released(model, getattr(model, "certificate_", None))
        if not isinstance(perfect.guarantee, PerfectGeneralization):
            raise InvalidParameterError(
                f"Resampled needs a perfectly generalizing learner; "
                f"{type(model).__name__} promises {perfect.guarantee}. Use "
                "PerfectlyGeneralizingClassifier, or the learner by itself."
            )
        self.certificate_ = resampled_learner(
            resample_perfect(perfect), labels_from_data=labels, seeded=source.seeded
        )
        # What the model promises by itself is about units that were drawn once.
        self.learner_ = self._with_certificate(model, n)
        self.n_units_ = n
        return self
