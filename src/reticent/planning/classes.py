"""Methods for a declared hypothesis class, ranked by their theorems."""

from __future__ import annotations

import math
from typing import Any

from reticent.errors import InvalidParameterError
from reticent.guarantees import PureDP
from reticent.hypotheses import Stumps, Thresholds
from reticent.learners import (
    PublicCoverClassifier,
    RRSPMClassifier,
    rrspm_error_at_most,
)
from reticent.planning import bounds, prices
from reticent.planning.facts import Facts
from reticent.planning.option import Sketch
from reticent.planning.planned_method import PlannedMethod
from reticent.prediction import (
    ProjectedWalkClassifier,
    RelabelingClassifier,
    StableSelectionClassifier,
    plan_for_privacy,
)

# The accuracy of the walk where its theorem gives none.
_AIM = 0.05
# With a larger epsilon an answer is as good as without privacy.
_ENOUGH = 50.0


def hypotheses_for(facts: Facts) -> Any:
    """Return the default class for the number of columns."""
    return Thresholds() if facts.features == 1 else Stumps()


class _ClassMethod(PlannedMethod):
    """Two labels, one row per unit, epsilons added up."""

    job = "ask"

    def fits(self, facts: Facts) -> bool:
        """Return whether the theorem applies."""
        return (
            facts.classifies
            and facts.labels == 2
            and facts.rows_per_unit == 1
            and (facts.limited or self.job != "ask")
        )

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Add up epsilons."""
        return PureDP(facts.epsilon), "G22-basic"


class WalkMethod(_ClassMethod):
    """The exponential projected walk along one column (P4)."""

    key = "walk"
    title = "ask: projected walk along one column"
    estimator = "reticent.prediction.ProjectedWalkClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """State S1 Thm 5.3; for one column."""
        if not (self.fits(facts) and facts.features == 1):
            return None
        step = prices.epsilon_by_sum(facts)
        # The theorem aims for this accuracy, and so must the model that is built.
        error = bounds.walk_error(1, facts.n, step)
        settings = {"epsilon": step, "error": error if error < 0.5 else _AIM}
        return Sketch(
            settings,
            bound=self.proved(facts, settings),
            bound_says="expected, if a threshold fits without error, else e^eps times "
            "its error more; S1 Thm 5.3",
            reason="one sort at fit, one search per query",
        )

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float | None:
        """Return the bound of S1 Thm 5.3 for the accuracy of the walk."""
        epsilon, error = settings["epsilon"], settings["error"]
        if bounds.walk_size(1, error, epsilon) > facts.n:
            return None
        # A larger exponential would overflow, and the bound is one anyway.
        return float(min(1.0, math.exp(min(epsilon, _ENOUGH)) * error))

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the walk."""
        return ProjectedWalkClassifier(**{"classes": [0, 1], **settings, **changes})


class SelectionMethod(_ClassMethod):
    """A new hypothesis for each answer, which is sometimes flipped (P6)."""

    key = "selection"
    title = "ask: a new hypothesis selected for each answer"
    estimator = "reticent.prediction.StableSelectionClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """State S2 Lemma 7 for the best of a few flip probabilities."""
        if not self.fits(facts):
            return None
        step = min(prices.epsilon_by_sum(facts), _ENOUGH)
        tried = []
        for flip in (0.01, 0.02, 0.05, 0.1, 0.2):
            settings = {"epsilon": step, "flip": flip, "features": facts.features}
            try:
                tried.append((self.proved(facts, settings), flip, settings))
            except InvalidParameterError:
                continue
        if not tried:
            return None
        bound, flip, settings = min(tried, key=lambda found: found[:2])
        family = type(hypotheses_for(facts)).__name__
        return Sketch(
            settings,
            bound=bound,
            bound_says=f"expected, above the best of {family}; S2 Lemma 7",
            reason=f"answers flipped with probability {flip:g}",
        )

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float:
        """Return S2 Lemma 7 for the subset and exponent that these settings give."""
        family = hypotheses_for(facts).on(facts.features)
        epsilon, flip = settings["epsilon"], settings["flip"]
        found = plan_for_privacy(facts.n, epsilon, flip, family)
        return bounds.expected(
            lambda failure: bounds.selection_bound(
                family, facts.n, found, failure, population=True
            )
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the selecting classifier; `hypotheses` may be set."""
        return StableSelectionClassifier(**_with_class(settings, changes))


