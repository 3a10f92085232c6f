"""Bounds on overfitting, derived from any certificate."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from reticent.errors import InvalidParameterError, NoDerivationError, RuleError
from reticent.generalization.compression.rules import KEEP, kept_to_robust
from reticent.generalization.confidence import failure_of
from reticent.generalization.holdout.rules import AnswerAccuracy
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    Certificate,
    Compression,
    FiniteRange,
    PerfectGeneralization,
    PureDP,
    RobustGeneralization,
    Scope,
    approx_to_robust,
    compression_to_robust,
    dp_to_group_perfect,
    finite_range_to_robust,
    perfect_to_robust,
    pure_to_perfect,
    pure_to_robust,
    repeat,
    to_replace_one,
    zcdp_to_approx,
)

# The deltas at which a zCDP certificate is converted, as parts of the failure
# probability: G11 divides by it, so delta must be far below. The best one is taken.
_DELTA_PARTS = tuple(10.0**-power for power in range(2, 25, 2))


@dataclass(frozen=True, kw_only=True)
class Overfitting:
    """How much anything computed from a release can overfit."""

    #: With the given confidence ``|h(S) - h(D)|`` is at most this, for every function
    #: ``h`` with values in [0, 1] that is computed from the release.
    robust: Certificate[RobustGeneralization]
    #: How close the release is to one that never saw the sample; None if unknown.
    perfect: Certificate[PerfectGeneralization] | None

    @property
    def bound(self) -> float:
        """The bound on ``|h(S) - h(D)|``, never above one."""
        return min(1.0, self.robust.guarantee.epsilon)

    def __str__(self) -> str:
        confidence = 1 - self.robust.guarantee.delta
        lines = [
            f"a statistic in [0, 1] computed from this differs by at most "
            f"{self.bound:.4g} between sample and population, with probability "
            f"{confidence:.6g}"
        ]
        if self.perfect is not None:
            lines.append(f"it has {self.perfect.guarantee}")
        return "\n".join([*lines, "", str(self.robust)])


def overfitting(
    release: Any,
    *,
    confidence: float = 0.95,
    answers: int | None = None,
    outputs: int | None = None,
    n: int | None = None,
) -> Overfitting:
    """Bound how much anything computed from a release can overfit.

    Parameters
    ----------
    release : Certificate, or an object with `certificate_` or `certificate`
        A fitted estimator of reticent, a session, a holdout, or a certificate.
    confidence : float, default=0.95
        Probability, over sample and noise, that the bound holds.
    answers : int, default=None
        Number of answers used, for a private predictor, whose certificate is about one
        answer. They are composed first.
    outputs : int, default=None
        Number of possible outputs, if finite: needed for a useful statement about
        perfect generalization (G15).
    n : int, default=None
        Number of units, for certificates about adding or removing one.

    Returns
    -------
    Overfitting

    Raises
    ------
    NoDerivationError
        If no rule leads from the certificate to a bound. Stability of single
        predictions is such a case: it bounds expectations (G19 to G21), not the worst
        function of the output.

    Examples
    --------
    >>> from reticent.guarantees import PureDP, ReplaceOne, Scope, claim
    >>> model = claim(PureDP(0.1), ReplaceOne(10_000), Scope.MODEL, statement="example")
    >>> round(overfitting(model).bound, 4)
    0.0377
    """
    certificate = _certificate_of(release)
    beta = failure_of(confidence)
    if certificate.scope is Scope.ANSWER and not _sampled(certificate):
        if answers is None:
            raise InvalidParameterError(
                "this certificate is about one answer of a private predictor; give "
                "answers=..., the number of answers used."
            )
        certificate = repeat(certificate, answers)
    if certificate.scope is Scope.CHOICE and answers is not None:
        raise InvalidParameterError(
            "this certificate is about the choice of a search, not about answers; give "
            "its best_estimator_."
        )
    if isinstance(certificate.relation, AddRemove):
        if n is None:
            raise InvalidParameterError(
                "this certificate is about adding or removing a unit; give n=..., the "
                "number of units."
            )
        certificate = to_replace_one(certificate, n=n)
    return Overfitting(
        robust=_robust(certificate, beta), perfect=_perfect(certificate, beta, outputs)
    )


def _certificate_of(release: Any) -> Certificate[Any]:
    if isinstance(release, Certificate):
        return release
    for name in ("certificate_", "certificate"):
        found = getattr(release, name, None)
        if isinstance(found, Certificate):
            return found
    raise InvalidParameterError(
        f"{type(release).__name__} has no certificate; fit it first, or ask about "
        "something that reticent certifies."
    )


def _sampled(certificate: Certificate[Any]) -> bool:
    return certificate.relation.name == "sample"


def _robust(
    certificate: Certificate[Any], beta: float
) -> Certificate[RobustGeneralization]:
    guarantee = certificate.guarantee
    if isinstance(guarantee, RobustGeneralization):
        if guarantee.delta > beta:
            raise NoDerivationError(
                f"{guarantee} does not hold with confidence {1 - beta:.6g}; derive it "
                "again from its premises at that confidence."
            )
        return certificate
    if isinstance(guarantee, Compression):
        if certificate.rule == KEEP:
            return kept_to_robust(certificate, beta=beta)
        return compression_to_robust(certificate, delta=beta)
    if isinstance(guarantee, FiniteRange):
        return finite_range_to_robust(certificate, beta=beta)
    if isinstance(guarantee, (PureDP, BoundedRange)):
        # Both hold at beta, and public numbers alone decide which is smaller.
        found = [pure_to_robust(certificate, beta=beta)]
        return min([*found, *_approx(certificate, beta)], key=_size)
    if isinstance(guarantee, ApproxDP):
        return min(_approx(certificate, beta), key=_size, default=None) or _no_route(
            guarantee
        )
    if isinstance(guarantee, ZCDP):
        routes = [
            route
            for part in _DELTA_PARTS
            for route in _approx(zcdp_to_approx(certificate, delta=part * beta), beta)
        ]
        return min(routes, key=_size, default=None) or _no_route(guarantee)
    if isinstance(guarantee, PerfectGeneralization):
        return _robust(perfect_to_robust(certificate), beta)
    return _no_route(guarantee)


def _approx(
    certificate: Certificate[Any], beta: float
) -> list[Certificate[RobustGeneralization]]:
    try:
        return [approx_to_robust(certificate, beta=beta)]
    except RuleError:  # G11 says nothing at this epsilon
        return []


def _size(certificate: Certificate[RobustGeneralization]) -> float:
    return certificate.guarantee.epsilon


def _no_route(guarantee: Any) -> Any:
    advice = "It bounds expectations of single predictions: see rules G19 to G21."
    if isinstance(guarantee, AnswerAccuracy):
        advice = "It already says how far answers are from the truth."
    elif isinstance(guarantee, (ApproxDP, ZCDP)):
        advice = "Use a smaller epsilon or more units."
    raise NoDerivationError(
        f"no rule leads from {guarantee} to a bound on overfitting. {advice}"
    )


def _perfect(
    certificate: Certificate[Any], beta: float, outputs: int | None
) -> Certificate[PerfectGeneralization] | None:
    guarantee = certificate.guarantee
    if isinstance(guarantee, PerfectGeneralization):
        return certificate
    if isinstance(guarantee, ZCDP) or _sampled(certificate):
        return None
    found = []
    if outputs is not None and isinstance(guarantee, (PureDP, BoundedRange)):
        found.append(pure_to_perfect(certificate, outputs=outputs, beta=beta))
    with suppress(RuleError, OverflowError):  # a group of n units: delta reaches one
        found.append(dp_to_group_perfect(certificate))
    return min(found, key=lambda each: each.guarantee.epsilon, default=None)
