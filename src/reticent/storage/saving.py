"""From a fitted model to a signed directory."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from reticent.errors import InvalidParameterError, NotDeployableError
from reticent.estimators import ReleaseExpectation
from reticent.guarantees import SEEDED_NOISE, Certificate, Scope, recheck
from reticent.schemas import Encoder, Schema
from reticent.signing import Signer
from reticent.storage.arrays import ArrayEntry, array_bytes
from reticent.storage.folders import write_folder
from reticent.storage.kinds import Packed, kind_of
from reticent.storage.manifests import (
    MANIFEST,
    SIGNATURE,
    Dataset,
    Manifest,
    manifest_id,
    signature_bytes,
    software,
)
from reticent.storage.parameters import labels_of
from reticent.storage.sealing import seal

#: Unless told, every model is on one dataset: budgets then add up.
DEFAULT_DATASET = Dataset("data")


def save_model(
    path: str | os.PathLike[str],
    fitted: Any,
    schema: Schema,
    *,
    signing_key: str | bytes | Signer,
    encoder: Encoder | None = None,
    dataset: Dataset | str = DEFAULT_DATASET,
    labels: str = "auto",
    concentrated: bool = False,
    encryption_key: str | bytes | None = None,
    replace: bool = False,
) -> str:
    """Store a fitted model as a directory of JSON and plain arrays.

    Parameters
    ----------
    path : path
        The directory to make, mode 700, with files of mode 600.
    fitted : fitted predictor
        See `storable_kinds`; fitted on ``encoder.transform(table)``, where ``table``
        is what the schema made of the records.
    schema : Schema
        The public columns and label.
    signing_key : str, bytes or Signer
        Signs the manifest, see `new_key`; whoever loads the model needs it, or the
        public key that belongs to it.
    encoder : Encoder, default=None
        How the training rows were encoded; None is ``Encoder(schema)``.
    dataset : Dataset or str, default=Dataset("data")
        Whose budget answers spend. Models on the same people must name the same one.
    labels : {"auto", "values", "codes"}, default="auto"
        Whether the model was fitted on the schema's labels or on their codes.
    concentrated : bool, default=False
        Whether to store the zCDP certificate of a released model that has one: accounts
        with a delta add these up.
    encryption_key : str or bytes, default=None
        An ``aes-256-gcm`` key encrypts the arrays at rest.
    replace : bool, default=False
        Whether a model in this directory is replaced. Other directories never are.

    Returns
    -------
    str
        The model's id.

    Guarantee
    ---------
    The directory appears complete or not at all, and holds no code. The models in it
    are as secret as the records; only answers drawn from them are private.
    """
    from reticent.signing import signer_of

    encoder = Encoder(schema) if encoder is None else encoder
    if encoder.schema != schema:
        raise InvalidParameterError("encoder is of another schema; pass its own.")
    certificate = _certificate_of(
        fitted, "zcdp_certificate_" if concentrated else "certificate_"
    )
    kind = kind_of(fitted)
    packed = kind.pack(fitted, encoder)
    if "classes" in packed.parameters:
        listed, meant = labels_of(schema, packed.parameters["classes"], labels)
        named = {**packed.parameters, "classes": listed, "labels": meant}
        packed = Packed(named, packed.arrays)
    if certificate.scope is Scope.MODEL:
        # A predictor's certificate follows from its parameters; a release's does not.
        released = {**packed.parameters, "certificate": certificate.id}
        packed = Packed(released, packed.arrays)
    expected = getattr(fitted, "expectation_", None)
    entries, files = {}, {}
    for name, array in packed.arrays.items():
        content, dtype, shape = array_bytes(name, array)
        file = file_name(name, encrypted=encryption_key is not None)
        if encryption_key is not None:
            content = seal(content, encryption_key, file)
        files[file] = content
        entries[name] = ArrayEntry(dtype, shape, hashlib.sha256(content).hexdigest())
    manifest = Manifest(
        kind=kind.name,
        dataset=Dataset(dataset) if isinstance(dataset, str) else dataset,
        encoder=encoder,
        parameters=packed.parameters,
        certificate=certificate,
        arrays=entries,
        encrypted=encryption_key is not None,
        software=software(),
        expectation=expected if isinstance(expected, ReleaseExpectation) else None,
    ).to_bytes()
    files[MANIFEST] = manifest
    files[SIGNATURE] = signature_bytes(manifest, signer_of(signing_key))
    write_folder(path, files, replace=replace, marked=SIGNATURE)
    return manifest_id(manifest)


def file_name(array: str, *, encrypted: bool) -> str:
    """Return the name of the file that holds an array."""
    return f"{array}.npy.sealed" if encrypted else f"{array}.npy"


def _certificate_of(fitted: Any, attribute: str) -> Certificate[Any]:
    certificate = getattr(fitted, attribute, None)
    if not isinstance(certificate, Certificate):
        raise InvalidParameterError(
            f"{type(fitted).__name__}(...) has no {attribute}; fit it first, or store "
            "another certificate of it."
        )
    refuse_seeded(certificate)
    recheck(certificate)
    return certificate


def refuse_seeded(certificate: Certificate[Any]) -> None:
    """Refuse a model whose noise follows from a seed."""
    if SEEDED_NOISE.code in {a.code for a in certificate.assumptions}:
        raise NotDeployableError(
            f"this certificate assumes SEEDED_NOISE ({SEEDED_NOISE.statement}). Refit "
            "with random_state=None before storing or serving."
        )
