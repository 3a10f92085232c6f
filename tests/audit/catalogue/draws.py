"""Mistakes with randomness: reused, seeded, too little, or in floating point."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from reticent.audit.verification.enumerating import verify_release
from reticent.audit.verification.exact import Verification
from reticent.guarantees import (
    Certificate,
    Guarantee,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    claim,
    subsample,
)
from reticent.hypotheses import FiniteClass
from reticent.mechanisms import (
    GridLaw,
    RealResponse,
    SoftmaxResponse,
    SparseVector,
    SystemSource,
    calibrate_laplace,
    draw_discrete_laplace,
    noise_source,
)
from reticent.prediction import StableSelectionClassifier
from tests.audit.catalogue.control import Finding, sampled, verified

EPSILON = 1.0
SOURCE = SystemSource()
# Two hypotheses on four points; only the label of point 1 tells them apart at 0 and 1.
FAMILY = FiniteClass.from_table(
    [[0.0], [1.0], [2.0], [3.0]], [[0, 0, 0, 0], [0, 1, 1, 1]]
)


def _sum_moves_by(most: float) -> Certificate[Sensitivity]:
    return claim(Sensitivity(most), ReplaceOne(2), Scope.MODEL, statement="a count")


class OneHypothesis(StableSelectionClassifier):
    """Broken on purpose: all queries are answered by one hypothesis."""

    def predict(self, X: Any) -> Any:
        """Draw one hypothesis for all rows."""
        law: Any = self.law_
        return law.flipped(law.answers(law.hypothesis(), np.asarray(X)))


def reused_hypothesis(broken: bool) -> Finding:
    """Reuse one hypothesis across queries.

    Only a subset with a point 1 in it knows a hypothesis that says 1 to both queries,
    2 and 3. Drawn afresh for each query, that is two rare events; drawn once, one.
    """
    kind = OneHypothesis if broken else StableSelectionClassifier
    # A fit draws nothing, so that one per dataset does for all that answers can draw.
    fitted: dict[Any, Any] = {}

    def release(queries: list[list[float]], X: Any, y: Any) -> Any:
        data = np.asarray(X).tobytes(), np.asarray(y).tobytes()
        if data not in fitted:
            model = kind(FAMILY, epsilon=3.0, flip=0.1, classes=[0, 1])
            fitted[data] = model.fit(X, y)
        return tuple(fitted[data].predict(queries).tolist())

    def loss(queries: list[list[float]], promised: Guarantee) -> Verification:
        run = partial(release, queries)
        return verify_release(run, units, 3, claim=promised, symmetric=True)

    units = [(0.0, 0), (1.0, 1)]
    once = loss([[2.0]], PureDP(3.0))
    # What one answer loses, exactly; two fresh ones lose twice that at most.
    return verified(loss([[2.0], [3.0]], PureDP(2 * once.worst)))


def half_noise(broken: bool) -> Finding:
    """Add Laplace noise of half the scale."""
    scale = (0.5 if broken else 1.0) / EPSILON
    values = np.arange(-60, 61).astype(float)
    here, there = (
        RealResponse(np.array(count), 1.0, scale, GridLaw.LAPLACE) for count in (3, 4)
    )
    worst = float(
        np.abs(here.log_probability(values) - there.log_probability(values)).max()
    )
    said = f"the largest log-ratio is {worst:.6g}, promised {EPSILON:g}"
    return Finding(worst > EPSILON * (1 + 1e-9), said, worst, EPSILON)


def reused_noise(broken: bool, **settings: Any) -> Finding:
    """Broadcast one noise draw to two counts."""

    def release(counts: tuple[int, int]) -> Any:
        size = 1 if broken else 2
        noise = draw_discrete_laplace(np.zeros(size, int), 2 / EPSILON, SOURCE)
        return tuple((np.array(counts) + noise).tolist())

    # A unit moves from one count to the other: two steps in l1.
    return sampled(release, (3, 5), (4, 4), EPSILON, **settings)


def known_seed(broken: bool, **settings: Any) -> Finding:
    """Draw noise from a seed that the analyst knows."""

    def release(count: int) -> int:
        source = noise_source(7) if broken else SOURCE
        return int(draw_discrete_laplace([count], 1 / EPSILON, source)[0])

    return sampled(release, 3, 4, EPSILON, **settings)


def float_noise(broken: bool, **settings: Any) -> Finding:
    """Add noise in floating point, whose last bits show what it was added to."""
    noise = calibrate_laplace(_sum_moves_by(1.0), epsilon=EPSILON)
    rng = np.random.default_rng()  # what the mistake uses; not ours

    def release(value: float) -> bool:
        if broken:
            noisy = value + rng.laplace(scale=1 / EPSILON)
        else:
            noisy = float(noise.response(value).draw(SOURCE))
        # Sums of 1 and noise below a half are multiples of 2^-53; noise alone is not.
        return 0 < noisy < 0.5 and noisy * 2.0**53 != math.floor(noisy * 2.0**53)

    return sampled(release, 0.0, 1.0, EPSILON, **settings)


def silent_queries(broken: bool, **settings: Any) -> Finding:
    """Run a sparse vector without noise on the queries."""

    def release(queries: tuple[int, int]) -> Any:
        if not broken:
            line = SparseVector(0, epsilon=EPSILON, positives=1, source=SOURCE)
            return tuple(line.ask(queries).tolist())
        (threshold,) = draw_discrete_laplace([0], 2 / EPSILON, SOURCE)
        return tuple(bool(query > threshold) for query in queries)

    return sampled(release, (0, 1), (1, 0), EPSILON, **settings)


def stale_order(broken: bool) -> Finding:
    """Keep a subsample in the table's order, for a learner that looks at order."""

    def release(X: Any, y: Any) -> int:
        chosen = SOURCE.subset(len(X), 2)
        first, second = X[np.sort(chosen) if broken else chosen][:, 0]
        chance = 0.08 * math.exp(int(first == 1) + int(second == 2))
        odds = np.array([[math.log1p(-chance), math.log(chance)]])
        return int(SoftmaxResponse(odds).draw(SOURCE)[0])

    alone = claim(PureDP(1.0), ReplaceOne(2), Scope.MODEL, statement="by enumeration")
    promised = subsample(alone, n=3, order="shuffled").guarantee
    units = [(letter, 0) for letter in range(4)]
    return verified(verify_release(release, units, 3, claim=promised))


def printed_scale(broken: bool) -> Finding:
    """Run Gaussian RRSPM with the scale that its paper prints.

    All labelings of `m` public points, and a private point whose value is the parity
    of the labels. The unit's label decides whether even or odd parities cost 1, and
    the noise pays for it by its smallest entry; so an even parity has probability
    ``1 - p^m / 2`` on one side and ``p^m / 2`` on the other, ``p = Pr[|noise| >= 1]``.
    """
    m, delta = 7, 1e-5
    if broken:
        sigma = math.sqrt(m * math.log(1 / delta)) / EPSILON
    else:
        # The certified one: a union bound over the labelings.
        t = float(stats.norm.isf(delta / 2**m))
        half = t * math.sqrt(m) / EPSILON
        sigma = half + math.sqrt(half**2 + 2 * m / EPSILON)
    stays = (2 * stats.norm.sf(1 / sigma)) ** m / 2
    reached = max(0.0, float((1 - stays) - math.exp(EPSILON) * stays))
    said = f"delta is at least {reached:.3g} at epsilon {EPSILON:g}; promised {delta:g}"
    return Finding(reached > delta, said, reached, delta)
