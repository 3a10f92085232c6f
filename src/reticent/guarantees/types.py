"""What can be promised: guarantees as frozen values that validate themselves.

A guarantee knows when its numbers are valid, which of two is the stronger, and how it
composes with itself. Everything else is a rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from reticent._numbers import (
    below_one,
    ceil_float,
    ceil_root,
    exact,
    nonnegative,
    shown,
    whole,
)
from reticent.errors import InvalidGuaranteeError, NoDerivationError

# Below the largest whole number of a certificate, 10^4000.
_MOST_BITS = 13_000


@dataclass(frozen=True)
class Guarantee:
    """A promise in numbers. Smaller numbers promise more."""

    _kinds: ClassVar[dict[str, type[Guarantee]]] = {}
    _checks: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__name__.startswith("_"):
            Guarantee._kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        for name, check in self._checks.items():
            value = check(type(self).__name__, name, getattr(self, name))
            object.__setattr__(self, name, value)

    def implies(self, other: Guarantee) -> bool:
        """Return whether this promises at least what `other` of the same kind does."""
        return type(self) is type(other) and all(
            getattr(self, field.name) <= getattr(other, field.name)
            for field in fields(self)
        )

    def times(self, count: int) -> Self:
        """Return the guarantee of `count` adaptive uses, each with fresh randomness."""
        return type(self)._summed([(self, whole("composition", "count", count))])

    def then(self, other: Self) -> Self:
        """Return the guarantee of this followed by `other` of the same kind."""
        if type(other) is not type(self):
            raise NoDerivationError(
                f"{type(self).__name__} and {type(other).__name__} do not add up; "
                "convert one of them, or compose their certificates."
            )
        return type(self)._summed([(self, 1), (other, 1)])

    @classmethod
    def _summed(cls, parts: list[tuple[Self, int]]) -> Self:
        """Add every number; right for the kinds that allow it, refused by the rest."""
        raise NoDerivationError(
            f"{cls.__name__} does not compose by itself. Compose the certificates that "
            f"it was derived from, then derive {cls.__name__} again."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers with the kind, for JSON."""
        numbers = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": type(self).__name__, **numbers}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Guarantee:
        """Rebuild a guarantee; every number is validated again."""
        numbers = dict(data)
        kind = numbers.pop("kind", None)
        cls = Guarantee._kinds.get(kind) if isinstance(kind, str) else None
        if cls is None or set(numbers) != {field.name for field in fields(cls)}:
            raise InvalidGuaranteeError(
                f"kind={kind!r} with {sorted(numbers)} is not a guarantee of "
                f"reticent; the known kinds are {', '.join(sorted(Guarantee._kinds))}."
            )
        return cls(**numbers)


class _Additive(Guarantee):
    """A guarantee whose numbers add up under adaptive composition."""

    @classmethod
    def _summed(cls, parts: list[tuple[Self, int]]) -> Self:
        totals = {
            field.name: ceil_float(
                sum((exact(getattr(g, field.name)) * k for g, k in parts), exact(0.0))
            )
            for field in fields(cls)
        }
        return cls(**totals)


@dataclass(frozen=True)
class PureDP(_Additive):
    """Pure differential privacy: no probability moves by more than ``exp(epsilon)``."""

    epsilon: float
    _checks: ClassVar[dict[str, Any]] = {"epsilon": nonnegative}

    def __str__(self) -> str:
        return f"{shown(self.epsilon)}-DP"


@dataclass(frozen=True)
class BoundedRange(Guarantee):
    """Bounded range: the odds of any event move by at most ``exp(epsilon)``.

    Log-ratios of probabilities lie in an interval of length `epsilon` that holds 0.
    The exponential mechanism promises this; it implies `PureDP` of the same epsilon,
    and its zCDP is four times smaller.

    The epsilons of an adaptive sequence do not add up to a bounded range: where the
    second interval lies may depend on the first answer, so two steps can have a range
    of three epsilons. They add up to `PureDP`, and as zCDP.
    """

    epsilon: float
    _checks: ClassVar[dict[str, Any]] = {"epsilon": nonnegative}

    def __str__(self) -> str:
        return f"{shown(self.epsilon)}-bounded-range DP"


