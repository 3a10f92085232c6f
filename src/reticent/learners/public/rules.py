"""Rules for learning with public unlabelled points (M1-M3, M6)."""

from __future__ import annotations

import math
from typing import Any

from reticent._numbers import (
    down_nonnegative,
    nonnegative,
    positive,
    probability,
    up,
    whole,
)
from reticent._search import last_that_holds
from reticent.errors import RuleError
from reticent.guarantees import (
    EXACT_ORACLE,
    PUBLIC_LABELS,
    PUBLIC_PARTS,
    ROWWISE_QUERIES,
    SEEDED_NOISE,
    ZCDP,
    ApproxDP,
    Assumption,
    Certificate,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    gaussian_delta,
    rule,
)
from reticent.mechanisms import checked_grid, grid_scale_to_continuous


@rule(
    "M3",
    name="minimiser regularised on public points",
    statement="the root mean square move on m public points is at most "
    "1/sqrt(eta n) + 2 sqrt(g/eta), and at most twice the reach; for losses of slope L "
    "and functions nowhere larger than K times their root mean square, also at most "
    "L K/(eta n) + 2 sqrt(g/eta). Rounding adds twice its bound. l2 is sqrt(m) times "
    "that, l1 is m times that",
    source="S4 Lemma 2, Alg. 3",
    paper="2/sqrt(eta n), and m^(3/2) in l1",
    gives=Sensitivity,
)
def regularized_sensitivity(
    *,
    n: int,
    m: int,
    eta: float,
    gap: float,
    reach: float,
    lipschitz: float | None = None,
    leverage: float | None = None,
    rounding: float = 0.0,
    labels_from_data: bool = False,
) -> Conclusion[Sensitivity]:
    r"""Certify how far one unit moves the values on `m` public points.

    *Proof.* Let :math:`F = L + \eta |f|_m^2` and :math:`F'` be the objectives of two
    neighbours, and `f`, `f'` minimisers over the convex class. The parallelogram law
    makes each objective grow by :math:`\eta |f - f'|_m^2` at least from its own
    minimiser to the other one. Adding both, :math:`2\eta |f - f'|_m^2` is at most
    :math:`(L - L')(f') - (L - L')(f)`, the difference of two units' losses between
    `f'` and `f`. At one example losses range over one at most, and a unit weighs
    :math:`1/n`, hence :math:`2/n`. A loss with slope `lipschitz` (L) differs by at most
    :math:`L |f(x) - f'(x)| \le L K |f - f'|_m` where the class has a finite `leverage`
    (K), hence :math:`2 L K |f - f'|_m / n`. What a solver with gap `gap` returns is
    within :math:`\sqrt{g/\eta}` of the minimiser. No value exceeds `reach`.
    """
    n = whole("rule M3", "n", n)
    m = whole("rule M3", "m", m)
    eta = positive("rule M3", "eta", eta)
    gap = nonnegative("rule M3", "gap", gap)
    reach = positive("rule M3", "reach", reach)
    rounding = nonnegative("rule M3", "rounding", rounding)
    exact = minimiser_move(n, eta, lipschitz=lipschitz, leverage=leverage)
    moved = up(exact + 2 * math.sqrt(gap / eta))
    moved = up(min(moved, 2 * reach) + 2 * rounding)
    return Conclusion(
        Sensitivity(up(m * moved), up(math.sqrt(m) * moved)),
        ReplaceOne(n),
        Scope.MODEL,
        Assumption.collect((PUBLIC_LABELS, labels_from_data)),
    )


def minimiser_move(
    n: int, eta: float, *, lipschitz: float | None, leverage: float | None
) -> float:
    """Return M3's bound on the move of exact minimisers."""
    plain = up(1 / math.sqrt(eta * n))
    if lipschitz is None or leverage is None:
        return plain
    steep = positive("rule M3", "lipschitz", lipschitz)
    return min(plain, up(steep * positive("rule M3", "leverage", leverage) / (eta * n)))


@rule(
    "M1",
    name="project a noisy vector onto the class",
    statement="the model is a function of noisy values on public points alone",
    source="S4 Alg. 1",
    takes=(PureDP, ApproxDP),
    gives=(PureDP, ApproxDP),
    same_kind=True,
    relations=(ReplaceOne,),
    scopes=(Scope.MODEL,),
)
def projected_model(premise: Certificate[Any], *, points: int) -> Conclusion[Any]:
    """Extend the promise of noisy values on public points to the model."""
    whole("rule M1", "points", points)
    if premise.rule not in ("G5-laplace", "G5-gaussian-analytic", "M2"):
        raise RuleError(
            "rule M1 starts from noisy values: rules G5-laplace, G5-gaussian-analytic "
            f"or M2; got rule {premise.rule}."
        )
    return Conclusion(premise.guarantee, premise.relation, premise.scope)


