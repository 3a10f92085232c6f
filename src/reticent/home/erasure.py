"""Takes one unit out of the models of a home: what ``reticent erase`` calls."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError, ReticentError, ReticentWarning
from reticent.estimators import unit_key
from reticent.home.fit_options import FitOptions
from reticent.home.home import Home
from reticent.home.lasting_sessions import lasting_session
from reticent.home.model_choice import asked_predictor
from reticent.home.on_disk.members import (
    keyed_hash,
    members_key,
    read_members,
    replace_members,
)
from reticent.home.on_disk.versions import (
    ModelVersion,
    model_versions,
    remove_beside,
    remove_model,
    remove_unfinished,
)
from reticent.schemas import Table, read_table
from reticent.storage import (
    StoredModel,
    save_model,
    unit_rows,
    with_shard,
    without_rows,
)

_LOG = "erasures.jsonl"


@dataclass(frozen=True)
class Erasure:
    """What was done to one model. It says nothing about who was erased.

    Attributes
    ----------
    model : str
        Its name.
    action : str
        ``"shard refitted"``, ``"shard retired"``, ``"rows dropped"``, ``"not in it"``,
        ``"released"``, ``"not found"`` or ``"fit again"``.
    before, after : str
        The model's id before and after; the same if it did not change.
    explanation : str
        What this means, in a sentence.
    """

    model: str
    action: str
    before: str
    after: str
    explanation: str

    @property
    def done(self) -> bool:
        """Whether nothing is left to do for this model."""
        return self.action not in ("fit again", "not found")


@dataclass(frozen=True)
class _Rows:
    """The file as the schema of one model reads it, and which rows are the unit's."""

    table: Table
    own: NDArray[np.bool_]


#: What became of reading the file for each model whose schema names a unit.
_Read = dict[str, _Rows | ReticentError]


def erase_unit(
    home: Home, unit: Any, data: str | os.PathLike[str], dataset: str
) -> list[Erasure]:
    """Take one unit out of every model on a dataset, as far as each method allows.

    Earlier versions that the unit is in, or may be in, are deleted. Nothing is deleted
    for a unit that is neither in the file nor known to any model. Nothing is charged
    and nothing is refunded: what was spent on earlier answers stays spent. Other
    shards, and what other units have spent, stay exactly as they are.

    Parameters
    ----------
    home : Home
        The home. No service and no other command may use it meanwhile: what a fit that
        was interrupted has left in it is deleted, too.
    unit : str
        The id of the unit.
    data : path
        The file that the models were trained on, with the unit still in it.
    dataset : str
        The dataset.

    Returns
    -------
    list of Erasure
        What was done to each model; it is also appended to ``erasures.jsonl``.
    """
    settings = home.settings()
    stored = {name: settings.load_model(name) for name in settings.models}
    mine = {n: model for n, model in stored.items() if model.dataset.name == dataset}
    if not mine:
        raise InvalidParameterError(
            f"there is no model on the dataset {dataset!r} in this home."
        )
    read = _read(mine, unit, data)
    known = any(isinstance(r, _Rows) and r.own.any() for r in read.values()) or any(
        _is_member(home, version, unit)
        for name in mine
        for version in model_versions(home, name)
    )
    remove_unfinished(home)
    done = []
    for name, model in mine.items():
        done.append(_erase(home, name, model, unit, read))
        if known and done[-1].done:
            _forget_versions(home, name, unit)
        _remember(home, done[-1])
    if not known:
        done = [_unknown(each) if each.action == "not in it" else each for each in done]
    return done


def _read(
    models: dict[str, StoredModel], unit: Any, data: str | os.PathLike[str]
) -> _Read:
    """Read the file for every model, before anything is changed.

    Models on one dataset may come from several files; a file that fits none is refused.
    """
    wanted, read = unit_key(unit), _Read()
    for name, stored in models.items():
        if stored.schema.unit is None:
            continue
        try:
            table = read_table(data, stored.schema)
            own = [unit_key(each) == wanted for each in _units(table)]
            read[name] = _Rows(table, np.array(own, dtype=bool))
        except ReticentError as error:
            read[name] = error
    errors = [each for each in read.values() if isinstance(each, ReticentError)]
    if errors and len(errors) == len(read):
        raise errors[0]
    return read


def _is_member(home: Home, version: ModelVersion, unit: Any) -> bool | None:
    """Return whether a version has seen the unit; None if that was not recorded."""
    try:
        members = read_members(home, version.path.name)
    except ReticentError:
        return None
    if members is None:
        return None
    return members.shard_of(keyed_hash(members_key(home), unit)) is not None


def _forget_versions(home: Home, name: str, unit: Any) -> None:
    """Delete earlier versions that the unit may be in: they could come back."""
    for version in model_versions(home, name):
        if not version.current and _is_member(home, version, unit) is not False:
            remove_model(home, name, version.number)


def _erase(
    home: Home, name: str, stored: StoredModel, unit: Any, read: _Read
) -> Erasure:
    if not stored.charged and stored.lasting is None:
        return Erasure(
            name,
            "released",
            stored.id,
            stored.id,
            "The model was released. Its promise bounds what it says about anybody, "
            "and copies cannot be recalled. 'reticent fit --release --replace' on a "
            "file without the unit makes another one, at its own cost.",
        )
    if stored.schema.unit is None:
        return _again(name, stored, "the schema names no column for the unit")
    try:
        if stored.lasting is not None:
            return _drop(home, name, stored, read[name])
        return _refit(home, name, stored, unit, read[name])
    except ReticentError as error:
        return _again(name, stored, str(error).rstrip("."))


def _units(table: Table) -> list[Any]:
    return [] if table.units is None else list(table.units)


