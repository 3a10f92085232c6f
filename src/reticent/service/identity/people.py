"""Who somebody is here, by the claims of an ID token."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reticent._clock import seconds
from reticent.home import KeyRecord, OidcSettings, Role
from reticent.service.requests.problems import ProblemError

_LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who logged in.

    Attributes
    ----------
    client : str
        Their name as a client: a hash of issuer and subject. Names and mail addresses
        can change hands, so nothing is charged by them.
    role : Role
        What they may do.
    name : str
        What they are called, for pages alone.
    """

    client: str
    role: Role
    name: str

    def record(self, until: int) -> KeyRecord:
        """Return what stands for them where keys are expected; no key belongs to it."""
        return KeyRecord(
            id=self.client,
            client=self.client,
            role=self.role,
            models=None,
            digest="",
            created=seconds(),
            expires=until,
        )


def person_of(claims: Mapping[str, Any], settings: OidcSettings) -> Person:
    """Return who a checked ID token is about; refuse people without a role here."""
    told = claims.get(settings.role_claim)
    roles = {told} if isinstance(told, str) else set()
    if isinstance(told, list):
        roles = {each for each in told if isinstance(each, str)}
    if roles & set(settings.admins):
        role = Role.ADMIN
    elif roles & set(settings.analysts):
        role = Role.ANALYST
    else:
        raise ProblemError(
            403,
            "sign_in_refused",
            "you are known, but have no role here. Ask for one where you log in.",
        )
    subject = f"{claims['iss']}\n{claims['sub']}"
    digest = hashlib.sha256(subject.encode()).hexdigest()[:16]
    return Person(f"person-{digest}", role, _name(claims))


def _name(claims: Mapping[str, Any]) -> str:
    for claim in ("name", "preferred_username", "sub"):
        told = claims.get(claim)
        if isinstance(told, str) and told.isprintable() and told.strip():
            return told[:_LONGEST_NAME]
    return "somebody"
