"""R1: the guarantee of a model that is decoded from a few of its examples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reticent._numbers import probability, up, whole
from reticent.errors import RuleError
from reticent.generalization.compression.side_information import width
from reticent.guarantees import (
    PUBLIC_LABELS,
    Assumption,
    Certificate,
    Compression,
    Conclusion,
    RobustGeneralization,
    Sample,
    Scope,
    rule,
)

KEEP = "R1-keep"

FIXED_DECODER = Assumption(
    "FIXED_DECODER",
    "the scheme, and the estimator that it decodes with, were fixed before the data "
    "were seen",
)


def log_choose(n: int, k: int) -> float:
    """Return the logarithm of the number of `k`-subsets of `n`, rounded up."""
    k = min(k, n - k)
    if not k > 0:
        return 0.0
    factors = np.arange(k, dtype=np.float64)
    logs = np.log((n - factors) / (factors + 1))
    # Each logarithm is off by less than 1e-14, and each addition by as much again.
    return up(float(logs.sum()) + 1e-13 * k)


def kept_error(*, kept: int, side_bits: int, sizes: int, n: int, beta: float) -> float:
    """Return R1's error bound, rounded up and never above one."""
    if not kept < n:
        return 1.0
    spread = (
        log_choose(n, kept)
        + up(side_bits * math.log(2))
        + up(math.log(2 * sizes / beta))
    )
    rest = up(math.sqrt(up(spread) / (2 * (n - kept))))
    return min(1.0, up(kept / n + (1 - kept / n) * rest))


@rule(
    KEEP,
    name="decoded from a set of kept examples",
    statement="the model is a function of a set of kept examples and of side bits",
    source="S3 Lemma 17; R1",
    gives=Compression,
    later=("own_decoder",),
)
def kept_examples(
    *,
    scheme: str,
    kept: int,
    n: int,
    rows: int,
    side_bits: int = 0,
    sizes: int = 1,
    reports: int = 1,
    labels_from_data: bool = False,
    own_decoder: bool = False,
) -> Conclusion[Compression]:
    """Record what a compression learner kept of its `n` units.

    Parameters
    ----------
    scheme : str
        Name of the decoder; it reads the kept examples as a set.
    kept : int
        Number of kept examples, which belong to at most this many units.
    n, rows : int
        Units, and their rows in total.
    side_bits : int, default=0
        Length of the side information. The strings that belong to one number of
        kept examples must be prefix-free.
    sizes : int, default=1
        Number of possible numbers of kept examples, fixed before the data were seen.
    reports : int, default=1
        Number of possible values of a statistic that is published with the model, such
        as the training error. It is counted as side information.
    labels_from_data : bool, default=False
        Whether the decoder's list of classes was read from the data.
    own_decoder : bool, default=False
        Whether the caller gave the scheme, or the estimator that it decodes with. What
        either learned from the data before, or refers to, is not counted.

    Guarantee
    ---------
    Where units have several rows, a kept row says more than the unit it belongs to. The
    missing bits are counted as side information, so that G13 and R1, which count sets
    of units, hold unchanged.
    """
    if not scheme:
        raise RuleError(f"rule {KEEP} needs scheme='...', the decoder's name.")
    kept = whole(f"rule {KEEP}", "kept", kept, least=0)
    n = whole(f"rule {KEEP}", "n", n)
    rows = whole(f"rule {KEEP}", "rows", rows, least=n)
    side_bits = whole(f"rule {KEEP}", "side_bits", side_bits, least=0)
    sizes = whole(f"rule {KEEP}", "sizes", sizes)
    side_bits += width(whole(f"rule {KEEP}", "reports", reports))
    if not kept <= rows:
        raise RuleError(f"rule {KEEP} needs kept <= rows; got {kept} of {rows}.")
    if rows > n and 0 < kept < n:
        # A set of units names a set of rows once these bits are added.
        gap = log_choose(rows, kept) - log_choose(n, kept)
        side_bits += max(0, math.ceil(gap / math.log(2) + 1e-6))
    return Conclusion(
        Compression(kept, side_bits, int(sizes > 1)),
        Sample(n),
        Scope.MODEL,
        Assumption.collect(
            (PUBLIC_LABELS, bool(labels_from_data)), (FIXED_DECODER, bool(own_decoder))
        ),
    )


@rule(
    "R1",
    name="compression learner",
    statement="k/n + (1 - k/n) sqrt((ln C(n,k) + b ln 2 + ln(2 sizes/beta))/(2(n-k)))",
    source="S3 Lemma 17 and Thm 18; R1",
    paper="sets counted as ordered lists, and about three times larger (G13)",
    takes=Compression,
    gives=RobustGeneralization,
    relations=(Sample,),
    scopes=(Scope.MODEL,),
)
def kept_to_robust(
    premise: Certificate[Compression], *, beta: float
) -> Conclusion[RobustGeneralization]:
    r"""Bound overfitting of anything computed from the kept examples.

    Guarantee
    ---------
    Let the decoder read `k` kept examples as a *set* and `b` side bits from a
    prefix-free code. Fix the set's positions `I` and the bits. The `n - k` other
    examples are independent of whatever is computed from the examples at `I` and the
    bits, so by Hoeffding its average over them is off by more than
    :math:`t` with probability at most :math:`2 e^{-2 (n-k) t^2}`. Give each of the
    sizes, each of the :math:`\binom{n}{k}` sets and each string of `b` bits the share
    :math:`\beta / (\mathrm{sizes} \binom{n}{k} 2^b)`: by Kraft's inequality the
    shares add up to at most :math:`\beta`. The `k` kept examples weigh `k/n` in the
    whole sample and are off by at most 1 each. How the kept examples were chosen does
    not matter, so a learner may search for the best set as long as it likes; nor does
    it matter that their positions are published too.

    Sharper than G13, which counts ordered lists.
    """
    beta = probability("rule R1", "beta", beta)
    if premise.rule != KEEP:
        raise RuleError(
            f"rule R1 needs a premise by rule {KEEP}, whose decoder reads a set; got "
            f"rule {premise.rule}. Use compression_to_robust (G13) for ordered lists."
        )
    relation: Any = premise.relation
    error = kept_error(
        kept=premise.guarantee.kept,
        side_bits=premise.guarantee.side_bits,
        sizes=int(premise.parameter("sizes", 1)),  # type: ignore[arg-type]
        n=relation.n,
        beta=beta,
    )
    return Conclusion(RobustGeneralization(error, beta), relation, premise.scope)
