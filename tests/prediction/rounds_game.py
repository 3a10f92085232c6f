"""A curious analyst against rounds of noisy sums, with exact probabilities.

Each released number is told only by which of a few stretches it lies in, so that there
are few transcripts and each has an exact probability. The analyst chooses every round
by what was told before; the best strategy is found by trying all of them.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
from scipy.special import ndtr

from reticent.estimators import (
    CodedColumns,
    PartitionModel,
    RoundBudget,
    Rounds,
    UnitRows,
    random_trees,
)
from reticent.guarantees.gaussian_curve import gaussian_delta
from reticent.mechanisms import noise_source
from reticent.mechanisms.individual import FULL
from reticent.prediction import LocalLaw
from reticent.prediction.neighbors.fallback import noisy_error
from reticent.prediction.neighbors.local_units import QuestionPlan
from reticent.prediction.neighbors.metric import plain_metric
from reticent.prediction.neighbors.spending import Lessons
from reticent.prediction.neighbors.votes import (
    ONE,
    SHELLS,
    ManyLabels,
    Numbers,
    TwoLabels,
)

MU = 1.0
ROUNDS = 3
EPSILONS = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
PROMISED = np.array([gaussian_delta(MU, float(epsilon)) for epsilon in EPSILONS])

COLUMNS = CodedColumns.of([(0.0, 1.0)], 1)
NEAR, FAR = 1 << 20, 1 << 27  # Squares of radii; codes 0 and 256 are 2^26 apart.
HERE, THERE = 0, 256

# What units may be: their place and what they say.
TWO = [(x, y) for x in (HERE, THERE) for y in (0, 1)]
THREE = [(HERE, 0), (HERE, 1), (HERE, 2), (THERE, 1)]
NUMBER = [(HERE, -1.0), (HERE, 0.0), (HERE, 1.0), (THERE, 1.0)]

# A released model that is sure of the first label, everywhere.
_TREES = random_trees(COLUMNS, (None,), n_trees=1, depth=1, source=noise_source(0))
MODEL = PartitionModel.of(_TREES, np.full((1, 2), -3.0), logistic=True)

# What the analyst may ask: ("speak", place, radius), ("count", place, start, shell), or
# how wrong a released model is, by which a fit decides who answers: ("error", share).
ASKED = [
    ("speak", HERE, NEAR),
    ("speak", HERE, FAR),
    ("speak", THERE, NEAR),
    ("count", HERE, NEAR, 0),
]


def two_labels(said, n):
    return TwoLabels(np.array(said, np.int8), np.full(n, ONE // 2, np.int64))


def three_labels(said, n):
    return ManyLabels(np.array(said, np.int16), np.zeros(0, np.int64), 3)


def numbers(said, n):
    return Numbers(np.array(said, float), np.zeros(n, np.int64))


class Heard(Rounds):
    """Rounds whose sums are seen before there is noise."""

    def noisy(self, sums, scale):
        self.sums, self.scale = sums.tolist(), scale
        return sums


class Rules:
    """What happens in a round. Wrong rules override a part of it."""

    law = LocalLaw
    votes = staticmethod(two_labels)

    def __init__(self, relation, vote_scale, count_scale=8.0):
        self.budget = RoundBudget(MU, relation)
        self.plan = QuestionPlan(2.0, vote_scale, count_scale)

    def fitted(self, units, silent):
        """Return the law of these units, one of which may contribute nothing."""
        places, said = zip(*units, strict=True)
        spent = np.zeros(len(units), dtype=np.uint32)
        if silent is not None:
            spent[silent] = FULL
        return self.law(
            certificate=None,
            source=noise_source(0),
            columns=COLUMNS,
            codes=np.array(places, np.int16)[:, None],
            unit=np.arange(len(units)),
            votes=self.votes(said, len(units)),
            metric=plain_metric(COLUMNS),
            axes=(),
            model=None,
            budget=self.budget,
            plan=self.plan,
            fitted=spent,
            lessons=Lessons(),
        )

    def start(self, law):
        return law.start()

    def carried(self, law, spending):
        """Return the state in which the next round finds the units."""
        return spending

    def radius(self, law, place, radius):
        return radius

    def told(self, spending):
        """Return what is shown of the state; nothing."""
        return

    def play(self, law, spending, asked):
        """Play one round: return its sums, its scale and what else is shown."""
        if asked[0] == "error":
            return (*self.error(law, spending, asked[1]), self.told(spending))
        kind, place, *rest = asked
        query = np.array([place], np.int16)
        if kind == "count":
            start, shell = rest
            near = law.near(law.around(query), start * SHELLS[shell] // 64)
            sums = [10 * law.count(near, start, shell, ONE // 2, spending, None)]
            scale = self.plan.count_scale * 10
        else:
            radius = self.radius(law, place, *rest)
            near = law.near(law.around(query), radius)
            sums = law.speak(near, radius, ONE // 2, spending, None).tolist()
            scale = self.plan.vote_scale
        return tuple(sums), scale, self.told(spending)

    def error(self, law, spending, share):
        """Return the sums and the scale of a round that measures a model."""
        said = law.votes.said_by.astype(float)[None]
        rows = UnitRows(law.codes, said, law.unit, np.arange(len(law.unit) + 1))
        heard = Heard(self.budget, spending.account, law.source)
        noisy_error(rows, MODEL, heard, share=share)
        return tuple(heard.sums), heard.scale

    @cache  # noqa: B019 - rules live as long as one test
    def rounds(self, units, silent, asked):
        """Return all that happens to these units when this is asked in turn."""
        if not asked:
            law = self.fitted(units, silent)
            return law, self.start(law), ()
        law, spending, before = self.rounds(units, silent, asked[:-1])
        spending = self.carried(law, spending).copy()
        return law, spending, (*before, self.play(law, spending, asked[-1]))


@cache
def chances(sums, scale, edges):
    """Return the exact probability of each stretch, or combination of them."""
    found = np.ones(1)
    for location in sums:
        above = ndtr((location - np.array(edges, float) + 0.5) / scale)
        each = -np.diff(np.concatenate([[1.0], above, [0.0]]))
        found = np.outer(found, each).ravel()
    return found


def best_attack(rules, one, other, menu, edges, *, rounds=ROUNDS):
    """Return the largest ``Pr_one[E] - e^epsilon Pr_other[E]`` for each epsilon.

    `one` and `other` are (units, silent); the maximum is over all adaptive strategies
    and all events.
    """
    weights = np.exp(EPSILONS)

    def value(asked, p, q):
        """Return what can still be reached from each of several histories."""
        best = np.maximum(p[:, None] - np.outer(q, weights), 0)
        if len(asked) == rounds:
            return best
        for question in menu:
            longer = (*asked, question)
            ours, theirs = (rules.rounds(*each, longer)[2][-1] for each in (one, other))
            if ours[2] != theirs[2]:
                found = p[:, None]  # Told apart for certain.
            else:
                cuts = edges[question[0]]
                ps = np.outer(p, chances(ours[0], ours[1], cuts))
                qs = np.outer(q, chances(theirs[0], theirs[1], cuts))
                after = value(longer, ps.ravel(), qs.ravel())
                found = after.reshape(*ps.shape, -1).sum(axis=1)
            best = np.maximum(best, found)
        return best

    return value((), np.ones(1), np.ones(1))[0]


def neighbours(domain, n_units, relation):
    """Return all pairs of neighbours in both directions, up to the others' order."""
    for others in combinations_with_replacement(domain, n_units - 1):
        if relation == "zero-out":
            for unit in domain:
                units = (unit, *others)
                yield (units, None), (units, 0)
                yield (units, 0), (units, None)
        else:
            for unit, instead in product(domain, repeat=2):
                if unit != instead:
                    yield ((unit, *others), None), ((instead, *others), None)


def worst_attack(rules, domain, n_units, menu, edges, **options):
    """Return the best attack over all neighbours."""
    pairs = neighbours(domain, n_units, rules.budget.relation)
    return np.max(
        [best_attack(rules, *pair, menu, edges, **options) for pair in pairs], axis=0
    )
