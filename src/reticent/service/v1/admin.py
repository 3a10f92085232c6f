"""``/v1/admin``: keys and caps, for admins.

The envelope has refused everybody else before a route is reached; every route checks
that once more.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request

from reticent.errors import InvalidParameterError
from reticent.home import BudgetSettings, KeyRecord, Role, cap_of, client_account
from reticent.ledger import AccountId, AccountScope, Balance, check_cap
from reticent.service.requests.access import require_admin
from reticent.service.requests.problems import ProblemError, plain
from reticent.service.requests.strict_routes import StrictRoute
from reticent.service.service import Service
from reticent.service.v1 import documents as doc
from reticent.service.v1.routes import ERRORS, problem

_MOST_NAMED = 12
_TAKEN = "The client has an account with another cap."


def admin_routes(service: Service) -> APIRouter:
    """Return the routes of ``/v1/admin``."""

    async def admins_only(request: Request) -> None:
        require_admin(service.access.caller(request))

    router = APIRouter(
        prefix="/v1/admin",
        tags=["administration"],
        route_class=StrictRoute,
        dependencies=[Depends(admins_only)],
    )

    @router.post(
        "/keys",
        response_model=doc.CreatedKey,
        status_code=201,
        responses={**ERRORS, 409: problem(_TAKEN)},
    )
    async def create_key(request: Request, body: doc.NewKey) -> Any:
        """Make a key; its text is shown this once. Opens the client's account."""
        key, record, balance = await asyncio.to_thread(
            make_key, service, body, service.access.caller(request).who
        )
        return {
            "key": key,
            "record": record.as_dict(),
            "account": None if balance is None else balance.as_dict(),
        }

    @router.get("/keys", response_model=doc.KeyList, responses=ERRORS)
    async def list_keys() -> Any:
        """List all keys, without their secrets, which nobody has."""
        records = await asyncio.to_thread(service.keyring.records)
        return {"keys": [record.as_dict() for record in records]}

    @router.delete("/keys/{id}", response_model=doc.KeyDocument, responses=ERRORS)
    async def revoke_key(request: Request, id: str) -> Any:  # noqa: A002 (its public name)
        """Revoke a key for good."""
        record = await asyncio.to_thread(
            revoke, service, id, service.access.caller(request).who
        )
        return record.as_dict()

    @router.get("/accounts", response_model=doc.AccountList, responses=ERRORS)
    async def accounts() -> Any:
        """List all accounts."""
        balances = await asyncio.to_thread(service.ledger.balances)
        return {"accounts": [balance.as_dict() for balance in balances]}

    @router.put(
        "/accounts/{account}", response_model=doc.BalanceDocument, responses=ERRORS
    )
    async def put_cap(request: Request, account: str, body: BudgetSettings) -> Any:
        """Set the cap of an account; opens it if it is a client's and not open yet."""
        balance = await asyncio.to_thread(
            set_cap, service, account, body, service.access.caller(request).who
        )
        return balance.as_dict()

    return router


def make_key(
    service: Service, body: doc.NewKey, by: str
) -> tuple[str, KeyRecord, Balance | None]:
    """Make a key, and open its client's account first if it has none."""
    unknown = [
        name for name in body.models or () if name not in service.registry.models
    ]
    if unknown:
        raise ProblemError(
            422,
            "unknown_model",
            f"{len(unknown)} of the models are not served here. The served ones are "
            f"{', '.join(sorted(service.registry.models)[:_MOST_NAMED])}.",
        )
    role = Role(body.role)
    balance = _account_for(service, body.client, body.budget, role)
    models = None if body.models is None else tuple(body.models)
    key, record = service.keyring.create(
        body.client,
        role,
        models=models,
        days=body.days,
        first=lambda made: service.ledger.record("key created", by, made.facts()),
    )
    return key, record, balance


def _account_for(
    service: Service, client: str, budget: BudgetSettings | None, role: Role
) -> Balance | None:
    account = client_account(client)
    known = {balance.account: balance for balance in service.ledger.balances()}
    if account in known:
        if budget is not None and cap_of(budget, service.registry.relation) != (
            known[account].cap
        ):
            raise ProblemError(
                409,
                "account_open",
                "this client has an account with another cap; leave the budget out, "
                "or set the account's cap.",
            )
        return known[account]
    wanted = budget if budget is not None else service.settings.client_budget
    if wanted is None:
        if role is Role.ADMIN:
            return None  # an admin that asks no questions needs no account
        raise ProblemError(
            422,
            "no_budget",
            "this client has no account yet and there is no default: give a budget.",
        )
    return service.ledger.open_account(
        account, cap_of(wanted, service.registry.relation)
    )


def revoke(service: Service, key_id: str, by: str) -> KeyRecord:
    """Revoke a key, or say that there is none."""
    if service.keyring.store.find(key_id) is not None:
        service.ledger.record("key revoked", by, {"id": key_id})
        service.keyring.revoke(key_id)
        record = service.keyring.store.find(key_id)
        if record is not None:
            return record
    raise plain(404, "there is no such key. GET /v1/admin/keys lists all of them.")


def set_cap(service: Service, account: str, budget: BudgetSettings, by: str) -> Balance:
    """Set the cap of an account that is open, or open one for a client."""
    try:
        named = AccountId.parse(account)
    except InvalidParameterError:
        raise plain(
            404, "an account is named dataset:NAME, model:NAME or client:NAME."
        ) from None
    cap = cap_of(budget, service.registry.relation)
    known = {balance.account: balance for balance in service.ledger.balances()}
    if named in known:
        check_cap(known[named], cap)  # first: the chain names no act that was refused
        _record_cap(service, named, budget, by)
        return service.ledger.set_cap(named, cap)
    clients = {record.client for record in service.keyring.records()}
    if named.scope is AccountScope.CLIENT and named.name in clients:
        _record_cap(service, named, budget, by)
        return service.ledger.open_account(named, cap)
    raise plain(
        404,
        "there is no such account. GET /v1/admin/accounts lists those that are open; "
        "a client has one as soon as it has a key.",
    )


def _record_cap(
    service: Service, account: AccountId, budget: BudgetSettings, by: str
) -> None:
    facts = {"account": str(account), "epsilon": budget.epsilon, "delta": budget.delta}
    service.ledger.record("cap set", by, facts)
