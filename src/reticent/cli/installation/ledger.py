"""``reticent ledger``: who has spent what, and whether the ledger is intact."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned, confirmed
from reticent.errors import InvalidParameterError
from reticent.guarantees import (
    Budget,
    Certificate,
    Stated,
    guess_in_words,
    in_plain_words,
    stated,
)
from reticent.home import (
    COMMAND_LINE,
    Home,
    back_up_ledger,
    reset_period,
    restore_ledger,
)
from reticent.ledger import (
    DELTA_UNITS,
    EPSILON_UNITS,
    MAX_UNITS,
    RECORDS,
    RHO_UNITS,
    AccountId,
    AccountScope,
    Balance,
    Cap,
    Entry,
    Spend,
    SQLLedger,
    check_cap,
    newest_first,
    units_to_float,
)
from reticent.prediction import promised_by, spent_so_far

ledger_app = typer.Typer(
    help="Show what was spent, verify the chain, keep copies, or write it off.",
    no_args_is_help=True,
)
accounts_app = typer.Typer(
    help="Change what an account may spend.", no_args_is_help=True
)
# One release may show more than its own certificate says.
_LEVELS = "'spent' is rounded up to a level that holds at any moment."
_FIELDS = ("sequence", "time", "kind", "account", "epsilon", "delta", "rho", "answers")


@ledger_app.command("show")
def show(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Show every account: what is spent, and of how much, in epsilon and delta."""
    with Home.existing(home).settings().open_ledger(reading=True) as ledger:
        balances = ledger.balances()
    found, totals = [], []
    rows: list[tuple[str, ...]] = [("account", "spent", "of", "charges", "used")]
    # Records of questions are counted in accounts too; they cost no privacy.
    known = [b for b in balances if b.cap.relation != RECORDS]
    for balance in balances:
        total = spent_so_far(balance)
        spent = None if total is None else total.guarantee.as_dict()
        found.append({**balance.as_dict(), "spent_in_total": spent})
        if balance in known:
            totals.append(total)
            rows.append(_row(balance, total))
    lines = ["nothing has been spent yet."]
    if known:
        widest = max(known, key=lambda balance: promised_by(balance).epsilon)
        relation = widest.cap.relation
        meant = in_plain_words(promised_by(widest), relation=relation)
        lines = [*aligned(rows), "", *_notes(known, totals), meant]
    Output(as_json).result({"accounts": found}, lines)


def _notes(known: list[Balance], totals: list[Certificate[Any] | None]) -> list[str]:
    """Say why a small share of a cap can read as most of its epsilon."""
    notes = []
    gaps = []
    for balance, total in zip(known, totals, strict=True):
        share, kind = balance.share
        read = None if total is None else stated(total)
        if kind == "rho" and read is not None and 0 < share < 1:
            gap = read.epsilon / balance.cap.budget.epsilon - share
            told = Stated(read.epsilon)
            gaps.append((gap, f"{100 * share:.0f} % used can read {told}"))
    if gaps:
        notes.append(
            "'used' is the share of the cap that is counted (rho). Epsilon grows like "
            f"its root, so {max(gaps)[1]}."
        )
    return [*notes, _LEVELS] if any(map(_is_level, totals)) else notes


def _is_level(total: Certificate[Any] | None) -> bool:
    return total is not None and total.rule == "G22-odometer"


def _row(balance: Balance, total: Any) -> tuple[str, ...]:
    nothing = "nothing" if not balance.spent.answers else "an unknown amount"
    share, _ = balance.share
    return (
        str(balance.account),
        nothing if total is None else str(stated(total)),
        str(balance.cap.budget),
        str(balance.spent.answers),
        "all" if share >= 1 else f"{100 * share:.0f} %",
    )


