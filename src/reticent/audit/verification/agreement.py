"""Checks that a predictor has one law, and that it answers by that law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.audit.verification.hidden_randomness import watched
from reticent.audit.verification.outcomes import observable_form
from reticent.errors import CannotJudgeError
from reticent.mechanisms import Listener, PendingDraw, listen


def watched_law(fitted: Callable[[], Any]) -> Any:
    """Fit and read a law; refuse hidden randomness meanwhile."""
    touched: list[str] = []
    with listen(Listener()), watched(touched.append):
        found = fitted()
    if touched:
        raise CannotJudgeError(
            f"cannot judge: the predictor uses {touched[0]} while it is fitted. Give "
            "it and its base estimators a random_state."
        )
    return found


def check_same_law(one: Floats, other: Floats) -> None:
    """Refuse a law that differs when fitted again."""
    if one.shape != other.shape or one.tobytes() != other.tobytes():
        raise CannotJudgeError(
            "cannot judge: the law differs between two fits on the same data. Give "
            "random deals and orders a random_state, so that neighbours are compared "
            "under the same one, or use verify_release, which enumerates them."
        )


class _LabelSetter(Listener):
    """Set every drawn label to the same one; keep the laws they came from."""

    def __init__(self, label: int) -> None:
        self.label = label
        self.laws: list[Floats] = []
        self.others = 0

    def drawn(self, draw: PendingDraw, sample: Callable[[], Any]) -> Any:
        if draw.kind != "label" or self.label >= draw.arguments[0].n_labels:
            self.others += 1
            return sample()
        self.laws.append(np.asarray(draw.arguments[0].log_probabilities))
        return np.full(len(draw.arguments[0]), self.label)


class AnswerCheck:
    """Checks that a predictor answers by the law it states, on every dataset.

    This is checked where an answer is one draw from one response, as for votes,
    averages and walks: the draw must be from the stated law, and the answer for each
    drawn label must not depend on the data. An answer without any draw is refused.
    Predictors that draw several things for an answer are not checked.
    """

    def __init__(self) -> None:
        self._said: dict[int, Any] = {}

    def check(self, model: Any, queries: NDArray[Any], logs: Floats) -> None:
        """Ask a fitted predictor, once for each label."""
        if not hasattr(model, "predict") or logs.ndim != 2 or len(logs) != len(queries):
            return
        for label in range(logs.shape[1]):
            listener = _LabelSetter(label)
            with listen(listener):
                said = observable_form(np.array(model.predict(queries)))
            if not listener.laws and not listener.others:
                raise CannotJudgeError(
                    "cannot judge: predict draws nothing, so it does not answer by the "
                    "law that response states."
                )
            if listener.others or len(listener.laws) != 1:
                return
            if listener.laws[0].tobytes() != np.ascontiguousarray(logs).tobytes():
                raise CannotJudgeError(
                    "cannot judge: predict does not draw from the law that response "
                    "states."
                )
            if self._said.setdefault(label, said) != said:
                raise CannotJudgeError(
                    "cannot judge: the answer of predict for a drawn label depends on "
                    "the data."
                )
