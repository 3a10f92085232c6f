"""Audits a stored model: every check that its directory allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from reticent._numbers import below_one, whole
from reticent.audit.membership.result import MembershipInference
from reticent.audit.report.attack import attack_check
from reticent.audit.report.checks import (
    assumptions_check,
    certificate_check,
    exact_check,
    rows_check,
    sampling_check,
    small_check,
)
from reticent.audit.report.last_step import SumStep, last_step
from reticent.audit.report.report import Check, Report, Status
from reticent.errors import (
    CertificateError,
    InvalidParameterError,
    ModelFileError,
    ReticentError,
)
from reticent.estimators import with_progress
from reticent.schemas import Table, read_table
from reticent.signing import Signer, signer_of
from reticent.storage import (
    LARGEST_MANIFEST,
    LARGEST_SIGNATURE,
    MANIFEST,
    SIGNATURE,
    Folder,
    Manifest,
    StoredModel,
    check_signature,
    load_model,
)

_SIGNED = "Is this the model that its owner signed?"
_WHOLE = "Are all its files the ones that were stored?"
# The largest number of questions about real records whose votes are checked.
_MOST_ROWS = 2000


def examine(
    path: str | os.PathLike[str],
    *,
    signing_key: str | bytes | Signer,
    encryption_key: str | bytes | None = None,
    records: Table | str | os.PathLike[str] | None = None,
    estimator: Any = None,
    answers: int = 100,
    delta: float = 1e-6,
    quick: bool = False,
    name: str | None = None,
    verbose: bool = False,
) -> Report:
    """Audit a stored model with every check that the given data allow.

    Parameters
    ----------
    path : path
        The model's directory.
    signing_key, encryption_key : str, bytes or Signer
        The keys it was stored with; see `reticent.storage.load_model`.
    records : Table or path, default=None
        Records of the kind it was trained on, preferably the same ones, or a file of
        them: answers about them are checked, and copies of the model are attacked.
    estimator : estimator, default=None
        What was trained on each shard, for the attack; None takes a learner of the
        stored family with default settings.
    answers : int, default=100
        Number of answers whose promise the report states.
    delta : float, default=1e-6
        Slack of that promise.
    quick : bool, default=False
        Draw fewer answers and play fewer games.
    name : str, default=None
        The model's name in the report; None takes the directory's name.
    verbose : bool, default=False
        Show progress on a terminal.

    Returns
    -------
    Report
        For people and programs.

    Guarantee
    ---------
    Reads the directory and draws answers for invented votes; does not ask the service
    and spends nothing of any budget. A true promise is called refuted with probability
    at most one in a thousand. The report contains no record.
    """
    answers = whole("examine", "answers", answers)
    delta = below_one("examine", "delta", delta)
    checks: list[Check] = []
    manifest = _opened(path, signer_of(signing_key), checks)
    attacks: tuple[MembershipInference | None, ...] = (None, None)
    table = None
    if manifest is not None:
        _check_encryption(manifest, encryption_key)
        table = _table(records, manifest)
        stored = _loaded(path, signing_key, encryption_key, checks)
        jobs: list[Callable[[], Check]] = [
            *_mechanism_jobs(manifest, quick),
            lambda: _rows(manifest, stored, table),
        ]
        stream = sys.stderr if verbose else None
        checks += [
            job()
            for job in with_progress(
                jobs, total=len(jobs), label="checks", stream=stream
            )
        ]
        attacks, check = attack_check(
            manifest, table, estimator, quick=quick, verbose=verbose
        )
        checks.append(check)
    return Report(
        model=_facts(path, manifest, name),
        certificate=None if manifest is None else manifest.certificate,
        checks=tuple(checks),
        answers=answers,
        delta=delta,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        attack=attacks[0],
        unprotected=attacks[1],
        uses_records=table is not None,
    )


def _check_encryption(manifest: Manifest, key: Any) -> None:
    """Refuse to audit without the key: a forgotten key is not a broken promise."""
    if manifest.encrypted != (key is not None):
        raise InvalidParameterError(
            "the model is encrypted; give the audit its encryption key."
            if manifest.encrypted
            else "the model is not encrypted; audit it without an encryption key."
        )


def _table(records: Any, manifest: Manifest) -> Table | None:
    if records is None or isinstance(records, Table):
        return records
    return read_table(records, manifest.schema)


def _opened(
    path: str | os.PathLike[str], signer: Signer, checks: list[Check]
) -> Manifest | None:
    """Read the manifest; anything wrong with it becomes a refuted check."""
    try:
        with Folder(path) as folder:
            text = folder.read(MANIFEST, most=LARGEST_MANIFEST)
            try:
                signature = folder.read(SIGNATURE, most=LARGEST_SIGNATURE)
                check_signature(text, signature, signer)
                signed = Check(
                    "signature",
                    _SIGNED,
                    Status.KEPT,
                    f"Yes: its {signer.algorithm} signature is right.",
                )
            except ModelFileError as error:
                signed = Check("signature", _SIGNED, Status.REFUTED, f"No: {error}")
        checks.append(signed)
        return Manifest.from_bytes(text)
    except ReticentError as error:
        # Without the promise nothing else can be checked.
        checks.append(Check("files", _WHOLE, Status.REFUTED, f"No: {error}"))
        return None


def _loaded(
    path: str | os.PathLike[str],
    signing_key: Any,
    encryption_key: Any,
    checks: list[Check],
) -> StoredModel | None:
    question = "Is the promise about the parameters that answers are drawn by?"
    if any(check.status is Status.REFUTED for check in checks):
        skipped = "Not run: what was not signed by its owner is not loaded."
        checks.append(Check("files", _WHOLE, Status.NOT_RUN, skipped))
        return None
    try:
        stored = load_model(
            path, signing_key=signing_key, encryption_key=encryption_key
        )
    except CertificateError as error:
        checks.append(Check("parameters", question, Status.REFUTED, f"No: {error}"))
        return None
    except ReticentError as error:
        checks.append(Check("files", _WHOLE, Status.REFUTED, f"No: {error}"))
        return None
    fine = "Yes: every file has the hash that the signed list names."
    checks.append(Check("files", _WHOLE, Status.KEPT, fine))
    follows = (
        "Yes: derived again from the stored parameters, it is the same promise."
        if stored.charged
        else "It is about the model as a whole; answers need no parameters."
    )
    checks.append(Check("parameters", question, Status.KEPT, follows))
    return stored


def _mechanism_jobs(manifest: Manifest, quick: bool) -> list[Callable[[], Check]]:
    """Return the checks that need only the stated promise and the parameters."""
    certificate = manifest.certificate
    guarantee = certificate.guarantee
    first: list[Callable[[], Check]] = [
        lambda: certificate_check(certificate),
        lambda: assumptions_check(certificate),
    ]
    try:
        step = last_step(manifest.kind, manifest.parameters)
    except (ReticentError, KeyError, TypeError, ValueError):
        question = "Can the last step be rebuilt from the stored parameters?"
        broken = Check("parameters", question, Status.REFUTED, "No, they are damaged.")
        return [*first, lambda: broken]
    trials = 20_000 if quick else 200_000
    if isinstance(step, SumStep):
        trials //= 5  # noise on a grid takes longer to draw than a label
    return [
        *first,
        lambda: exact_check(step, guarantee),
        lambda: small_check(manifest.kind, manifest.parameters, guarantee),
        lambda: sampling_check(step, guarantee, trials),
    ]


def _rows(
    manifest: Manifest, stored: StoredModel | None, records: Table | None
) -> Check:
    step = None
    votes = np.zeros((0, 2), dtype=np.int64)
    if records is not None and stored is not None and len(records):
        step = last_step(manifest.kind, manifest.parameters)
        if stored.charged and stored.classes is not None:
            votes = stored.votes(records.take(slice(0, _MOST_ROWS)))
    if records is None:
        return Check(
            "records",
            "How much could answers about the real records reveal?",
            Status.NOT_RUN,
            "Not run: no records were given to the audit.",
        )
    return rows_check(step if len(votes) else None, votes, manifest.certificate)


def _facts(
    path: str | os.PathLike[str], manifest: Manifest | None, name: str | None
) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": name or Path(path).resolve().name}
    if manifest is None:
        return facts
    return {
        **facts,
        "kind": manifest.kind,
        "dataset": manifest.dataset.name,
        "units": manifest.parameters.get("n_units"),
        "shards": manifest.parameters.get("n_shards"),
        "rule": manifest.parameters.get("rule"),
        "software": dict(manifest.software),
        "encrypted": manifest.encrypted,
    }
