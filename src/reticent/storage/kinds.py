"""Which models can be stored: a closed table, looked up by name, never imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from reticent._arrays import Floats
from reticent.errors import InternalError, InvalidParameterError, ModelFileError
from reticent.guarantees import Certificate
from reticent.schemas import Encoder


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A fitted model as JSON parameters and plain arrays."""

    parameters: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]


class FittedPredictor(Protocol):
    """A fitted predictor, as far as every stored model is one.

    Attributes
    ----------
    n_units_ : int
        Number of privacy units; public.
    """

    n_units_: int

    @property
    def certificate_(self) -> Certificate[Any]:
        """What one answer promises, or what the release of the model promised."""
        ...

    def predict(self, X: Floats) -> NDArray[Any]:
        """Return one answer per row: one of `classes_` if it has them, or a number."""
        ...


class ModelKind(Protocol):
    """How one kind of model is taken apart and put together again.

    Attributes
    ----------
    name : str
        What the manifest calls it.
    """

    name: str

    @property
    def covers(self) -> str:
        """What can be stored, for messages."""
        ...

    def fits(self, fitted: Any) -> bool:
        """Return whether a fitted model is of this kind."""
        ...

    def pack(self, fitted: Any, encoder: Encoder) -> Packed:
        """Take a fitted model apart, or refuse it with ModelFileError."""
        ...

    def unpack(
        self, packed: Packed, encoder: Encoder, certificate: Certificate[Any]
    ) -> FittedPredictor:
        """Return the fitted predictor, after checking every parameter and array.

        The certificate, already derived again, is for models that were released;
        others state their own, from the parameters by which they draw.
        """
        ...


_KINDS: dict[str, ModelKind] = {}


def register_kind(kind: ModelKind) -> ModelKind:
    """Add a kind of model to the table."""
    if kind.name in _KINDS:
        raise InternalError(f"two kinds of models are called {kind.name!r}.")
    _KINDS[kind.name] = kind
    return kind


def storable_kinds() -> dict[str, str]:
    """Return the kinds of models that can be stored, with what each covers."""
    return {name: kind.covers for name, kind in sorted(_KINDS.items())}


def kind_of(fitted: Any) -> ModelKind:
    """Return the kind of a fitted model."""
    for kind in _KINDS.values():
        if kind.fits(fitted):
            return kind
    known = "; ".join(kind.covers for kind in _KINDS.values())
    raise InvalidParameterError(
        f"{type(fitted).__name__}(...) cannot be stored. What can be: {known}."
    )


def kind_named(name: str) -> ModelKind:
    """Return the kind that a manifest names."""
    try:
        return _KINDS[name]
    except KeyError:
        raise ModelFileError(
            f"kind={name!r} of the manifest is not known to this reticent; it knows "
            f"{', '.join(sorted(_KINDS))}."
        ) from None
