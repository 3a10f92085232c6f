"""Rules for the labels of public points by a minimiser under noise (M4, M5)."""

from __future__ import annotations

import math

from reticent._numbers import positive, probability, up, whole
from reticent.errors import RuleError
from reticent.guarantees import (
    EXACT_ORACLE,
    PUBLIC_LABELS,
    PUBLIC_PARTS,
    ROWWISE_QUERIES,
    SEEDED_NOISE,
    ApproxDP,
    Assumption,
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    gaussian_delta,
    rule,
)
from reticent.mechanisms import checked_scale, grid_scale_to_continuous

ORACLE_WITHIN_SLACK = Assumption(
    "ORACLE_WITHIN_SLACK",
    "the optimisation oracle returned a hypothesis within the slack of the minimum",
)

# What redrawing noise that does not fit adds to epsilon; see the proof.
_REDRAWN = 2.0**-59
# Gaussian noise fits if no coordinate reaches this many scales: exp(-64^2/2) is below
# the smallest float.
_SCALES_THAT_FIT = 64


@rule(
    "M4-laplace",
    name="labels of public points under Laplace weights",
    statement="a unit moves differences of mistakes by 2, and a labeling wins again if "
    "its t teaching points gain as much: Lap(2t/eps), t <= m; an oracle off by g "
    "needs 2 + 2g",
    source="S4 Alg. 4 and Lemma 6; NeelRothWu2019",
    paper="Lap(2m/eps)",
    gives=PureDP,
    later=("own_functions", "frozen"),
)
def laplace_separator(
    *,
    n: int,
    points: int,
    taught: int,
    steps: int,
    scale: float,
    room: int,
    oracle: str,
    exact_oracle: bool,
    slack: int = 0,
    labels_from_data: bool = False,
    seeded: bool = False,
    own_functions: bool = False,
    frozen: bool = False,
) -> Conclusion[PureDP]:
    r"""Certify the labels that a minimiser of noisy mistakes gives to public points.

    Mistakes count `steps`, the noise is a whole number: discrete Laplace of `scale`
    on each of `points` public points, as the cost of label 1 there. `taught` points
    distinguish every labeling from all others. `oracle` is the name of the minimiser;
    its result may exceed the minimum by `slack` steps. `own_functions` says that it
    labels rows by the caller's functions, `frozen` that parts of it came already
    fitted.

    *Proof.* Let labeling `v` be within the slack :math:`g` of the minimum on `D` under
    noise `c`. Make it cheaper on its teaching points by :math:`2k+2g+1` each, `k` being
    `steps`. Any other `u` differs from `v` on at least one of them, so relative to `v`
    it loses as much; replacing a unit returns to it :math:`2k` at most. It was ahead by
    :math:`g` at most, and now is behind by :math:`g+1` at least. So on the neighbour,
    under the shifted noise, `v` alone is within the slack: ties may be broken in any
    way. For fixed `v` the shift is one-to-one and costs
    :math:`e^{(2k+2g+1)t/b}` at most.

    Noise of more than :math:`T` = `room` - `nk` in total is redrawn. That happens with
    probability :math:`q \le 2^m e^{-T/2b}` (Chernoff), and every labeling has
    probability at least :math:`p = (e^{-(nk+g+1)/b}/2)^m` on any data, namely if all
    noise is for it and outweighs the data. So the ratio grows by
    :math:`1 + q/(p - q)`, below :math:`1 + 2^{-59}` under the condition checked here.
    """
    owner = "rule M4-laplace"
    n, m = whole(owner, "n", n), whole(owner, "points", points)
    t, k = whole(owner, "taught", taught), whole(owner, "steps", steps)
    room, b = whole(owner, "room", room), checked_scale(scale)
    _check_taught(owner, t, m)
    g = whole(owner, "slack", slack, least=0)
    needed = laplace_room(n=n, points=m, steps=k, scale=b, slack=g)
    if not room >= needed:
        raise RuleError(
            f"{owner} needs room >= {needed} for n={n}, points={m}, steps={k}, "
            f"scale={b!r}; got room={room}. Use coarser steps or fewer public points."
        )
    epsilon = up(up((2 * k + 2 * g + 1) * t / b) + _REDRAWN)
    return Conclusion(
        PureDP(epsilon),
        ReplaceOne(n),
        Scope.MODEL,
        _assumptions(exact_oracle, g, labels_from_data, seeded)
        | caller_assumptions(own_functions, frozen),
    )