def near_tie_at_most(distance: float, *, slack: float, complexity: float) -> float:
    r"""Bound the probability that two distant hypotheses are both nearly best.

    Hypotheses with labels -1 and 1 on the public points are compared by a fixed
    function plus a Gaussian process of variance one per hypothesis. The result bounds
    the probability that some hypothesis further than `distance` (root mean square over
    the points) from the minimiser is within ``2 * slack`` of it, everything in units of
    the process.

    *Proof.* Let :math:`t = 4 \cdot slack/distance^2`. Fix the minimiser `f`; the part
    of the process that is independent of `w(f)` decides a number :math:`a_f` such that
    `f` is the minimiser if :math:`w(f) \le a_f`, and far from a near tie if moreover
    :math:`w(f) \le a_f - t`. So the chance is at most the sum over `f` of
    :math:`E[\Phi(a_f) - \Phi(a_f - t)]`. As :math:`\sum E\,\varphi(a_f) = -E\,w(f)` is
    at most the complexity `G`, as :math:`x\varphi(x) \le \Phi(x)/2` and as the chances
    :math:`E\,\Phi(a_f)` sum to one, this is at most :math:`t G + t^2/4`.
    """
    width = 4 * slack / distance**2
    return min(1.0, up(width * complexity + width * width / 4))


def squared_move_at_most(*, m: int, slack: float, complexity: float) -> float:
    """Bound the mean squared move of one perturbed minimiser on `m` public points.

    Squared distances of labels -1 and 1 are multiples of ``4/m`` up to 4, so their
    mean is the sum of the chances to reach each of them, times ``4/m``.
    """
    total = 0.0
    for k in range(1, m + 1):
        # Distances just below the k-th, where the bound is continuous.
        root = math.sqrt(down_nonnegative(4 * k / m))
        total += near_tie_at_most(root, slack=slack, complexity=complexity)
    return min(4.0, total * (1 + (m + 16) * 2.0**-52) * 4 / m)


def mean_at_most(expected: float, *, count: int, delta: float) -> float:
    """Bound the mean of `count` numbers in [0, 1], except with probability `delta`.

    Hoeffding's inequality in its sharpest form, with the divergence of two coins.
    """
    level = up(math.log(1 / delta) / count)
    if not 0 < expected < 1:
        return 1.0
    far = last_that_holds(lambda p: _divergence(p, expected) >= level, 1.0, expected)
    return min(1.0, up(far))


def _divergence(p: float, q: float) -> float:
    """Return the divergence of coins with chances p and q, rounded down."""
    heads = p * math.log(p / q)
    miss, other = (math.log1p(-p), math.log1p(-q)) if p < 1 else (0.0, 0.0)
    tails = (1 - p) * (miss - other)
    sizes = p + abs(heads) + (1 - p) * (abs(miss) + abs(other))
    return heads + tails - 2.0**-46 * sizes


def perturbed_move(
    *,
    n: int,
    m: int,
    eta: float,
    repeats: int,
    complexity: float,
    grid: float,
    delta: float,
) -> float:
    r"""Bound the move of a mean of perturbed minimisers, except with chance `delta`.

    The Gaussian weights are drawn from a grid. Coupled with continuous ones rounded to
    it, laws differ by at most :math:`m\,grid^2/8` in total variation, because a cell's
    mass is at least :math:`e^{-grid^2/8}` times that of the grid point; and rounding
    changes a minimiser only near a tie of the smallest distance, which has the chance
    of `near_tie_at_most`. Each counts four, the largest squared move.
    """
    slack = up(1 / (n * eta))
    mean = squared_move_at_most(m=m, slack=slack, complexity=complexity)
    fine = near_tie_at_most(
        math.sqrt(down_nonnegative(4 / m)),
        slack=up(math.sqrt(m) * grid / 2),
        complexity=complexity,
    )
    mean = min(4.0, up(mean + 8 * fine + m * grid * grid))
    return 2 * math.sqrt(mean_at_most(mean / 4, count=repeats, delta=delta))


