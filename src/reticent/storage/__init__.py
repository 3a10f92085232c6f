"""Models as directories: a signed manifest, arrays without pickle, nothing to run.

A stored private predictor is as secret as the records behind it. It is written for its
owner only, checked in every part when it is loaded, and shows nothing but answers.
"""

from reticent.storage import averaging as _averaging  # noqa: F401 (registers its kinds)
from reticent.storage import released as _released  # noqa: F401 (registers its kinds)
from reticent.storage import voting as _voting  # noqa: F401 (registers its kinds)
from reticent.storage.folders import Folder
from reticent.storage.kinds import (
    Answerer,
    ModelKind,
    Packed,
    register_kind,
    storable_kinds,
)
from reticent.storage.loading import load_model
from reticent.storage.manifests import (
    LARGEST_MANIFEST,
    LARGEST_SIGNATURE,
    MANIFEST,
    SIGNATURE,
    Dataset,
    Manifest,
    check_signature,
)
from reticent.storage.models import StoredModel
from reticent.storage.saving import save_model
from reticent.storage.voting import VotingAnswers

__all__ = [
    "LARGEST_MANIFEST",
    "LARGEST_SIGNATURE",
    "MANIFEST",
    "SIGNATURE",
    "Answerer",
    "Dataset",
    "Folder",
    "Manifest",
    "ModelKind",
    "Packed",
    "StoredModel",
    "VotingAnswers",
    "check_signature",
    "load_model",
    "register_kind",
    "save_model",
    "storable_kinds",
]
