"""The last step of a stored model, rebuilt from its parameters: votes to answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Floats, Ints
from reticent.audit.verification.losses import allowed, loss, surely_within
from reticent.ensembles import OUTPUT_STEPS
from reticent.errors import InvalidParameterError
from reticent.guarantees import Guarantee, PureDP
from reticent.mechanisms import SystemSource, average_vote
from reticent.prediction import SumNoise, VoteRule

# The largest number of neighbouring divisions of the votes that are compared.
_MOST_PAIRS = 20_000
# Laws as floats are good to about 1e-12; a pair this close to the promise is decided
# in interval arithmetic.
_DOUBT = 1e-9
# Bins that drawn numbers are sorted into before they are counted.
_BINS = 24


@dataclass(frozen=True)
class WorstPair:
    """How much of a promise the worst pair of neighbouring votes uses up.

    `complete` says whether all divisions of the real number of votes were compared.
    """

    holds: bool
    worst: float
    allowed: float
    divisions: int
    pairs: int
    rigorous: bool
    complete: bool


class VoteStep:
    """From the votes of all shards to one label.

    Parameters
    ----------
    response : callable
        Maps votes, one row per question, to the law of a label.
    n_shards, n_labels : int
        Number of voters and of labels.
    """

    def __init__(self, response: Any, n_shards: int, n_labels: int) -> None:
        self.response = response
        self.n_shards, self.n_labels = n_shards, n_labels

    def divisions(self) -> Ints:
        """Return ways to divide the votes: all, or all of a smaller number of voters.

        If there are too many, the divisions of fewer votes are used instead; `extremes`
        adds near-ties and landslides of the real number.
        """
        voters, labels = self.n_shards, self.n_labels
        most = _MOST_PAIRS // math.perm(labels, 2)
        while voters > 2 and math.comb(voters + labels - 1, labels - 1) > most:
            voters = voters * 9 // 10
        return np.array(list(_divided(voters, labels)), dtype=np.int64)

    def extremes(self) -> Ints:
        """Return near-ties and landslides among the real number of voters."""
        voters, labels = self.n_shards, self.n_labels
        sure = [voters, *[0] * (labels - 1)]
        even = [voters // labels] * labels
        even[0] += voters - sum(even)
        pair = [voters - voters // 2, voters // 2, *[0] * (labels - 2)]
        return np.array([sure, even, pair], dtype=np.int64)

    def worst_pair(self, guarantee: Guarantee) -> WorstPair:
        """Compare all neighbouring divisions with a promise."""
        limit = allowed(guarantee)
        complete = bool(self.divisions()[0].sum() == self.n_shards)
        found = WorstPair(True, -1.0, limit, 0, 0, False, complete)
        both = (self.divisions(),) if complete else (self.divisions(), self.extremes())
        for votes in both:
            found = self._searched(votes, guarantee, limit, found)
        return found

    def _searched(
        self, votes: Ints, guarantee: Guarantee, limit: float, best: WorstPair
    ) -> WorstPair:
        here = self.response(votes)
        worst, holds, rigorous = best.worst, best.holds, best.rigorous
        pairs = best.pairs
        for rows, moved in _neighbours(votes):
            there = self.response(moved)
            pairs += len(rows)
            for place, row in enumerate(rows.tolist()):
                logs = here.log_probabilities[row], there.log_probabilities[place]
                used = loss(guarantee, *logs)
                if used > limit * (1 - _DOUBT) - _DOUBT:
                    exact = isinstance(guarantee, PureDP) and hasattr(here, "exact")
                    fine = used <= limit * (1 + _DOUBT) + _DOUBT
                    if exact and fine:
                        one = self.response(votes[row : row + 1])
                        other = self.response(moved[place : place + 1])
                        fine = surely_within(one, other, 0, limit)
                        rigorous = True
                    holds = holds and fine
                worst = max(worst, used)
        return WorstPair(
            holds,
            worst,
            limit,
            best.divisions + len(votes),
            pairs,
            rigorous,
            best.complete,
        )

    def shifts(self, votes: Ints) -> Floats:
        """Return, for each row of votes, how far one vote can move the answer's law.

        In total variation: the largest change of the probability of any event.
        """
        unique, back = np.unique(votes, axis=0, return_inverse=True)
        here = self.response(unique).probabilities
        worst = np.zeros(len(unique))
        for rows, moved in _neighbours(unique):
            there = self.response(moved).probabilities
            used = np.abs(here[rows] - there).sum(axis=1) / 2
            worst[rows] = np.maximum(worst[rows], used)
        return np.asarray(worst[back.ravel()])

    def draw(self, votes: tuple[int, ...], times: int) -> list[int]:
        """Draw labels for one division of the votes, as the service would."""
        rows = np.tile(np.array(votes, dtype=np.int64), (times, 1))
        drawn: list[int] = self.response(rows).draw(SystemSource()).tolist()
        return drawn

    def pair(self, trials: int) -> tuple[Any, Any]:
        """Return the neighbouring divisions that samples distinguish best.

        The largest ratio often belongs to a label too rare to be drawn; what counts is
        the ratio that `trials` draws are almost sure to show.
        """
        best, found = -math.inf, ((0,), (0,))
        for votes in (self.divisions(), self.extremes()):
            here = self.response(votes).probabilities
            for rows, moved in _neighbours(votes):
                if not len(rows):  # nobody votes for the label that loses a vote
                    continue
                there = self.response(moved).probabilities
                shown = _surely_shown(here[rows], there, trials).max(axis=1)
                place = int(shown.argmax())
                if shown[place] > best:
                    best = float(shown[place])
                    pair = votes[rows[place]], moved[place]
                    found = tuple(pair[0].tolist()), tuple(pair[1].tolist())
        return found


def _surely_shown(left: Floats, right: Floats, trials: int) -> Floats:
    """Return the log-ratio that `trials` draws show within four standard deviations."""
    low = left - 4 * np.sqrt(left * (1 - left) / trials)
    high = right + 4 * np.sqrt(right * (1 - right) / trials) + 8 / trials
    return np.asarray(np.log(np.maximum(low, 1e-300)) - np.log(high))


class SumStep:
    """From the sum of all shards' outputs to one noisy number, or the largest one.

    Parameters
    ----------
    noise : GridNoise
        The noise, as the stored parameters calibrate it.
    dimension : int
        Numbers in an answer; more than one if a label is the largest of them.
    """

    def __init__(self, noise: Any, dimension: int) -> None:
        self.noise, self.dimension = noise, dimension

    def pair(self, trials: int) -> tuple[Any, Any]:
        """Return the sums to sample from: one shard moved by its whole range."""
        if self.dimension == 1:
            return (0,), (OUTPUT_STEPS,)
        tied = [10 * OUTPUT_STEPS] * 2 + [0] * (self.dimension - 2)
        moved = [11 * OUTPUT_STEPS, 9 * OUTPUT_STEPS] + [0] * (self.dimension - 2)
        return tuple(tied), tuple(moved)

    def draw(self, sums: tuple[int, ...], times: int) -> list[int]:
        """Draw answers for given sums; numbers are sorted into public bins."""
        rows = np.tile(np.array(sums, dtype=np.float64), (times, 1))
        drawn = self.noise.response(rows).draw(SystemSource())
        if self.dimension > 1:
            labels: list[int] = drawn.argmax(axis=1).tolist()
            return labels
        edges = OUTPUT_STEPS / 2 + np.linspace(-4, 4, _BINS - 1) * self.noise.scale
        bins: list[int] = np.digitize(drawn[:, 0], edges).tolist()
        return bins


def last_step(kind: str, parameters: Mapping[str, Any]) -> VoteStep | SumStep | None:
    """Return how a stored model turns votes or sums into answers.

    None for models that were released as a whole: they no longer draw anything.
    """
    if kind == "voting":
        vote = VoteRule(parameters["rule"], parameters["parameter"])
        return VoteStep(
            vote.response, parameters["n_shards"], len(parameters["classes"])
        )
    if kind not in ("averaging-classifier", "averaging-regressor"):
        return None
    epsilon, delta = parameters["epsilon"], parameters["delta"]
    labels = len(parameters.get("classes", (0,)))
    if labels == 2:

        def averaged(votes: Ints) -> Any:
            return average_vote(votes, epsilon)

        return VoteStep(averaged, parameters["n_shards"], 2)
    sums = SumNoise.calibrated(
        parameters["n_units"], labels, epsilon=epsilon, delta=delta, seeded=False
    )
    return SumStep(sums.noise, labels)


def _neighbours(votes: Ints) -> Iterator[tuple[NDArray[np.intp], Ints]]:
    """Yield, for each way to move one vote, the rows that have it and their result."""
    for source, sink in permutations(range(votes.shape[1]), 2):
        rows = np.nonzero(votes[:, source] > 0)[0]
        moved = votes[rows].copy()
        moved[:, source] -= 1
        moved[:, sink] += 1
        yield rows, moved


def _divided(voters: int, labels: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide votes among labels."""
    if voters < 1 or labels < 2:
        raise InvalidParameterError("a vote needs a voter and two labels.")
    for bars in combinations(range(voters + labels - 1), labels - 1):
        ends = (-1, *bars, voters + labels - 1)
        yield tuple(b - a - 1 for a, b in pairwise(ends))
