"""What adding up privacy costs takes, against dp_accounting and OpenDP's filters.

Every result is a ratio within one run, in processor time: how many times longer the
peer takes for the same job.

- `total of many answers`: what k answers of one pure mechanism cost at delta = 1e-6, by
  our exact closed form, over dp_accounting's loss distribution of the same steps. Both
  epsilons are printed; ours must not be larger.
- `one ledger charge`: one more step charged to a ledger in memory, over dp_accounting's
  accountants, which compose all steps again to answer whether it fits.
- `counted answers`: what an answer of bounded range costs an account that counts
  answers (G25: one value iteration when it opens, then one more of a count), over one
  that adds up rho; what opening takes, and how many answers it gains.
- `one ledger draw`: a charge and a draw of discrete Gaussian noise, over an OpenDP
  privacy filter that does the same, for the first answers and after many.

Prints one JSON object; `--quick` takes smaller sizes.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import count
from typing import Any

import dp_accounting
import opendp.prelude as dp
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution

from reticent.guarantees import (
    ZCDP,
    BoundedRange,
    Budget,
    PureDP,
    ReplaceOne,
    Scope,
    claim,
    repeat,
)
from reticent.ledger import (
    AccountId,
    AccountScope,
    Cap,
    Charge,
    MemoryLedger,
    Request,
)
from reticent.mechanisms import SystemSource, draw_discrete_gaussian
from reticent.prediction.budgets import cap_for

DELTA = 1e-6
STEP = 0.05


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def claimed(guarantee: Any) -> Any:
    return claim(guarantee, ReplaceOne(30_000), Scope.ANSWER, statement="a benchmark")


def totals(answers: int) -> dict[str, float]:
    """Compare what `answers` cost together, and how long it takes to say so."""
    certificate = claimed(PureDP(STEP))

    def ours() -> float:
        total = repeat(certificate, answers, delta=DELTA, methods=("exact",))
        return float(total.guarantee.epsilon)

    def theirs() -> float:
        # By way of the distribution: version 0.6 of the accountant itself counts a
        # self-composed randomised response once.
        loss = privacy_loss_distribution.from_randomized_response(_flip(STEP), 2)
        return float(loss.self_compose(answers).get_epsilon_for_delta(DELTA))

    return {
        "answers": answers,
        "epsilon": ours(),
        "epsilon of dp_accounting": theirs(),
        "times_faster": seconds(theirs, 1) / seconds(ours),
    }


def _flip(epsilon: float) -> float:
    """Noise parameter of randomised response over two values with this epsilon."""
    return 2 / (1 + math.exp(epsilon))


def charger(guarantee: Any, cap: Cap | None = None) -> Callable[[], None]:
    """Return what charges one step with this guarantee to a ledger in memory."""
    ledger, account = MemoryLedger(), AccountId(AccountScope.DATASET, "benchmark")
    ledger.open_account(account, cap or Cap.within(Budget(1e3, DELTA)))
    charge, keys = Charge.of(claimed(guarantee)), count()

    def once() -> None:
        ledger.charge(
            Request(
                key=f"answer-{next(keys)}",
                accounts=(account,),
                charge=charge,
                queries=(b"query",),
            )
        )

    return once


def charging(steps: int) -> dict[str, float]:
    """Compare one more step on a running account, with the check that it fits."""
    charge = charger(ZCDP(1e-9))

    def ours() -> None:
        for _ in range(steps):
            charge()

    accountant = rdp.RdpAccountant()
    gaussian = dp_accounting.GaussianDpEvent(2e4)

    def theirs() -> None:
        for _ in range(100):
            accountant.compose(gaussian)
            accountant.get_epsilon(DELTA)

    mine, other = seconds(ours) / steps, seconds(theirs) / 100
    return {
        "microseconds": 1e6 * mine,
        "microseconds of dp_accounting's RDP accountant": 1e6 * other,
        "times_faster": other / mine,
    }


def counted(step: float) -> dict[str, float]:
    """Measure answers of bounded range: all that a budget allows, one by one."""
    budget, certificate = Budget(1.0, DELTA), claimed(BoundedRange(step))
    charge = Charge.of(certificate)
    began = time.process_time()
    cap = cap_for(budget, charge, certificate)
    opening = time.process_time() - began
    answers = cap.answers_left(charge)

    def each(cap: Cap) -> float:
        most = cap.answers_left(charge)

        def spend() -> float:
            once = charger(BoundedRange(step), cap)
            return seconds(lambda: [once() for _ in range(most)], 1) / most

        return min(spend() for _ in range(5))

    by_rho = cap_for(budget, charge)
    counting, adding = each(cap), each(by_rho)
    return {
        "answers": answers,
        "answers by rho": by_rho.answers_left(charge),
        "opening, milliseconds": 1e3 * opening,
        "microseconds": 1e6 * counting,
        "over a charge of rho": counting / adding,
        "microseconds with its part of the opening": 1e6
        * (counting + opening / answers),
    }


def guarded(answers: int) -> dict[str, float]:
    """Compare draws of Gaussian noise behind a budget that cannot be overdrawn."""
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    noise = dp.m.make_gaussian(*space, scale=1_000.0)
    odometer = dp.c.make_fully_adaptive_composition(
        *space, dp.zero_concentrated_divergence()
    )
    guard = dp.c.make_privacy_filter(odometer, d_in=1, d_out=10.0)(0)
    charge, source = charger(ZCDP(1 / (2 * 1_000.0**2))), SystemSource()

    def ours() -> None:
        for _ in range(100):
            charge()
            draw_discrete_gaussian([0], 1_000.0, source)

    def theirs() -> None:
        for _ in range(100):
            guard(noise)

    first = seconds(ours, 1), seconds(theirs, 1)
    for _ in range(answers // 100):
        ours()
        theirs()
    late = seconds(ours), seconds(theirs)
    return {
        "answers before": answers,
        "microseconds": 1e4 * late[0],
        "microseconds of OpenDP's filter": 1e4 * late[1],
        "first answers, times_faster": first[1] / first[0],
        "after many answers, times_faster": late[1] / late[0],
        "late over first, ours": late[0] / first[0],
        "late over first, OpenDP's": late[1] / first[1],
    }


def main(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    result: dict[str, Any] = {
        "versions": {name: version(name) for name in ("dp-accounting", "opendp")},
        "total of many answers": totals(100 if quick else 1_000),
        "one ledger charge": charging(10_000 if quick else 100_000),
        "counted answers": counted(0.05 if quick else 0.02),
        "one ledger draw": guarded(1_000 if quick else 10_000),
    }
    print(json.dumps(result, indent=2))
    total = result["total of many answers"]
    return 0 if total["epsilon"] <= total["epsilon of dp_accounting"] * 1.001 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
