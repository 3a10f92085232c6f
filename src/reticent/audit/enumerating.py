"""The exact law of whatever a program releases, by going through all its draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np

from reticent.audit.exact import Answered, Dataset, Verification, compare, datasets_of
from reticent.errors import InvalidParameterError
from reticent.guarantees import Guarantee, ReplaceOne
from reticent.guarantees.numbers import whole
from reticent.mechanisms import Draw, Listener, listen

_MOST_PATHS = 200_000

Support = list[tuple[Any, float]]


class _Chooser(Listener):
    """Follow one path through the draws; remember where others branch off."""

    def __init__(self, path: list[int], *, noiseless: bool) -> None:
        self.path = path
        self._noiseless = noiseless
        self.sizes: list[int] = []
        self.log_probability = 0.0

    def drawn(self, draw: Draw, sample: Callable[[], Any]) -> Any:
        if draw.kind == "noise" and self._noiseless:
            return np.array(draw.arguments[1], dtype=np.int64)
        support = _support(draw)
        if len(self.sizes) == len(self.path):
            self.path.append(0)
        outcome, log = support[self.path[len(self.sizes)]]
        self.sizes.append(len(support))
        self.log_probability += log
        return outcome


def exact_law(
    run: Callable[[], Hashable], *, most: int = _MOST_PATHS, noiseless: bool = False
) -> dict[Hashable, float]:
    """Return the log-probability of everything that a program can release.

    Parameters
    ----------
    run : callable
        Runs the program once and returns what it releases, something hashable. All its
        randomness must come from `reticent.mechanisms`.
    most : int, default=200000
        Give up beyond so many ways in which the draws can come out.
    noiseless : bool, default=False
        Leave noise on numbers away. Only for a part of a release that noise has no
        influence on, such as a selection before it.

    Raises
    ------
    InvalidParameterError
        If the program draws numbers of unlimited range, or too much.

    Guarantee
    ---------
    The program's own code is run once for every way in which its draws can come out:
    labels, flips, orders, subsets and uniform whole numbers, each with its exact
    probability. Sums are taken in floats.

    Examples
    --------
    >>> from reticent.mechanisms import SystemSource, geometric_vote
    >>> vote = geometric_vote([[1, 2]], math.log(3))
    >>> law = exact_law(lambda: int(vote.draw(SystemSource())[0]))
    >>> {label: round(math.exp(log), 6) for label, log in law.items()}
    {0: 0.25, 1: 0.75}
    """
    law: dict[Hashable, float] = {}
    path: list[int] = []
    for _ in range(most):
        chooser = _Chooser(path, noiseless=noiseless)
        with listen(chooser):
            outcome = run()
        before = law.get(outcome, -math.inf)
        law[outcome] = float(np.logaddexp(before, chooser.log_probability))
        path = chooser.path
        while path and path[-1] == chooser.sizes[len(path) - 1] - 1:
            path.pop()
        if not path:
            return law
        path[-1] += 1
    raise InvalidParameterError(
        f"the draws can come out in more than most={most} ways. Use less data, fewer "
        "candidates or fewer queries."
    )


def verify_release(
    release: Callable[[Any, Any], Hashable],
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
        ``release(X, y)`` runs the program once and returns what it releases.
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

    Guarantee
    ---------
    As for `exact_law`; a claim is refuted if it is exceeded by more than a billionth.
    """
    n = whole("verify_release", "n", n)
    units = [(x if isinstance(x, (tuple, list)) else (x,), y) for x, y in domain]
    laws: dict[Dataset, dict[Hashable, float]] = {}
    for data in datasets_of(len(units), n, symmetric):
        X = np.array([units[unit][0] for unit in data])
        y = np.array([units[unit][1] for unit in data])
        laws[data] = exact_law(partial(release, X, y), noiseless=noiseless)
    outcomes = sorted({key for law in laws.values() for key in law}, key=repr)
    table = {
        data: Answered(
            None, None, np.array([[law.get(key, -math.inf) for key in outcomes]])
        )
        for data, law in laws.items()
    }
    relation, none = ReplaceOne(n), np.empty(0)
    return compare(table, len(units), n, symmetric, relation, claim, units, none)


def _support(draw: Draw) -> Support:
    """Return every outcome of a draw with its log-probability."""
    arguments = draw.arguments
    if draw.kind == "label":
        logs = arguments[0].log_probabilities
        return _products([list(enumerate(row)) for row in logs.tolist()])
    if draw.kind == "flip":
        labels, p, _ = arguments
        both = math.log(1 - p), math.log(p)
        return _products(
            [[(label, both[0]), (1 - label, both[1])] for label in _listed(labels)]
        )
    if draw.kind == "replace":
        labels, p, _, n_labels = arguments
        return _products(
            [
                [
                    (k, math.log(p / n_labels + (1 - p) * (k == label)))
                    for k in range(n_labels)
                ]
                for label in _listed(labels)
            ]
        )
    if draw.kind == "words":  # seeds of parts, whose own draws come here too
        return [(np.zeros(arguments[1], dtype=np.uint64), 0.0)]
    return _uniform(draw)


def _uniform(draw: Draw) -> Support:
    _, *sizes = draw.arguments
    if draw.kind in ("permutation", "subset"):
        count = math.perm(sizes[0], sizes[-1])
        found: Iterator[Any] = permutations(range(sizes[0]), sizes[-1])
        kind: Any = np.int64
        shape: tuple[int, ...] = (sizes[-1],)
    elif draw.kind == "below":
        bounds = [int(bound) for bound in np.ravel(sizes[0])]
        count = math.prod(bounds)
        _check_count(count)  # before ranges of 2^31 seeds are turned into lists
        found = product(*map(range, bounds))
        kind, shape = np.uint64, np.shape(sizes[0])
    else:
        raise InvalidParameterError(
            "noise on numbers has no end of outcomes, so its release has no table. "
            "Replay it, and look at its law."
        )
    _check_count(count)
    return [
        (np.array(outcome, dtype=kind).reshape(shape), -math.log(count))
        for outcome in found
    ]


def _check_count(count: int) -> None:
    if not count <= _MOST_PATHS:
        raise InvalidParameterError(
            f"one draw can come out in {count} ways, more than {_MOST_PATHS}. Use less "
            "data; give base estimators a random_state, or their seeds are drawn too."
        )


def _products(rows: list[list[tuple[int, float]]]) -> Support:
    return [
        (
            np.array([label for label, _ in choice], dtype=np.int64),
            sum(log for _, log in choice),
        )
        for choice in product(*rows)
    ]


def _listed(labels: Any) -> list[int]:
    return [int(label) for label in np.ravel(labels)]
