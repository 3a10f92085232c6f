"""Sparse vector: many yes/no answers that cost only when the answer is yes (P9)."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reticent._arrays import Bools, Ints
from reticent._numbers import exact, whole
from reticent.errors import BudgetExhaustedError, InvalidDataError
from reticent.guarantees import (
    Conclusion,
    PureDP,
    ReplaceOne,
    Scope,
    noise_assumptions,
    rule,
)
from reticent.mechanisms.sampling.grid_noise import checked_scale, draw_discrete_laplace
from reticent.mechanisms.sampling.inputs import checked_epsilon, whole_numbers
from reticent.mechanisms.sampling.listening import reach
from reticent.mechanisms.sampling.randomness import RandomSource


def sparse_scale(epsilon: float, positives: int) -> float:
    """Return the threshold's noise scale ``s = 2 positives / epsilon``, rounded up.

    A query's noise has scale ``2 s``.
    """
    epsilon = checked_epsilon("sparse vector", epsilon)
    positives = whole("sparse vector", "positives", positives)
    target = 2 * positives / exact(epsilon)
    scale = float(target)
    while scale < target:
        scale = float(np.nextafter(scale, np.inf))
    checked_scale(2 * scale)
    return scale


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SparseLine:
    """A threshold with noise, as an immutable value: answering returns a new one.

    A caller records the cost of an answer before showing the answer, and may have to
    discard it. It keeps the old line until the cost of the new one is recorded.
    """

    threshold: int  #: public threshold
    scale: float  #: scale of the threshold's noise; a query's has twice that
    draws: int  #: How many more times the threshold's noise may be drawn. Public.
    noisy: int | None = None  #: The threshold in use. Secret.

    @property
    def left(self) -> int:
        """How many more times the answer may be yes."""
        return self.draws + (self.noisy is not None)

    def answer(self, queries: Ints, source: RandomSource) -> tuple[Bools, SparseLine]:
        """Answer in order, no further than the last yes, and return what is left."""
        settings = (self.threshold, self.scale)
        reach("sparse vector", queries[:, None], largest=1, settings=settings)
        answers = np.zeros(len(queries), dtype=bool)
        done, draws, noisy = 0, self.draws, self.noisy
        while done < len(queries):
            if noisy is None:
                if not draws:
                    break
                draws -= 1
                (drawn,) = draw_discrete_laplace([self.threshold], self.scale, source)
                noisy = int(drawn)
            # Noise of queries after a yes is thrown away, never used twice.
            noise = draw_discrete_laplace(queries[done:], 2 * self.scale, source)
            above = np.flatnonzero(noise > noisy)
            if not above.size:
                return answers, replace(self, draws=draws, noisy=noisy)
            done += int(above[0]) + 1
            answers[done - 1] = True
            noisy = None
        return answers[:done], replace(self, draws=draws, noisy=noisy)


class SparseVector:
    r"""Say of whole-number queries, one after the other, which exceed a threshold.

    The threshold carries discrete Laplace noise of scale ``s = 2 positives / epsilon``,
    redrawn after every yes; each query carries fresh noise of scale ``2 s``. A query
    gets a yes if it is, with noise, strictly above.

    Parameters
    ----------
    threshold : int
        Public threshold.
    epsilon : float
        Privacy cost of the whole sequence.
    positives : int
        How many times the threshold's noise may be drawn: one yes, or one resumption
        from a saved state, uses one up.
    source : RandomSource
        Where bits come from.

    Guarantee
    ---------
    ``PureDP(epsilon)`` for all answers together, however the queries are chosen, if
    one unit moves each by at most 1. *Proof.* Between two draws of the threshold,
    shift its noise by 1 and that of the final yes by 2: all answers stay, at a factor
    of :math:`e^{1/s} e^{2/(2s)} = e^{\varepsilon/\mathrm{positives}}`.

    The object answers in one thread at a time, in the process that made it, and cannot
    be copied or pickled: two copies would spend the same budget twice. What may be
    kept is `state`.
    """

    def __init__(
        self, threshold: int, *, epsilon: float, positives: int, source: RandomSource
    ) -> None:
        self.threshold = int(whole_numbers("threshold", [threshold])[0])
        self.epsilon = checked_epsilon("sparse vector", epsilon)
        self.positives = whole("sparse vector", "positives", positives)
        self._scale = sparse_scale(self.epsilon, self.positives)
        self._source = source
        self._line = SparseLine(
            threshold=self.threshold, scale=self._scale, draws=self.positives
        )
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def left(self) -> int:
        """How many more times the answer may be yes."""
        return self._line.left

    def ask(self, values: ArrayLike) -> Bools:
        """Answer queries in order, stopping after the last yes that is allowed.

        Parameters
        ----------
        values : array-like of int, shape (n,)
            The queries' true values.

        Returns
        -------
        ndarray of bool
            One answer per query; shorter than `values` if the last allowed yes came.

        Raises
        ------
        BudgetExhaustedError
            If no yes is left, so that nothing more can be answered.
        """
        queries = whole_numbers("values", values)
        if queries.ndim != 1:
            raise InvalidDataError(f"values must have shape (n,); got {queries.shape}.")
        with self._lock:
            if self._process != os.getpid():
                raise BudgetExhaustedError(
                    "this sparse vector belongs to the process that made it; resume "
                    "from a saved state instead of forking."
                )
            if queries.size and not self.left:
                raise BudgetExhaustedError(
                    f"all positives={self.positives} of this sparse vector are used."
                )
            answers, self._line = self._line.answer(queries, self._source)
            return answers

    def state(self) -> dict[str, Any]:
        """Return what is needed to resume, as plain JSON, without any noise.

        Save it at the start, and after each yes *before* showing it. The threshold in
        use until the next yes is never saved, and a resumption draws another one, so
        the state counts it as used: that keeps the guarantee wherever a crash happens.
        """
        return {
            "threshold": self.threshold,
            "epsilon": self.epsilon,
            "positives": self.positives,
            "left": max(0, self.left - 1),
        }

    @classmethod
    def resume(cls, state: dict[str, Any], source: RandomSource) -> SparseVector:
        """Continue from a saved state with fresh noise."""
        try:
            left = whole("sparse vector", "left", state["left"], least=0)
            resumed = cls(
                state["threshold"],
                epsilon=state["epsilon"],
                positives=state["positives"],
                source=source,
            )
        except (KeyError, TypeError):
            raise InvalidDataError(
                "this is not the state of a sparse vector."
            ) from None
        if not left <= resumed.positives:
            raise InvalidDataError("a saved state cannot have left > positives.")
        resumed._line = replace(resumed._line, draws=left)
        return resumed

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidDataError(
            "a sparse vector cannot be copied or pickled, because two copies would "
            "spend one budget twice; use state() and SparseVector.resume()."
        )


@rule(
    "P9-svt",
    name="sparse vector",
    statement="threshold Lap(s) redrawn after each yes, queries Lap(2s), "
    "s = 2 positives / eps, on whole numbers",
    source="DworkRoth2014, Thm. 3.23 and 3.25",
    gives=PureDP,
    adaptivity="adaptive",
)
def sparse_vector_certificate(
    *, n: int, epsilon: float, positives: int, seeded: bool = False
) -> Conclusion[PureDP]:
    """Certify all answers of one `SparseVector` on queries of sensitivity 1."""
    epsilon = checked_epsilon("rule P9-svt", epsilon)
    whole("rule P9-svt", "positives", positives)
    return Conclusion(
        PureDP(epsilon), ReplaceOne(n), Scope.INTERFACE, noise_assumptions(seeded)
    )
