"""The manifest: what a model directory holds, in JSON that people can read."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn

from reticent import __version__
from reticent._text import checked_name, strict_json
from reticent.errors import ModelFileError, ReticentError
from reticent.estimators import ReleaseExpectation
from reticent.guarantees import Certificate
from reticent.schemas import Encoder, Schema
from reticent.signing import Signer
from reticent.storage.arrays import ArrayEntry

FORMAT, VERSION = "reticent-model", 2
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
#: A larger manifest or signature is not read.
LARGEST_MANIFEST = 16 * 2**20
LARGEST_SIGNATURE = 4096

_KEYS = {
    "format",
    "version",
    "kind",
    "dataset",
    "schema",
    "encoder",
    "parameters",
    "certificate",
    "arrays",
    "encrypted",
    "software",
}
# Of releases whose worth was foreseen from public facts.
_ALSO = {"expectation"}
_ARRAY_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
# Signatures of manifests must not pass for signatures of anything else.
_DOMAIN = b"reticent-model-manifest\n"


@dataclass(frozen=True, slots=True)
class Dataset:
    """The records behind a model: whose budget its answers spend."""

    #: 1 to 64 letters, digits or ``._-``. Every model on the same people's records must
    #: name the same dataset, or their budgets would not add up.
    name: str
    #: Changes when the records do. Versions share one budget, because they share
    #: people; remembered answers do not cross versions.
    version: str = "1"

    def __post_init__(self) -> None:
        for key in ("name", "version"):
            checked_name(f"dataset {key}", getattr(self, key))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Everything about a model but its arrays.

    `id` is the hash of the bytes that it was read from; empty before it is written.
    """

    id: str = ""
    kind: str
    dataset: Dataset
    encoder: Encoder
    parameters: Mapping[str, Any]
    certificate: Certificate[Any]
    arrays: Mapping[str, ArrayEntry]
    encrypted: bool
    software: Mapping[str, str]
    expectation: ReleaseExpectation | None = None

    @property
    def schema(self) -> Schema:
        """The columns that rows must have."""
        return self.encoder.schema

    def to_bytes(self) -> bytes:
        """Return the JSON of the manifest."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "dataset": {"name": self.dataset.name, "version": self.dataset.version},
            "schema": self.schema.as_dict(),
            "encoder": self.encoder.settings(),
            "parameters": dict(self.parameters),
            "certificate": self.certificate.as_dict(),
            "arrays": {name: entry.as_dict() for name, entry in self.arrays.items()},
            "encrypted": self.encrypted,
            "software": dict(self.software),
        }
        if self.expectation is not None:
            data["expectation"] = self.expectation.as_dict()
        text = json.dumps(data, indent=1, ensure_ascii=True, allow_nan=False)
        return text.encode("ascii") + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Manifest:
        """Read a manifest, checking every part of it."""
        try:
            data = strict_json(content.decode("ascii"))
            return _manifest_of(data, manifest_id(content))
        except UnicodeDecodeError:
            raise _unreadable("it is not ASCII JSON.") from None
        except ModelFileError:
            raise
        except ReticentError as error:
            raise _unreadable(str(error)) from None


def _unreadable(why: str) -> ModelFileError:
    return ModelFileError(f"{MANIFEST} cannot be read: {why}")


def manifest_id(content: bytes) -> str:
    """Return the id of the model that a manifest describes."""
    return hashlib.sha256(content).hexdigest()[:32]


def _manifest_of(data: Any, digest: str) -> Manifest:
    if not isinstance(data, dict):
        raise _unreadable("it is not a JSON object.")
    if data.get("format") != FORMAT or data.get("version") not in (1, VERSION):
        raise _unreadable(
            f"its format is not {FORMAT} version 1 to {VERSION}, which this reticent "
            "reads. Use the reticent that wrote it, or save the model again."
        )
    if set(data) - _ALSO != _KEYS:
        raise _unreadable(f"its keys must be {', '.join(sorted(_KEYS))}.")
    texts = (data["kind"], *_texts(data["dataset"]), *_texts(data["software"]))
    if not (
        all(isinstance(text, str) for text in texts)
        and set(data["dataset"]) == {"name", "version"}
        and isinstance(data["encrypted"], bool)
        and isinstance(data["parameters"], dict)
        and isinstance(data["arrays"], dict)
        and all(_ARRAY_NAME.fullmatch(name) for name in data["arrays"])
    ):
        raise _unreadable("a part of it has the wrong type or name.")
    parameters = data["parameters"]
    if data["version"] == 1:
        parameters = _of_version_1(parameters, digest)
    schema = Schema.from_dict(data["schema"])
    return Manifest(
        id=digest,
        kind=data["kind"],
        dataset=Dataset(**data["dataset"]),
        encoder=Encoder.from_settings(schema, data["encoder"]),
        parameters=parameters,
        certificate=Certificate.from_dict(data["certificate"]),
        arrays={
            name: ArrayEntry.from_dict(name, entry)
            for name, entry in data["arrays"].items()
        },
        encrypted=data["encrypted"],
        software=data["software"],
        expectation=(
            ReleaseExpectation.from_dict(data["expectation"])
            if "expectation" in data
            else None
        ),
    )


def _of_version_1(parameters: Mapping[str, Any], digest: str) -> dict[str, Any]:
    """Return the parameters of version 1 as version 2 has them.

    Version 1 had another name for `labels_from_data`. It did not say whether a model
    was fitted on labels or on codes; the predictor then answers with the labels. It
    kept no identity of a predictor; the hash of the manifest serves as one.
    """
    given = dict(parameters)
    if not given.keys().isdisjoint({"identity", "labels", "labels_from_data"}):
        raise _unreadable("it mixes parameters of versions 1 and 2.")
    if "public_labels" in given:
        given["labels_from_data"] = given.pop("public_labels")
    if "classes" in given:
        given["labels"] = "values"
    if "n_shards" in given:
        given["identity"] = digest
    return given


def _texts(data: Any) -> list[Any]:
    return list(data.values()) if isinstance(data, dict) else [None]


def software() -> dict[str, str]:
    """Return the versions that a model was made with."""
    return {
        "reticent": __version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
    }


def signature_bytes(manifest: bytes, signer: Signer) -> bytes:
    """Return the signature file of a manifest."""
    signed = {
        "algorithm": signer.algorithm,
        "signature": signer.sign(_DOMAIN + manifest).hex(),
    }
    return json.dumps(signed).encode("ascii") + b"\n"


def check_signature(manifest: bytes, signature: bytes, signer: Signer) -> None:
    """Refuse a manifest that was not signed with this key."""
    try:
        signed = json.loads(signature)
        genuine = (
            isinstance(signed, dict)
            and signed["algorithm"] == signer.algorithm
            and signer.verify(_DOMAIN + manifest, bytes.fromhex(signed["signature"]))
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        genuine = False
    if not genuine:
        raise ModelFileError(
            f"{SIGNATURE} is not a signature of {MANIFEST} by this key: the model was "
            "changed, or signed with another key. Save it again with the right key."
        )
