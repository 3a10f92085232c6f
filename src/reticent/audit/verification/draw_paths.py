"""Runs a program along one path through its draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from reticent.audit.verification.supports import Support, support_of
from reticent.errors import CannotJudgeError
from reticent.mechanisms import (
    Listener,
    PendingDraw,
    RandomSource,
    Response,
    SystemSource,
    checked_scale,
)

# A program that draws more often than this in one run may draw without end.
_MOST_DRAWS = 200
_SYSTEM_BYTES = SystemSource.bytes


class Refused(BaseException):  # not an Exception: programs must not catch it
    """The run cannot be judged."""


def _is_ours(response: Any) -> bool:
    """Whether a response and its parts are classes of reticent."""
    parts = [part for part in vars(response).values() if isinstance(part, Response)]
    ours = type(response).__module__.startswith("reticent.")
    return ours and all(map(_is_ours, parts))


class PathFollower(Listener):
    """Follows one path through the draws and remembers where others branch off.

    A path is run twice. What no release may depend on (names, and noise that is left
    out) differs in the second run, marked by `again`.
    """

    strict = True

    def __init__(
        self,
        path: list[int],
        known: list[Support],
        *,
        noiseless: bool,
        again: bool,
    ) -> None:
        self.path = path
        self.supports: list[Support] = []
        self.asked: list[str] = []
        self.log_probability = 0.0
        self._known = known
        self.why: CannotJudgeError | None = None
        self._noiseless = noiseless
        self._again = again

    def refuse(self, why: str | CannotJudgeError) -> None:
        """Remember why, in case the program catches everything, and stop the run."""
        if self.why is None:
            if isinstance(why, str):
                why = CannotJudgeError(f"cannot judge: {why}")
            self.why = why
        raise Refused

    def touched(self, what: str) -> None:
        """Refuse other randomness, named by `what`."""
        self.refuse(
            f"the program uses {what}, which the audit cannot set. Draw everything "
            "from a SystemSource, in the thread that calls the program."
        )

    def missed(self, kind: str) -> None:
        """Remember a draw that could not be set; it is refused when the run ends."""
        if self.why is None:
            self.why = CannotJudgeError(
                f"cannot judge: {kind} was drawn in another thread or context."
            )

    def descends(self, draw: PendingDraw) -> bool:
        """Whether to follow the draws within a draw instead of its stated law."""
        # A response from outside reticent may not draw from the law that it states.
        if draw.kind not in ("label", "candidate"):
            return False
        return not _is_ours(draw.arguments[0])

    def drawn(self, draw: PendingDraw, sample: Callable[[], Any]) -> Any:
        """Return the outcome that the path names, or the first one where it ends."""
        self._check_source(draw)
        if sum(len(support) > 1 for support in self.supports) >= _MOST_DRAWS:
            self.refuse(
                f"the program draws more than {_MOST_DRAWS} times in one run, perhaps "
                "without end."
            )
        self.asked.append(draw.kind)
        if draw.kind == "name":
            return ("a5" if self._again else "5a") * draw.arguments[1]
        if draw.kind == "noise" and self._noiseless:
            return self._left_away(draw)
        support = self._support(draw, sample)
        outcome, log = support[self.path[len(self.supports)]]
        self.supports.append(support)
        self.log_probability += log
        # The program may write into what it gets.
        return outcome.copy() if isinstance(outcome, np.ndarray) else deepcopy(outcome)

    def _support(self, draw: PendingDraw, sample: Callable[[], Any]) -> Support:
        place = len(self.supports)
        if place < len(self._known):  # an earlier path passed here
            return self._known[place]
        sample()  # an argument that the sampler refuses is refused here too
        if place == len(self.path):
            self.path.append(0)
        try:
            return support_of(draw)
        except CannotJudgeError as error:
            self.refuse(error)
            raise

    def _left_away(self, draw: PendingDraw) -> Any:
        _, location, scale, *_ = draw.arguments
        values = np.array(location, dtype=np.int64)
        if not self._again:
            return values
        far = math.ceil(7 * checked_scale(scale)) + 1
        signs = np.where(np.arange(values.size) % 2, -1, 1).reshape(values.shape)
        return values + far * signs

    def _check_source(self, draw: PendingDraw) -> None:
        sources = [a for a in draw.arguments if isinstance(a, RandomSource)]
        if any(source.seeded for source in sources):
            self.refuse(
                "the program draws from a seeded source, whose numbers follow from its "
                "seed. Leave random_state at None."
            )
        if not sources or any(
            type(source) is not SystemSource or vars(source) for source in sources
        ):
            self.refuse("the program draws from a source that is not a SystemSource.")
        if SystemSource.bytes is not _SYSTEM_BYTES:
            self.refuse("SystemSource.bytes was replaced.")
