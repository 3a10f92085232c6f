"""The list of controls."""

from __future__ import annotations

from reticent.errors import InvalidParameterError
from tests.audit.catalogue import draws, surroundings, votes
from tests.audit.catalogue.control import Control

CONTROLS: tuple[Control, ...] = (
    Control(
        "factor-two",
        "labels have odds exp(eps votes); one replaced unit moves two counts",
        "THEOREMS trap 1; facebookresearch/private_prediction",
        "exact",
        votes.factor_two,
    ),
    Control(
        "bounded-range",
        "permute-and-flip is accounted as if it had bounded range",
        "opendp#2911",
        "exact",
        votes.bounded_range,
    ),
    Control(
        "content-shards",
        "a unit's shard follows from a hash of it, so a replaced unit touches two",
        "THEOREMS trap 3",
        "exact",
        votes.content_shards,
    ),
    Control(
        "shared-data",
        "teachers share data, so one unit moves every vote",
        "synthcity#275",
        "exact",
        votes.shared_data,
    ),
    Control(
        "label-set",
        "the labels that may be answered are those that occur in the data",
        "THEOREMS trap 4",
        "exact",
        votes.label_set,
    ),
    Control(
        "failing-record",
        "an error that depends on a record reaches the analyst",
        "THEOREMS trap 4; smartnoise-sdk#572",
        "exact",
        votes.failing_record,
    ),
    Control(
        "reused-hypothesis",
        "one hypothesis answers all queries that were paid for as fresh ones",
        "THEOREMS trap 2",
        "exact",
        draws.reused_hypothesis,
    ),
    Control(
        "half-noise",
        "the noise has half the scale",
        "every audit must be able to fail",
        "exact",
        draws.half_noise,
    ),
    Control(
        "reused-noise",
        "one draw of noise is added to many numbers",
        "THEOREMS trap 2; opendp#2344",
        "statistical",
        draws.reused_noise,
    ),
    Control(
        "known-seed",
        "noise comes from a seed that is not secret, or is used again",
        "opendp#2934",
        "statistical",
        draws.known_seed,
    ),
    Control(
        "float-noise",
        "noise is added in floating point, and the last bits show to what",
        "Mironov 2012",
        "statistical",
        draws.float_noise,
    ),
    Control(
        "silent-queries",
        "a sparse vector adds noise to the threshold only",
        "every audit must be able to fail",
        "statistical",
        draws.silent_queries,
    ),
    Control(
        "stale-order",
        "a subsample keeps the table's order, for a learner that looks at order",
        "THEOREMS trap 5",
        "exact",
        draws.stale_order,
    ),
    Control(
        "printed-scale",
        "Gaussian RRSPM uses the printed scale, which ignores that noise selects",
        "THEOREMS M4",
        "exact",
        draws.printed_scale,
    ),
    Control(
        "bounds-from-data",
        "the bounds are the smallest and largest value that occur",
        "dpmm#18",
        "replay",
        surroundings.bounds_from_data,
    ),
    Control(
        "unclipped",
        "values are clipped, and the sum of the unclipped ones is released",
        "smartnoise-sdk#622",
        "replay",
        surroundings.unclipped,
    ),
    Control(
        "missing-value",
        "a missing value passes the clamp and turns the release into NaN",
        "google/differential-privacy#405",
        "statistical",
        surroundings.missing_value,
    ),
    Control(
        "no-bounds",
        "bounds that are not set mean that there is no noise",
        "smartnoise-sdk#317",
        "statistical",
        surroundings.no_bounds,
    ),
    Control(
        "fitted-scale",
        "the noise is scaled to the largest value that occurs",
        "THEOREMS trap 4",
        "replay",
        surroundings.fitted_scale,
    ),
    Control(
        "scaler-outside",
        "preprocessing is fitted on all rows before they are dealt to shards",
        "THEOREMS trap 4",
        "replay",
        surroundings.scaler_outside,
    ),
)


def control(name: str) -> Control:
    """Return the control of this name."""
    for candidate in CONTROLS:
        if candidate.name == name:
            return candidate
    known = ", ".join(candidate.name for candidate in CONTROLS)
    raise InvalidParameterError(f"name={name!r} is no control; there are {known}.")
