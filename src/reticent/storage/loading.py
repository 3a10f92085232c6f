"""From a signed directory to a model that answers; anything doubtful is refused."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

from numpy.typing import NDArray

from reticent.errors import CertificateError, ModelFileError, ReticentError
from reticent.guarantees import recheck
from reticent.signing import Signer, signer_of
from reticent.storage.arrays import ArrayEntry, array_of
from reticent.storage.folders import Folder
from reticent.storage.kinds import FittedPredictor, Packed, kind_named
from reticent.storage.manifests import (
    LARGEST_MANIFEST,
    LARGEST_SIGNATURE,
    MANIFEST,
    SIGNATURE,
    Manifest,
    check_signature,
)
from reticent.storage.models import StoredModel
from reticent.storage.saving import file_name, refuse_seeded
from reticent.storage.sealing import OVERHEAD, unseal

_HEADER = 4096
#: All arrays of a model together, unless told otherwise.
LARGEST_MODEL = 4 * 2**30


def load_model(
    path: str | os.PathLike[str],
    *,
    signing_key: str | bytes | Signer,
    encryption_key: str | bytes | None = None,
    largest: int = LARGEST_MODEL,
) -> StoredModel:
    """Load a model that `save_model` stored, now or by format version 1.

    Parameters
    ----------
    path : path
        The directory.
    signing_key : str, bytes or Signer
        The key it was signed with, or the ``ed25519-public`` key that belongs to it.
    encryption_key : str or bytes, default=None
        The key it was encrypted with, if it was.
    largest : int, default=4 GiB
        The largest number of bytes of arrays that are read.

    Returns
    -------
    StoredModel
        The fitted predictor, which answers as it did, with its schema.

    Raises
    ------
    ModelFileError
        If the directory is open to others, unsigned, changed, of another format, or
        inconsistent in itself.
    NotDeployableError
        If its noise follows from a seed.
    CertificateError
        If its certificate does not re-derive.

    Guarantee
    ---------
    Nothing in the directory is executed or unpickled. No link is followed and no file
    outside is opened. Arrays are read only after the signature and their hashes are
    found right, and allocated only at the length that their files have. The
    certificate is derived again from the parameters by which answers are drawn, and
    must be the stored one.
    """
    signer = signer_of(signing_key)
    with Folder(path) as folder:
        text = folder.read(MANIFEST, most=LARGEST_MANIFEST)
        check_signature(text, _signature(folder), signer)
        manifest = Manifest.from_bytes(text)
        kind = kind_named(manifest.kind)
        refuse_seeded(manifest.certificate)
        recheck(manifest.certificate)
        arrays = _arrays(folder, manifest, encryption_key, largest)
    try:
        predictor = kind.unpack(
            Packed(manifest.parameters, arrays), manifest.encoder, manifest.certificate
        )
    except ModelFileError:
        raise
    except (ReticentError, KeyError, TypeError) as error:
        reason = str(error) if isinstance(error, ReticentError) else "of its types."
        raise ModelFileError(
            f"the model {os.fspath(path)!r} cannot be put together: {reason}"
        ) from None
    _check_certificate(manifest, predictor)
    return StoredModel(manifest, predictor)


def _signature(folder: Folder) -> bytes:
    try:
        return folder.read(SIGNATURE, most=LARGEST_SIGNATURE)
    except ModelFileError as error:
        raise ModelFileError(f"the model is not signed: {error}") from None


def _arrays(
    folder: Folder, manifest: Manifest, key: str | bytes | None, largest: int
) -> dict[str, NDArray[Any]]:
    if manifest.encrypted != (key is not None):
        raise ModelFileError(
            "the model is encrypted; give the encryption key."
            if manifest.encrypted
            else "the model is not encrypted, but an encryption key is configured. "
            "Save it with that key, or load it without."
        )
    total = sum(entry.n_bytes for entry in manifest.arrays.values())
    if not total <= largest:
        raise ModelFileError(
            f"the arrays of the model take {total} bytes; at most largest={largest} "
            "are read."
        )
    return {
        name: _array(folder, name, entry, key)
        for name, entry in manifest.arrays.items()
    }


def _array(
    folder: Folder, name: str, entry: ArrayEntry, key: str | bytes | None
) -> NDArray[Any]:
    file = file_name(name, encrypted=key is not None)
    content = folder.read(file, most=entry.n_bytes + _HEADER + OVERHEAD)
    found = hashlib.sha256(content).hexdigest()
    if not hmac.compare_digest(found, entry.sha256):
        raise ModelFileError(
            f"{file!r} does not match its hash in the manifest: it was changed or "
            "damaged. Save the model again."
        )
    if key is not None:
        content = unseal(content, key, file)
    return array_of(name, content, entry)


def _check_certificate(manifest: Manifest, predictor: FittedPredictor) -> None:
    """Refuse a promise that is not the one kept."""
    kept = predictor.certificate_
    if manifest.certificate.id != kept.id:
        raise CertificateError(
            "the certificate in the manifest is not the one that follows from the "
            f"model's parameters: it says {manifest.certificate.headline()!r}, they "
            f"give {kept.headline()!r}. Save the model again."
        )
