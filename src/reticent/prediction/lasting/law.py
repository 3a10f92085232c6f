"""What a law must offer so that its answers last: questions, and what they spend."""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reticent._sklearn import MatrixLike
from reticent.guarantees import Certificate


class UnitSpending(Protocol):
    """What each unit has spent: a secret, and never shown."""

    def copy(self) -> Self:
        """Return an independent copy."""
        ...

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        ...

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Undo `to_bytes`."""
        ...


class EvidencedAnswers(Protocol):
    """Answers, with the released numbers that came with them."""

    @property
    def answers(self) -> NDArray[Any]:
        """Labels or numbers."""
        ...

    @property
    def evidence(self) -> NDArray[np.float64]:
        """The noisy number of records that can still pay, for each answer."""
        ...

    @property
    def trace(self) -> NDArray[np.int64]:
        """Released numbers that `LastingLaw.replay` needs, one row per answer."""
        ...


@runtime_checkable
class LastingLaw(Protocol):
    """A law under whose certificate any number of questions is answered.

    The certificate is about all answers together, if what units spend is never
    forgotten: `reticent.prediction.LastingInterface` keeps it in a ledger.

    Attributes
    ----------
    certificate : Certificate
        What all answers together promise; its scope is an interface.
    classes : ndarray or None
        The public labels; None if answers are numbers.
    identity : str
        Names this fitted model.
    constant_time : bool
        Whether the time of an answer does not tell how many units are near.
    """

    certificate: Certificate[Any]
    classes: NDArray[Any] | None
    identity: str
    constant_time: bool

    @property
    def seeded(self) -> bool:
        """Whether the noise follows from a seed."""
        ...

    def encode(self, X: MatrixLike) -> NDArray[np.int16]:
        """Return the codes of queries, one row each; equal codes, equal question."""
        ...

    def start(self) -> Any:
        """Return what each unit had spent after fit, as a fresh `UnitSpending`."""
        ...

    def ask(
        self, codes: NDArray[np.int16], spending: Any, client: str | None = None
    ) -> EvidencedAnswers:
        """Draw answers with fresh noise, row after row, and charge the units."""
        ...

    def replay(
        self,
        codes: NDArray[np.int16],
        trace: NDArray[np.int64],
        spending: Any,
        client: str | None = None,
    ) -> None:
        """Charge the units what `ask` charged them for these; draw nothing."""
        ...