def _again(name: str, stored: StoredModel, why: str) -> Erasure:
    return Erasure(
        name,
        "fit again",
        stored.id,
        stored.id,
        f"Not done: {why}. Fit the model again without the unit, with 'reticent fit "
        "--replace'. Then delete the versions before it, which have seen the unit: "
        f"'reticent models versions {name}' lists them, and 'reticent models remove "
        f"{name} --version' deletes one.",
    )


def _not_found(name: str, stored: StoredModel, why: str) -> Erasure:
    return Erasure(
        name,
        "not found",
        stored.id,
        stored.id,
        f"Not done: {why}. If the unit is still in this model, run the command again "
        "with the file that the model was trained on, as it was then.",
    )


def _drop(
    home: Home, name: str, stored: StoredModel, read: _Rows | ReticentError
) -> Erasure:
    """Drop the rows of a unit from a local predictor.

    It keeps no ids, so rows are found by what they hold: by the file alone.
    """
    if isinstance(read, ReticentError):
        return _not_found(name, stored, str(read).rstrip("."))
    if not read.own.any():
        return _not_found(name, stored, "the file has no row of this unit")
    mine = read.table.take(np.flatnonzero(read.own).tolist())
    codes = stored.predictor.law_.encode(stored.encoder.transform(mine))  # type: ignore[attr-defined]
    spent = _spent(home, name, stored)
    rows = unit_rows(stored, np.asarray(codes), np.asarray(mine.label), spent)
    if not rows.any():
        return _not_found(
            name, stored, "no unit in the model has exactly the rows of the file"
        )
    after = _save(home, name, stored, without_rows(stored, rows))
    # A snapshot holds what the unit had spent; the log is read again without it.
    remove_beside(home, home.model_path(name).name)
    return Erasure(
        name,
        "rows dropped",
        stored.id,
        after,
        "Its rows are gone, and it no longer takes part in any answer. What was "
        "released at the fit, and earlier answers, keep their promise.",
    )


def _spent(home: Home, name: str, stored: StoredModel) -> NDArray[np.uint32]:
    """Return what each unit of a local predictor has spent, by the ledger's log."""
    settings = home.settings()
    session = lasting_session(stored, name, settings.models.get(name), settings)
    with settings.open_ledger() as ledger:
        session.open(ledger)
        return session.spent()


def _refit(
    home: Home,
    name: str,
    stored: StoredModel,
    unit: Any,
    read: _Rows | ReticentError,
) -> Erasure:
    """Refit the shard that a unit was in, without the unit."""
    folder = home.model_path(name).name
    members = read_members(home, folder)
    if members is None:
        return _again(name, stored, "the shard of each unit was not recorded")
    key = members_key(home)
    who = keyed_hash(key, unit)
    shard = members.shard_of(who)
    if shard is None:
        return _absent(name, stored)
    if isinstance(read, ReticentError):
        return _not_found(name, stored, str(read).rstrip("."))
    table = read.table
    shards = [members.shard_of(keyed_hash(key, each)) for each in _units(table)]
    rest = np.array([found == shard for found in shards]) & ~read.own
    fitted = _one_shard(stored, table.take(np.flatnonzero(rest).tolist()))
    changed: Any = with_shard(stored, shard, fitted)
    refitted = shard in changed.law_.ensemble.fusion.shards
    after = _save(home, name, stored, changed)
    replace_members(home, folder, members.without(who))
    action = "shard refitted" if refitted else "shard retired"
    return Erasure(
        name,
        action,
        stored.id,
        after,
        "The one model that had seen it was fitted again without it; all others are "
        "unchanged. Earlier answers keep their promise, and what they cost stays spent."
        if refitted
        else "The one model that had seen it is gone and now casts a fixed vote; all "
        "others are unchanged. What earlier answers cost stays spent.",
    )


def _one_shard(stored: StoredModel, rows: Table) -> Any:
    """Fit the same kind of predictor on the rows of one shard; None if that fails."""
    if not len(rows):
        return None
    fusion = stored.predictor.law_.ensemble.fusion  # type: ignore[attr-defined]
    if fusion is None:
        return None
    linear = type(fusion.models).__name__ == "FusedLinear"
    options = FitOptions(
        name="one",
        dataset=stored.dataset.name,
        epsilon=1.0,
        learner="linear" if linear else "boosting",
        shards=1,
        accept_noise=True,
    )
    encoder, model = asked_predictor(stored.schema, options, 0.0)
    if encoder.settings() != stored.encoder.settings():
        return None
    with warnings.catch_warnings():
        # What one shard alone would be worth says nothing about all of them.
        warnings.simplefilter("ignore", ReticentWarning)
        try:
            model.fit(encoder.transform(rows), rows.label, units=rows.units)
        except ReticentError:
            return None
    return None if model.shard_errors_ else model


def _absent(name: str, stored: StoredModel) -> Erasure:
    return Erasure(
        name, "not in it", stored.id, stored.id, "The unit is not in this model."
    )


def _unknown(found: Erasure) -> Erasure:
    return replace(
        found,
        explanation="No unit with this id is in this model, nor in the file. Capitals "
        "and spaces count.",
    )


def _save(home: Home, name: str, stored: StoredModel, fitted: Any) -> str:
    return save_model(
        home.model_path(name),
        fitted,
        stored.schema,
        signing_key=home.signing_key(),
        encoder=stored.encoder,
        dataset=stored.dataset,
        replace=True,
    )


def _remember(home: Home, done: Erasure) -> None:
    """Keep a record that does not say who was erased."""
    home.record(
        "unit erased",
        model=done.model,
        action=done.action,
        before=done.before,
        after=done.after,
    )
    path = home.path / _LOG
    path.touch(mode=0o600)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"time": moment, **asdict(done)}) + "\n")
