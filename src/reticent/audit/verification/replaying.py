"""Record and replay: what one unit changes when all draws stay the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from reticent._arrays import Floats, Ints
from reticent.audit.verification.hidden_randomness import watched
from reticent.errors import CannotJudgeError, InvalidParameterError, ReticentError
from reticent.mechanisms import Listener, PendingDraw, RandomSource, Reached, listen

# Norms as floats are good to this much; nearer to the limit they are taken exactly.
_DOUBT = 1e-9
_MOST_SHOWN = 20


@dataclass(frozen=True)
class Violation:
    """One thing that a unit moved, but must not move."""

    where: str  #: the mechanism, or "release"
    what: str  #: what moved, in words and numbers that describe no record

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Replay:
    """The outcome of `replay` or `replay_pairs`."""

    #: The first twenty; empty if everything moved as declared.
    violations: tuple[Violation, ...] = ()
    #: Pairs of datasets, and answers or releases whose values were compared.
    pairs: int = 0
    values: int = 0
    #: Answers that were not compared because the unit was in their subset.
    exempt: int = 0
    #: The largest move, as a share of what was declared: above 1 is a violation, and
    #: near 0 means that the check saw little.
    share: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing was violated."""
        return not self.violations

    def __add__(self, other: Replay) -> Replay:
        return Replay(
            (*self.violations, *other.violations)[:_MOST_SHOWN],
            self.pairs + other.pairs,
            self.values + other.values,
            self.exempt + other.exempt,
            max(self.share, other.share),
        )

    def __str__(self) -> str:
        verdict = "holds" if self.holds else f"IS VIOLATED ({self.violations[0]})"
        return (
            f"declared sensitivity {verdict}: largest move {100 * self.share:.1f} % of "
            f"what is declared, {self.values} values in {self.pairs} neighbouring pairs"
        )


class Stop(BaseException):  # not an Exception: programs must not catch it
    """The two runs draw different things."""


class Undeclared(BaseException):
    """How far the law of a draw may move was not declared."""


@dataclass
class Recorder(Listener):
    """Records the values that reach mechanisms and the draws, in order."""

    events: list[Reached | tuple[PendingDraw, Any]] = field(default_factory=list)

    def reached(self, reached: Reached) -> None:
        """Keep values."""
        self.events.append(reached)

    def drawn(self, draw: PendingDraw, sample: Callable[[], Any]) -> Any:
        """Draw, and record the outcome."""
        outcome = sample()
        self.events.append((draw, outcome))
        return outcome

    def draws(self) -> list[tuple[PendingDraw, Any]]:
        """Return the draws with their outcomes."""
        return [event for event in self.events if isinstance(event, tuple)]


class Replayer(Recorder):
    """Records as well, but returns the outcomes of an earlier recording."""

    def __init__(self, recorded: Recorder) -> None:
        super().__init__()
        self._outcomes = iter(recorded.draws())

    def drawn(self, draw: PendingDraw, sample: Callable[[], Any]) -> Any:
        """Return the recorded outcome."""
        before, outcome = next(self._outcomes, (None, None))
        if before is None or _shape(before) != _shape(draw):
            raise Stop
        if draw.kind == "candidate":
            raise Undeclared
        self.events.append((draw, outcome))
        return outcome


def _shape(draw: PendingDraw) -> tuple[Any, ...]:
    """Return all of a draw that must not depend on a record."""
    if draw.kind == "label":
        return draw.kind, len(draw.arguments[0]), draw.arguments[0].n_labels
    if draw.kind == "noise":
        law, location, scale, *_ = draw.arguments
        return draw.kind, law, np.shape(location), scale
    if draw.kind in ("flip", "replace"):
        labels, p, *_ = draw.arguments
        return draw.kind, np.shape(labels), p
    if draw.kind == "bernoulli":
        # A coin's chance is not a declared value, so it must not move at all.
        low, high, *_ = draw.arguments
        return draw.kind, low.tolist(), high.tolist()
    if draw.kind == "candidate":
        law, *_ = draw.arguments
        return draw.kind, law.n_candidates
    public = [a for a in draw.arguments if not isinstance(a, RandomSource)]
    return draw.kind, *(np.asarray(value).tolist() for value in public)


def replay(
    run: Callable[[Any], Any],
    data: Any,
    neighbour: Any,
    *,
    unit: int | None = None,
    moves: dict[str, float] | None = None,
) -> Replay:
    """Run twice with the same draws, on neighbours, and compare what moved.

    Parameters
    ----------
    run : callable
        ``run(dataset)`` fits and asks; its return value is the release.
    data, neighbour : object
        Two datasets that differ by one unit.
    unit : int, default=None
        The position of that unit. If given, what follows a random subset that contains
        it is not compared, up to the next subset: for methods whose certificate covers
        that case separately (P5 to P7).
    moves : dict, default=None
        By mechanism, how far its values may move, if the caller does not measure them
        in the mechanism's unit.

    Returns
    -------
    Replay
        With every violation: a value that moved further than declared, a setting or
        the kind of a draw that moved at all, noise on values that were not declared, or
        a release that differs although every draw was the same.

    Guarantee
    ---------
    Differential privacy of mechanisms is about inputs that move as declared, for the
    same outputs so far. Exactly this is checked, since the second run gets the first
    one's outputs. The first run is watched: randomness outside `reticent.mechanisms`,
    clocks and other threads are refused with `CannotJudgeError`.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from reticent.prediction import PrivateVotingClassifier
    >>> def run(data):
    ...     model = PrivateVotingClassifier(DecisionTreeClassifier(), 1.0, [0, 1], 3)
    ...     return model.fit(*data).predict([[0], [1]])
    >>> X = [[0], [1], [0], [1]]
    >>> print(replay(run, (X, [0, 1, 1, 0]), (X, [0, 1, 1, 1])).holds)
    True
    """
    first, touched = Recorder(), list[str]()
    with listen(first), watched(touched.append):
        released = run(data)
    if touched:
        raise CannotJudgeError(
            f"cannot judge: the program uses {touched[0]}, which cannot be replayed. "
            "Draw everything from reticent.mechanisms."
        )
    second = Replayer(first)
    with listen(second):
        try:
            again = run(neighbour)
        except Stop:
            again = Stop
        except Undeclared:
            raise CannotJudgeError(
                "cannot judge: a candidate is drawn from a grid, and how far its law "
                "may move is not declared. Use verify_release."
            ) from None
        except ReticentError as error:
            again = error
    found = _compared(first, second, unit, moves or {})
    return found + Replay(tuple(_release_violations(released, again)), pairs=1)


