"""A learner whose output could have been simulated without the sample (L9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

from reticent._numbers import down, positive, probability, up, whole
from reticent._sklearn import Interval, MatrixLike, fit_context
from reticent.errors import RuleError
from reticent.estimators import UnitIds
from reticent.guarantees import (
    BoundedRange,
    Certificate,
    Conclusion,
    PerfectGeneralization,
    ReplaceOne,
    Sample,
    Scope,
    rule,
)
from reticent.learners.selection.candidates import refuse_training_rows, select
from reticent.learners.selection.exponential import PublicCandidatesClassifier
from reticent.mechanisms import noise_source


def _spread(candidates: int, beta: float) -> float:
    """Return ``ln(2 |H| / beta)``; the logarithm of a long integer is finite."""
    return math.log(candidates) + math.log(2) - math.log(beta)


@rule(
    "L9",
    name="perfectly generalizing learner",
    statement="weights exp(-sqrt(n) eps err(h) / sqrt(2 ln(2|H|/beta))) are "
    "(beta, eps, 0)-perfect",
    source="S3 Alg. 1 and Lemma 29",
    takes=BoundedRange,
    gives=PerfectGeneralization,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def perfect_selection(
    premise: Certificate[BoundedRange], *, beta: float
) -> Conclusion[PerfectGeneralization]:
    """Derive perfect generalization of a selection by exponential weights.

    The premise is that of L1: weights are exponentials of sums of losses, which every
    fixed candidate's Hoeffding bound keeps near their expectations.
    """
    beta = probability("rule L9", "beta", beta)
    if premise.rule != "L1":
        raise RuleError(
            "rule L9 needs the certificate of an exponential mechanism over candidates "
            f"(L1); got one of rule {premise.rule}."
        )
    relation: Any = premise.relation
    candidates: Any = dict(premise.details)["candidates"]
    half = premise.guarantee.epsilon / 2
    epsilon = up(half * math.sqrt(2 * relation.n * _spread(candidates, beta)))
    return Conclusion(
        PerfectGeneralization(beta, epsilon, 0.0), Sample(relation.n), premise.scope
    )


def selection_epsilon(n: int, candidates: int, epsilon: float, beta: float) -> float:
    """Return the privacy at which an exponential mechanism is (beta, epsilon)-perfect.

    Rounded down far enough that L9 concludes no more than `epsilon`.
    """
    n, candidates = whole("L9", "n", n), whole("L9", "candidates", candidates)
    epsilon, beta = positive("L9", "epsilon", epsilon), probability("L9", "beta", beta)
    exact = 2 * epsilon / math.sqrt(2 * n * _spread(candidates, beta))
    return down(down(exact) * (1 - 2.0**-40))


def perfect_sample_size(
    candidates: int, *, error: float, failure: float, epsilon: float, beta: float
) -> int:
    """Return how many units make the learner accurate (S3 Thm 30).

    With this many, the released hypothesis is within `error` of the best, except with
    probability `failure`. Needs ``beta <= failure <= 1/2`` and ``epsilon <= 1``.
    """
    candidates = whole("S3 Thm 30", "candidates", candidates)
    error = probability("S3 Thm 30", "error", error)
    failure = probability("S3 Thm 30", "failure", failure)
    beta = probability("S3 Thm 30", "beta", beta)
    epsilon = positive("S3 Thm 30", "epsilon", epsilon)
    if not (beta <= failure <= 0.5 and epsilon <= 1):
        raise RuleError(
            "S3 Thm 30 needs beta <= failure <= 1/2 and epsilon <= 1; got "
            f"beta={beta!r}, failure={failure!r}, epsilon={epsilon!r}."
        )
    wide, narrow = _spread(candidates, beta), _spread(candidates, failure)
    return math.ceil(up(6 * wide * narrow**2 / (epsilon**2 * error**2)))


@dataclass(eq=False, repr=False)
class PerfectlyGeneralizingClassifier(PublicCandidatesClassifier):
    r"""Classifier whose output could be simulated from the distribution alone.

    It releases `h` with probability proportional to
    :math:`e^{-\sqrt n\,\varepsilon\,\mathrm{err}(h)/\sqrt{2\ln(2|H|/\beta)}}`. Except
    with probability `beta` over the sample, the law of the result is within `epsilon`
    of one that does not depend on the sample at all. It is differentially private as
    well, with an epsilon that vanishes as the sample grows.

    Parameters
    ----------
    hypotheses, points, bounds, resolution, classes, random_state
        As for `ExponentialMechanismClassifier`.
    epsilon : float, default=0.5
        Distance of the law from the simulator's.
    beta : float, default=0.05
        Probability of a sample for which this fails.

    Attributes
    ----------
    certificate_ : Certificate
        `PerfectGeneralization` for independent units.
    privacy_certificate_ : Certificate
        `BoundedRange` under replacement of one unit, for all data.
    hypothesis_, n_candidates_, classes_, n_units_
        As for `ExponentialMechanismClassifier`.

    Guarantee
    ---------
    L9. *Proof.* By Hoeffding and a union bound all empirical errors are within
    :math:`\sqrt{\ln(2|H|/\beta)/2n}` of the true ones, except with probability `beta`;
    so log-weights are within :math:`\varepsilon/2` of the simulator's, and
    probabilities within `epsilon`.

    References
    ----------
    :cite:`CummingsEtAl2016`, Alg. 1, Thm 30; THEOREMS L9.

    Examples
    --------
    >>> import numpy as np
    >>> from reticent.hypotheses import Thresholds
    >>> X = np.linspace(0, 1, 2000)[:, None]
    >>> model = PerfectlyGeneralizingClassifier(
    ...     Thresholds(), points=np.linspace(0, 1, 20), classes=[False, True]
    ... ).fit(X, X[:, 0] > 0.3)
    >>> print(model.certificate_.guarantee, "/", model.privacy_certificate_.guarantee)
    (0.05, 0.5, 0)-perfect generalization / 0.00609331-bounded-range DP
    """

    hypotheses: Any
    epsilon: float = 0.5
    beta: float = 0.05

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PublicCandidatesClassifier._parameter_constraints,
        "beta": [Interval(Real, 0, 1, closed="neither")],
    }

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Self:
        """Draw and release one hypothesis; parameters as for other releases."""
        refuse_training_rows("points", self.points, X)
        rows = self._rows(X, reset=True)
        candidates, examples, labels, epsilon, law = self._law(rows, y, units)
        source = noise_source(self.random_state)
        self.privacy_certificate_ = self._certificate(
            examples, epsilon, "exponential", candidates.count, source.seeded
        )
        self.certificate_ = perfect_selection(self.privacy_certificate_, beta=self.beta)
        self._release(candidates, law, source, examples, labels)
        return self

    def response(self, X: MatrixLike, y: MatrixLike, units: UnitIds = None) -> Any:
        """Return the exact law of what `fit` would release; as secret as the data."""
        return self._law(self._rows(X, reset=False), y, units)[-1]

    def _law(self, rows: Any, y: Any, units: UnitIds) -> Any:
        candidates = self.candidates(rows.shape[1])
        examples, labels = self._examples(rows, y, units)
        epsilon = selection_epsilon(
            examples.n_units, candidates.count, self.epsilon, self.beta
        )
        law = select(
            candidates, examples, epsilon, penalty=None, selection="exponential"
        )
        return candidates, examples, labels, epsilon, law
