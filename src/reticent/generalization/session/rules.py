"""R2: what anything computed from an adaptive session may overfit by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

from reticent._numbers import below_one, down, nonnegative, probability, up, whole
from reticent.errors import RuleError
from reticent.guarantees import (
    Assumption,
    Conclusion,
    ReplaceOne,
    RobustGeneralization,
    Sample,
    Scope,
    Sensitivity,
    approx_robust_error,
    rule,
)

# Below this a failure probability is too small for G11's arithmetic.
_SMALLEST_FAILURE = 1e-280


def session_error(
    *, n: int, epsilon: float, delta: float, kept: int, bits: float, failure: float
) -> float:
    """Return R2's error, rounded up and never above one."""
    if not kept < n:
        return 1.0
    left = n - kept
    guess = up(kept * math.log(n) + bits * math.log(2) + math.log(1 / failure))
    if delta == 0:
        reach = up(epsilon * math.sqrt(left / 8) + math.sqrt(guess))
        rest = up(math.sqrt((math.log(2) + up(reach * reach)) / (2 * left)))
    else:
        # The same step with G11 in place of G10; delta pays for the guesses too.
        target = down(math.exp(-guess)) if guess < 700 else 0.0
        if not max(_SMALLEST_FAILURE, delta) < target:
            return 1.0  # G11 has the term 2 delta/target at least
        rest = approx_robust_error(epsilon, delta, left, target)
    if not rest < 1:
        return 1.0
    return min(1.0, up(kept / n + (1 - kept / n) * rest))


@rule(
    "R2",
    name="adaptive session",
    statement="k/n + (1-k/n) sqrt((ln 2 + (eps sqrt((n-k)/8) + "
    "sqrt(k ln n + b ln 2 + ln(1/beta)))^2) / (2(n-k)))",
    source="S3 Thm 19, 20, 21; R2",
    gives=RobustGeneralization,
    adaptivity="fully adaptive",
)
def session_to_robust(
    *,
    n: int,
    beta: float,
    epsilon: float = 0.0,
    delta: float = 0.0,
    kept: int = 0,
    bits: float = 0.0,
    share: float = 1.0,
    assuming: Sequence[str] = (),
) -> Conclusion[RobustGeneralization]:
    r"""Bound overfitting of whatever is computed from all that a session returned.

    Parameters
    ----------
    n : int
        Units of the one dataset.
    beta : float
        Failure probability of the statement.
    epsilon, delta : float
        Budget of all differentially private steps together, basic composition.
    kept : int
        Budget of examples kept by all compression steps together.
    bits : float
        Budget of few-bit answers, side information and reports of failure.
    share : float, default=1.0
        Part of `beta` that this bound may use, if several bounds of one session are to
        hold at once.
    assuming : sequence of str
        Assumptions of the private steps, as ``CODE: statement``.

    Guarantee
    ---------
    Budgets are fixed before the first step; steps are chosen adaptively, with any
    costs that fit. Proof. Imagine somebody who never sees the data and *guesses* every
    answer that is not private: each kept position with probability `1/n`, each of `m`
    possible answers with `1/m`, side information bit by bit, sizes and failures by
    fixed shares. The guesses are all right with probability at least
    :math:`w = n^{-k} 2^{-b}`, whatever the session does, because its charges say how
    much each guess may cost. Fix the guesses. The session that uses them instead of
    the real answers reads the data in private steps alone, apart from the examples at
    the guessed positions; given these it is :math:`\varepsilon`-private for the
    :math:`n-k` others, for pure losses chosen adaptively add up. By G10 what is
    computed from its outputs is off on the others by more than :math:`\tau` with
    probability at most :math:`\beta w`, with :math:`\ln(1/(\beta w)) = k \ln n + b
    \ln 2 + \ln(1/\beta)` in place of :math:`\ln(1/\beta)`. The real session is bad and
    guessed right with probability at least :math:`w` times that it is bad, so it is
    bad with probability at most :math:`\beta`. The kept examples weigh `k/n`. With
    ``delta > 0`` the same holds with G11 in place of G10.

    A budget that is not fixed would break the step "with probability at least w".
    """
    n = whole("rule R2", "n", n)
    beta = probability("rule R2", "beta", beta)
    share = nonnegative("rule R2", "share", share)
    if not 0 < share <= 1:
        raise RuleError(f"rule R2 needs 0 < share <= 1; got share={share!r}.")
    error = session_error(
        n=n,
        epsilon=nonnegative("rule R2", "epsilon", epsilon),
        delta=below_one("rule R2", "delta", delta),
        kept=whole("rule R2", "kept", kept, least=0),
        bits=nonnegative("rule R2", "bits", bits),
        failure=down(beta * share),
    )
    return Conclusion(
        RobustGeneralization(error, beta),
        Sample(n),
        Scope.INTERFACE,
        frozenset(_assumption(text) for text in assuming),
    )


def assumption_texts(assumptions: Iterable[Assumption]) -> tuple[str, ...]:
    """Write assumptions as rule R2 records them."""
    return tuple(f"{each.code}: {each.statement}" for each in sorted(assumptions))


def _assumption(text: str) -> Assumption:
    code, colon, statement = text.partition(": ")
    if not colon:
        raise RuleError(
            f"rule R2 needs assumptions as 'CODE: statement'; got {json.dumps(text)}."
        )
    return Assumption(code, statement)


@rule(
    "R2-sum",
    name="sum over units",
    statement="a sum of n values in [0, 1], one per unit, moves by at most 1",
    source="definition",
    gives=Sensitivity,
)
def unit_sum(*, n: int) -> Conclusion[Sensitivity]:
    """Record how far one replaced unit moves a sum of values in [0, 1]."""
    return Conclusion(Sensitivity(1.0), ReplaceOne(n), Scope.INTERFACE)