@rule(
    "M2",
    name="mean of perturbed minimisers, with Gaussian noise",
    statement="Pr[move of one > r] <= 4 tau G/(r^2 eta) + 4 tau^2/(r^4 eta^2), tau = "
    "1/n; integrated, Hoeffding over the repeats, then the analytic Gaussian",
    source="S4 Prop. 1, Lemma 1, Alg. 2",
    paper="drops the second term of the chance",
    gives=ApproxDP,
)
def perturbed_minimisers(
    *,
    n: int,
    m: int,
    eta: float,
    repeats: int,
    labelings: int,
    weight_grid: float,
    scale: float,
    grid: float,
    epsilon: float,
    delta: float,
    delta_stability: float,
    oracle: str,
    exact_oracle: bool = False,
    labels_from_data: bool = False,
    seeded: bool = False,
    own_functions: bool = False,
    frozen: bool = False,
) -> Conclusion[ApproxDP]:
    r"""Certify noisy mean labels of perturbed minimisers on `m` public points.

    *Proof.* The random weights are the same on both neighbours. Except with chance
    `delta_stability` the mean labels are then as close as `perturbed_move` says, and
    Gaussian noise for this distance is (`epsilon`, `delta` - `delta_stability`)-DP
    given the weights. The complexity of `labelings` Gaussians of variance one is at
    most :math:`\sqrt{2\ln N}`, and that of all labelings :math:`\sqrt{2m/\pi}`.
    `oracle` names what minimises, for the record.
    """
    n, m = whole("rule M2", "n", n), whole("rule M2", "m", m)
    repeats = whole("rule M2", "repeats", repeats)
    lost = probability("rule M2", "delta_stability", delta_stability)
    delta = probability("rule M2", "delta", delta)
    step = checked_grid(grid)
    moved = perturbed_move(
        n=n,
        m=m,
        eta=positive("rule M2", "eta", eta),
        repeats=repeats,
        complexity=complexity_at_most(m, labelings),
        grid=positive("rule M2", "weight_grid", weight_grid),
        delta=lost,
    )
    far = up(math.sqrt(m) * (up(moved) + 2.0**-40 + step))
    continuous = grid_scale_to_continuous(positive("rule M2", "scale", scale) / step)
    reached = up(gaussian_delta(up(far / (continuous * step)), epsilon) + lost)
    if not reached <= delta:
        raise RuleError(
            f"rule M2: scale={scale!r} reaches delta={reached!r} at "
            f"epsilon={epsilon!r}, not delta={delta!r}."
        )
    return Conclusion(
        ApproxDP(epsilon, delta),
        ReplaceOne(n),
        Scope.MODEL,
        Assumption.collect(
            (EXACT_ORACLE, not exact_oracle),
            (PUBLIC_LABELS, labels_from_data),
            (SEEDED_NOISE, seeded),
            (ROWWISE_QUERIES, own_functions),
            (PUBLIC_PARTS, frozen),
        ),
    )


def complexity_at_most(m: int, labelings: int) -> float:
    """Bound the mean largest of the Gaussians that perturb `labelings` labelings."""
    labelings = whole("rule M2", "labelings", labelings)
    all_of_them = math.sqrt(2 * m / math.pi)
    return up(min(all_of_them, math.sqrt(2 * math.log(labelings))))


@rule(
    "M6",
    name="a student of private answers",
    statement="a model trained on private answers at public points, and on nothing "
    "else of the data, costs what the answers cost",
    source="S1 Sec. 2.4; S2 Sec. 1; PapernotEtAl2018",
    takes=(PureDP, ApproxDP, ZCDP),
    gives=(PureDP, ApproxDP, ZCDP),
    same_kind=True,
    scopes=(Scope.INTERFACE,),
    later=("frozen",),
)
def student_of_answers(
    premise: Certificate[Any], *, asked: int, frozen: bool = False
) -> Conclusion[Any]:
    """Extend the promise of all answers to the model that learned from them.

    `asked` is the number of public rows that may be asked about, fixed in advance;
    `frozen` says that parts of the student came already fitted.
    """
    asked = whole("rule M6", "asked", asked)
    covered = premise.answer_count()
    if covered is not None and covered != asked:
        raise RuleError(
            f"rule M6 needs a certificate of asked={asked} answers; got one of "
            f"{covered}."
        )
    return Conclusion(
        premise.guarantee,
        premise.relation,
        Scope.MODEL,
        Assumption.collect((PUBLIC_PARTS, frozen)),
    )
