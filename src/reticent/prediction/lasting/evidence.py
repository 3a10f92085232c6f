"""How the evidence behind answers changes as questions are asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MOST = 64


@dataclass(frozen=True)
class EvidencePoint:
    """The mean evidence of some consecutive answers."""

    #: The numbers of the first and the last question, from 1.
    first: int
    last: int
    evidence: float  #: the mean of what came with their answers


class EvidenceHistory:
    """Means of the evidence of all answers so far, in a bounded number of groups.

    It is made from released numbers alone, so it may be shown.

    Parameters
    ----------
    groups : sequence of (int, float)
        The groups of an earlier history, to continue from.
    size : int, default=1
        Answers in a group.
    """

    def __init__(self, groups: Iterable[Sequence[float]] = (), size: int = 1) -> None:
        self.groups = [(int(count), float(total)) for count, total in groups]
        self.size = size

    def add(self, evidence: Iterable[float]) -> None:
        """Count the evidence of further answers, in order."""
        for value in evidence:
            if not self.groups or self.groups[-1][0] >= self.size:
                self.groups.append((0, 0.0))
            count, total = self.groups[-1]
            self.groups[-1] = (count + 1, total + value)
            if len(self.groups) > _MOST:
                self._halve()

    def points(self) -> list[EvidencePoint]:
        """Return the mean of each group."""
        found, asked = [], 0
        for count, total in self.groups:
            found.append(EvidencePoint(asked + 1, asked + count, total / count))
            asked += count
        return found

    def _halve(self) -> None:
        """Join groups in pairs."""
        pairs = [self.groups[place : place + 2] for place in range(0, _MOST + 1, 2)]
        self.groups = [
            (sum(count for count, _ in pair), sum(total for _, total in pair))
            for pair in pairs
        ]
        self.size *= 2
