"""P5 to P7: how a plan splits epsilon, covers of subsets, and when a net exists."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.studies.theorem_sizes import net_size
from reticent.hypotheses import Halfspaces, Intervals, Stumps, Thresholds, cover_of
from reticent.planning import bounds
from reticent.prediction import (
    StableSelectionClassifier,
    plan_for_privacy,
    plan_relabeling,
    relabeling_excess,
    selection_excess,
)
from reticent.prediction.selection import fresh_hypotheses
from reticent.prediction.selection.relabeling_rules import RelabelingPlan, net_failure
from reticent.prediction.selection.stable_selection_rules import (
    SelectionPlan,
    flipped_epsilon,
    stable_selection,
)
from tests.prediction.test_selection import Planned, laws, pairs

SILENT = {"labels_from_data": False, "seeded": False}


# ----------------------------------------------------------------- P6 by the bound


@pytest.mark.parametrize(
    ("family", "n", "epsilon", "flip"),
    [
        (Thresholds(), 3000, 1.0, 0.05),
        (Thresholds(), 1000, 0.3, 0.2),
        (Stumps().on(4), 2000, 1.0, 0.1),
        (Intervals(2), 2000, 2.0, 0.02),
    ],
)
def test_epsilon_is_split_by_the_bound(family, n, epsilon, flip):
    """Against every size of the subset, with the largest exponent found by a scan."""
    plan = plan_for_privacy(n, epsilon, flip, family)
    assert flipped_epsilon(plan.subset / n, plan.exponent, flip) <= epsilon
    best = math.inf
    grid = np.linspace(0, 2 * epsilon, 400)[1:]
    for subset in range(1, n, 7):
        fits = [g for g in grid if flipped_epsilon(subset / n, g, flip) <= epsilon]
        if fits:
            trial = SelectionPlan(subset, fits[-1], flip)
            best = min(best, selection_excess(family, n, trial))
    assert selection_excess(family, n, plan) <= 1.02 * best
    halves = plan_for_privacy(n, epsilon, flip)
    assert selection_excess(family, n, plan) <= selection_excess(family, n, halves)


def test_the_bound_of_a_known_case_falls():
    """20,000 units, flips of .05: .179 in halves, below .108 by the bound."""
    n, family = 20_000, Thresholds()

    def bound(plan):
        return bounds.selection_bound(family, n, plan, 0.001, population=False)

    assert bound(plan_for_privacy(n, 1.0, 0.05)) == pytest.approx(0.179, abs=1e-3)
    assert bound(plan_for_privacy(n, 1.0, 0.05, family)) < 0.108


def test_a_subset_can_always_be_listed():
    family = Halfspaces().on(3)
    plan = plan_for_privacy(20_000, 1.0, 0.05, family)
    assert family.growth(plan.subset) <= 10_000_000
    fitted = StableSelectionClassifier(Thresholds(), epsilon=1.0, classes=[0, 1])
    X = np.linspace(0, 1, 300)[:, None]
    fitted.fit(X, (X[:, 0] > 0.4).astype(int))
    assert fitted.plan_ == plan_for_privacy(300, 1.0, 0.05, Thresholds())


# --------------------------------------------------------- covers (S2 Remark 1, P5)


@pytest.mark.parametrize("cover", [0.4, 0.6])
@pytest.mark.parametrize("hypotheses", [Thresholds(), Intervals(2)], ids=str)
def test_stability_holds_with_a_cover(hypotheses, cover):
    class Model(Planned):
        plan = SelectionPlan(2, 0.7, 0.0)

    def make():
        return Model(hypotheses, stability=0.5, cover=cover, classes=[0, 1])

    moved = max(np.abs(law - other).max() for law, other in pairs(laws(make, 3)))
    promised = stable_selection(n=3, subset=2, exponent=0.7, **SILENT).guarantee.gamma
    assert 0.1 * promised <= moved <= promised


def test_a_cover_keeps_fewer_candidates_and_reaches_every_labeling():
    X = np.linspace(0, 1, 60)[:, None]
    y = (X[:, 0] > 0.3).astype(int)
    whole = StableSelectionClassifier(Thresholds(), 0.5, classes=[0, 1]).fit(X, y)
    few = StableSelectionClassifier(Thresholds(), 0.5, cover=0.2, classes=[0, 1])
    few.fit(X, y)
    assert few.certificate_.guarantee == whole.certificate_.guarantee
    subset = np.arange(0, 60, 3)
    every, _ = whole.law_.search.candidates(subset)
    kept, mistakes = few.law_.search.candidates(subset)
    assert len(kept) < len(every) / 3
    labels = Thresholds().project(X[subset])
    chosen = cover_of(labels, 0.2)
    near = (labels.labels[:, None] != labels.labels[chosen]).mean(axis=2).min(axis=1)
    assert near.max() <= 0.2
    wrong = [int((Thresholds().predict(h, X) != y).sum()) for h in kept]
    assert mistakes.tolist() == wrong


def test_candidates_that_depend_on_the_other_units_are_rejected(monkeypatch):
    """A control: keeping only the best candidate looks at units outside the subset."""
    listed = fresh_hypotheses.ClassSearch.candidates

    def best_alone(self, subset):
        found, mistakes = listed(self, subset)
        place = int(np.argmin(mistakes))
        return [found[place]], mistakes[place : place + 1]

    monkeypatch.setattr(fresh_hypotheses.ClassSearch, "candidates", best_alone)

    class Model(Planned):
        plan = SelectionPlan(1, 0.1, 0.0)

    table = laws(lambda: Model(Thresholds(), stability=0.5, classes=[0, 1]), 3)
    moved = max(np.abs(law - other).max() for law, other in pairs(table))
    promised = stable_selection(n=3, subset=1, exponent=0.1, **SILENT).guarantee.gamma
    assert moved > promised


# ---------------------------------------------------------------------- P7's nets


def test_eta_grows_until_a_net_exists():
    """With eta = 6/(eps n), as before, no subset is ever a net."""
    n, epsilon, flip, family = 10**7, 1.0, 1e-6, Thresholds()
    plan, certificate = plan_relabeling(n, epsilon, flip, family, **SILENT)
    assert plan.net
    assert certificate.guarantee.epsilon <= epsilon
    growth = family.growth(2 * (plan.subset - 1)), family.growth(n - 1)
    assert net_failure(n, plan.subset, plan.eta, growth) < 1e-6
    assert net_failure(n, plan.subset, 6 / (epsilon * n), growth) == 1.0
    # Against a scan of its own: no eta and subset that fit have a smaller excess.
    best = math.inf
    for eta in np.geomspace(3 / (epsilon * n), 0.5, 60):
        for subset in np.geomspace(2, n // 4, 60).astype(int).tolist():
            c = (eta * (n - 1) + 1) / (eta * n)
            loss = 3 / (eta * n) + math.log1p(
                4 * math.exp(3 * c) * subset / (n - subset)
            )
            if loss > epsilon:
                continue
            growth = family.growth(2 * (subset - 1)), family.growth(n - 1)
            delta = subset / n * net_failure(n, subset, eta, growth)
            if math.log1p((1 - 2 * flip) * delta / flip) <= epsilon:
                trial = RelabelingPlan(subset, float(eta), True)
                best = min(best, relabeling_excess(family, trial))
    assert relabeling_excess(family, plan) <= 1.3 * best


def test_few_units_have_no_net():
    plan, certificate = plan_relabeling(20_000, 1.0, 0.05, Thresholds(), **SILENT)
    assert not plan.net
    assert certificate.guarantee.epsilon <= 1.0


def test_the_vote_inside_is_a_vote_of_nets():
    family, n, failure = Thresholds(), 10**7, 0.001
    error = bounds.relabeled_vote_error(family, n, 0.5, failure)
    shards = math.ceil(6 * math.log(4 / error) / 0.5)
    assert net_size(family, error / 4, failure / shards) <= n // shards
    wider = net_size(family, 0.99 * error / 4, failure / shards)
    assert wider > n // math.ceil(6 * math.log(4 / (0.99 * error)) / 0.5)
    assert bounds.relabeled_vote_error(family, 100, 0.001, failure) == 1.0


def test_relabeling_does_not_win_for_thresholds(monkeypatch):
    assert bounds.relabeling_wins_from(Thresholds(), 1.0, 20_000) is None
    # Not vacuous: it says so where its bound is smaller.
    monkeypatch.setattr(bounds, "_relabeling_at", lambda *facts: 0.0)
    bounds.relabeling_wins_from.cache_clear()
    assert bounds.relabeling_wins_from(Thresholds(), 1.0, 20_000) == 20_000
    bounds.relabeling_wins_from.cache_clear()