@dataclass(frozen=True)
class ApproxDP(_Additive):
    """Approximate differential privacy, ``Pr[E] <= exp(epsilon) Pr'[E] + delta``."""

    epsilon: float
    delta: float
    _checks: ClassVar[dict[str, Any]] = {"epsilon": nonnegative, "delta": below_one}

    def __str__(self) -> str:
        return f"({shown(self.epsilon)}, {shown(self.delta)})-DP"


@dataclass(frozen=True)
class ZCDP(_Additive):
    """Zero-concentrated DP: Rényi divergence of order `a` is at most ``rho a``."""

    rho: float
    _checks: ClassVar[dict[str, Any]] = {"rho": nonnegative}

    def __str__(self) -> str:
        return f"{shown(self.rho)}-zCDP"


@dataclass(frozen=True)
class GaussianDP(Guarantee):
    """Gaussian DP: neighbours are no easier to tell apart than N(0, 1) and N(mu, 1).

    Adaptive steps add up as the square root of the sum of squares.
    """

    mu: float
    _checks: ClassVar[dict[str, Any]] = {"mu": nonnegative}

    @classmethod
    def _summed(cls, parts: list[tuple[Self, int]]) -> Self:
        squares = sum((exact(part.mu) ** 2 * count for part, count in parts), exact(0))
        return cls(ceil_root(squares))

    def __str__(self) -> str:
        return f"{shown(self.mu)}-GDP"


@dataclass(frozen=True)
class UniformStability(Guarantee):
    """The law of any prediction, or an expected loss in [0, 1], moves by <= `gamma`."""

    gamma: float
    _checks: ClassVar[dict[str, Any]] = {"gamma": nonnegative}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma <= 1:
            raise InvalidGuaranteeError(
                f"UniformStability needs gamma <= 1; got gamma={self.gamma!r}."
            )

    def __str__(self) -> str:
        return f"{shown(self.gamma)}-stable prediction"


@dataclass(frozen=True)
class Sensitivity(Guarantee):
    """A value computed without randomness moves by at most this much.

    `l1` and `l2` bound the two norms of the move of a vector; for a single number
    they are the same, and `l2` may be left out.
    """

    l1: float
    l2: float = None  # type: ignore[assignment]  # stands for l1
    _checks: ClassVar[dict[str, Any]] = {"l1": nonnegative, "l2": nonnegative}

    def __post_init__(self) -> None:
        if self.l2 is None:
            object.__setattr__(self, "l2", self.l1)
        super().__post_init__()
        if not self.l2 <= self.l1:
            raise InvalidGuaranteeError(
                f"Sensitivity needs l2 <= l1; got l1={self.l1!r}, l2={self.l2!r}."
            )

    def __str__(self) -> str:
        if self.l1 == self.l2:
            return f"sensitivity {shown(self.l1)}"
        return f"sensitivity {shown(self.l1)} (l1), {shown(self.l2)} (l2)"


@dataclass(frozen=True)
class FiniteRange(Guarantee):
    """At most `size` different outputs are possible."""

    size: int
    _checks: ClassVar[dict[str, Any]] = {"size": whole}

    @classmethod
    def _summed(cls, parts: list[tuple[Self, int]]) -> Self:
        bits = sum(part.size.bit_length() * count for part, count in parts)
        if not bits < _MOST_BITS:
            raise InvalidGuaranteeError(
                f"FiniteRange needs a total size of less than {_MOST_BITS} bits; got "
                f"about {bits}. With more outputs the bound promises nothing."
            )
        return cls(math.prod(part.size**count for part, count in parts))

    def __str__(self) -> str:
        return f"one of {self.size if self.size < 10**12 else 'very many'} outputs"


def _count(owner: str, name: str, value: Any) -> int:
    return whole(owner, name, value, least=0)


