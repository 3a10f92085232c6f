"""Constants of the planner's bounds, each computed a second time."""

import math
from types import SimpleNamespace

import mpmath
import pytest

from benchmarks.studies import theorem_sizes as sizes
from reticent.errors import InvalidParameterError
from reticent.hypotheses import Thresholds
from reticent.planning import bounds
from reticent.prediction import plan_relabeling, relabeling_excess

mpmath.mp.dps = 40
FAMILIES = [Thresholds("up"), Thresholds("either")]


def labelings(family, m):
    """Labelings of m points on a line, by thresholds of one or either direction."""
    return m + 1 if family.direction == "up" else 2 * m


@pytest.mark.parametrize("family", FAMILIES, ids=["up", "either"])
@pytest.mark.parametrize("n", [1, 20, 5000, 10**7])
@pytest.mark.parametrize("failure", [0.5, 1e-6])
def test_the_uniform_gap_solves_the_inequality_of_vapnik_and_chervonenkis(
    family, n, failure
):
    # Pr[some error is off by more than t] <= 4 growth(2n) exp(-n t^2 / 8).
    gap = mpmath.mpf(bounds.uniform_gap(family, n, failure))
    chance = 4 * labelings(family, 2 * n) * mpmath.exp(-n * gap**2 / 8)
    assert float(chance) == pytest.approx(failure, rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=["up", "either"])
def test_the_uniform_size_is_the_smallest(family):
    size = sizes.uniform_size(family, 0.3, 0.05)
    assert bounds.uniform_gap(family, size, 0.05) <= 0.3
    assert bounds.uniform_gap(family, size - 1, 0.05) > 0.3


@pytest.mark.parametrize("family", FAMILIES, ids=["up", "either"])
@pytest.mark.parametrize("m", [3000, 10**6])
def test_a_net_s_error_is_also_the_chance_to_miss_it(family, m):
    # Pr[no e-net] <= 2 growth(2m)^2 2^(-e m / 2), solved for the e that equals it.
    error = mpmath.mpf(bounds.net_error(family, m))
    chance = 2 * labelings(family, 2 * m) ** 2 * mpmath.mpf(2) ** (-error * m / 2)
    assert error < 1
    # The search ends at one part in 10^9 of the error, which stands in the exponent.
    assert float(chance) == pytest.approx(float(error), rel=1e-4)


@pytest.mark.parametrize("family", FAMILIES, ids=["up", "either"])
def test_sizes_are_those_of_their_inequalities(family):
    error, failure = 0.1, 0.02
    for size, power in ((sizes.consistent_size, 1), (sizes.net_size, 2)):
        m = size(family, error, failure)
        chance = [
            2 * labelings(family, 2 * k) ** power * mpmath.mpf(2) ** (-error * k / 2)
            for k in (m - 1, m)
        ]
        assert chance[1] <= failure < chance[0]


