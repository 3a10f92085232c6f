"""Choose a setting on a small share of the budget, then fit once with the rest (G26).

Trials train on one part of the units and are scored on the other, each with noise. All
of it is Gaussian DP, which adds up without loss, so nothing needs to stay secret. The
fit that is kept uses all units. What was given stays unless a setting is clearly
better: trials are too noisy for more.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from reticent._arrays import Floats
from reticent._numbers import down
from reticent.errors import InvalidParameterError
from reticent.estimators import with_progress
from reticent.evaluation import UNIT_STEPS
from reticent.guarantees import (
    Budget,
    Certificate,
    GaussianDP,
    gaussian_composition,
    gaussian_epsilon,
    gaussian_noise_gdp,
    gaussian_ratio,
    gaussian_to_approx,
)
from reticent.learners.meta.base import UnitTable
from reticent.learners.search.plan import RunPrice
from reticent.learners.search.rules import choose_then_fit, one_run, trial_scores
from reticent.learners.search.runs import RunTask
from reticent.mechanisms import RandomSource, draw_rounded_gaussian

# A setting must lead by this many standard errors. With a dozen settings that are as
# good as what was given, one of them seems to be in about one search of fifteen.
_CLEARLY = 2.5
# Two models that are about as good differ on about this share of the rows.
_DIFFERENT = 0.1


@dataclass(frozen=True)
class ChoicePlan:
    """How a budget is divided between trials and the fit that is kept."""

    trial: RunPrice  #: what one trial may cost
    fit: RunPrice  #: what the fit at the end may cost
    choosing: float  #: the mu of all trials together, and of all scores together
    n_trials: int  #: number of trials, that of the given setting included

    @classmethod
    def of(cls, budget: Budget, share: float, n_trials: int) -> Self:
        """Divide a budget: `share` of its squared mu is for choosing."""
        total = gaussian_ratio(budget.epsilon, budget.delta) * (1 - 1e-9)
        choosing = down(total * math.sqrt(share)) * (1 - 1e-12)
        rest = down(math.sqrt(down(total**2 - choosing**2))) * (1 - 1e-12)
        each = down(choosing / math.sqrt(n_trials)) * (1 - 1e-12)
        return cls(
            _price(each, budget.delta), _price(rest, budget.delta), choosing, n_trials
        )


def _price(mu: float, delta: float) -> RunPrice:
    # Learners round on their own; a hair less keeps them within the promise.
    return RunPrice(GaussianDP(mu), gaussian_epsilon(mu * (1 - 1e-6), delta), delta)


def changes(estimator: Any, setting: dict[str, Any]) -> bool:
    """Return whether a setting is another one than the estimator has."""
    own = estimator.get_params()
    return any(name not in own or own[name] != setting[name] for name in setting)


def meant_by(
    estimator: Any, setting: dict[str, Any], price: RunPrice, n_units: int
) -> dict[str, Any]:
    """Return a setting with what the estimator settles by itself at a price.

    Parameters
    ----------
    estimator : estimator
        What is cloned.
    setting : dict
        The setting.
    price : RunPrice
        The price of the fit at the end.
    n_units : int
        Number of units.
    """
    model = clone(estimator).set_params(**setting)
    if not hasattr(model, "settled"):
        return setting
    settled = model.settled(n_units=n_units, epsilon=price.epsilon, delta=price.delta)
    return {**setting, **settled}


@dataclass(frozen=True, eq=False)
class Choice:
    """Which setting is kept, and what led to it: all of it may be shown.

    Attributes
    ----------
    scores : ndarray of float
        Noisy scores of all settings.
    place : int
        Which one is kept; the first is what was given.
    trials, scored : Certificate
        What all trials, and all scores, promise to the units that they use.
    """

    scores: Floats
    place: int
    trials: Certificate[Any]
    scored: Certificate[Any]


def choose(
    task: RunTask,
    plan: ChoicePlan,
    table: UnitTable,
    train: NDArray[np.int64],
    held_out: NDArray[np.int64],
    source: RandomSource,
    *,
    verbose: bool = False,
) -> Choice:
    """Try every setting of a task, and choose one; show progress if `verbose`."""
    sums, certificates = [], []
    stream = sys.stderr if verbose else None
    for setting in with_progress(
        task.settings, total=len(task.settings), label="trials", stream=stream
    ):
        model, certificate = task.trained(setting, table, train, source)
        certificates.append(certificate)
        sums.append(task.goodness(model, table, held_out))
    first = certificates[0]
    if any(one.assumptions != first.assumptions for one in certificates):
        raise InvalidParameterError(
            "the settings lead to certificates with different assumptions; search "
            "among settings of one kind."
        )
    one = one_run(first, level=plan.trial.promise.mu)
    trials = gaussian_composition(one, counts=(plan.n_trials,))
    moved = trial_scores(n=len(held_out), steps=UNIT_STEPS, trials=plan.n_trials)
    scale = float(math.ceil(moved.guarantee.l2 / plan.choosing * (1 + 1e-9)))
    noisy = draw_rounded_gaussian(np.array(sums), scale, source)
    most = UNIT_STEPS * len(held_out)
    scores = np.asarray(noisy / most, dtype=np.float64)
    place = clearly_best(scores, noise=scale / most, n_units=len(held_out))
    scored = gaussian_noise_gdp(moved, scale=scale)
    return Choice(scores, place, trials, scored)


def clearly_best(scores: Floats, *, noise: float, n_units: int) -> int:
    """Return the place of the best score; 0 unless it is clearly above the first.

    Parameters
    ----------
    scores : ndarray
        Noisy scores; the first is that of the setting that was given.
    noise : float
        Standard deviation of their noise.
    n_units : int
        Number of units that they are means over.
    """
    best = int(np.argmax(scores))
    error = math.sqrt(2 * noise**2 + _DIFFERENT / n_units)
    return best if scores[best] - scores[0] > _CLEARLY * error else 0


def certified(
    choice: Choice,
    fitted: Certificate[Any],
    plan: ChoicePlan,
    *,
    delta: float,
    labels_from_data: bool,
    seeded: bool,
) -> Certificate[Any]:
    """Certify the choice and the model that was fitted with it."""
    whole = choose_then_fit(
        choice.trials,
        choice.scored,
        one_run(fitted, level=plan.fit.promise.mu),
        labels_from_data=labels_from_data,
        seeded=seeded,
    )
    return gaussian_to_approx(whole, delta=delta)
