"""Every dataset of a tiny domain, and the worst privacy loss among neighbours."""

from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np

from reticent.hypotheses import FiniteClass

DOMAIN = list(product((0.0, 1.0, 2.0), (0, 1)))


def first_column_above(cut, X):
    return (X[:, 0] > cut).astype(int)


# For rows of any width; can be pickled.
CUTS = FiniteClass([partial(first_column_above, cut) for cut in (-1.0, 0.0, 1.0)])


def arrays(data):
    X = np.array([[x] for x, _ in data])
    y = np.array([label for _, label in data])
    return X, y


def laws(law_of, n, domain=DOMAIN):
    """Return the law on every dataset of `n` units, which come in any order."""
    return {data: law_of(data) for data in combinations_with_replacement(domain, n)}


def neighbours(table, domain=DOMAIN):
    for data in table:
        for position, unit in product(range(len(data)), domain):
            changed = (*data[:position], unit, *data[position + 1 :])
            other = tuple(sorted(changed, key=domain.index))
            if other != data:
                yield table[data], table[other]


def worst_loss(table, domain=DOMAIN):
    """Return the largest log-ratio of probabilities of one output."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return max(
            np.nanmax(np.abs(np.log(law) - np.log(other)))
            for law, other in neighbours(table, domain)
        )


def widest_range(table, domain=DOMAIN):
    """Return the largest log-ratio of odds of two outputs."""
    return max(
        np.ptp(np.log(law) - np.log(other)) for law, other in neighbours(table, domain)
    )


def largest_delta(table, epsilon, domain=DOMAIN):
    """Return the smallest delta at which the laws are (epsilon, delta)-close."""
    return max(
        np.maximum(law - np.exp(epsilon) * other, 0).sum()
        for law, other in neighbours(table, domain)
    )


def assert_private(table, epsilon, delta=0.0, domain=DOMAIN):
    if delta == 0:
        assert worst_loss(table, domain) <= epsilon * (1 + 1e-9)
    else:
        assert largest_delta(table, epsilon, domain) <= delta * (1 + 1e-9)