@rule(
    "M4-gaussian",
    name="labels of public points under Gaussian weights",
    statement="the noise selects the labeling and so its own shift: N times the delta "
    "of a shift by 2 sqrt(t), N the number of labelings",
    source="S4 Alg. 4, with a union bound",
    paper="scale C sqrt(m ln(1/delta))/eps, which is not private",
    gives=ApproxDP,
    later=("own_functions", "frozen"),
)
def gaussian_separator(
    *,
    n: int,
    points: int,
    taught: int,
    labelings: int,
    steps: int,
    scale: float,
    room: int,
    epsilon: float,
    oracle: str,
    exact_oracle: bool,
    slack: int = 0,
    labels_from_data: bool = False,
    seeded: bool = False,
    own_functions: bool = False,
    frozen: bool = False,
) -> Conclusion[ApproxDP]:
    r"""Certify the labels under discrete Gaussian noise of `scale`, at `epsilon`.

    *Proof.* As in M4-laplace, noise :math:`c` under which `v` wins on `D` goes to
    :math:`c + a_v` under which it wins on the neighbour, with :math:`|a_v|_2 \le
    (2k+2g+1) \sqrt t`. So, over a set of labelings, :math:`\Pr[D] - e^\varepsilon
    \Pr[D']` is at most the sum over `v` of what exceeds :math:`e^\varepsilon` between
    :math:`c` and :math:`c + a_v`, which is Gaussian delta of a fixed shift: `labelings`
    of them. The shift may not be fixed once for all, because `c` decides which `v`
    wins.

    Noise that does not fit is drawn again. No coordinate reaches 64 scales except with
    probability :math:`2me^{-2048}`, far below the last digit of delta.
    """
    owner = "rule M4-gaussian"
    n, m = whole(owner, "n", n), whole(owner, "points", points)
    t, k = whole(owner, "taught", taught), whole(owner, "steps", steps)
    count, s = whole(owner, "labelings", labelings), checked_scale(scale)
    room, g = whole(owner, "room", room), whole(owner, "slack", slack, least=0)
    epsilon = positive(owner, "epsilon", epsilon)
    _check_taught(owner, t, m)
    needed = gaussian_room(n=n, points=m, steps=k, scale=s)
    if not (room >= needed and epsilon <= 700 and m <= 2**40):
        raise RuleError(
            f"{owner} needs room >= {needed}, epsilon <= 700 and points <= 2^40 for "
            f"n={n}, steps={k}, scale={s!r}; got room={room}, epsilon={epsilon!r}, "
            f"points={m}. Use coarser steps or fewer public points."
        )
    ratio = up((2 * k + 2 * g + 1) * math.sqrt(t) / grid_scale_to_continuous(s))
    delta = union_delta(count, gaussian_delta(ratio, epsilon))
    return Conclusion(
        ApproxDP(epsilon, delta),
        ReplaceOne(n),
        Scope.MODEL,
        _assumptions(exact_oracle, g, labels_from_data, seeded)
        | caller_assumptions(own_functions, frozen),
    )


def union_delta(count: int, delta: float) -> float:
    """Return ``count * delta``, rounded up; refuse it if it is not a probability."""
    # As rationals: the number of labelings may not fit into a float.
    top, bottom = delta.as_integer_ratio()
    if not count * top < bottom:
        raise RuleError(
            "rule M4-gaussian: delta times the number of labelings is not below 1. Use "
            "more noise, fewer public points, or Laplace noise."
        )
    return probability("rule M4-gaussian", "delta", up(count * top / bottom))


def laplace_room(
    *, n: int, points: int, steps: int, scale: float, slack: int = 0
) -> int:
    """Return how large sums of costs must be allowed to be for M4-laplace."""
    noise = points * (n * steps + slack + 1) / scale
    # T/(2b) >= 2 m ln 2 + m (nk+g+1)/b + 60 ln 2; then q <= 2^-60 p.
    tail = 2 * scale * (2 * points * math.log(2) + noise + 60 * math.log(2))
    return n * steps + math.ceil(up(tail)) + 1


def gaussian_room(
    *, n: int, points: int, steps: int, scale: float, slack: int = 0
) -> int:
    """Return how large sums of costs must be allowed to be for M4-gaussian."""
    return n * steps + math.ceil(up(_SCALES_THAT_FIT * points * scale)) + 1


def caller_assumptions(own_functions: bool, frozen: bool) -> frozenset[Assumption]:
    """Return what is assumed of an oracle that runs code or parts of the caller."""
    return Assumption.collect((ROWWISE_QUERIES, own_functions), (PUBLIC_PARTS, frozen))


def _check_taught(owner: str, taught: int, points: int) -> None:
    if not taught <= points:
        raise RuleError(
            f"{owner} needs taught <= points; got taught={taught}, points={points}."
        )


def _assumptions(
    exact_oracle: bool, slack: int, labels_from_data: bool, seeded: bool
) -> frozenset[Assumption]:
    return Assumption.collect(
        (EXACT_ORACLE, not exact_oracle and slack == 0),
        (ORACLE_WITHIN_SLACK, not exact_oracle and slack > 0),
        (PUBLIC_LABELS, labels_from_data),
        (SEEDED_NOISE, seeded),
    )