class RelabelingMethod(_ClassMethod):
    """Relabel by a private hypothesis, then vote (P7)."""

    key = "relabeling"
    title = "ask: relabel by a private hypothesis, then vote"
    estimator = "reticent.prediction.RelabelingClassifier"

    def sketch(self, facts: Facts) -> Sketch | None:
        """List it without a bound; its theorem needs more rows than tables have."""
        if not self.fits(facts):
            return None
        step = prices.epsilon_by_sum(facts)
        if facts.n * step < 1000:  # no subset is left, see RelabelingClassifier
            return None
        return Sketch(
            {"epsilon": step, "features": facts.features},
            bound_says="S2 Thm 2; its constants say nothing at such sizes",
        )

    def reason(self, facts: Facts, sketch: Sketch) -> str:
        """Say from how many rows on its bound is below that of selection."""
        family = hypotheses_for(facts).on(facts.features)
        step = min(sketch.settings["epsilon"], _ENOUGH)
        wins = bounds.relabeling_wins_from(family, step, facts.n)
        if wins is None:
            return "its bound is above that of selection for all sizes up to 10^12 rows"
        return f"its bound is below that of selection from about {wins:.0e} rows"

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the relabeling classifier; `hypotheses` may be set."""
        return RelabelingClassifier(**_with_class(settings, changes))


class _ClassRelease(_ClassMethod):
    """One release with the help of public rows."""

    job = "public"

    def total(self, facts: Facts, sketch: Sketch) -> tuple[Any, str]:
        """Return the price of the one release."""
        return PureDP(facts.epsilon), "one release"


class PublicCoverMethod(_ClassRelease):
    """The exponential mechanism on a cover from public points (L4)."""

    key = "public-cover"
    title = "release: exponential mechanism on a public cover"
    estimator = "reticent.learners.PublicCoverClassifier"
    _sizes = tuple(lead * 10**power for power in range(1, 6) for lead in (2, 5, 10))
    _most_candidates = 1_000_000  # more take long to list

    def sketch(self, facts: Facts) -> Sketch | None:
        """State L1 on the cover; needs public rows."""
        if not (self.fits(facts) and facts.public):
            return None
        points = self._points(facts)
        settings = _release(facts, points)
        family = type(hypotheses_for(facts)).__name__
        return Sketch(
            settings,
            bound=self.proved(facts, settings),
            bound_says=f"expected, above the best of {family}, if public and private "
            "rows have one distribution; S0 Ex. 7",
            reason=f"candidates from {points} public rows",
        )

    def _points(self, facts: Facts) -> int:
        """Return how many public rows pay: each adds candidates and a finer net."""
        family = hypotheses_for(facts).on(facts.features)
        sizes = {m for m in self._sizes if m < facts.public} | {facts.public}
        listed = [m for m in sizes if family.growth(m) <= self._most_candidates]
        return min(
            listed or [min(sizes)],
            key=lambda m: (self.proved(facts, _release(facts, m)), m),
        )

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float:
        """Return the bound of L1 on the cover from the public points."""
        family = hypotheses_for(facts).on(facts.features)
        return bounds.expected(
            lambda failure: bounds.cover_bound(
                family, facts.n, settings["n_public"], settings["epsilon"], failure
            )
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the learner; give `public` rows to its fit."""
        return PublicCoverClassifier(**_with_class(settings, changes))


class PublicPointsMethod(_ClassRelease):
    """The labels that a noisy minimiser gives to public points (M4)."""

    key = "rrspm"
    title = "release: labels of public points under noise"
    estimator = "reticent.learners.RRSPMClassifier"
    _sizes = (20, 50, 100, 200, 500, 1000, 2000, 5000)

    def sketch(self, facts: Facts) -> Sketch | None:
        """State M4 for the best number of public points; needs public rows."""
        if not (self.fits(facts) and facts.public):
            return None
        sizes = [m for m in self._sizes if m < facts.public] or [facts.public]
        tried = [(self.proved(facts, _release(facts, m)), m) for m in sizes]
        bound, points = min(tried)
        family = type(hypotheses_for(facts)).__name__
        return Sketch(
            _release(facts, points),
            bound=bound,
            bound_says=f"expected, above the best of {family}, if public and private "
            "rows have one distribution; S4 Thm 4",
            reason=f"{points} of the public rows",
        )

    def proved(self, facts: Facts, settings: dict[str, Any]) -> float:
        """Return the bound of M4 for the number of public points."""
        return bounds.expected(
            lambda failure: (
                rrspm_error_at_most(
                    hypotheses_for(facts),
                    n=facts.n,
                    m=settings["n_public"],
                    epsilon=settings["epsilon"],
                    failure=failure,
                    n_features=facts.features,
                ).total
            )
        )

    def build(self, settings: dict[str, Any], schema: Any, changes: Any) -> Any:
        """Return the learner; give `public` rows to its fit."""
        return RRSPMClassifier(**_with_class(settings, changes))


def _release(facts: Facts, points: int) -> dict[str, Any]:
    """Return the settings of a release through `points` public points."""
    return {
        "epsilon": facts.epsilon,
        "features": facts.features,
        "n_public": points,
    }


def _with_class(settings: dict[str, Any], changes: Any) -> dict[str, Any]:
    """Return constructor arguments, with the class for the number of columns."""
    kept = {name: value for name, value in settings.items() if name != "features"}
    family = Thresholds() if settings["features"] == 1 else Stumps()
    return {"hypotheses": family, "classes": [0, 1], **kept, **changes}
