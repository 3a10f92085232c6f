"""The exact law of a program's release, by enumerating all its draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from reticent._numbers import whole
from reticent.audit.verification.draw_paths import PathFollower, Refused
from reticent.audit.verification.exact import (
    Answered,
    Dataset,
    Verification,
    compare,
    datasets_of,
)
from reticent.audit.verification.hidden_randomness import Generators, memory_of, watched
from reticent.audit.verification.outcomes import failed, observable_form
from reticent.audit.verification.supports import MAX_OUTCOMES, Support
from reticent.errors import CannotJudgeError
from reticent.guarantees import Guarantee, ReplaceOne
from reticent.mechanisms import listen

# How far the sum of all probabilities may differ from one, for rounding.
_DOUBT = 1e-9


class _Law:
    """The law of a program: the observable releases with their log-probabilities."""

    def __init__(
        self,
        run: Callable[[], Any],
        program: Callable[..., Any],
        *,
        most: int,
        noiseless: bool,
        failures: bool,
    ) -> None:
        self.logs: dict[Hashable, float] = {}
        self.outcomes: dict[Hashable, Any] = {}
        self._run, self._program = run, program
        self._noiseless, self._failures = noiseless, failures
        path: list[int] = []
        known: list[Support] = []
        memory: Any = None
        for count in range(most):
            chooser = self._run_path(path, known)
            if count == 0:
                memory = memory_of(program)  # after a run, which may fill caches
            path = chooser.path
            while path and path[-1] == len(chooser.supports[len(path) - 1]) - 1:
                path.pop()
            if not path:
                self._check(memory)
                return
            path[-1] += 1
            known = chooser.supports[: len(path)]
        raise CannotJudgeError(
            f"the draws have more than most={most} combinations. Use less data, fewer "
            "candidates or fewer queries."
        )

    def _run_path(self, path: list[int], known: list[Support]) -> PathFollower:
        """Run one path, watched, and once more to check that nothing else decides."""
        settings = {"noiseless": self._noiseless}
        first = PathFollower(list(path), known, **settings, again=False)
        seen, outcome = self._released(first, watch=True)
        second = PathFollower(list(first.path), known, **settings, again=True)
        seen_again, _ = self._released(second, watch=False)
        here, there = (
            (part.asked, part.path, part.log_probability) for part in (first, second)
        )
        if seen_again != seen or here != there:
            influence = ", or noise that was to be left out" if self._noiseless else ""
            raise CannotJudgeError(
                "cannot judge: with every draw the same, two runs differ. The program "
                f"uses randomness, a clock or memory of its own{influence}."
            )
        before = self.logs.get(seen, -math.inf)
        self.logs[seen] = float(np.logaddexp(before, first.log_probability))
        self.outcomes.setdefault(seen, outcome)
        return first

    def _released(self, chooser: PathFollower, *, watch: bool) -> tuple[Hashable, Any]:
        """Run once; return the observable form of the outcome, and the outcome."""
        failure: Exception | None = None
        outcome: Any = None
        try:
            with listen(chooser):
                if watch:
                    with watched(chooser.touched):
                        outcome = self._run()
                else:
                    outcome = self._run()
        except Refused:
            pass
        except Exception as error:  # noqa: BLE001 - an error is a release, too
            failure = error
        if chooser.why is not None:
            raise chooser.why
        if failure is None:
            return ("returns", observable_form(outcome)), outcome
        if not self._failures:
            raise failure
        return failed(failure), failure

    def found(self) -> Iterable[tuple[Hashable, Any]]:
        """Return the observable forms, each with one of its outcomes."""
        return self.outcomes.items()

    def _check(self, memory: Any) -> None:
        total = math.fsum(math.exp(log) for log in self.logs.values())
        if not abs(total - 1) <= _DOUBT:
            raise CannotJudgeError(
                f"cannot judge: all outcomes together have probability {total:.12g}, "
                "so a draw depends on more than the draws before it."
            )
        if memory_of(self._program) != memory:
            raise CannotJudgeError(
                "cannot judge: the program remembers something from one run to the "
                "next. Create everything that it stores in each run."
            )


class _NoGeneratorUsed:
    """Checks that no generator of NumPy or Python was used meanwhile."""

    def __enter__(self) -> None:
        self._generators = Generators()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self._generators.moved():
            raise CannotJudgeError(
                "cannot judge: the program draws from a generator of NumPy or Python. "
                "Draw everything from a SystemSource."
            )


def exact_law(
    run: Callable[[], Hashable], *, most: int = MAX_OUTCOMES, noiseless: bool = False
) -> dict[Hashable, float]:
    """Return the log-probability of everything that a program can release.

    Parameters
    ----------
    run : callable
        Runs the program once and returns what it releases, something hashable. All its
        randomness must come from a `SystemSource`, through `reticent.mechanisms`.
    most : int, default=200000
        The largest number of combinations of draws that are enumerated.
    noiseless : bool, default=False
        Leave out noise on numbers. Only for a part of a release that noise does not
        influence, such as a selection before it.

    Raises
    ------
    CannotJudgeError
        If the program draws numbers of unlimited range, raw bits or too much; if it
        uses other randomness, a seed, a clock, a thread or memory of its own.

    Guarantee
    ---------
    The program's own code is run for every combination of its draws: labels, coins,
    flips, orders, subsets and uniform whole numbers, each with its exact probability.
    Sums are taken in floats. Any other randomness is refused: one run of each path is
    watched for calls of the operating system, of Python's and NumPy's generators, of
    clocks and of threads, and a second one must release the same. Two things are not
    seen: randomness in foreign compiled code that is the same in all these runs, and
    what the program does besides returning or raising.

    Examples
    --------
    >>> from reticent.mechanisms import SystemSource, geometric_vote
    >>> vote = geometric_vote([[1, 2]], math.log(3))
    >>> law = exact_law(lambda: int(vote.draw(SystemSource())[0]))
    >>> {label: round(math.exp(log), 6) for label, log in law.items()}
    {0: 0.25, 1: 0.75}
    """
    with _NoGeneratorUsed():
        found = _Law(run, run, most=most, noiseless=noiseless, failures=False)
    law = {found.outcomes[seen]: log for seen, log in found.logs.items()}
    if len(law) != len(found.logs):
        raise CannotJudgeError(
            "cannot judge: two outcomes are equal but distinguishable, such as 1 and "
            "True. Return values of one type."
        )
    return law


def verify_release(
    release: Callable[[Any, Any], Any],
    domain: Sequence[tuple[Any, Any]],
    n: int,
    *,
    claim: Guarantee,
    symmetric: bool = False,
    noiseless: bool = False,
) -> Verification:
    """Check a claim on all neighbours of a small domain, for any program.

    Parameters
    ----------
    release : callable
        ``release(X, y)`` runs the program once and returns what it releases. An
        exception is a release, too.
    domain, n, symmetric
        As for `verify`.
    claim : Guarantee
        What the release promises when one unit is replaced.
    noiseless : bool, default=False
        As for `exact_law`.

    Returns
    -------
    Verification
        With the worst pair that was found.

    Raises
    ------
    CannotJudgeError
        As for `exact_law`.

    Guarantee
    ---------
    As for `exact_law`; a claim is refuted if it is exceeded by more than a billionth.
    Two outcomes are the same only if their type, bits, order and attributes are.
    """
    n = whole("verify_release", "n", n)
    units = [(x if isinstance(x, (tuple, list)) else (x,), y) for x, y in domain]

    def run(data: Dataset) -> Any:
        # New arrays each time: the program may write into them.
        X = np.array([units[unit][0] for unit in data])
        return release(X, np.array([units[unit][1] for unit in data]))

    settings: dict[str, Any] = {"noiseless": noiseless, "failures": True}
    with _NoGeneratorUsed():
        laws = {
            data: _Law(partial(run, data), release, most=MAX_OUTCOMES, **settings)
            for data in datasets_of(len(units), n, symmetric)
        }
        if symmetric:
            mixed = max(laws, key=lambda data: len(set(data)))
            other = _Law(
                partial(run, mixed[::-1]), release, most=MAX_OUTCOMES, **settings
            )
            _check_order(laws[mixed].logs, other.logs)
    _check_that_some_run_ended(laws)
    outcomes = list({seen: None for law in laws.values() for seen in law.logs})
    table = {
        data: Answered(
            None, None, np.array([[law.logs.get(key, -math.inf) for key in outcomes]])
        )
        for data, law in laws.items()
    }
    relation, none = ReplaceOne(n), np.empty(0)
    return compare(table, len(units), n, symmetric, relation, claim, units, none)


def _check_order(here: dict[Hashable, float], there: dict[Hashable, float]) -> None:
    if here.keys() != there.keys() or any(
        abs(math.exp(log) - math.exp(there[seen])) > _DOUBT
        for seen, log in here.items()
    ):
        raise CannotJudgeError(
            "cannot judge: symmetric=True, but the order of the units matters to this "
            "program. Leave symmetric at False."
        )


def _check_that_some_run_ended(laws: dict[Dataset, _Law]) -> None:
    """Pass on the error of a program that always fails in the same way.

    Such a program keeps every promise, but probably by mistake.
    """
    seen = {kind: outcome for law in laws.values() for kind, outcome in law.found()}
    (only, *others) = seen.items()
    if not others and isinstance(only[1], Exception):
        raise only[1]
