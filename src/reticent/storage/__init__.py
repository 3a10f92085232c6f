"""Models as directories: a signed manifest, arrays without pickle, nothing to run.

A stored private predictor is as secret as the records behind it. It is written for its
owner only and checked in every part when it is loaded; then it is the predictor that
was fitted, with the same law, votes and certificate.
"""

from reticent.storage import lasting as _lasting  # noqa: F401 (registers its kinds)
from reticent.storage import released as _released  # noqa: F401 (registers its kinds)
from reticent.storage import sharded as _sharded  # noqa: F401 (registers its kinds)
from reticent.storage import tabular as _tabular  # noqa: F401 (registers its kinds)
from reticent.storage.exchanging import unit_rows, with_shard, without_rows
from reticent.storage.folders import Folder
from reticent.storage.kinds import (
    FittedPredictor,
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
from reticent.storage.mlflow_flavor import write_mlflow
from reticent.storage.models import StoredModel
from reticent.storage.onnx_export import to_onnx, write_onnx
from reticent.storage.saving import save_model

__all__ = [
    "LARGEST_MANIFEST",
    "LARGEST_SIGNATURE",
    "MANIFEST",
    "SIGNATURE",
    "Dataset",
    "FittedPredictor",
    "Folder",
    "Manifest",
    "ModelKind",
    "Packed",
    "StoredModel",
    "check_signature",
    "load_model",
    "register_kind",
    "save_model",
    "storable_kinds",
    "to_onnx",
    "unit_rows",
    "with_shard",
    "without_rows",
    "write_mlflow",
    "write_onnx",
]
