"""Constants of stable selection and relabeling, each computed a second time."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from reticent.errors import InvalidParameterError, RuleError
from reticent.hypotheses import Thresholds, net_error
from reticent.mechanisms import exponential_mechanism
from reticent.prediction.selection import relabeling_rules
from reticent.prediction.selection.relabeling_rules import (
    RelabelingPlan,
    net_failure,
    relabeled,
    relabeling_excess,
)
from reticent.prediction.selection.stable_selection_rules import (
    SelectionPlan,
    plan_for_privacy,
    plan_for_stability,
    private_from_stable,
    stable_selection,
)

SILENT = {"labels_from_data": False, "seeded": False}
mpmath.mp.dps = 40


def certified_stability(n, subset, exponent):
    promise = stable_selection(n=n, subset=subset, exponent=exponent, **SILENT)
    return promise.guarantee.gamma


class TestStableSelection:
    # The worst case of P5. Each subset is one unit, and its candidates follow from its
    # point alone. The replaced unit stood at point "a", whose candidates all answer 0;
    # it moves to point "b", whose candidates all answer 1. The candidates of the other
    # units' point answer 0 and 1; one of them is right about the unit at "a" and the
    # other one is right about it at "b".
    @staticmethod
    def chance_of_one(own_answer, n, exponent, own_mistakes):
        law = exponential_mechanism(-np.array([own_mistakes]), exponent, bound=n)
        others = law.probabilities[0, 1]
        return (own_answer + (n - 1) * others) / n

    @pytest.mark.parametrize("n", [2, 3, 10, 200])
    @pytest.mark.parametrize("exponent", [0.01, 0.7, 3.0, 12.0])
    def test_the_stability_is_attained(self, n, exponent):
        before = self.chance_of_one(0, n, exponent, [0, 1])
        after = self.chance_of_one(1, n, exponent, [1, 0])
        promised = certified_stability(n, 1, exponent)
        assert after - before <= promised
        assert promised == pytest.approx(after - before, rel=1e-9)

    @pytest.mark.parametrize("exponent", [1e-6, 0.01, 0.7, 3.0, 12.0])
    @pytest.mark.parametrize(("n", "subset"), [(3, 1), (1000, 30), (10**6, 7)])
    def test_the_stability_is_that_of_the_formula(self, n, subset, exponent):
        q = mpmath.mpf(subset) / n
        truth = q + (1 - q) * mpmath.tanh(mpmath.mpf(exponent) / 4)
        promised = certified_stability(n, subset, exponent)
        assert truth <= promised <= truth * (1 + mpmath.mpf(10) ** -13)

    def test_a_probability_moves_by_one_at_most(self):
        assert certified_stability(2, 1, 1e4) == 1.0

    def test_flips_must_leave_something_of_the_answer(self):
        with pytest.raises(InvalidParameterError, match="1/2"):
            plan_for_privacy(1000, 1.0, 0.51)
        selected = stable_selection(n=100, subset=3, exponent=0.2, **SILENT)
        assert private_from_stable(selected, p=0.49).guarantee.epsilon < 0.01
        with pytest.raises(RuleError, match="1/2"):
            private_from_stable(selected, p=0.51)

    @pytest.mark.parametrize("stability", [0.01, 0.2, 0.9])
    def test_a_plan_spends_all_of_its_stability(self, stability):
        n = 1000
        plan = plan_for_stability(n, stability)
        # Half of it goes to the subset.
        assert plan.subset == math.floor(Fraction(stability) / 2 * n)
        promised = certified_stability(n, plan.subset, plan.exponent)
        assert promised <= stability
        assert promised == pytest.approx(stability, rel=1e-9)

    @pytest.mark.parametrize(
        ("epsilon", "flip"), [(0.3, 0.1), (1.0, 0.05), (1.5, 0.02)]
    )
    def test_a_plan_spends_all_of_its_epsilon(self, epsilon, flip):
        n = 1000
        plan = plan_for_privacy(n, epsilon, flip)
        # With an exponent of nothing the loss is ln(1 + (1 - 2p) q / p) (G3); the
        # subset is the largest that leaves half of epsilon.
        most = n * flip * math.expm1(epsilon / 2) / (1 - 2 * flip)
        assert plan.subset == math.floor(min(most, n / 2))
        selected = stable_selection(
            n=n, subset=plan.subset, exponent=plan.exponent, **SILENT
        )
        promised = private_from_stable(selected, p=flip).guarantee.epsilon
        assert promised <= epsilon
        assert promised == pytest.approx(epsilon, rel=1e-6)

    def test_where_flips_alone_suffice_both_parts_end_at_their_limits(self):
        # ln(.7 / .3) is below 1: half of all units, and weights of e^(2 epsilon).
        assert plan_for_privacy(1000, 3.0, 0.3) == SelectionPlan(500, 6.0, 0.3)

    @pytest.mark.parametrize(
        ("n", "epsilon", "flip", "subset"),
        [
            (1000, 1.0, 0.05, 95),  # all of epsilon allows 95.3, half of it 36
            (1000, 0.001, 0.4, 1),  # all of epsilon allows 1.999, half of it 1.0001
            (100, 1.0, 0.05, 1),  # too few to be a net: all of epsilon for the choice
        ],
    )
    def test_the_bound_may_choose_every_size_that_epsilon_allows(
        self, n, epsilon, flip, subset
    ):
        allowed = n * flip * math.expm1(epsilon) / (1 - 2 * flip)
        assert 1 <= subset <= allowed
        assert plan_for_privacy(n, epsilon, flip, Thresholds()).subset == subset


class TestRelabeling:
    @pytest.mark.parametrize("n", [50, 1000, 10**6])
    @pytest.mark.parametrize("eta", [0.02, 0.3])
    @pytest.mark.parametrize("share", [0.02, 0.4])
    def test_the_loss_is_that_of_the_theorem(self, n, eta, share):
        subset = int(share * n)
        growth = (2 * (subset - 1) + 1, n)
        fixed = {"n": n, "subset": subset, "eta": eta, "growth": growth, **SILENT}
        exact = mpmath.mpf(eta)
        # Steps of 1/(eta n): two for the choice, whose weights change above and below,
        # and one for the vote.
        plain = 3 / (exact * n)
        promised = relabeled(**fixed, net=False).guarantee
        assert plain <= promised.epsilon <= plain * (1 + 1e-12)
        assert Fraction(subset, n) <= promised.delta
        assert promised.delta == pytest.approx(subset / n, rel=1e-12)
        # With a net, the replaced unit inside the subset costs a logarithm more.
        c = (exact * (n - 1) + 1) / (exact * n)
        inside = mpmath.log(1 + 4 * mpmath.exp(3 * c) * subset / (n - subset))
        promised = relabeled(**fixed, net=True).guarantee
        assert plain + inside <= promised.epsilon
        assert promised.epsilon <= (plain + inside) * (1 + 1e-12)
        delta = mpmath.mpf(subset) / n * net_failure(n, subset, eta, growth)
        assert delta <= promised.delta <= delta * (1 + 1e-12) + 1e-300

    @staticmethod
    def missing_all(n, subset, eta):
        """The chance that a subset misses marked units, as a fraction of subsets."""
        others, drawn = n - 1, subset - 1
        marked = math.floor(Fraction(eta) * others) + 1
        if others - marked < drawn:
            return Fraction(0)
        return Fraction(math.comb(others - marked, drawn), math.comb(others, drawn))

    @pytest.mark.parametrize(
        ("n", "subset"), [(40, 20), (40, 39), (42, 30), (54, 30), (400, 120)]
    )
    @pytest.mark.parametrize("eta", [0.1, 0.25, 0.3])
    @pytest.mark.parametrize("labelings", [1, 2, 3, 60])
    def test_the_union_over_pairs_counts_subsets(self, n, subset, eta, labelings):
        # So many labelings of 2m points that the other bound says nothing.
        bound = net_failure(n, subset, eta, (10**30, labelings))
        pairs = math.comb(labelings, 2) if labelings > 1 else Fraction(1, 2)
        truth = min(Fraction(1), pairs * self.missing_all(n, subset, eta))
        assert truth <= bound <= float(truth) * (1 + 1e-9)

    @pytest.mark.parametrize(("subset", "eta"), [(200, 0.2), (1000, 0.05), (41, 0.5)])
    @pytest.mark.parametrize("labelings", [1, 2, 5])
    def test_the_net_of_a_large_class_is_that_of_the_theorem(
        self, subset, eta, labelings
    ):
        # So many labelings of all points that the union over pairs says nothing.
        bound = net_failure(10**6, subset, eta, (labelings, 10**4000))
        exponent = mpmath.mpf(eta) * (subset - 1) / 2
        truth = min(mpmath.mpf(1), 2 * labelings**2 * mpmath.mpf(2) ** -exponent)
        assert truth <= bound
        assert bound <= truth * (1 + 1e-5)

    def test_a_subset_of_one_is_no_net(self):
        assert net_failure(100, 1, 0.5, (1, 100)) == 1.0
        assert net_failure(10**6, 2, 0.01, (100, 10**6)) == 1.0
        assert net_failure(100, 2, 0.5, (1, 1)) < 1.0


@pytest.mark.parametrize(
    ("n", "subset", "net", "expected"),
    [
        (1000, 50, True, (99, 1000)),  # 2 (50 - 1) points, and 999, have one more
        (7, 3, True, (5, 7)),
        (1, 1, True, (2, 2)),  # no fewer than one point
        (1000, 50, False, (1, 1)),  # without a net nothing is counted
    ],
)
def test_labelings_are_counted_on_as_many_points_as_the_proof_needs(
    n, subset, net, expected
):
    plan = RelabelingPlan(subset, 0.5, net)
    assert relabeling_rules._growth(Thresholds(), n, plan) == expected


def test_what_relabeling_adds_is_the_net_twice_and_the_choice():
    # S2's Lemma 8: two hypotheses that agree on a net, and eta n steps of the choice.
    plan = RelabelingPlan(20_000, 3e-4, True)
    expected = 2 * net_error(Thresholds(), 20_000) + 3e-4 * math.log(20_001)
    assert relabeling_excess(Thresholds(), plan) == pytest.approx(expected, rel=1e-12)


class TestTheRelabelingPlansThatAreTried:
    N, EPSILON = 10**6, 0.7

    def tried(self, search, limit):
        """All plans that a search asks about, if subsets up to `limit` fit."""
        asked = []

        def fits(plan):
            asked.append(plan)
            return plan.subset <= limit

        return search(self.N, self.EPSILON, Thresholds(), fits), asked

    def test_without_a_net_a_few_shares_of_epsilon_pay_for_choice_and_vote(self):
        found, asked = self.tried(relabeling_rules._without_net, 777)
        assert [plan.subset for plan in found] == [777] * 4
        assert not any(plan.net for plan in asked)
        # P7's first term, 3 / (eta n), is that share of epsilon.
        shares = [3 / (plan.eta * self.N) / self.EPSILON for plan in found]
        assert shares == pytest.approx([0.25, 0.5, 0.75, 0.9])

    def test_with_a_net_all_sizes_and_all_values_of_eta_that_can_fit_are_tried(self):
        found, asked = self.tried(relabeling_rules._with_net, 0)
        assert found == []
        for plan in asked:
            growth = (2 * (plan.subset - 1) + 1, self.N)
            fails = net_failure(self.N, plan.subset, plan.eta, growth)
            assert plan.net is (fails < 1)
        assert {plan.net for plan in asked} == {True, False}
        etas = sorted({plan.eta for plan in asked})
        sizes = sorted({plan.subset for plan in asked})
        assert (len(etas), len(sizes)) == (24, 40 - 1)  # 2.0 and 2.7 are one size
        # Below, the choice and the vote alone cost more than epsilon.
        assert etas[0] == pytest.approx(3 / (self.EPSILON * self.N))
        assert etas[-1] == pytest.approx(0.5)
        assert (sizes[0], sizes[-1]) == (2, self.N // 4)
        found, asked = self.tried(relabeling_rules._with_net, 10**4)
        best = max(size for size in sizes if size <= 10**4)
        assert [plan.subset for plan in found] == [best] * 24

    def test_few_units_have_few_sizes(self):
        def fits(plan):
            sizes.add(plan.subset)

        for n, expected in ((5, {2}), (12, {2, 3})):
            sizes = set()
            relabeling_rules._with_net(n, self.EPSILON, Thresholds(), fits)
            assert sizes == expected
