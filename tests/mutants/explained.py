"""Mutants that no test can notice, each with the reason.

An entry stands for the mutants whose names start with it. The run fails if none of
them survives, so that the list does not outlive what it explains.
"""

from __future__ import annotations

SEARCH = "where a search starts or how far it steps; it ends at the same number"
GRID = "how fine a grid is, or where it ends; on every grid values are rounded up"
SWITCH = "which of two exact computations is used"
TABLE = "how far a table or a sum reaches beyond what has any weight"
LIMIT = "from where on something is refused for its length"
WORK = "how many rows are computed at once"
SYMMETRIC = "the expression is the same for both signs"

EXPLAINED: dict[str, str] = {
    "generalization.compression.rules:log_choose | n - k | sign": SWITCH,
    "generalization.compression.rules:kept_to_robust | 1 in premise": "a default that "
    "no premise needs: the rule before records the number",
    "generalization.holdout.rules:_range | 10 in": LIMIT,
    "generalization.session.rules:session_error | 700 in guess": "beyond, the number "
    "is zero in floats as well",
    "generalization.session.rules:session_error | 1.0 in min(1.0": "the sum is below 1 "
    "where it is reached",
    "guarantees.loss:pure_delta | 1 - 1e-15": "an atom next to epsilon weighs nothing",
    "guarantees.loss:pure_delta | count - least": SWITCH,
    "guarantees.loss:_largest_losses | 1 in count + 1 | doubled": TABLE,
    "guarantees.loss:pld_epsilon | -math.expm1(sum": "a second guard: the transform "
    "has no epsilon for such a delta either",
    "guarantees.loss:pld_epsilon | -slack": "a second guard, as above",
    "guarantees.loss:pld_epsilon | 1.0 in": "the grid of steps that lose nothing",
    "guarantees.loss:pld_epsilon | 700 in 700": LIMIT,
    "guarantees.loss:pld_epsilon | found + 1e-09 + 1e-15": "the margin before it is "
    "the larger one",
    "guarantees.loss:pld_epsilon | 1 in 1 - 1e-06 (no. 2)": "part of the guard below",
    "guarantees.loss:pld_epsilon | 2 in epsilon / 2": "a guard against transforms that "
    "overflow, which only refuses",
    "guarantees.bounded_range | _BEYOND": GRID,
    "guarantees.bounded_range | _EARLY": SEARCH,
    "guarantees.bounded_range | _WORK": GRID,
    "guarantees.bounded_range:_cells | ": GRID,
    "guarantees.bounded_range:_ladder | ": GRID,
    "guarantees.bounded_range:value_iteration | 2 in (np.arange": SEARCH,
    "guarantees.bounded_range:value_iteration | np.arange(last": SEARCH,
    "guarantees.bounded_range:value_iteration | 1 in last + 1 | doubled": GRID,
    "guarantees.bounded_range:range_epsilon | 10.0 in": GRID,
    "guarantees.bounded_range:range_levels | ": "each list that the cap alone fixes "
    "holds at every moment",
    "guarantees.gaussian:_mu_of_pure | 2000 in": "more digits than the largest epsilon "
    "needs",
    "guarantees.gaussian_curve:gaussian_epsilon | 1.0 in doubled_until": SEARCH,
    "guarantees.totals:running_total | 1.0 in Filter(1.0": "only the parts of delta "
    "are used, not this epsilon",
    "guarantees.robust:approx_robust_error | 690 in epsilon > 690": "the bound is "
    "beyond 1 long before, and beyond floats soon after",
    "guarantees.robust:approx_robust_error | 0.1 in (0.1": SEARCH,
    "guarantees.robust:approx_robust_error | 0.5 in 0.5 if": SEARCH,
    "guarantees.robust:approx_robust_error | 1.0 in (0.1": SEARCH,
    "learners.search.profiles | _CLOSE": SEARCH,
    "learners.public.separator_rules:laplace_separator | up((2 * k": "2^-59, below the "
    "last digits that the rounding covers",
    "learners.public.separator_rules:gaussian_separator | 700 in": LIMIT,
    "learners.public.rules:mean_at_most | 1.0 in last_that": SEARCH,
    "learners.public.rules:_divergence | 1 - p (no. 2)": "the size of a margin",
    "learners.public.rules:_divergence | 1 in 1 - p (no. 2)": "the size of a margin",
    "learners.public.rules:_divergence | abs(miss) + abs": "the size of a margin",
    "learners.public.rules:perturbed_move | 4.0 in min(4.0, up(mean": "beyond, the "
    "next step says the same",
    "mechanisms.average:_bounds | -divisor.numerator": "digits of an enclosure",
    "mechanisms.average:_bounds | bits + extra": "digits of an enclosure",
    "mechanisms.average:_bounds | 8 in bits + extra": "digits of an enclosure",
    "mechanisms.gaussian_vote:GaussianArgmaxResponse._log_probabilities | ": TABLE,
    "mechanisms.gaussian_vote:GaussianArgmaxResponse._row_law | heights - row": "a "
    "place before the start of a table counts from its end, where it is the same",
    "mechanisms.permute_and_flip:PermuteAndFlipResponse._log_probabilities | 1 in "
    "max(": WORK,
    "mechanisms.permute_and_flip:PermuteAndFlipResponse._log_probabilities | 1 in "
    "self.n_labels": "more nodes than an exact integral needs",
    "mechanisms.repetitions:Repetitions._place | 64 in": "digits of an enclosure",
    "mechanisms.repetitions:Repetitions.with_mean | 1 - 1e-12": "the size of a margin",
    "mechanisms.sparse:sparse_scale | 2 in 2 * scale": LIMIT,
    "mechanisms.two_sided:TwoSidedResponse._bounds | 1 in high + 1": "digits of an "
    "enclosure",
    "mechanisms.gaussian_vote:_log_cdf | 2 in len(log_pmf) // 2 | neg": SYMMETRIC,
    "mechanisms.gaussian_vote:GaussianArgmaxResponse._row_law | row.max() +": TABLE,
    "mechanisms.gaussian_vote:GaussianArgmaxResponse._row_law | 2 in len(": "counts "
    "all shift alike, and the largest stays the largest",
    "mechanisms.gaussian_vote:GaussianArgmaxResponse._row_law | 0.5 in others": SWITCH,
    "mechanisms.gaussian_vote:gaussian_vote_delta | 2 in math.floor": TABLE,
    "mechanisms.gaussian_vote:gaussian_vote_delta | 80 in": TABLE,
    "mechanisms.gaussian_vote:gaussian_vote_delta | 0.5 in (0.0, 0.5) | neg": SYMMETRIC,
    "mechanisms.gaussian_vote:gaussian_vote_delta | 2 in d % 2 | neg": SYMMETRIC,
    "mechanisms.gaussian_vote:gaussian_vote_scale | 1.0 in doubled_until": SEARCH,
    "mechanisms.sampling.grid_noise:log_theta | k - shift": SYMMETRIC,
    "mechanisms.sampling.grid_noise:log_theta | 50 in -50": TABLE,
    "mechanisms.sampling.grid_noise:log_theta | 51 in range": TABLE,
    "mechanisms.sampling.grid_noise:log_theta | 2 in 2 * math.pi | neg": SYMMETRIC,
    "mechanisms.sampling.grid_noise:log_theta | 1 in (1, 2, 3) | neg": SYMMETRIC,
    "mechanisms.sampling.grid_noise:log_theta | 2 in (1, 2, 3)": TABLE,
    "mechanisms.sampling.grid_noise:log_theta | 3 in (1, 2, 3)": TABLE,
    "learners.public.separator_rules | _REDRAWN": "2^-59, below the last "
    "digits that the rounding covers",
    "planning.bounds | _FAILURE": "our choice: every probability gives a valid bound",
    "prediction.selection.relabeling_rules:relabeled | 200 in c > 200": "beyond, "
    "the loss is over 600 and soon beyond floats, which is refused as well",
    "prediction.selection.stable_selection_rules:flipped_epsilon | 1.0 in": "the "
    "worst point is always below one half, so that the other end decides nothing",
    "prediction.selection.stable_selection_rules:plan_for_privacy | 1 in last_": SEARCH,
    "prediction.selection.stable_selection_rules:_best_size | 7 in": "how many sizes "
    "are compared in a round; every plan is certified",
}


def reason(name: str) -> str | None:
    """Return why a mutant cannot be noticed, if that is explained."""
    for start, why in EXPLAINED.items():
        if name.startswith(start):
            return why
    return None
