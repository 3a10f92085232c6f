"""PrivateVotingClassifier: every neighbour of every small dataset, exactly (P1)."""

from itertools import product

import numpy as np
import pytest

from reticent.prediction import PrivateAveragingClassifier, PrivateVotingClassifier
from tests.prediction import learners

EPSILON = 0.9
QUERIES = np.array([[0], [1]])


def laws(make, domain, n):
    """Return the log-law of each query for every dataset in `domain ** n`."""
    table = {}
    for data in product(domain, repeat=n):
        X = np.array([[x] for x, _ in data])
        y = np.array([label for _, label in data])
        table[data] = make().fit(X, y).response(QUERIES).log_probabilities
    return table


def worst_loss(table, domain):
    """Largest log-ratio over all datasets, replaced units, queries and labels."""
    worst = 0.0
    for data, law in table.items():
        for position, unit in product(range(len(data)), domain):
            neighbour = (*data[:position], unit, *data[position + 1 :])
            worst = max(worst, np.abs(law - table[neighbour]).max())
    return worst


BINARY = list(product((0, 1), (0, 1)))
TERNARY = list(product((0, 1), (0, 1, 2)))


def voting(base, rule, classes=(0, 1), epsilon=EPSILON, **settings):
    return lambda: PrivateVotingClassifier(
        base, epsilon, classes, 3, rule=rule, random_state=3, **settings
    )


@pytest.mark.parametrize(
    "base",
    [
        learners.Table(),
        learners.RaisesOnRecord(),
        learners.AlwaysRaises(),
        learners.RaisesAtQuery(),
        learners.UnseenLabel(),
    ],
    ids=lambda base: type(base).__name__,
)
@pytest.mark.parametrize("rule", ["soft", "geometric", "permute-and-flip"])
def test_one_replaced_unit_costs_at_most_epsilon(base, rule):
    table = laws(voting(base, rule), BINARY, 4)
    assert worst_loss(table, BINARY) <= EPSILON * (1 + 1e-9)


def test_the_geometric_rule_attains_epsilon():
    table = laws(voting(learners.Table(), "geometric"), BINARY, 4)
    assert worst_loss(table, BINARY) >= 0.99 * EPSILON


def test_three_labels_cost_at_most_epsilon():
    for rule in ("soft", "permute-and-flip"):
        make = voting(learners.LabelCount(), rule, classes=(0, 1, 2))
        assert worst_loss(laws(make, TERNARY, 3), TERNARY) <= EPSILON * (1 + 1e-9)


def test_the_gaussian_rule_stays_within_its_delta():
    delta = 1e-3
    make = voting(learners.Table(), "gaussian", delta=delta)
    table = laws(make, BINARY, 4)
    excess = 0.0
    for data, law in table.items():
        for position, unit in product(range(4), BINARY):
            other = table[(*data[:position], unit, *data[position + 1 :])]
            gap = np.exp(law) - np.exp(EPSILON) * np.exp(other)
            excess = max(excess, np.maximum(gap, 0).sum(axis=1).max())
    assert excess <= delta


def test_the_average_costs_what_its_certificate_says():
    def make():
        return PrivateAveragingClassifier(
            learners.Table(), 2.0, (0, 1), 3, random_state=3
        )

    table = laws(make, BINARY, 4)
    promised = make().fit([[0], [1], [0]], [0, 1, 1]).certificate_.guarantee.epsilon
    assert promised < 2.0
    assert 0.99 * promised <= worst_loss(table, BINARY) <= promised * (1 + 1e-9)


def test_the_check_rejects_a_vote_with_twice_the_exponent():
    # The rule that is often quoted: exp(eps * votes) instead of exp(eps * votes / 2).
    table = laws(voting(learners.Table(), "soft", epsilon=2 * EPSILON), BINARY, 4)
    assert worst_loss(table, BINARY) > 1.5 * EPSILON


class Leaky(PrivateVotingClassifier):
    """Deals units by label: one replaced unit can move others."""

    def _deal(self, X, units, n_labels, epsilon):
        order = np.argsort(self._leak, kind="stable")
        partition, source, choice = super()._deal(X, units, n_labels, epsilon)
        partition.shard_of_row[order] = np.arange(len(order)) % 3
        return partition, source, choice

    def fit(self, X, y, units=None):
        self._leak = np.asarray(y)
        return super().fit(X, y, units)


def test_the_check_rejects_shards_dealt_by_label():
    def make():
        return Leaky(learners.Table(), EPSILON, (0, 1), 3, "geometric", random_state=3)

    assert worst_loss(laws(make, BINARY, 4), BINARY) > 1.5 * EPSILON
