"""Models as directories: a signed manifest, arrays without pickle, nothing to run.

A stored private predictor is as secret as the records behind it. It is written for its
owner only, checked in every part when it is loaded, and shows nothing but answers.
"""

from reticent.storage import averaging as _averaging  # noqa: F401 (registers its kinds)
from reticent.storage import released as _released  # noqa: F401 (registers its kinds)
from reticent.storage import voting as _voting  # noqa: F401 (registers its kinds)
from reticent.storage.keys import (
    Ed25519Verifier,
    new_key,
    public_key,
    read_key_file,
    signer_of,
    write_key_file,
)
from reticent.storage.kinds import (
    Answerer,
    ModelKind,
    Packed,
    register_kind,
    storable_kinds,
)
from reticent.storage.loading import load_model
from reticent.storage.manifests import Dataset
from reticent.storage.models import StoredModel
from reticent.storage.saving import save_model

__all__ = [
    "Answerer",
    "Dataset",
    "Ed25519Verifier",
    "ModelKind",
    "Packed",
    "StoredModel",
    "load_model",
    "new_key",
    "public_key",
    "read_key_file",
    "register_kind",
    "save_model",
    "signer_of",
    "storable_kinds",
    "write_key_file",
]
