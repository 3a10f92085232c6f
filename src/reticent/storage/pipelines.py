"""Models that are not fused, as skops files: scikit-learn's own types and no others.

Each shard's model is a file of its own, so that nothing is shared between shards. All
of them are in one array of bytes, which the manifest's signature covers through its
hash. They are read only after both were found right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ModelFileError

#: What manifests call this way of storing models.
SKOPS = "skops"


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ModelFileError(
            "models that are not fused are stored by skops; install it with pip "
            "install 'reticent[pipelines]'."
        ) from None
    return skops.io


def pack_models(models: Sequence[Any]) -> dict[str, NDArray[Any]]:
    """Return fitted models as bytes and where each one ends; None takes no bytes.

    Raises
    ------
    ModelFileError
        If a model holds types that would not be trusted when it is loaded.
    """
    files = [b"" if model is None else _written(model) for model in models]
    ends = np.cumsum([len(file) for file in files], dtype=np.int64)
    return {"models": np.frombuffer(b"".join(files), dtype=np.int8), "ends": ends}


def _written(model: Any) -> bytes:
    skops = _skops()
    try:
        content: bytes = skops.dumps(model)
        unknown = skops.get_untrusted_types(data=content)
    except Exception as error:  # noqa: BLE001 (whatever a foreign estimator raises)
        raise ModelFileError(
            f"{type(model).__name__}(...) cannot be stored: {type(error).__name__} "
            "while it was written. Estimators of scikit-learn can be stored."
        ) from None
    _refuse(unknown)
    return content


def _refuse(unknown: Sequence[str]) -> None:
    if unknown:
        named = ", ".join(sorted(unknown)[:3])
        raise ModelFileError(
            f"the models hold types that are not trusted ({named}), and a stored "
            "model must not bring code along. Estimators and pipelines of "
            "scikit-learn can be stored, without functions of your own."
        )


def unpack_models(
    arrays: Mapping[str, NDArray[Any]], *, n_shards: int, n_features: int
) -> list[Any]:
    """Return the models of all shards, if they hold together.

    Raises
    ------
    ModelFileError
        If bytes are missing or left over, a type is not trusted, or a model takes
        another number of features.
    """
    if set(arrays) != {"models", "ends"}:
        raise _damaged("arrays")
    content, ends = arrays["models"], arrays["ends"]
    if not (
        (content.dtype.str, content.ndim) == ("|i1", 1)
        and (ends.dtype.str, ends.shape) == ("<i8", (n_shards,))
        and ends[-1] == len(content)
        and (np.diff(ends, prepend=0) >= 0).all()
    ):
        raise _damaged("bytes")
    starts = [0, *ends[:-1].tolist()]
    files = [
        content[start:end].tobytes()
        for start, end in zip(starts, ends.tolist(), strict=True)
    ]
    return [_read(file, n_features) if file else None for file in files]


def _read(file: bytes, n_features: int) -> Any:
    skops = _skops()
    try:
        unknown = skops.get_untrusted_types(data=file)
        model = None if unknown else skops.loads(file, trusted=[])
    except Exception:  # noqa: BLE001 (whatever damaged bytes lead to)
        raise _damaged("models") from None
    _refuse(unknown)
    if getattr(model, "n_features_in_", None) != n_features or not callable(
        getattr(model, "predict", None)
    ):
        raise _damaged("models")
    return model


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(
        f"the {what} of the stored models do not fit together; the model is damaged. "
        "Save it again."
    )
