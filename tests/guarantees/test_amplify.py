"""G6 to G9 and disjoint parts: shards, groups, subsamples."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from reticent._numbers import exact
from reticent.errors import (
    InvalidGuaranteeError,
    InvalidParameterError,
    RelationMismatchError,
    RuleError,
)
from reticent.guarantees import (
    ZCDP,
    AddRemove,
    ApproxDP,
    BoundedRange,
    PureDP,
    ReplaceOne,
    Scope,
    Sensitivity,
    UniformStability,
    any_on_subsample,
    average_of_shards,
    group,
    parallel_composition,
    subsample,
    to_replace_one,
)
from reticent.guarantees.convert import sigmoid
from tests.guarantees.cases import answer, given
from tests.guarantees.worst_cases import largest, private_bits

# ------------------------------------------------------------------------ G6


@pytest.mark.parametrize("shards", [1, 3, 7])
def test_g6_the_average_moves_by_gamma_over_r(shards):
    premise = answer(UniformStability(0.3), n=10)
    made = average_of_shards(premise, shards=shards, n=10 * shards)
    assert made.relation == ReplaceOne(10 * shards)
    moved = Fraction(3, 10) / shards  # one shard's prediction moves by 0.3
    assert exact(made.guarantee.gamma) >= moved
    assert made.guarantee.gamma == pytest.approx(float(moved), rel=1e-15)


def test_g6_holds_when_units_sit_at_positions_and_fails_when_their_hash_decides():
    """Trap 3: under replace-one, a hash of the unit touches two shards."""
    shards, n = 3, 6
    gamma = average_of_shards(
        given(Sensitivity(1.0), n=2), shards=shards, n=n
    ).guarantee.l1

    def average(data, place):
        parts = [[] for _ in range(shards)]
        for position, unit in enumerate(data):
            parts[place(position, unit)].append(unit)
        # A model that moves by at most one: does it know a unit above one?
        return sum(any(unit > 1 for unit in part) for part in parts) / shards

    def worst(place):
        return max(
            abs(average(data, place) - average((*data[:i], new, *data[i + 1 :]), place))
            for data in itertools.product((0, 1, 2, 3), repeat=n)
            for i in range(0, n, 5)
            for new in (0, 2, 3)
        )

    assert worst(lambda position, unit: position % shards) == pytest.approx(gamma)
    by_hash = worst_of_hash(shards)
    assert by_hash == pytest.approx(2 * gamma)


def worst_of_hash(shards):
    """Replacing a unit takes it out of one shard and puts another into a second."""

    def average(data):
        counts = [0] * shards
        for unit in data:
            counts[unit % shards] += 1
        return sum(count % 2 for count in counts) / shards

    return max(
        abs(average(data) - average((*data[:-1], new)))
        for data in itertools.product(range(shards), repeat=4)
        for new in range(shards)
    )


def test_g6_needs_a_unit_for_each_shard():
    premise = given(Sensitivity(1.0, 0.5))
    assert average_of_shards(premise, shards=4, n=4).guarantee == Sensitivity(
        0.25, 0.125
    )
    with pytest.raises(RuleError, match="rule G6 needs shards <= n; got shards=5, n=4"):
        average_of_shards(premise, shards=5, n=4)


# ------------------------------------------------------------------------ G7


def chain_of_bits(epsilon, delta, size):
    """Return the worst Pr_0[E] - e^{k eps} Pr_k[E] along a chain of neighbours."""
    pairs = [(i, i + 1) for i in range(size)]
    below, limits = private_bits(pairs, size + 1, epsilon, delta)
    objective = np.zeros(size + 1)
    objective[0], objective[-1] = 1.0, -math.exp(size * epsilon)
    return largest(objective, below, limits)[0]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_g7_is_the_worst_slack_of_a_chain_of_neighbours(epsilon, size):
    delta = 1e-4
    made = group(given(ApproxDP(epsilon, delta)), size=size)
    assert made.relation == ReplaceOne(100, size)
    assert made.guarantee.epsilon == pytest.approx(size * epsilon, rel=1e-15)
    reached = chain_of_bits(epsilon, delta, size)
    assert reached == pytest.approx(made.guarantee.delta, rel=1e-5)
    printed = size * math.exp((size - 1) * epsilon) * delta
    assert made.guarantee.delta <= printed * (1 + 1e-12)
    if epsilon > 0:
        assert made.guarantee.delta < 0.99 * printed


def test_g7_pure_losses_and_ranges_add_up():
    assert group(given(PureDP(0.1)), size=10).guarantee == PureDP(1.0)
    assert group(given(BoundedRange(0.1)), size=3).guarantee == BoundedRange(0.3)
    # Attained: a geometric law over a chain loses exactly epsilon a unit.
    law = [sigmoid(0.1 * k) for k in range(-80, 81)]
    assert math.log(law[3] / law[0]) == pytest.approx(0.3, rel=0.001)


def test_g7_concentrated_losses_grow_with_the_square():
    made = group(given(ZCDP(0.1)), size=3).guarantee
    assert made == ZCDP(0.9)  # Gaussian noise against a shift of three: the same


def test_g7_widens_both_relations_and_stays_within_the_data():
    wide = group(given(PureDP(0.1), relation=AddRemove(2)), size=3)
    assert wide.relation == AddRemove(6)
    twice = group(group(given(PureDP(0.1), n=6), size=2), size=3)
    assert twice.relation == ReplaceOne(6, 6)
    with pytest.raises(RuleError, match="rule G7 needs a group of at most n=6"):
        group(twice, size=2)


@pytest.mark.parametrize("epsilon", [1.0, 500.0, 1e300])
def test_g7_refuses_what_promises_nothing(epsilon):
    with pytest.raises(RuleError, match="rule G7"):
        group(given(ApproxDP(epsilon, 0.3)), size=4)
    assert group(given(ApproxDP(epsilon, 0.0)), size=4).guarantee.delta == 0.0


def test_g7_add_remove_becomes_replace_one_by_a_group_of_two():
    made = to_replace_one(given(ApproxDP(0.5, 1e-6), relation=AddRemove()), n=9)
    assert made.relation == ReplaceOne(9)
    assert made.guarantee.epsilon == 1.0
    assert made.guarantee.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    with pytest.raises(RuleError, match="rule G7-replace needs one unit"):
        to_replace_one(given(PureDP(0.5), relation=AddRemove(2)), n=9)
    with pytest.raises(RelationMismatchError, match="rule G7-replace"):
        to_replace_one(given(PureDP(0.5)), n=9)


# ------------------------------------------------------------------------ G8


def subsampled(base, data, drawn):
    """Return the chance of a one on a uniform subsample, taken in order."""
    chosen = list(itertools.combinations(data, drawn))
    return sum(base[part] for part in chosen) / len(chosen)


def neighbours_of(words):
    """Return pairs of words that differ in one letter, by number."""
    number = {word: i for i, word in enumerate(words)}
    return [
        (number[word], number[other])
        for word, other in itertools.combinations(words, 2)
        if sum(a != b for a, b in zip(word, other, strict=True)) == 1
    ]


def worst_subsampled(n, drawn, epsilon, delta, amplified, *, symmetric):
    """Return the largest ``P - e^{eps'} P'`` over all bases, by linear programs."""
    words = list(itertools.product((0, 1), repeat=drawn))
    number = {word: i for i, word in enumerate(words)}
    below, limits = private_bits(neighbours_of(words), len(words), epsilon, delta)
    equal, values = None, None
    if symmetric:
        rows = np.zeros((len(words), len(words)))
        for word in words:
            rows[number[word], number[word]] += 1
            rows[number[word], number[tuple(sorted(word))]] -= 1
        equal, values = rows, np.zeros(len(words))
    worst = -math.inf
    for data in itertools.product((0, 1), repeat=n):
        for place in range(n):
            other = (*data[:place], 1 - data[place], *data[place + 1 :])
            objective = np.zeros(len(words))
            for part in itertools.combinations(data, drawn):
                objective[number[part]] += 1
            for part in itertools.combinations(other, drawn):
                objective[number[part]] -= math.exp(amplified)
            objective /= math.comb(n, drawn)
            worst = max(
                worst, largest(objective, below, limits, equal=equal, values=values)[0]
            )
    return worst


@pytest.mark.parametrize(("n", "drawn"), [(3, 2), (4, 2), (4, 3)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (1.5, 0.01)])
def test_g8_holds_for_every_symmetric_base(n, drawn, epsilon, delta):
    premise = given(ApproxDP(epsilon, delta), n=drawn)
    made = subsample(premise, n=n, order="symmetric")
    loss, slack = made.guarantee.epsilon, getattr(made.guarantee, "delta", 0.0)
    worst = worst_subsampled(n, drawn, epsilon, delta, loss, symmetric=True)
    assert worst <= slack + 1e-9
    assert made.relation == ReplaceOne(n)


def test_g8_is_false_for_bases_that_read_the_order():
    """Trap 5: without one unit, the others move up by a place."""
    epsilon = 0.5
    premise = given(PureDP(epsilon), n=2)
    loss = subsample(premise, n=4, order="shuffled").guarantee.epsilon
    assert worst_subsampled(4, 2, epsilon, 0.0, loss, symmetric=True) <= 1e-9
    assert worst_subsampled(4, 2, epsilon, 0.0, loss, symmetric=False) > 0.005
    for order in ("given", "", None):
        with pytest.raises(RuleError, match="rule G8 is false for mechanisms that"):
            subsample(premise, n=4, order=order)


@pytest.mark.parametrize(("n", "drawn"), [(10, 1), (10, 4), (1000, 30)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-3), (3.0, 0.0)])
def test_g8_is_attained_by_a_noisy_look_for_one_unit(n, drawn, epsilon, delta):
    """Randomized response to "is the unit in the subsample?", with a leak of delta."""
    premise = given(ApproxDP(epsilon, delta), n=drawn)
    made = subsample(premise, n=n, order="symmetric").guarantee
    q = drawn / n
    without = (1 - delta) * sigmoid(-epsilon)
    with_unit = math.exp(epsilon) * without + delta
    reached = q * with_unit + (1 - q) * without
    assert reached <= math.exp(made.epsilon) * without + q * delta * (1 + 1e-12)
    if delta == 0:
        assert math.log(reached / without) >= 0.999 * made.epsilon
    else:
        assert made.delta == pytest.approx(q * delta, rel=1e-15)
        assert reached - math.exp(made.epsilon) * without >= 0.999 * made.delta


def test_g8_at_the_ends():
    whole = subsample(given(PureDP(0.5), n=8), n=8, order="symmetric")
    assert whole.guarantee == PureDP(0.5)
    assert subsample(
        given(PureDP(0.0), n=4), n=8, order="symmetric"
    ).guarantee == PureDP(0)
    large = subsample(
        given(ApproxDP(800.0, 0.1), n=4), n=8, order="symmetric"
    ).guarantee
    assert large == ApproxDP(800.0, 0.05)
    ranged = subsample(given(BoundedRange(0.5), n=4), n=8, order="symmetric").guarantee
    assert type(ranged) is PureDP  # mixing two laws of bounded range widens it
    for premise, n in (
        (given(PureDP(0.5), n=9), 8),
        (group(given(PureDP(0.5)), size=2), 500),
    ):
        with pytest.raises(RuleError, match="rule G8 needs a premise about one of at"):
            subsample(premise, n=n, order="symmetric")


# ------------------------------------------------------------------------ G9


@pytest.mark.parametrize(("drawn", "n"), [(1, 3), (2, 5), (30, 1000)])
def test_g9_is_the_chance_of_being_drawn_and_attained_by_publishing_the_sample(
    drawn, n
):
    made = any_on_subsample(drawn=drawn, n=n, scope="model")
    chance = Fraction(math.comb(n - 1, drawn - 1), math.comb(n, drawn))
    assert made.guarantee.epsilon == 0.0
    assert made.guarantee.delta == pytest.approx(drawn / n, rel=1e-15)
    assert exact(made.guarantee.delta) >= chance
    assert made.proved
    # Seeing the unit itself has this probability with it and none without.
    assert float(chance) >= 0.999 * made.guarantee.delta


def test_g9_needs_a_real_subsample_and_a_scope():
    with pytest.raises(RuleError, match="rule G9 needs drawn < n; got drawn=3, n=3"):
        any_on_subsample(drawn=3, n=3, scope="model")
    with pytest.raises(InvalidParameterError, match="scope='all'"):
        any_on_subsample(drawn=2, n=3, scope="all")
    with pytest.raises(RuleError, match="rule G9 gives delta=1"):
        any_on_subsample(drawn=10**20 - 1, n=10**20, scope="model")
    assert any_on_subsample(drawn=1, n=2, scope=Scope.ANSWER).scope is Scope.ANSWER
    with pytest.raises(InvalidGuaranteeError, match="rule G9 needs drawn >= 1"):
        any_on_subsample(drawn=0, n=3, scope="model")


# ------------------------------------------------------------- disjoint parts


def test_parts_cost_the_most_of_any_of_them():
    made = parallel_composition(
        given(PureDP(0.5), n=10),
        given(ApproxDP(0.2, 1e-6), n=5),
        given(PureDP(0.1), n=1),
    )
    assert made.guarantee == ApproxDP(0.5, 1e-6)
    assert made.relation == ReplaceOne(16)
    assert made.scope is Scope.MODEL
    pure = parallel_composition(answer(PureDP(0.5)), answer(BoundedRange(0.7)))
    assert pure.guarantee == PureDP(0.7)
    assert pure.scope is Scope.INTERFACE
    added = parallel_composition(given(PureDP(0.5), relation=AddRemove()))
    assert added.relation == AddRemove()


def test_parts_hold_by_enumeration():
    """Randomized response on each of two bits, at their own epsilon."""
    losses = (0.3, 0.8)

    def law(data):
        return {
            seen: math.prod(
                sigmoid(e if bit == true else -e)
                for bit, true, e in zip(seen, data, losses, strict=True)
            )
            for seen in itertools.product((0, 1), repeat=2)
        }

    worst = max(
        abs(math.log(law(data)[seen] / law(other)[seen]))
        for data, other in itertools.permutations(
            itertools.product((0, 1), repeat=2), 2
        )
        if sum(a != b for a, b in zip(data, other, strict=True)) == 1
        for seen in itertools.product((0, 1), repeat=2)
    )
    made = parallel_composition(given(PureDP(0.3), n=1), given(PureDP(0.8), n=1))
    assert worst == pytest.approx(made.guarantee.epsilon)


def test_parts_share_one_relation_about_single_units():
    with pytest.raises(RuleError, match="rule G22-parallel needs at least one"):
        parallel_composition()
    for other in (
        given(PureDP(0.5), relation=AddRemove()),
        group(given(PureDP(0.5)), size=2),
    ):
        with pytest.raises(RelationMismatchError, match="rule G22-parallel"):
            parallel_composition(given(PureDP(0.5)), other)
