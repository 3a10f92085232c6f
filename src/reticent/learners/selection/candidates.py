"""Candidates that do not depend on the data, and the law of the one selected (L1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reticent._arrays import Floats, Ints
from reticent._numbers import exact, whole
from reticent._text import one_of
from reticent.errors import InvalidDataError, InvalidParameterError
from reticent.hypotheses import FiniteClass, FiniteProjection, Intervals, Thresholds
from reticent.learners.selection.grid import Grid
from reticent.learners.selection.grid_classes import LineCandidates, LineResponse
from reticent.mechanisms import (
    RandomSource,
    Response,
    checked_epsilon,
    exponential_mechanism,
    permute_and_flip,
)

SELECTIONS = ("exponential", "permute-and-flip")

# A unit of several rows, or a penalty, is counted in parts of one loss of this size.
# With finer parts fewer units would fit: scores stay below 2^44.
FIXED_POINT = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ListedCandidates:
    """Candidates in a list."""

    projection: Any  # hypotheses that can count their mistakes
    kept: Ints | None = None  # which of them are candidates; None keeps all

    @property
    def count(self) -> int:
        """Number of candidates."""
        return len(self.projection) if self.kept is None else len(self.kept)

    def __getitem__(self, index: int) -> Any:
        return self.projection[index if self.kept is None else int(self.kept[index])]

    def mistakes(self, X: Floats, y: Ints, weights: Ints | None) -> Ints:
        """Return the weighted mistakes of every candidate, exact."""
        found = np.asarray(self.projection.mistakes(X, y, weights))
        return found if self.kept is None else found[self.kept]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Rows, labels in {0, 1}, and the weight of each row."""

    X: Floats
    y: Ints
    # The weight of each row in parts of one loss; the rows of a unit add up to at most
    # `steps`. None gives each row `steps`.
    weights: Ints | None
    steps: int  # parts of one loss; public
    n_units: int  # number of units; public

    @classmethod
    def of(
        cls, X: Floats, y: Ints, positions: Ints | None, n_units: int, *, fine: bool
    ) -> Examples:
        """Average within units: each row of a unit gets an equal part, rounded down.

        `positions` is the unit of each row; None makes each row a unit. `fine` asks for
        fixed point in any case. Both must be public choices.
        """
        if positions is None:
            return cls(X, y, None, FIXED_POINT if fine else 1, n_units)
        rows = np.bincount(positions, minlength=n_units)
        return cls(X, y, FIXED_POINT // rows[positions], FIXED_POINT, n_units)


def select(
    candidates: Any,
    examples: Examples,
    epsilon: float,
    *,
    penalty: Any,
    selection: str,
) -> Response | LineResponse:
    """Return the exact law of the selected candidate.

    A score is minus the units' losses minus the penalty, in parts of one loss; one
    replaced unit moves it by at most `steps`.
    """
    one_of("selection", selection, *SELECTIONS)
    epsilon = checked_epsilon("selection", epsilon)
    n, steps = examples.n_units, examples.steps
    if isinstance(candidates, LineCandidates):
        if selection != "exponential":
            raise InvalidParameterError(
                f"selection={selection!r} needs candidates that can be listed. Use "
                "selection='exponential' on a grid, or give points=..."
            )
        parts = _parts(penalty, candidates.most_ends + 1, n, steps, "number of ends")
        return candidates.law(
            examples.X,
            examples.y,
            _weights(examples),
            exact(epsilon) / (2 * steps),
            parts.tolist(),
        )
    if callable(penalty):
        penalty = [penalty(candidates[index]) for index in range(candidates.count)]
    parts = _parts(penalty, candidates.count, n, steps, "candidate")
    scores = -candidates.mistakes(examples.X, examples.y, _weights(examples)) - parts
    mechanism: Any = (
        exponential_mechanism if selection == "exponential" else permute_and_flip
    )
    bound = n * steps + int(np.abs(parts).max())
    law: Response = mechanism(scores, epsilon, bound=bound, sensitivity=steps)
    return law


def draw_hypothesis(candidates: Any, law: Any, source: RandomSource) -> Any:
    """Draw one candidate from its law; this is the release."""
    if isinstance(law, LineResponse):
        return law.draw(source)
    return candidates[int(law.draw(source)[0])]


def _weights(examples: Examples) -> Ints | None:
    if examples.weights is not None or examples.steps == 1:
        return examples.weights
    return np.full(len(examples.X), examples.steps, dtype=np.int64)


def _parts(penalty: Any, count: int, n: int, steps: int, each: str) -> NDArray[Any]:
    """Return ``n * penalty`` in parts of one loss; rounding is the same for all data.

    The smallest is shifted to zero, which does not change the law.
    """
    if penalty is None:
        return np.zeros(count, dtype=np.int64)
    try:
        values = np.asarray(penalty, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape != (count,) or not np.isfinite(values).all():
        raise InvalidParameterError(
            f"penalty of shape {values.shape} must have one finite number for each "
            f"{each}, {count} in total."
        )
    least = Fraction(float(values.min()))
    parts = [int((Fraction(float(value)) - least) * n * steps) for value in values]
    if not max(parts) < 2**44:
        raise InvalidParameterError(
            f"penalty differs by {float(values.max() - values.min()):.3g}, too much "
            f"for n={n}; penalties are counted in losses, which are at most 1."
        )
    return np.array(parts, dtype=np.int64)


def public_candidates(
    family: Any,
    n_features: int,
    points: ArrayLike | None,
    bounds: Sequence[float] | None,
    resolution: int,
) -> Any:
    """Return a class's candidates: on public points, on a grid, or all its members."""
    if points is not None and bounds is not None:
        raise InvalidParameterError("give one of points and bounds; got both.")
    if bounds is not None:
        return _on_grid(family, bounds, resolution)
    if points is not None:
        return ListedCandidates(family.project(points))
    if isinstance(family, FiniteClass):
        members = np.zeros(len(family), dtype=[("index", np.int64)])
        members["index"] = np.arange(len(family))
        nowhere = np.zeros((0, n_features))
        return ListedCandidates(FiniteProjection(family, nowhere, members))
    raise InvalidParameterError(
        f"{type(family).__name__} has infinitely many hypotheses. Give public points, "
        "points=..., and one candidate is kept for each of their labelings; or "
        "bounds=(low, high) for thresholds and intervals. Never take them from the "
        "data."
    )


def _on_grid(family: Any, bounds: Sequence[float], resolution: Any) -> LineCandidates:
    if not isinstance(family, Thresholds | Intervals):
        raise InvalidParameterError(
            f"bounds={bounds!r} are for Thresholds and Intervals; give points=... for "
            f"{type(family).__name__}."
        )
    ends = tuple(bounds) if isinstance(bounds, Sequence | np.ndarray) else ()
    if len(ends) != 2 or not all(
        isinstance(end, Real) and not isinstance(end, bool) for end in ends
    ):
        raise InvalidParameterError(f"bounds={bounds!r} must be two numbers.")
    if not isinstance(resolution, Integral):
        raise InvalidParameterError(
            f"resolution={resolution!r} must be a whole number of grid values."
        )
    size = whole("grid", "resolution", resolution, least=2)
    return LineCandidates(family, Grid(float(ends[0]), float(ends[1]), size))


def refuse_training_rows(name: str, public: Any, X: Any) -> None:
    """Refuse the training rows themselves as public points.

    Compares addresses in memory and not contents: refusing equal contents would reveal
    them.
    """
    same = public is not None and public is X
    if isinstance(public, np.ndarray) and isinstance(X, np.ndarray):
        same = same or (public.size > 0 and public.ctypes.data == X.ctypes.data)
    if same:
        raise InvalidDataError(
            f"{name} are the training rows. Candidates taken from the data are not "
            "covered by any certificate; take public points."
        )