@dataclass(frozen=True)
class Compression(Guarantee):
    """The output is decoded from `kept` of the examples, in order, and `side_bits`.

    `size_from_data` counts the lists whose length was chosen by looking at the data:
    a length says something too, and has its price in G13.
    """

    kept: int
    side_bits: int = 0
    size_from_data: int = 0
    _checks: ClassVar[dict[str, Any]] = {
        "kept": _count,
        "side_bits": _count,
        "size_from_data": _count,
    }

    @classmethod
    def _summed(cls, parts: list[tuple[Self, int]]) -> Self:
        return cls(
            kept=sum(part.kept * count for part, count in parts),
            side_bits=sum(part.side_bits * count for part, count in parts),
            size_from_data=sum(part.size_from_data * count for part, count in parts),
        )

    def __str__(self) -> str:
        bits = f" and {self.side_bits} bits" if self.side_bits else ""
        return f"decoded from {self.kept} examples{bits}"


@dataclass(frozen=True)
class RobustGeneralization(Guarantee):
    """Whatever is computed from the output has ``|h(S) - h(D)| <= epsilon``.

    This holds except with probability `delta`, for every distribution `D` and every
    choice of a query `h` with values in [0, 1] that sees the output alone. It does not
    compose by itself (S3): what it was derived from does.
    """

    epsilon: float
    delta: float
    _checks: ClassVar[dict[str, Any]] = {"epsilon": nonnegative, "delta": below_one}

    def __str__(self) -> str:
        return f"({shown(self.epsilon)}, {shown(self.delta)})-robust generalization"


@dataclass(frozen=True)
class PerfectGeneralization(Guarantee):
    """The output could have been simulated without the sample.

    Except with probability `beta` over the sample, its law is within
    ``(epsilon, delta)`` of one that depends on the distribution alone.
    """

    beta: float
    epsilon: float
    delta: float
    _checks: ClassVar[dict[str, Any]] = {
        "beta": below_one,
        "epsilon": nonnegative,
        "delta": below_one,
    }

    def __str__(self) -> str:
        return (
            f"({shown(self.beta)}, {shown(self.epsilon)}, {shown(self.delta)})"
            "-perfect generalization"
        )


@dataclass(frozen=True)
class TwoSampleCloseness(Guarantee):
    """Two independent samples give laws within ``(epsilon, delta)``.

    This holds except with probability `failure` over the two samples.
    """

    failure: float
    epsilon: float
    delta: float
    _checks: ClassVar[dict[str, Any]] = {
        "failure": below_one,
        "epsilon": nonnegative,
        "delta": below_one,
    }

    def __str__(self) -> str:
        return (
            f"two samples within ({shown(self.epsilon)}, {shown(self.delta)}) "
            f"except with probability {shown(self.failure)}"
        )


@dataclass(frozen=True)
class ExpectedGeneralization(Guarantee):
    """``E[test^moment] <= factor E[train^moment] + slack``, for a bounded loss."""

    factor: float
    slack: float
    moment: int = 1
    _checks: ClassVar[dict[str, Any]] = {
        "factor": nonnegative,
        "slack": nonnegative,
        "moment": whole,
    }

    def implies(self, other: Guarantee) -> bool:
        """Compare bounds on the same moment only."""
        same = isinstance(other, ExpectedGeneralization) and self.moment == other.moment
        return same and super().implies(other)

    def __str__(self) -> str:
        power = f"^{self.moment}" if self.moment > 1 else ""
        return (
            f"E[test loss{power}] <= {shown(self.factor)} E[train loss{power}] + "
            f"{shown(self.slack)}"
        )


@dataclass(frozen=True)
class RiskMultiple(Guarantee):
    """If the train loss is always at most `a`, the test loss is below ``factor a``.

    This holds except with probability `failure`.
    """

    factor: float
    failure: float
    _checks: ClassVar[dict[str, Any]] = {"factor": nonnegative, "failure": below_one}

    def __str__(self) -> str:
        return (
            f"test loss < {shown(self.factor)} x train loss "
            f"except with probability {shown(self.failure)}"
        )


@dataclass(frozen=True)
class Consistency(Guarantee):
    """The expected excess risk is at most `rate`."""

    rate: float
    _checks: ClassVar[dict[str, Any]] = {"rate": nonnegative}

    def __str__(self) -> str:
        return f"expected excess risk <= {shown(self.rate)}"
