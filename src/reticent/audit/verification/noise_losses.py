"""Exact verification of noisy numbers, from how far the values under the noise move."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from reticent._numbers import exact, whole
from reticent.audit.verification.exact import Verification, datasets_of
from reticent.audit.verification.hidden_randomness import watched
from reticent.audit.verification.losses import allowed
from reticent.audit.verification.outcomes import observable_form
from reticent.audit.verification.replaying import Recorder, Replayer, Stop, Undeclared
from reticent.errors import CannotJudgeError, InvalidParameterError
from reticent.guarantees import ZCDP, ApproxDP, Guarantee, PureDP
from reticent.mechanisms import GridLaw, PendingDraw, listen

# The curve of Gaussian noise as floats is good to this much.
_DOUBT = 1e-9


@dataclass(frozen=True)
class _Loss:
    """The loss of noise on moved values: pure, and squared ratios of Gaussian noise."""

    pure: Fraction = Fraction(0)
    squares: Fraction = Fraction(0)

    def __add__(self, other: _Loss) -> _Loss:
        return _Loss(self.pure + other.pure, self.squares + other.squares)


def verify_noise(
    release: Callable[[Any, Any], Any],
    domain: Sequence[tuple[Any, Any]],
    n: int,
    *,
    claim: Guarantee,
    symmetric: bool = False,
    answers: bool = False,
) -> Verification:
    """Check a claim about noisy numbers on all neighbours of a small domain.

    Parameters
    ----------
    release : callable
        ``release(X, y)`` runs the program once and returns what it releases. Of its
        draws only noise on numbers may depend on the data.
    domain, n, symmetric
        As for `verify`.
    claim : Guarantee
        `PureDP` of Laplace noise, `ApproxDP` or `ZCDP` of Gaussian noise.
    answers : bool, default=False
        Whether each row of numbers is a separate answer, so that the worst of them
        counts; otherwise they are one release, and their losses add up.

    Returns
    -------
    Verification
        Its `worst` is the epsilon of the moves for `PureDP`, the delta at the claimed
        epsilon for `ApproxDP`, the rho for `ZCDP`.

    Guarantee
    ---------
    Every pair is run twice, the second time with the first one's draws, as adaptive
    composition demands. The releases must then be equal, and so must the laws of all
    other draws. Moves of the noise's inputs are whole numbers and its scale is a float,
    both without rounding. Discrete Laplace noise of scale `s` on a vector that moved by
    `d` in l1 costs exactly ``d / s``; for Gaussian noise the continuous curve is used,
    which for scales of many steps differs by less than float arithmetic can show.
    """
    n = whole("verify_noise", "n", n)
    units = [(x if isinstance(x, (tuple, list)) else (x,), y) for x, y in domain]

    def arrays(data: tuple[int, ...]) -> tuple[Any, Any]:
        X = np.array([units[unit][0] for unit in data])
        return X, np.array([units[unit][1] for unit in data])

    worst, pairs, count = -1.0, 0, 0
    example: tuple[Any, Any, Any, Any] = (None, None, None, None)
    holds, limit = True, _allowed(claim)
    for data in datasets_of(len(units), n, symmetric):
        count += 1
        first = Recorder()
        released = _run(release, arrays(data), first)
        for place, unit in product(range(n), range(len(units))):
            if unit == data[place]:
                continue
            near = (*data[:place], unit, *data[place + 1 :])
            second = Replayer(first)
            again = _run(release, arrays(near), second)
            pairs += 1
            used, fine = _used(claim, _losses(first, second, answers))
            if again != released:  # although every draw was the same
                used, fine = math.inf, False
            holds = holds and fine
            if used > worst:
                worst = used
                example = (data, near, None, None)
    return Verification(
        holds=holds,
        guarantee=claim,
        worst=max(worst, 0.0),
        allowed=limit,
        rigorous=isinstance(claim, PureDP),
        datasets=count,
        pairs=pairs,
        example=example,
    )


def _run(
    release: Callable[[Any, Any], Any], data: tuple[Any, Any], listener: Recorder
) -> Hashable:
    """Run once, watched, and return the observable form of the release."""
    touched: list[str] = []
    try:
        with listen(listener), watched(touched.append):
            seen = observable_form(release(*data))
    except (Stop, Undeclared):
        raise CannotJudgeError(
            "cannot judge: the kind of a draw, or the law of one that is not noise, "
            "depends on a record. Use verify_release."
        ) from None
    if touched:
        raise CannotJudgeError(
            f"cannot judge: the program uses {touched[0]}, which cannot be replayed."
        )
    return seen


def _losses(first: Recorder, second: Recorder, answers: bool) -> list[_Loss]:
    """Return the loss of each answer, or of all together."""
    totals: list[_Loss] = []
    if len(first.draws()) != len(second.draws()):
        raise CannotJudgeError("cannot judge: the number of draws depends on a record.")
    pairs = zip(first.draws(), second.draws(), strict=True)
    for (here, _), (there, _) in pairs:
        if here.kind != "noise":
            _check_law(here, there)
            continue
        law, before, scale, *_ = here.arguments
        moved = np.asarray(before, np.int64) - np.asarray(there.arguments[1], np.int64)
        rows = moved.reshape(len(moved), -1) if answers else moved.reshape(1, -1)
        found = [_loss(law, row.tolist(), scale) for row in rows]
        totals = (
            [a + b for a, b in zip(totals, found, strict=True)] if totals else found
        )
    return totals


def _check_law(here: PendingDraw, there: PendingDraw) -> None:
    """Refuse another draw whose law moves: its loss is not counted here."""
    if here.kind == "label":
        laws = [draw.arguments[0].log_probabilities for draw in (here, there)]
    elif here.kind in ("flip", "replace"):
        laws = [np.asarray(draw.arguments[0]) for draw in (here, there)]
    else:
        return  # all of its arguments were compared when it was replayed
    if not np.array_equal(*laws):
        raise CannotJudgeError(
            f"cannot judge: besides noise, a {here.kind} is drawn whose law depends on "
            "a record. Use verify_release, or verify each part separately."
        )


def _loss(law: GridLaw, moved: list[int], scale: float) -> _Loss:
    if law is GridLaw.LAPLACE:
        return _Loss(pure=sum(map(abs, moved)) / Fraction(scale))
    return _Loss(squares=sum(step**2 for step in moved) / Fraction(scale) ** 2)


def _allowed(claim: Guarantee) -> float:
    if not isinstance(claim, (PureDP, ApproxDP, ZCDP)):
        raise InvalidParameterError(
            f"{claim} is not a claim about noise; give PureDP, ApproxDP or ZCDP."
        )
    return allowed(claim)


def _used(claim: Guarantee, losses: list[_Loss]) -> tuple[float, bool]:
    """Return how much of the claim the worst answer uses, and whether it may."""
    worst, fine = 0.0, True
    for loss in losses:
        if isinstance(claim, PureDP):
            used = math.inf if loss.squares else float(loss.pure)
            held = not loss.squares and loss.pure <= exact(claim.epsilon)
        elif loss.pure:
            used, held = math.inf, False
        elif isinstance(claim, ZCDP):
            used = float(loss.squares / 2)
            held = loss.squares / 2 <= exact(claim.rho)
        else:
            used = _gaussian_delta(math.sqrt(loss.squares), claim.epsilon)  # type: ignore[attr-defined]
            held = used <= claim.delta * (1 + _DOUBT)  # type: ignore[attr-defined]
        worst, fine = max(worst, used), fine and held
    return worst, fine


def _gaussian_delta(ratio: float, epsilon: float) -> float:
    """Return the delta of Gaussian noise for a move of `ratio` scales."""
    if ratio == 0:
        return 0.0
    first = float(log_ndtr(ratio / 2 - epsilon / ratio))
    second = epsilon + float(log_ndtr(-ratio / 2 - epsilon / ratio))
    return math.exp(first) * -math.expm1(second - first)
