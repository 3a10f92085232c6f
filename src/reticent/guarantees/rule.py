"""Rules: functions from certificates to certificates, in one registry.

A rule is a plain function whose positional arguments are certificates (its premises)
and whose keyword arguments are parameters. It returns a `Conclusion`; the decorator
checks the premises, collects assumptions, and records rule, premises and parameters
on the resulting certificate.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import wraps
from itertools import product
from types import MappingProxyType
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar

from reticent.errors import (
    CertificateError,
    InternalError,
    InvalidParameterError,
    RelationMismatchError,
    ReticentError,
    RuleError,
)
from reticent.guarantees.certificate import Certificate, as_detail
from reticent.guarantees.subject import (
    AddRemove,
    Assumption,
    Relation,
    ReplaceOne,
    Sample,
    Scope,
)
from reticent.guarantees.types import Guarantee

G = TypeVar("G", bound=Guarantee)
P = ParamSpec("P")

# How freely later steps may depend on earlier answers, weakest promise first.
Adaptivity: TypeAlias = Literal["none", "fixed", "adaptive", "fully adaptive"]


@dataclass(frozen=True)
class Conclusion(Generic[G]):
    """What a rule concludes; the premises' assumptions are added by the decorator."""

    guarantee: G
    relation: Relation
    scope: Scope
    assumptions: frozenset[Assumption] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule with its id in THEOREMS, its source and its statement.

    `takes` and `gives` are the kinds of guarantee it leads from and to, each to
    itself alone if `same_kind`; `paper` is what the source prints, where our constant
    differs.
    """

    id: str
    name: str
    statement: str
    source: str
    takes: tuple[type[Guarantee], ...]
    gives: tuple[type[Guarantee], ...]
    same_kind: bool = False
    paper: str = ""
    adaptivity: Adaptivity = "none"
    apply: Callable[..., Certificate[Any]]

    def leads(self) -> frozenset[tuple[type[Guarantee], type[Guarantee]]]:
        """Return the pairs of kinds (from, to) that this rule connects."""
        if self.same_kind:
            return frozenset((kind, kind) for kind in self.takes)
        return frozenset(product(self.takes, self.gives))


_REGISTRY: dict[str, Rule] = {}

#: Every rule by its id.
rules: Mapping[str, Rule] = MappingProxyType(_REGISTRY)


def rule(
    id: str,  # noqa: A002 - the registry's word for it
    *,
    name: str,
    statement: str,
    source: str,
    gives: type[Guarantee] | tuple[type[Guarantee], ...],
    takes: type[Guarantee] | tuple[type[Guarantee], ...] = (),
    relations: tuple[type[Relation], ...] = (ReplaceOne, AddRemove, Sample),
    scopes: tuple[Scope, ...] = tuple(Scope),
    same_kind: bool = False,
    paper: str = "",
    adaptivity: Adaptivity = "none",
    later: tuple[str, ...] = (),
) -> Callable[[Callable[P, Conclusion[G]]], Callable[P, Certificate[G]]]:
    """Register a function as a rule.

    Parameters
    ----------
    id, name, statement, source, same_kind, paper, adaptivity
        See `Rule`.
    takes, gives : type or tuple of types
        Kinds of guarantee of the premises and of the conclusion.
    relations, scopes : tuple
        What the premises may be about; anything else is refused with an error that
        names the rule, the condition and the value.
    later : tuple of str
        Parameters that the rule got after certificates had been issued by it. They
        are recorded only where they differ from their default, so that what was
        issued before is still what the rule concludes.
    """
    taken = takes if isinstance(takes, tuple) else (takes,)
    given = gives if isinstance(gives, tuple) else (gives,)

    def register(function: Callable[P, Conclusion[G]]) -> Callable[P, Certificate[G]]:
        signature = inspect.signature(function)

        @wraps(function)
        def derive(*args: P.args, **kwargs: P.kwargs) -> Certificate[G]:
            premises = tuple(_premise(id, premise) for premise in args)
            for premise in premises:
                _check_fit(id, premise, taken, relations, scopes)
            _check_parameters(id, kwargs)
            conclusion = _conclude(id, function, args, kwargs)
            kinds = {type(p.guarantee) for p in premises} if same_kind else set(given)
            if not isinstance(conclusion.guarantee, tuple(kinds)):
                raise InternalError(f"rule {id} concluded {conclusion.guarantee}.")
            return Certificate(
                guarantee=conclusion.guarantee,
                relation=conclusion.relation,
                scope=conclusion.scope,
                rule=id,
                premises=premises,
                assumptions=conclusion.assumptions.union(
                    *(premise.assumptions for premise in premises)
                ),
                details=_details(signature, kwargs, later),
            )

        if id in _REGISTRY:
            raise InternalError(f"two rules are called {id}.")
        _REGISTRY[id] = Rule(
            id=id,
            name=name,
            statement=statement,
            source=source,
            takes=taken,
            gives=given,
            same_kind=same_kind,
            paper=paper,
            adaptivity=adaptivity,
            apply=derive,
        )
        return derive

    return register


def _conclude(
    rule_id: str,
    function: Callable[..., Conclusion[G]],
    premises: tuple[Any, ...],
    parameters: Mapping[str, Any],
) -> Conclusion[G]:
    try:
        return function(*premises, **parameters)
    except ArithmeticError as error:
        raise RuleError(
            f"rule {rule_id} leads to numbers that no certificate can hold ({error}). "
            "Use smaller losses, or fewer steps."
        ) from None
    except InvalidParameterError as error:
        error.add_note(f"raised while applying rule {rule_id}")
        raise


def _check_parameters(rule_id: str, parameters: Mapping[str, Any]) -> None:
    for name, value in parameters.items():
        if isinstance(value, Certificate):
            raise RuleError(
                f"rule {rule_id} takes its premises by position; got {name}=..., a "
                "certificate."
            )


def _premise(rule_id: str, value: Any) -> Certificate[Any]:
    if not isinstance(value, Certificate):
        raise RuleError(
            f"rule {rule_id} starts from certificates; got {type(value).__name__}."
        )
    return value


def _check_fit(
    rule_id: str,
    premise: Certificate[Any],
    takes: tuple[type[Guarantee], ...],
    relations: tuple[type[Relation], ...],
    scopes: tuple[Scope, ...],
) -> None:
    if not isinstance(premise.guarantee, takes):
        needed = " or ".join(kind.__name__ for kind in takes) or "no premise"
        raise RuleError(
            f"rule {rule_id} needs {needed}; got {premise.guarantee!r}. See "
            "reticent.guarantees.rules for the rules that start from it."
        )
    if not isinstance(premise.relation, relations):
        needed = " or ".join(kind.name for kind in relations)
        raise RelationMismatchError(
            f"rule {rule_id} needs the relation {needed}; got {premise.relation!r}."
        )
    if premise.scope not in scopes:
        needed = " or ".join(scope.name for scope in scopes)
        raise RuleError(
            f"rule {rule_id} needs the scope {needed}; got {premise.scope.name}."
        )


def _details(
    signature: inspect.Signature, kwargs: Mapping[str, Any], later: tuple[str, ...]
) -> tuple[tuple[str, Any], ...]:
    values = {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    values.update(kwargs)
    for name in later:
        if values[name] == signature.parameters[name].default:
            del values[name]
    return tuple((name, as_detail(name, values[name])) for name in sorted(values))


def recheck(certificate: Certificate[Any]) -> None:
    """Derive a certificate again from its mechanisms up, and compare.

    Raises
    ------
    CertificateError
        If any step is not what its rule concludes from its premises and details.
    """
    for premise in certificate.premises:
        recheck(premise)
    known = _REGISTRY.get(certificate.rule)
    if known is None:
        raise CertificateError(
            f"rule {certificate.rule!r} is not registered; import the room of reticent "
            "that issues it, or do not trust this certificate."
        )
    try:
        again = known.apply(*certificate.premises, **dict(certificate.details))
    except (ReticentError, TypeError, ValueError, LookupError) as error:
        raise CertificateError(
            f"rule {known.id} does not apply to its premises: {error}"
        ) from None
    same = (
        again.relation == certificate.relation
        and again.scope == certificate.scope
        and again.assumptions <= certificate.assumptions
        and again.details == certificate.details
        and _covers(certificate.guarantee, again.guarantee)
    )
    if not same:
        raise CertificateError(
            f"rule {known.id} concludes {again.guarantee} ({again.scope}, "
            f"{again.relation}); the certificate claims {certificate.guarantee} "
            f"({certificate.scope}, {certificate.relation}), or differs in its details "
            "or assumptions."
        )


def _covers(claimed: Guarantee, derived: Guarantee) -> bool:
    """Whether the claim is the derived one, up to another machine's last digits."""
    return type(claimed) is type(derived) and all(
        _close(getattr(claimed, part.name), getattr(derived, part.name))
        for part in fields(claimed)
    )


def _close(claimed: float, derived: float) -> bool:
    if isinstance(claimed, int):  # counts are exact, and may be too long for a float
        return claimed == derived
    return math.isclose(claimed, derived, rel_tol=1e-12)
