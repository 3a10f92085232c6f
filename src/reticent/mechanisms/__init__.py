"""How randomness is added: exact samplers and the mechanisms on top of them.

A mechanism hands out its *response* (the exact law of its answer, to draw from and to
audit) and its *certificate* (what one answer costs). All randomness comes from one
source, and every label is drawn by one exact sampler.
"""

from reticent.mechanisms.additive import (
    GridNoise,
    RealResponse,
    checked_grid,
    gaussian_noise_analytic,
    round_to_grid,
)
from reticent.mechanisms.average import (
    average_vote,
    average_vote_certificate,
    average_vote_epsilon,
    mean_sensitivity,
    probability_sensitivity,
)
from reticent.mechanisms.calibration import (
    calibrate_gaussian,
    calibrate_gaussian_zcdp,
    calibrate_laplace,
)
from reticent.mechanisms.consensus import (
    UNSTABLE,
    Consensus,
    consensus_certificate,
    consensus_delta,
    consensus_margin,
    false_stability,
    stability,
)
from reticent.mechanisms.flipping import (
    FlippedResponse,
    flip_labels,
    flipped,
    replace_labels,
    replaced,
)
from reticent.mechanisms.gaussian_vote import (
    gaussian_vote,
    gaussian_vote_approx_certificate,
    gaussian_vote_certificate,
    gaussian_vote_delta,
    gaussian_vote_scale,
)
from reticent.mechanisms.individual import UnitFilter
from reticent.mechanisms.repetitions import Repetitions
from reticent.mechanisms.response import Response, SoftmaxResponse
from reticent.mechanisms.sampling.categorical import draw_categorical
from reticent.mechanisms.sampling.exact import (
    draw_below,
    draw_bernoulli,
    draw_bernoulli_exp,
)
from reticent.mechanisms.sampling.fixed_point import exp_bounds, normal_tail_bounds
from reticent.mechanisms.sampling.gaussian_grid import (
    ROUNDING_VARIANCE,
    grid_scale_to_continuous,
)
from reticent.mechanisms.sampling.grid_noise import (
    GridLaw,
    checked_scale,
    discrete_gaussian_law,
    discrete_laplace_law,
    draw_discrete_gaussian,
    draw_discrete_laplace,
)
from reticent.mechanisms.sampling.inputs import (
    checked_epsilon,
    exact_products,
    exact_rate,
)
from reticent.mechanisms.sampling.intervals import IntervalArithmetic
from reticent.mechanisms.sampling.listening import (
    Listener,
    PendingDraw,
    Reached,
    audible,
    inside_audible_draw,
    listen,
    reach,
    stops_audit,
)
from reticent.mechanisms.sampling.randomness import (
    RandomSource,
    SeededSource,
    SystemSource,
    noise_source,
)
from reticent.mechanisms.sampling.rounded_gaussian import (
    draw_rounded_gaussian,
    rounded_gaussian_law,
)
from reticent.mechanisms.selection import (
    exponential_mechanism,
    exponential_mechanism_certificate,
    permute_and_flip,
    permute_and_flip_certificate,
)
from reticent.mechanisms.sparse import (
    SparseLine,
    SparseVector,
    sparse_scale,
    sparse_vector_certificate,
)
from reticent.mechanisms.two_sided import TwoSidedResponse
from reticent.mechanisms.votes import (
    geometric_vote,
    geometric_vote_certificate,
    permute_and_flip_vote,
    permute_and_flip_vote_certificate,
    soft_vote,
    soft_vote_certificate,
)
from reticent.mechanisms.walk import (
    sigmoid_certificate,
    sigmoid_response,
    two_step_certificate,
    two_step_response,
)

__all__ = [
    "ROUNDING_VARIANCE",
    "UNSTABLE",
    "Consensus",
    "FlippedResponse",
    "GridLaw",
    "GridNoise",
    "IntervalArithmetic",
    "Listener",
    "PendingDraw",
    "RandomSource",
    "Reached",
    "RealResponse",
    "Repetitions",
    "Response",
    "SeededSource",
    "SoftmaxResponse",
    "SparseLine",
    "SparseVector",
    "SystemSource",
    "TwoSidedResponse",
    "UnitFilter",
    "audible",
    "average_vote",
    "average_vote_certificate",
    "average_vote_epsilon",
    "calibrate_gaussian",
    "calibrate_gaussian_zcdp",
    "calibrate_laplace",
    "checked_epsilon",
    "checked_grid",
    "checked_scale",
    "consensus_certificate",
    "consensus_delta",
    "consensus_margin",
    "discrete_gaussian_law",
    "discrete_laplace_law",
    "draw_below",
    "draw_bernoulli",
    "draw_bernoulli_exp",
    "draw_categorical",
    "draw_discrete_gaussian",
    "draw_discrete_laplace",
    "draw_rounded_gaussian",
    "exact_products",
    "exact_rate",
    "exp_bounds",
    "exponential_mechanism",
    "exponential_mechanism_certificate",
    "false_stability",
    "flip_labels",
    "flipped",
    "gaussian_noise_analytic",
    "gaussian_vote",
    "gaussian_vote_approx_certificate",
    "gaussian_vote_certificate",
    "gaussian_vote_delta",
    "gaussian_vote_scale",
    "geometric_vote",
    "geometric_vote_certificate",
    "grid_scale_to_continuous",
    "inside_audible_draw",
    "listen",
    "mean_sensitivity",
    "noise_source",
    "normal_tail_bounds",
    "permute_and_flip",
    "permute_and_flip_certificate",
    "permute_and_flip_vote",
    "permute_and_flip_vote_certificate",
    "probability_sensitivity",
    "reach",
    "replace_labels",
    "replaced",
    "round_to_grid",
    "rounded_gaussian_law",
    "sigmoid_certificate",
    "sigmoid_response",
    "soft_vote",
    "soft_vote_certificate",
    "sparse_scale",
    "sparse_vector_certificate",
    "stability",
    "stops_audit",
    "two_step_certificate",
    "two_step_response",
]
