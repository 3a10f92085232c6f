"""What a released model can be worth, from public facts: before anything is trained.

A sum over all units stands out from its noise by about ``n mu`` standard deviations.
Take a table where the label half determines every column. That number, and how well the
columns tell labels apart at all, say how many answers of a released model are
right. The constants follow trials on such tables (`tests/estimators`); they are no
bounds.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import ndtr

from reticent.errors import InvalidDataError, NearChanceWarning, OnlyNoiseWarning

#: Answers that keep a smaller share of what there is to learn are warned of.
WARNED = 0.5
#: Answers that keep a smaller share are refused by ``reticent fit``.
REFUSED = 0.1
#: How far a sum must stand out for one standard deviation of a released score: of
#: models of tables, of linear ones with Gaussian noise, and of linear ones without a
#: delta for each root of a column.
TABLE, LINEAR, PURE_LINEAR = 10.0, 20.0, 100.0
# Noise that leaves less of what a model without noise has is warned of; noise that
# leaves more than the second share never is, however little there is to learn.
_MUCH_NOISE, _LITTLE_NOISE = 0.7, 0.9
# Points at which the integral over rows is evaluated.
_STEPS = 200
# A smaller R2 is told as this one.
_LEAST_R2 = -9.0


@dataclass(frozen=True)
class ReleaseExpectation:
    """How good a released model is on an easy table, of which the label is half."""

    best: float  #: share of right answers, or R2
    chance: float  #: the same for guessing: one over the number of labels, or 0
    units: int  #: number of units
    ceiling: float  #: the same without noise
    #: Whether a learner was tried on such a table; if not, constants gave an estimate.
    tried: bool = False

    @classmethod
    def of(cls, clearness: float, *, labels: int, units: int, columns: int) -> Self:
        """Return what to expect.

        Parameters
        ----------
        clearness : float
            How many standard deviations of noise a usual score has.
        labels : int
            Number of labels; 1 for numbers.
        units, columns : int
            Number of units and of columns.
        """
        clearness = max(clearness, 1e-6)
        if labels == 1:
            best = without_noise(labels, columns)
            return cls(max(best - 1 / clearness**2, _LEAST_R2), 0.0, units, best)
        # More labels share one bound on gradients.
        noise = clearness / (labels * (labels - 1) / 2)
        clear = 1 / math.hypot(1 / noise, 1 / _told_apart(labels, columns))
        best = _share_right(clear, labels)
        return cls(best, 1 / labels, units, without_noise(labels, columns))

    @property
    def kept(self) -> float:
        """Share of what there is to learn that survives the noise; 0 is guessing."""
        return (self.best - self.chance) / (self.ceiling - self.chance)

    def __str__(self) -> str:
        if self.chance == 0:
            what = (
                f"R2 is about {self.best:.2f}; a constant answer has 0, and a model "
                f"without noise {self.ceiling:.2f}"
            )
        else:
            right, guessed = 100 * self.best, 100 * self.chance
            what = (
                f"about {right:.0f} answers in 100 are right; guessing has "
                f"{guessed:.0f}, and a model without noise {100 * self.ceiling:.0f}"
            )
        tried = "as tried " if self.tried else ""
        return (
            f"{tried}on an easy, invented table of this size ({self.units} units), "
            f"{what}"
        )

    @property
    def near_chance(self) -> bool:
        """Whether noise takes much of what there is to learn."""
        above_chance = (self.best - self.chance) / (1 - self.chance)
        least = _MUCH_NOISE if above_chance >= WARNED else _LITTLE_NOISE
        return self.kept < least

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; everything in it is public."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read what `as_dict` wrote, or raise InvalidDataError."""
        try:
            found = cls(**data)
            numbers = (found.best, found.chance, found.ceiling)
            sound = all(isinstance(n, (int, float)) and abs(n) < 10 for n in numbers)
            sound &= type(found.units) is int and type(found.tried) is bool
            sound = sound and found.units > 0 and found.chance < min(found.ceiling, 1)
        except TypeError:
            sound = False
        if not sound:
            raise InvalidDataError("this is not what a release was expected to be.")
        return found

    def warn(self, epsilon: float) -> None:
        """Warn if a release will be near chance."""
        if not self.near_chance:
            return
        kind = OnlyNoiseWarning if self.kept < REFUSED else NearChanceWarning
        warnings.warn(
            kind(
                f"released at epsilon={epsilon:g}, {self}. Take more units, a larger "
                "epsilon, fewer columns, or ask instead of releasing, if few answers "
                "are needed."
            ),
            stacklevel=5,
        )


def without_noise(labels: int, columns: int) -> float:
    """Return how good a model without noise is on such a table.

    Parameters
    ----------
    labels : int
        Number of labels; 1 for numbers.
    columns : int
        Number of columns.
    """
    if labels == 1:
        return 1 - 1 / (columns + 1)
    return _share_right(_told_apart(labels, columns), labels)


def _told_apart(labels: int, columns: int) -> float:
    """Return how many deviations of a mean of columns a label is wide.

    A mean of columns is off by one over the root of three times their number. More
    labels have nearer borders.
    """
    return math.sqrt(3 * columns) / (labels - 1)


def _share_right(clear: float, labels: int) -> float:
    """Return how many answers are right.

    Rows are spread evenly from where labels are clear to the border between two.
    """
    place = (np.arange(_STEPS) + 0.5) / _STEPS
    kept = float(np.mean(2 * ndtr(clear * place) - 1))
    return 1 / labels + kept * (1 - 1 / labels)
