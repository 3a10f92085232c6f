"""Constants of stable selection and relabeling, each computed a second time."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from reticent.errors import RuleError
from reticent.hypotheses import Thresholds
from reticent.mechanisms import exponential_mechanism
from reticent.prediction.selection import relabeling_rules
from reticent.prediction.selection.relabeling_rules import (
    RelabelingPlan,
    net_failure,
    relabeled,
)
from reticent.prediction.selection.stable_selection_rules import (
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
