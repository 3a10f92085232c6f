"""What a service answers, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Answer: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Reply:
    """Private answers for rows.

    Attributes
    ----------
    model, version : str
        What answered: its name, and the id of the stored model.
    answers : tuple
        One per row; None where the model abstains for lack of evidence.
    certificate : str
        The id of what the answers promise.
    paid : int
        How many answers were charged; rows that were asked before are free.
    answers_left : int or None
        How many more the budget pays for; None if answers are free.
    evidence : tuple of float or None
        Where answers last: a noisy count of the records behind each.
    sequence : int or None
        The entry in the ledger; None if nothing was charged.
    request_id : str
        Finds the request in the service's log.
    """

    model: str
    version: str
    answers: tuple[Answer, ...]
    certificate: str
    paid: int
    answers_left: int | None
    evidence: tuple[float, ...] | None
    sequence: int | None
    request_id: str

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Reply:
        """Read the body of a response."""
        evidence = data.get("evidence")
        return cls(
            model=data["model"],
            version=data["version"],
            answers=tuple(data["answers"]),
            certificate=data["certificate"],
            paid=data["charge"]["answers"],
            answers_left=data["answers_left"],
            evidence=None if evidence is None else tuple(evidence),
            sequence=data["sequence"],
            request_id=data["request_id"],
        )


@dataclass(frozen=True, slots=True)
class Model:
    """A model that the key may ask.

    Attributes
    ----------
    name, version : str
        Its name, and the id of the stored model.
    dataset : str
        Whose budget answers spend.
    promise : str
        What an answer, all answers or the model promises, in one line.
    certificate : str
        The id of that promise.
    loss : dict
        What is charged: ``per``, ``epsilon``, ``delta``, ``rho``.
    answers : dict
        The labels or the range of answers.
    columns : list of dict
        What a row must have.
    near_chance : str or None
        How little noise leaves of its answers, if that is little.
    """

    name: str
    version: str
    dataset: str
    promise: str
    certificate: str
    loss: Mapping[str, Any]
    answers: Mapping[str, Any]
    columns: tuple[Mapping[str, Any], ...]
    near_chance: str | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Model:
        """Read the body of a response."""
        return cls(
            name=data["name"],
            version=data["id"],
            dataset=data["dataset"],
            promise=data["promise"],
            certificate=data["certificate"],
            loss=data["loss"],
            answers=data["answers"],
            columns=tuple(data["columns"]),
            near_chance=data.get("near_chance"),  # an older service does not say
        )


@dataclass(frozen=True, slots=True)
class Account:
    """An account: what it may spend and has spent.

    Attributes
    ----------
    name : str
        Such as ``client:ward-7``.
    epsilon, delta : float
        What everything charged to it promises together.
    spent, cap : dict
        What is spent of each kind of loss, and the limit.
    answers : int
        How many answers were charged to it.
    """

    name: str
    epsilon: float | None
    delta: float | None
    spent: Mapping[str, float | None]
    cap: Mapping[str, float | None]
    answers: int

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Account:
        """Read a part of a response."""
        promise = data["promise"]
        return cls(
            name=data["account"],
            epsilon=promise["epsilon"],
            delta=promise["delta"],
            spent=data["spent"],
            cap=data["cap"],
            answers=data["answers"],
        )


@dataclass(frozen=True, slots=True)
class Budgets:
    """What a client has spent and may spend.

    Attributes
    ----------
    client : str
        Whose they are.
    accounts : tuple of Account
        The client's, and those of its datasets.
    answers_left : dict of str to int or None
        By model; None where answers are free.
    """

    client: str
    accounts: tuple[Account, ...]
    answers_left: Mapping[str, int | None]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Budgets:
        """Read the body of a response."""
        return cls(
            client=data["client"],
            accounts=tuple(Account.of(each) for each in data["accounts"]),
            answers_left={m["model"]: m["answers_left"] for m in data["models"]},
        )