@ledger_app.command("history")
def history(
    account: Annotated[
        str | None, typer.Option(help="Only this account, such as client:ward-7.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many entries to show.")] = 20,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Show the newest entries: what was charged when, to whom.

    Example: reticent ledger history --last 50
    """
    wanted = None if account is None else AccountId.parse(account)
    with Home.existing(home).settings().open_ledger(reading=True) as ledger:
        _check_open(ledger, wanted)
        rows = (
            row
            for entry in newest_first(ledger)
            for row in reversed(_rows_of(entry))
            if wanted is None or row["account"] == str(wanted)
        )
        found = list(islice(rows, last))[::-1]
    table = [_FIELDS, *(tuple(_text(row[name]) for name in _FIELDS) for row in found)]
    lines = aligned(table) if found else ["nothing has been spent yet."]
    Output(as_json).result({"entries": found}, lines)


@ledger_app.command("export")
def export(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="A file that ends in .csv or .jsonl.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there already.")
    ] = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Write all charges to a file, one line per account and charge, without answers.

    Example: reticent ledger export -o spending.csv
    """
    if out.suffix not in (".csv", ".jsonl"):
        raise InvalidParameterError(f"--out {str(out)!r} must end in .csv or .jsonl.")
    _check_new(out, force=force)
    with Home.existing(home).settings().open_ledger(reading=True) as ledger:
        rows = [row for entry in ledger.entries() for row in _rows_of(entry)]
    text = io.StringIO()
    if out.suffix == ".csv":
        writer = csv.DictWriter(text, _FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        text.writelines(json.dumps(row) + "\n" for row in rows)
    _write(out, text.getvalue().encode())
    Output(as_json).result(
        {"file": str(out), "entries": len(rows)}, [f"wrote {len(rows)} lines to {out}."]
    )


@ledger_app.command("verify")
def verify(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Recompute every hash and every total of the ledger, and compare."""
    with Home.existing(home).settings().open_ledger(reading=True) as ledger:
        found = ledger.verify()
    Output(as_json).result(
        {"entries": found.entries, "head": found.head, "whole": True},
        [f"the ledger is intact: {found.entries} entries, head {found.head[:16]}."],
    )


@ledger_app.command("backup")
def backup(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the copy.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a copy of the ledger, also while the service runs.

    A copy is safe to keep, and not safe to spend from: see 'ledger restore'.

    Example: reticent ledger backup -o ledger-monday.db
    """
    _check_new(out, force=False)
    entries = back_up_ledger(Home.existing(home), out)
    Output(as_json).result(
        {"file": str(out), "entries": entries}, [f"wrote {entries} entries to {out}."]
    )


@ledger_app.command("restore")
def restore(
    copy: Annotated[Path, typer.Argument(help="A copy that 'ledger backup' wrote.")],
    reason: Annotated[
        str, typer.Option(help="Why; kept in the ledger if budgets are written off.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Put a copy of the ledger back. What was spent since then cannot be known.

    So every budget counts as spent, unless the copy is the newest. Stop the service
    first.

    Example: reticent ledger restore ledger-monday.db --reason "the disk broke"
    """
    place = Home.existing(home)
    confirmed(
        "Put this copy in the place of the ledger? Unless it is the newest, every "
        "budget counts as spent afterwards.",
        yes=yes,
    )
    newest = restore_ledger(place, copy, reason)
    told = "it is the newest, nothing is lost" if newest else "every budget is spent"
    Output(as_json).result(
        {"restored": str(copy), "written_off": not newest},
        [f"{copy} is the ledger now; {told}."],
    )


@ledger_app.command("write-off")
def write_off(
    reason: Annotated[str, typer.Option(help="Why; kept in the ledger for good.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Count every budget as spent, because what was spent is no longer known.

    For a ledger that is refused because it was restored from a backup or lost its
    checkpoint. Stop the service first. Raising a budget afterwards is a decision of its
    own, as a weaker promise: 'reticent fit --change-budget'.

    Example: reticent ledger write-off --reason "restored Monday's backup"
    """
    found = Home.existing(home).settings().write_off(reason)
    Output(as_json).result(
        {"entries": found.entries, "epoch": found.epoch, "head": found.head},
        ["every budget counts as spent now; the ledger starts again."],
    )


@accounts_app.command("cap")
def cap(
    account: Annotated[
        str, typer.Argument(help="Such as client:ward-7 or dataset:data.")
    ],
    epsilon: Annotated[float, typer.Option(help="What it may spend in total.")],
    delta: Annotated[
        float | None, typer.Option(help="Its delta.", show_default="as it is")
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Change what an account may spend, higher or lower.

    A lower cap than what is spent stops the account. A higher cap of a dataset is a
    weaker promise to everybody in it.

    Example: reticent accounts cap client:local --epsilon 10
    """
    place, wanted = Home.existing(home), AccountId.parse(account)
    if wanted.scope is AccountScope.MODEL:
        raise InvalidParameterError(
            f"the cap of a model is in the settings: change "
            f"models.{wanted.name}.budget in {place.config}."
        )
    with place.settings().open_ledger() as ledger:
        _check_open(ledger, wanted)
        balance = ledger.balance(wanted)
        known = balance.cap
        budget = Budget(epsilon, known.budget.delta if delta is None else delta)
        asked = Cap.within(budget, relation=known.relation)
        check_cap(balance, asked)  # first: the chain names no act that was refused
        ledger.record("cap set", COMMAND_LINE, {"account": account, "cap": str(budget)})
        changed = ledger.set_cap(wanted, asked)
    if wanted.scope.value == "dataset":
        place.set_budget(wanted.name, budget)
        with place.settings().open_ledger() as ledger:
            reset_period(place, ledger, wanted.name)
    Output(as_json).result(
        changed.as_dict(),
        [
            f"{account} may spend {changed.cap.budget}.",
            guess_in_words(promised_by(changed), relation=known.relation),
        ],
    )


def _check_open(ledger: SQLLedger, account: AccountId | None) -> None:
    known = [str(balance.account) for balance in ledger.balances()]
    if account is not None and str(account) not in known:
        raise InvalidParameterError(
            f"there is no account {str(account)!r}; there are "
            f"{', '.join(known) or 'none'}."
        )


def _check_new(out: Path, *, force: bool) -> None:
    if out.exists() and not force:
        raise InvalidParameterError(f"{out} is there already; choose another name.")


def _write(out: Path, data: bytes) -> None:
    out.touch(mode=0o600)
    out.write_bytes(data)


def _rows_of(entry: Entry) -> list[dict[str, Any]]:
    """Return what was charged: one row per account."""
    if entry.is_charge:
        return [
            {**_start(entry), "account": account, **_cost(cost)}
            for account, cost in entry.costs().items()
        ]
    if entry.kind in ("answer", "ledger"):
        return []
    content = entry.content()
    account = str(content.get("account", content.get("by", "")))
    blank = dict.fromkeys(("epsilon", "delta", "rho", "answers"))
    return [{**_start(entry), "account": account, **blank}]


def _cost(cost: Spend) -> dict[str, Any]:
    """Return a cost in real numbers; None where a loss has no such number."""
    units = {"epsilon": EPSILON_UNITS, "delta": DELTA_UNITS, "rho": RHO_UNITS}
    found: dict[str, Any] = {
        name: None
        if getattr(cost, name) >= MAX_UNITS
        else units_to_float(getattr(cost, name), unit)
        for name, unit in units.items()
    }
    return {**found, "answers": cost.answers}


def _start(entry: Entry) -> dict[str, Any]:
    content = entry.content()
    moment = content.get("time")
    time = None
    if isinstance(moment, int):
        time = datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    return {
        "sequence": entry.sequence,
        "time": time,
        "kind": content.get("act", entry.kind),
    }


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