def replay_pairs(
    run: Callable[[Any], Any],
    pairs: Iterable[tuple[Any, ...]],
    *,
    moves: dict[str, float] | None = None,
) -> Replay:
    """Replay many pairs, or triples of pair and `unit`, and add up the results."""
    total = Replay()
    for data, neighbour, *unit in pairs:
        position = unit[0] if unit else None
        total += replay(run, data, neighbour, unit=position, moves=moves)
    if not total.pairs:
        raise InvalidParameterError("replay_pairs got no pair to compare.")
    return total


def _release_violations(released: Any, again: Any) -> Iterable[Violation]:
    if again is Stop:
        yield Violation("release", "what is drawn, and when, depends on a record")
    elif isinstance(again, ReticentError):
        yield Violation("release", f"one of two neighbours fails ({again})")
    elif not _same(released, again):
        yield Violation("release", "it differs although every draw was the same")


def _compared(
    first: Recorder, second: Recorder, unit: int | None, moves: dict[str, float]
) -> Replay:
    found = Replay()
    passing = False  # whether the unit is in the current subset
    for here, there in zip_longest(first.events, second.events):
        if isinstance(here, tuple) and here[0].kind == "subset":
            passing = unit is not None and unit in np.asarray(here[1])
        if passing:
            found += Replay(exempt=int(isinstance(here, Reached)))
        elif isinstance(here, Reached) and isinstance(there, Reached):
            found += _moved(here, there, moves)
        elif isinstance(here, Reached) or isinstance(there, Reached):
            return found + Replay((Violation("release", "a value comes or goes"),))
        elif there is not None:
            found += _undeclared(here[0], there[0], first.events)
    return found


def _moved(here: Reached, there: Reached, moves: dict[str, float]) -> Replay:
    """Compare two arrays of values, row by row, with what was declared."""
    where = here.mechanism
    if here.values.shape != there.values.shape or where != there.mechanism:
        return Replay((Violation(where, "the shape of values depends on a record"),))
    problems = []
    if here.settings != there.settings:
        problems.append(Violation(where, "a setting depends on a record"))
    gaps = np.abs(here.values - there.values)
    limits = {"largest": here.largest, "l1": here.l1, "l2": here.l2}
    if where in moves:
        limits = {
            norm: moves[where] for norm, limit in limits.items() if limit < np.inf
        }
    share = 0.0
    for norm, limit in limits.items():
        if not (limit < np.inf and gaps.size):
            continue
        sizes = _norms(gaps, norm)
        worst = int(sizes.argmax())
        part = float(sizes[worst]) / limit if limit > 0 else math.inf
        if part > 1 - _DOUBT and _exceeds(gaps[worst], norm, limit):
            told = f"moves by {sizes[worst]:.6g} in {norm}, declared {limit:.6g}"
            problems.append(Violation(where, told))
            part = max(part, 1 + 1e-15)
        else:
            part = min(part, 1.0)
        share = max(share, part)
    return Replay(tuple(problems), values=len(gaps), share=share)


def _norms(gaps: Ints, norm: str) -> Floats:
    wide = gaps.astype(np.float64)
    if norm == "largest":
        return np.asarray(wide.max(axis=1))
    if norm == "l1":
        return np.asarray(wide.sum(axis=1))
    return np.asarray(np.sqrt((wide**2).sum(axis=1)))


def _exceeds(gaps: Ints, norm: str, limit: float) -> bool:
    """Decide in exact arithmetic."""
    sizes = [int(gap) for gap in gaps]
    if norm == "largest":
        return max(sizes) > Fraction(limit)
    if norm == "l1":
        return sum(sizes) > Fraction(limit)
    return sum(size**2 for size in sizes) > Fraction(limit) ** 2


def _undeclared(here: PendingDraw, there: PendingDraw, events: list[Any]) -> Replay:
    """Return a violation if noise is on a value that moved and was not declared."""
    if here.kind != "noise":
        return Replay()
    before, after = (np.asarray(draw.arguments[1], np.int64) for draw in (here, there))
    if (before == after).all():
        return Replay()
    wanted = before.tobytes()
    declared = (e for e in reversed(events) if isinstance(e, Reached))
    if any(wanted in np.asarray(e.values, np.int64).tobytes() for e in declared):
        return Replay()
    return Replay((Violation("noise", "a value that was not declared moves"),))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _same(left[key], right[key]) for key in left
        )
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        here, there = np.asarray(left), np.asarray(right)
        nan = here.dtype.kind == "f" and there.dtype.kind == "f"
        return bool(np.array_equal(here, there, equal_nan=nan))
    return bool(left == right) or (left != left and right != right)
