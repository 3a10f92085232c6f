"""The bodies of the API as documented types; admin bodies are read through them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from reticent._text import NAME_PATTERN, checked_name
from reticent.home import BudgetSettings

Name = Annotated[str, BeforeValidator(lambda value: checked_name("a name", value))]
Cell = str | float | bool | None


_SPENT = (
    "client:ward-7: all of ε = 4 in total is spent; 1 more answer at this charge does "
    "not fit. Have the cap raised ('reticent accounts cap')."
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorBody(_Document):
    """What went wrong."""

    code: Annotated[str, Field(description="Stable name, for programs.")]
    message: Annotated[str, Field(description="A sentence for people.")]
    details: dict[str, Any]


class Problem(_Document):
    """The body of every error: problem details (RFC 9457), and a stable code."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "type": "/docs#budget_exhausted",
                    "title": "Budget exhausted",
                    "status": 403,
                    "detail": _SPENT,
                    "error": {
                        "code": "budget_exhausted",
                        "message": _SPENT,
                        "details": {},
                    },
                    "request_id": "5f1c0a9e7b3d4c21",
                }
            ]
        },
    )

    type: Annotated[str, Field(description="Where the error is explained.")]
    title: Annotated[str, Field(description="What kind of error it is.")]
    status: Annotated[int, Field(description="The HTTP status.")]
    detail: Annotated[str, Field(description="A sentence for people.")]
    error: ErrorBody
    request_id: str


class PredictBody(_Document):
    """Rows to be answered."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"rows": [{"age": 41, "ward": "a"}, {"age": 17, "ward": "c"}]}]
        },
    )

    rows: Annotated[
        list[dict[str, Cell]],
        Field(
            min_length=1,
            description="One object per row, with every column of the model's schema "
            "and no other; null for a missing value where the schema allows one.",
        ),
    ]
    clip: Annotated[
        bool,
        Field(
            default=False,
            description="Whether numbers outside a column's range are moved to its "
            "nearer end. If not, they are refused, and nothing is charged.",
        ),
    ]
    abstain_below: Annotated[
        float | None,
        Field(
            default=None,
            ge=0,
            description="For models whose answers last: answer null where there is "
            "less evidence than this.",
        ),
    ]


class Loss(_Document):
    """What is charged, and for what."""

    per: Literal["answer", "session", "total", "nothing"]
    epsilon: float | None
    delta: float | None
    rho: float | None


class StatedDocument(_Document):
    """A promise as epsilon and delta."""

    epsilon: float
    delta: float
    text: Annotated[str, Field(description="Both, rounded up, as people read them.")]


class ChargeDocument(_Document):
    """What a request cost the client."""

    answers: Annotated[int, Field(description="Answers paid for with this request.")]
    each: Loss


class Prediction(_Document):
    """Private answers."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "model": "triage",
                    "version": "0" * 64,
                    "answers": ["no", "yes"],
                    "certificate": "0" * 32,
                    "charge": {
                        "answers": 2,
                        "each": {
                            "per": "answer",
                            "epsilon": 0.1,
                            "delta": 0.0,
                            "rho": 0.005,
                        },
                    },
                    "answers_left": 38,
                    "sequence": 17,
                    "request_id": "5f1c0a9e7b3d4c21",
                }
            ]
        },
    )

    model: str
    version: Annotated[str, Field(description="Id of the stored model that answered.")]
    answers: Annotated[
        list[str | float | bool | int | None],
        Field(
            description="One per row: a label as the schema has it, or a number; null "
            "where the model abstains for lack of evidence."
        ),
    ]
    evidence: Annotated[
        list[float] | None,
        Field(
            default=None,
            description="Where answers last: a noisy count of the records near each "
            "row that can still pay; it may be negative.",
        ),
    ]
    certificate: Annotated[str, Field(description="Id of what the answers promise.")]
    charge: ChargeDocument
    answers_left: Annotated[
        int | None, Field(description="How many more at this price; null if free.")
    ]
    sequence: Annotated[
        int | None,
        Field(description="Place in the ledger; null if nothing was charged."),
    ]
    request_id: str


class TotalDocument(_Document):
    """What a unit that stays is promised over all periods of a budget."""

    certificate: Annotated[str, Field(description="Id of the total's certificate.")]
    promise: str
    stated: StatedDocument | None
    period: int
    periods: int


class ModelDocument(_Document):
    """What may be known about a model."""

    name: str
    id: str
    dataset: str
    dataset_version: str
    method: str
    answers: dict[str, Any]
    certificate: str
    promise: str
    stated: StatedDocument | None
    loss: Loss
    near_chance: Annotated[
        str | None,
        Field(description="How little noise leaves of its answers, if that is little."),
    ]
    columns: list[dict[str, Any]]
    total: Annotated[
        TotalDocument | None,
        Field(description="Only where a budget is given out by period."),
    ]


class ModelList(_Document):
    """The models that a key is for."""

    models: list[ModelDocument]


class BalanceDocument(_Document):
    """An account."""

    account: str
    method: str
    spent: dict[str, float | None]
    cap: dict[str, float | None]
    promise: dict[str, float | None]
    answers: int


class ModelBudget(_Document):
    """How much of a model is left for the caller."""

    model: str
    certificate: str
    loss: Loss
    answers_left: int | None


class BudgetDocument(_Document):
    """What the caller has spent and may spend."""

    client: str
    accounts: list[BalanceDocument]
    models: list[ModelBudget]


class CertificateDocument(_Document):
    """A certificate with its derivation."""

    id: str
    headline: str
    stated: StatedDocument | None
    proved: bool
    text: Annotated[str, Field(description="The derivation as a tree, for people.")]
    certificate: dict[str, Any]
    total: Annotated[
        TotalDocument | None,
        Field(description="Only where a budget is given out by period."),
    ]


class NewKey(_Document):
    """A key to be made."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "client": "ward-7",
                    "role": "analyst",
                    "models": ["triage"],
                    "budget": {"epsilon": 4.0, "delta": 1e-6},
                }
            ]
        },
    )

    client: Annotated[
        Name,
        Field(
            description="Who will hold it; all keys of a client share an account.",
            pattern=NAME_PATTERN,
        ),
    ]
    role: Literal["analyst", "admin"] = "analyst"
    models: Annotated[
        list[Name] | None,
        Field(min_length=1, max_length=1000, description="Null for all models."),
    ] = None
    budget: Annotated[
        BudgetSettings | None,
        Field(description="Opens the client's account if it has none yet."),
    ] = None
    days: Annotated[
        int | None,
        Field(
            ge=1,
            le=36_500,
            description="Days it is valid; null for no limit.",
        ),
    ] = None


class KeyDocument(_Document):
    """What is known about a key."""

    id: str
    client: str
    role: Literal["analyst", "admin"]
    models: list[str] | None
    created: int
    expires: int | None
    revoked: bool


class CreatedKey(_Document):
    """A fresh key; its text is shown this once."""

    key: str
    record: KeyDocument
    account: BalanceDocument | None


class KeyList(_Document):
    """All keys."""

    keys: list[KeyDocument]


class AccountList(_Document):
    """All accounts."""

    accounts: list[BalanceDocument]