@pytest.mark.parametrize("epsilon", [0.25, 2.0])
def test_sizes_of_averages_leave_half_the_error_to_the_noise(epsilon):
    # Noise of scale 1/(r epsilon), clipped, moves the mean by at most half of that; a
    # quarter of the error for each side of the sample leaves one half.
    family, error, failure = Thresholds("up"), 0.2, 0.05
    shards, n = sizes.average_sizes(family, error, failure, epsilon)
    assert 1 / (2 * shards * epsilon) <= error / 2 < 1 / (2 * (shards - 1) * epsilon)
    assert 2 * bounds.uniform_gap(family, n // shards, failure / shards) <= error / 2
    assert 2 * bounds.uniform_gap(family, n // shards - 1, failure / shards) > error / 2


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("lipschitz", [0.5, 2.0])
@pytest.mark.parametrize("n", [100, 10**6])
def test_the_excess_loss_of_a_stable_minimiser_is_the_sum_of_its_parts(
    epsilon, lipschitz, n
):
    radius = 3.0

    def parts(penalty):
        # The penalty at the border of the ball; the stability of the loss, once for
        # the sample and 1/epsilon times, the mean size of the noise, for the answer.
        stability = 2 * lipschitz**2 / (penalty * n)
        return penalty / 2 * radius**2 + stability * (1 + 1 / epsilon)

    bound = bounds.erm_excess_loss(lipschitz, radius, n, epsilon, 0.0)
    chosen = 2 * lipschitz / (radius * math.sqrt(n * epsilon / (1 + epsilon)))
    assert bound == pytest.approx(parts(chosen), rel=1e-12)
    # It is the best penalty there is.
    assert parts(chosen) <= min(parts(0.9 * chosen), parts(1.1 * chosen))
    slack = bounds.erm_excess_loss(lipschitz, radius, n, epsilon, 0.01)
    assert slack == pytest.approx(1.01 * bound, rel=1e-12)


def test_the_excess_loss_of_one_pass_is_the_sum_of_its_parts():
    lipschitz, curvature, reach, radius, n, epsilon = 2.0, 0.3, 4.0, 3.0, 400, 0.5
    # One pass with step R/(L sqrt n): R L/sqrt n for the regret; its stability, twice
    # the step times L^2, counts once more for the sample, at half of it in the mean
    # over positions. Noise: curvature/2 times its variance, 2 (stability/epsilon)^2.
    scale = 2 * reach / math.sqrt(n) / epsilon
    expected = 2 * radius * lipschitz / 20 + curvature / 2 * 2 * scale**2
    found = sizes.psgd_excess_loss(lipschitz, curvature, reach, radius, n, epsilon)
    assert found == pytest.approx(expected, rel=1e-12)


def test_sizes_of_walks_are_those_of_the_theorem():
    # T = ceil(2 ln(2 / 0.1) / 0.5) = ceil(11.98), n = 2 (3 + 2) 12 / 0.1.
    assert bounds.walk_reach(0.1, 0.5) == 12
    assert bounds.walk_size(3, 0.1, 0.5) == 1200


def test_bounds_of_selection_add_net_choice_and_sample():
    family, n, failure = Thresholds("up"), 10**6, 0.05
    plan = SimpleNamespace(subset=20_000, exponent=0.02, flip=0.0)
    net = 2 * bounds.net_error(family, plan.subset)
    # The exponential mechanism with weights exp(-g mistakes / 2): 2 ln N / (g n).
    chosen = 2 * math.log(20_001) / (0.02 * n)
    gaps = 2 * bounds.uniform_gap(family, n, failure)

    def bound(plan, *, population):
        return bounds.selection_bound(family, n, plan, failure, population=population)

    assert bound(plan, population=False) == pytest.approx(net + chosen)
    assert bound(plan, population=True) == pytest.approx(net + chosen + gaps)
    # A flip turns an error a into p + (1 - 2p) a.
    plan.flip = 0.1
    assert bound(plan, population=False) == pytest.approx(0.1 + 0.8 * (net + chosen))
    cover = bounds.cover_bound(family, n, plan.subset, 0.02, failure)
    assert cover == pytest.approx(net + chosen + gaps)


def relabeling_model(**changes):
    plan = SimpleNamespace(subset=20_000, eta=3e-4)
    law = SimpleNamespace(vote_epsilon=0.05, plan=plan, flip=0.02)
    return SimpleNamespace(**{"n_shards_": 400, "law_": law, **changes})


def test_the_bound_of_relabeling_adds_net_choice_sample_and_vote():
    family, n, failure, error = Thresholds("up"), 10**6, 0.05, 0.2
    net = 2 * bounds.net_error(family, 20_000)
    chosen = 3e-4 * math.log(20_001)
    gaps = 2 * bounds.uniform_gap(family, n, failure)
    bound = sizes.relabeling_bound(family, n, relabeling_model(), failure, error)
    assert bound == pytest.approx(0.02 + 0.96 * (net + chosen + gaps + error))


def test_the_bound_of_relabeling_needs_its_votes_and_rows():
    family, failure, error = Thresholds("up"), 0.05, 0.2
    # Votes: 6 ln(4 / error) / epsilon of them, S1 Thm 4.1.
    needed = math.ceil(6 * math.log(20) / 0.05)
    for shards, says in ((needed, True), (needed - 1, False)):
        model = relabeling_model(n_shards_=shards)
        bound = sizes.relabeling_bound(family, 10**6, model, failure, error)
        assert math.isfinite(bound) is says
    # Rows: each shard is a net for a quarter of the error.
    rows = sizes.net_size(family, error / 4, failure / 400)
    for each, says in ((rows, True), (rows - 1, False)):
        n = 400 * each
        bound = sizes.relabeling_bound(family, n, relabeling_model(), failure, error)
        assert math.isfinite(bound) is says


def test_the_smallest_error_is_found_up_to_one():
    assert bounds._smallest_error(lambda error: error >= 0.8) == pytest.approx(0.8)
    assert bounds._smallest_error(lambda error: error >= 1.5) == 1.0


def test_relabeling_s_error_adds_the_vote_at_its_own_epsilon():
    family, n, flip = Thresholds(), 10**7, 1e-3
    plan, _ = plan_relabeling(
        n, 1.0, flip, family, labels_from_data=False, seeded=False
    )
    # P7's vote has 1 / (eta n), a third of what the plan pays for choice and vote.
    vote = bounds.relabeled_vote_error(family, n, 1 / (plan.eta * n), 0.001)
    assert vote < bounds.relabeled_vote_error(family, n, 0.7 / (plan.eta * n), 0.001)
    found = bounds._relabeling_at(family, n, 1.0, flip)
    assert found == pytest.approx(relabeling_excess(family, plan) + vote, rel=1e-12)


class TestWhereRelabelingWins:
    """Which numbers of rows and flips are compared, and how: all errors are given."""

    NONE = staticmethod(lambda n, flip: None)

    @pytest.fixture
    def wins_from(self, monkeypatch):
        def ask(relabeling, selection, least=1):
            def method(errors):
                def error(_family, n, _epsilon, flip):
                    asked.append((n, flip))
                    found = errors(n, flip)
                    if found is None:
                        raise InvalidParameterError("no plan")
                    return found

                return error

            asked = []
            monkeypatch.setattr(bounds, "_relabeling_at", method(relabeling))
            monkeypatch.setattr(bounds, "_selection_at", method(selection))
            found = bounds.relabeling_wins_from.__wrapped__(Thresholds(), 1.0, least)
            return found, asked

        return ask

    @pytest.mark.parametrize(
        ("least", "first"), [(1, 10), (10, 10), (11, 11), (20_000, 20_000)]
    )
    def test_every_thousandfold_and_two_flips_are_tried(self, wins_from, least, first):
        found, asked = wins_from(self.NONE, self.NONE, least)
        assert found is None
        assert {flip for _, flip in asked} == {1e-3, 0.05}
        rows = [first * 1000**k for k in range(5) if first * 1000**k <= 10**12]
        assert sorted({n for n, _ in asked}) == rows

    @pytest.mark.parametrize(
        ("flip", "error", "wins"),
        [
            # Flips turn a selection's error of 1/2 into 1/2; a tenth less is .45.
            (1e-3, 0.4497, True),  # .001 + .998 x .4497 = .4498
            (1e-3, 0.4501, False),  # .001 + .998 x .4501 = .4502
            (0.05, 0.4443, True),  # .05 + .9 x .4443 = .4499
            (0.05, 0.4446, False),  # .05 + .9 x .4446 = .4501
        ],
    )
    def test_a_tenth_less_wins_after_flips(self, wins_from, flip, error, wins):
        found, _ = wins_from(
            lambda n, p: error if (n, p) == (10_000, flip) else None,
            lambda n, p: 0.5,
        )
        assert found == (10_000 if wins else None)

    @pytest.mark.parametrize(("error", "wins"), [(0.899, True), (0.901, False)])
    def test_an_error_above_one_counts_as_one(self, wins_from, error, wins):
        found, _ = wins_from(lambda n, p: (error - p) / (1 - 2 * p), lambda n, p: 3.0)
        assert found == (10 if wins else None)
