"""Replaces one person's part of a stored model; all the rest stays exactly the same.

A model over shards gets another model for one shard. A local predictor loses the rows
of one unit.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent._arrays import Bools
from reticent.errors import ModelFileError
from reticent.estimators import TargetRange
from reticent.schemas import NumericTarget
from reticent.storage.kinds import FittedPredictor, Packed, kind_named, kind_of
from reticent.storage.models import StoredModel
from reticent.storage.parameters import labels_of

Arrays = dict[str, NDArray[Any]]
_OF_MODELS = ("shards", "labels", "roots", "baseline")
_OF_NODES = ("feature", "threshold", "missing_left", "values", "branch")


def with_shard(
    stored: StoredModel, shard: int, fitted: FittedPredictor | None
) -> FittedPredictor:
    """Return a stored model with another model for one shard, and one unit fewer.

    Parameters
    ----------
    stored : StoredModel
        A predictor over shards.
    shard : int
        The shard.
    fitted : fitted predictor or None
        The same kind of predictor, fitted on one shard: what the shard's remaining rows
        teach. None, or a model of another form, leaves the shard without a model; it
        then casts a fixed vote.
    """
    packed = _packed(stored)
    arrays = dict(packed.arrays)
    if "shards" not in arrays:
        raise ModelFileError(
            "models that are not fused are stored as a whole; fit again without the "
            "person."
        )
    if fitted is not None:
        one = kind_of(fitted).pack(fitted, stored.encoder)
        if _same_form(packed, one):
            arrays = _joined(arrays, dict(one.arrays), shard)
    arrays = _without(arrays, shard, keep_last=len(arrays["shards"]))
    numbers = {
        **packed.parameters,
        "n_units": stored.n_units - 1,
        # Another law: answers that were remembered belong to the one before.
        "identity": secrets.token_hex(16),
    }
    return _rebuilt(stored, Packed(numbers, arrays))


def without_rows(stored: StoredModel, rows: Bools) -> FittedPredictor:
    """Return a local predictor without some rows of one unit.

    The unit's place stays, so the log of what others have spent continues. A unit
    without rows says nothing.

    Parameters
    ----------
    stored : StoredModel
        A local predictor.
    rows : ndarray of bool
        Which rows go.
    """
    packed = _packed(stored)
    kept = {
        name: array[~rows]
        if name in ("codes", "unit", "said", "expected") and len(array) == len(rows)
        else array
        for name, array in packed.arrays.items()
    }
    return _rebuilt(stored, Packed(packed.parameters, kept))


def unit_rows(
    stored: StoredModel,
    codes: NDArray[Any],
    label: NDArray[Any],
    spent: NDArray[np.uint32],
) -> Bools:
    """Return the rows of one unit of a local predictor, given what its rows say.

    Several units may have the same rows, and nothing says which of them is meant. They
    need not have spent the same: some rounds ask a part of the units, or about changes
    drawn at random. The one that has spent least is returned. Whoever is left is then
    left with an account in which at least their own spending is.

    No row is returned if no unit has exactly these rows.

    Parameters
    ----------
    stored : StoredModel
        A local predictor.
    codes, label : ndarray
        The encoded rows of the unit, and their labels or targets.
    spent : ndarray of uint32
        What each unit has spent so far.
    """
    arrays = _packed(stored).arrays
    known = _signature(arrays["codes"], arrays["said"])
    unit = arrays["unit"]
    for said in _said(stored, label):
        alike = _alike(sorted(_signature(codes, said)), known, unit)
        if alike:
            return np.asarray(unit == min(alike, key=lambda each: int(spent[each])))
    return np.zeros(len(unit), dtype=bool)


def _said(stored: StoredModel, label: NDArray[Any]) -> list[NDArray[Any]]:
    """Return labels or targets as a local predictor may keep them, to the bit.

    Models of earlier versions scaled targets by another formula, whose last bits may
    differ. All rows of a model were scaled by the same one.
    """
    target = stored.schema.label
    kind = stored.predictor.law_.votes.said_by.dtype  # type: ignore[attr-defined]
    if not isinstance(target, NumericTarget):
        return [label.astype(kind)]
    now = TargetRange(target.low, target.high).centred(label)
    share = np.clip((label - target.low) / (target.high - target.low), 0.0, 1.0)
    return [now.astype(kind), (share * 2 - 1).astype(kind)]


def _alike(wanted: list[bytes], known: list[bytes], unit: NDArray[Any]) -> list[int]:
    """Return the units that have exactly the rows that are wanted."""
    alike = []
    for place in [place for place, each in enumerate(known) if each == wanted[0]]:
        own = np.flatnonzero(unit == unit[place])
        if sorted(known[row] for row in own) == wanted:
            alike.append(int(unit[place]))
    return alike


def _signature(codes: NDArray[Any], said: NDArray[Any]) -> list[bytes]:
    return [
        code.tobytes() + word.tobytes()
        for code, word in zip(np.ascontiguousarray(codes), said, strict=True)
    ]


def _packed(stored: StoredModel) -> Packed:
    """Take a stored model apart, with labels as its manifest has them."""
    packed = kind_named(stored.kind).pack(stored.predictor, stored.encoder)
    if "classes" not in packed.parameters:
        return packed
    listed, meant = labels_of(stored.schema, packed.parameters["classes"], "auto")
    named = {**packed.parameters, "classes": listed, "labels": meant}
    return Packed(named, packed.arrays)


def _rebuilt(stored: StoredModel, packed: Packed) -> FittedPredictor:
    kind = kind_named(stored.kind)
    return kind.unpack(packed, stored.encoder, stored.certificate)


def _same_form(packed: Packed, one: Packed) -> bool:
    """Whether the arrays of both fit into one ensemble."""
    return (
        one.parameters["family"] == packed.parameters["family"]
        and one.parameters["scalars"] == packed.parameters["scalars"]
        and all(
            one.arrays[name].shape[1:] == packed.arrays[name].shape[1:]
            for name in packed.arrays
        )
    )


def _joined(arrays: Arrays, one: Arrays, shard: int) -> Arrays:
    """Append the one model of `one`; the shard then has two."""
    shift = len(arrays["children"]) if "children" in arrays else 0
    moved = {**one, "shards": np.full_like(one["shards"], shard)}
    for name in {"children", "roots"} & set(one):
        moved[name] = one[name] + np.asarray(shift, dtype=one[name].dtype)
    return {name: np.concatenate([arrays[name], moved[name]]) for name in arrays}


def _without(arrays: Arrays, shard: int, *, keep_last: int) -> Arrays:
    """Drop the first model of a shard, and the nodes that only it has."""
    keep = arrays["shards"] != shard
    # The model that was appended, if any, comes last and stays.
    appended = np.flatnonzero(~keep)[1:] if (~keep).sum() > 1 else np.zeros(0, int)
    keep[appended] = True
    if not keep.any():
        raise ModelFileError(
            f"no model would be left of {keep_last}; fit again without the person."
        )
    if "roots" not in arrays:
        return {name: array[keep] for name, array in arrays.items()}
    some = {name: arrays[name][keep] for name in _OF_MODELS}
    reached = _reachable(some["roots"], arrays["children"])
    places = np.cumsum(reached) - 1
    nodes: Mapping[str, Any] = {name: arrays[name][reached] for name in _OF_NODES}
    children = places[arrays["children"][reached]].astype(arrays["children"].dtype)
    roots = places[some["roots"]].astype(arrays["roots"].dtype)
    return {**arrays, **some, **nodes, "children": children, "roots": roots}


def _reachable(roots: NDArray[Any], children: NDArray[Any]) -> Bools:
    """Return which nodes the trees consist of."""
    reached = np.zeros(len(children), dtype=bool)
    front = np.unique(roots)
    while len(front):
        reached[front] = True
        below = np.unique(children[front])
        front = below[~reached[below]]
    return reached
