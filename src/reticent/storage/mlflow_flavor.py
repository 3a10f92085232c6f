"""Released models as MLflow models, which any tool of MLflow loads, serves and logs.

The folder holds the stored model, signed with a key that was made for it, and the
public part of that key: a damaged file is noticed. Whether the folder comes from us is
for MLflow's registry to say, or for ``RETICENT_MODEL_KEY``, which replaces its key.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from reticent import __version__
from reticent.errors import InvalidParameterError
from reticent.signing import ED25519_PRIVATE, new_key, public_key
from reticent.storage.loading import load_model
from reticent.storage.models import StoredModel
from reticent.storage.saving import save_model

#: The name of the flavour in ``MLmodel``.
FLAVOR = "reticent"
_MODEL, _KEY = "model", "model.key"
_KEY_VARIABLE = "RETICENT_MODEL_KEY"


def write_mlflow(path: str | os.PathLike[str], model: StoredModel) -> None:
    """Write a released model as a folder that MLflow reads.

    Parameters
    ----------
    path : path
        The folder; it must not be there.
    model : StoredModel
        A released model, as `load_model` returns it.

    Raises
    ------
    InvalidParameterError
        If the model was not released as a whole: its file is as secret as the records.

    Guarantee
    ---------
    The folder holds nothing but the released model, its schema and its certificate: it
    is post-processing of the release.
    """
    try:
        from mlflow import pyfunc
        from mlflow.models import Model
    except ImportError as missing:
        raise InvalidParameterError(
            f"MLflow models need {missing.name}: pip install 'reticent[mlflow]'."
        ) from None
    model.check_released()
    key = new_key(ED25519_PRIVATE)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "data")
        folder.mkdir()
        save_model(
            folder / _MODEL,
            model.predictor,
            model.schema,
            signing_key=key,
            encoder=model.encoder,
            dataset=model.dataset,
        )
        (folder / _KEY).write_text(public_key(key))
        description = Model()
        description.add_flavor(
            FLAVOR,
            reticent_version=__version__,
            kind=model.kind,
            promise=model.certificate.headline(),
            certificate=model.certificate.id,
            data="data",
        )
        pyfunc.save_model(
            os.fspath(path),
            loader_module=__name__,
            data_path=os.fspath(folder),
            mlflow_model=description,
            pip_requirements=[f"reticent[mlflow]=={__version__}"],
        )


class MlflowModel:
    """A released model as MLflow calls it.

    Parameters
    ----------
    stored : StoredModel
        The model.
    """

    def __init__(self, stored: StoredModel) -> None:
        self.stored = stored

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the answers for a table of rows with the columns of the schema."""
        import pandas as pd

        table = pd.DataFrame(data)
        known = table.astype(object).where(table.notna(), None)
        records: list[dict[str, Any]] = known.to_dict("records")  # type: ignore[assignment]
        rows = self.stored.schema.rows(records)
        return pd.Series(self.stored.answer(rows), index=table.index)


def _load_pyfunc(path: str) -> MlflowModel:
    """Return the model of a folder; MLflow calls this."""
    folder = Path(path)
    key = os.environ.get(_KEY_VARIABLE) or (folder / _KEY).read_text().strip()
    # Files that were copied about are open to others; a copy of ours is not.
    with tempfile.TemporaryDirectory() as scratch:
        own = Path(scratch, _MODEL)
        own.mkdir(mode=0o700)
        for file in (folder / _MODEL).iterdir():
            shutil.copyfile(file, own / file.name)
            (own / file.name).chmod(0o600)
        return MlflowModel(load_model(own, signing_key=key))
