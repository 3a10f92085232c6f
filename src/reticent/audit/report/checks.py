"""The checks of a stored model; each answers one question in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.dummy import DummyClassifier, DummyRegressor

from reticent._arrays import Ints
from reticent.audit.bounds import LowerBound, lower_bound
from reticent.audit.membership.curve import trade_off
from reticent.audit.report.last_step import SumStep, VoteStep
from reticent.audit.report.report import Check, Status, best_guess
from reticent.audit.verification.exact import Verification, verify
from reticent.audit.verification.noise_losses import verify_noise
from reticent.errors import ReticentError
from reticent.guarantees import (
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    Certificate,
    Guarantee,
    recheck,
    zcdp_epsilon,
)
from reticent.prediction import (
    PrivateAveragingClassifier,
    PrivateAveragingRegressor,
    PrivateVotingClassifier,
)

#: Least probability that the sampling test does not refute a true promise.
CONFIDENCE = 0.9999
# The delta at which a zCDP promise is compared with samples.
_SAMPLED_DELTA = 0.01
# Labels that occur in small datasets; more would make too many of them.
_MOST_LABELS = 3
_EXACT = "Does one vote more or less ever change an answer by more than promised?"
_SMALL = "Does the whole method keep the promise on every small dataset?"
_SAMPLED = "Do drawn answers look as private as promised?"
_ROWS = "How much could answers about the real records reveal?"


def certificate_check(certificate: Certificate[Any]) -> Check:
    """Derive the certificate again from its mechanisms up."""
    question = "Do the promised numbers follow from the theorems they cite?"
    steps = sum(1 for _ in certificate.walk())
    try:
        recheck(certificate)
    except ReticentError as error:
        return Check("certificate", question, Status.REFUTED, f"No: {error}")
    return Check(
        "certificate",
        question,
        Status.KEPT,
        f"Yes: all {steps} steps of the derivation were repeated, with the same "
        "result.",
        {"steps": steps, "certificate": certificate.id},
    )


def assumptions_check(certificate: Certificate[Any]) -> Check:
    """List what the certificate assumes."""
    question = "Does the promise rest on assumptions?"
    found = sorted(certificate.assumptions)
    listed = {"assumptions": [a.code for a in found]}
    if SEEDED_NOISE in certificate.assumptions:
        return Check(
            "assumptions",
            question,
            Status.REFUTED,
            "Yes: the randomness comes from a seed. Anybody who knows the seed can "
            "remove it. Fit without random_state.",
            listed,
        )
    if not found:
        stated = "No, it states no assumption."
        return Check("assumptions", question, Status.KEPT, stated, listed)
    said = "; ".join(f"{a.statement} ({a.code})" for a in found)
    return Check(
        "assumptions",
        question,
        Status.NOTED,
        f"Yes. A person has to confirm: {said}.",
        listed,
    )


def exact_check(step: VoteStep | SumStep | None, guarantee: Guarantee) -> Check:
    """Compute what all neighbouring votes reveal."""
    if not isinstance(step, VoteStep):
        return Check(
            "exact",
            _EXACT,
            Status.NOT_RUN,
            "Not run: the answers of this kind of model have too many possible values "
            "to list, or their randomness was spent when the model was made.",
        )
    try:
        found = step.worst_pair(guarantee)
    except ReticentError as error:
        return Check("exact", _EXACT, Status.NOT_RUN, f"Not run: {error}")
    share = found.worst / found.allowed if found.allowed > 0 else math.inf
    numbers = {
        "worst": found.worst,
        "allowed": found.allowed,
        "share": share if math.isfinite(share) else None,
        "divisions": found.divisions,
        "pairs": found.pairs,
        "rigorous": found.rigorous,
    }
    seen = (
        f"All {found.pairs:,} pairs of neighbouring votes were computed, not sampled."
        if found.complete
        else f"{found.pairs:,} pairs of neighbouring votes were computed, not sampled: "
        f"all of fewer models, and extremes of all {step.n_shards:,}."
    )
    if not found.holds:
        return Check(
            "exact",
            _EXACT,
            Status.REFUTED,
            f"Yes: by up to {share:.3g} times the promise. {seen}",
            numbers,
        )
    return Check(
        "exact",
        _EXACT,
        Status.KEPT,
        f"No: at worst {100 * share:.3g} % of the promise is used up. {seen}",
        numbers,
    )


def small_check(
    kind: str, parameters: Mapping[str, Any], guarantee: Guarantee
) -> Check:
    """Verify the same method exactly on all datasets of three units."""
    verified = _small_method(kind, parameters)
    if verified is None:
        return Check(
            "small-datasets",
            _SMALL,
            Status.NOT_RUN,
            "Not run: this kind of model cannot be refitted from what is stored.",
        )
    try:
        found = verified(guarantee)
    except ReticentError as error:
        return Check("small-datasets", _SMALL, Status.NOT_RUN, f"Not run: {error}")
    numbers = {
        "worst": found.worst,
        "allowed": found.allowed,
        "datasets": found.datasets,
        "pairs": found.pairs,
    }
    return Check(
        "small-datasets",
        _SMALL,
        Status.KEPT if found.holds else Status.REFUTED,
        f"{'Yes' if found.holds else 'No'}: the method, with these parameters, was "
        f"fitted on all {found.datasets} datasets of three people with at most "
        f"{_MOST_LABELS} labels, and its answers were compared over {found.pairs:,} "
        "neighbouring pairs.",
        numbers,
    )


def _small_method(
    kind: str, parameters: Mapping[str, Any]
) -> Callable[[Guarantee], Verification] | None:
    """Return a function that verifies the method with three shards of one unit each."""
    # A model that repeats the label of its one unit is the worst case.
    settings: dict[str, Any] = {"n_shards": 3, "random_state": 0}
    labels = DummyClassifier(strategy="most_frequent")
    classes = list(range(len(parameters.get("classes", ()))))
    domain: list[tuple[int, float]] = [(0, label) for label in classes[:_MOST_LABELS]]
    made: Any = None
    if kind == "voting" and parameters["rule"] != "gaussian":
        rule, epsilon = parameters["rule"], parameters["parameter"]
        made = PrivateVotingClassifier(labels, epsilon, classes, rule=rule, **settings)
    elif kind == "averaging-classifier":
        epsilon, delta = parameters["epsilon"], parameters["delta"]
        made = PrivateAveragingClassifier(
            labels, epsilon, classes, delta=delta, **settings
        )
    elif kind == "averaging-regressor":
        epsilon, delta = parameters["epsilon"], parameters["delta"]
        made = PrivateAveragingRegressor(
            DummyRegressor(), epsilon, bounds=(0.0, 1.0), delta=delta, **settings
        )
        domain = [(0, 0.0), (0, 0.5), (0, 1.0)]
    if made is None:
        return None
    if kind == "voting" or len(classes) == 2:
        return lambda claim: verify(lambda: clone(made), domain, 3, claim=claim)

    def release(X: NDArray[Any], y: NDArray[Any]) -> Any:
        return clone(made).fit(X, y).predict([[0]])

    return lambda claim: verify_noise(release, domain, 3, claim=claim)


def _inconclusive(
    drawn: str, found: LowerBound, epsilon: float, numbers: dict[str, Any]
) -> Check:
    return Check(
        "sampling",
        _SAMPLED,
        Status.NOTED,
        f"Inconclusive: {drawn}, and they could show a loss of "
        f"{found.ceiling:.3g} at most, where {epsilon:.3g} is promised.",
        numbers,
    )


def sampling_check(
    step: VoteStep | SumStep | None, guarantee: Guarantee, trials: int
) -> Check:
    """Draw answers on the worst pair of neighbours and bound epsilon from below."""
    claim = _sampled_claim(guarantee)
    if step is None or claim is None:
        return Check(
            "sampling",
            _SAMPLED,
            Status.NOT_RUN,
            "Not run: a released model is one draw; it cannot be drawn again.",
        )
    epsilon, delta = claim
    left, right = step.pair(trials)
    batches = {
        left: iter(step.draw(left, trials)),
        right: iter(step.draw(right, trials)),
    }
    found = lower_bound(
        lambda votes: next(batches[votes]),
        left,
        right,
        trials=trials,
        confidence=CONFIDENCE,
        delta=delta,
    )
    refuted = found.refutes(epsilon)
    notices = _noticed(found.epsilon, epsilon)
    numbers = {
        "epsilon_at_least": found.epsilon,
        "epsilon_claimed": epsilon,
        "delta": delta,
        "trials": trials,
        "confidence": CONFIDENCE,
        "would_notice": notices,
        "could_show": found.ceiling,
    }
    drawn = f"{2 * trials:,} answers were drawn with the real sampler"
    if not found.ceiling > epsilon:
        return _inconclusive(drawn, found, epsilon, numbers)
    power = (
        ""
        if notices is None
        else f" Had they revealed {notices:g} times as much, it would have shown."
    )
    return Check(
        "sampling",
        _SAMPLED,
        Status.REFUTED if refuted else Status.KEPT,
        (
            f"No: {drawn}; they show a loss of at least {found.epsilon:.3g} where "
            f"{epsilon:.3g} is promised."
            if refuted
            else f"Yes: {drawn}; they show a loss of at least {found.epsilon:.3g}, "
            f"and {epsilon:.3g} is promised.{power}"
        ),
        numbers,
    )


def _sampled_claim(guarantee: Guarantee) -> tuple[float, float] | None:
    """Return the epsilon and delta that samples are compared with."""
    if isinstance(guarantee, ZCDP):
        return zcdp_epsilon(guarantee.rho, _SAMPLED_DELTA), _SAMPLED_DELTA
    epsilon = getattr(guarantee, "epsilon", None)
    if epsilon is None:
        return None
    return epsilon, guarantee.delta if isinstance(guarantee, ApproxDP) else 0.0


def _noticed(shown: float, promised: float) -> float | None:
    """Return the factor by which a larger loss on this pair would have been noticed."""
    return math.ceil(10 * promised / shown) / 10 if shown > 0.05 * promised else None


def rows_check(
    step: VoteStep | SumStep | None, votes: Ints, certificate: Certificate[Any]
) -> Check:
    """Say how far one person can move the answers about real records."""
    if not isinstance(step, VoteStep):
        return Check("records", _ROWS, Status.NOT_RUN, "Not run: it has no votes.")
    moved = step.shifts(votes)
    # The total variation of two laws is what the best guess between them gains.
    limit = 2 * best_guess(trade_off(certificate)) - 1
    numbers = {
        "largest": float(moved.max()),
        "median": float(np.median(moved)),
        "allowed": limit,
        "questions": len(votes),
    }
    return Check(
        "records",
        _ROWS,
        Status.KEPT if moved.max() <= limit else Status.REFUTED,
        f"For {len(votes):,} questions about real records, one person more or less "
        f"changes the chance of an answer by at most {_points(moved.max())} percentage "
        f"points, and typically by {_points(np.median(moved))}; {_points(limit)} are "
        "allowed.",
        numbers,
    )


def _points(share: float) -> str:
    return f"{100 * share:.2g}" if share >= 1e-4 else "less than 0.01"
