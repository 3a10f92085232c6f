"""What may be charged, answered or opened: every decision of the ledger.

Decisions are made on a `LedgerState`: the part of the ledger that they concern, read
under a lock. They check everything before they change anything, so a refused operation
leaves no trace, and the other operations of the same commit are not affected. The
memory and the SQL ledger share this code; they differ in where the state is read and
written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reticent._clock import seconds
from reticent._text import counted
from reticent.errors import (
    AccountOpenError,
    BudgetExhaustedError,
    IdempotencyKeyReusedError,
    InvalidParameterError,
    LedgerError,
)
from reticent.ledger.accounts import AccountId, Balance
from reticent.ledger.cap_changes import check_cap
from reticent.ledger.caps import Cap
from reticent.ledger.entries import (
    ACCOUNT,
    ACT,
    ANSWER,
    CAP,
    CHARGE,
    WRITE_OFF,
    Entry,
    Mark,
    answer_body,
    canonical,
    charge_body,
    charges_text,
    unpack_answers,
)
from reticent.ledger.requests import Outcome, Receipt, Request
from reticent.ledger.state import LedgerState

#: The largest number of bytes of one answer.
LARGEST_ANSWER = 2**20
#: Most characters of one administrative act.
LARGEST_ACT = 4096


def open_account(state: LedgerState, account: AccountId, cap: Cap) -> Balance:
    """Open an account; a second call with the same cap changes nothing."""
    known = state.accounts.get(str(account))
    if known is not None:
        if known.cap != cap:
            raise AccountOpenError(
                f"account={str(account)!r} is open with another cap; change it with "
                "set_cap."
            )
        return known
    state.append(ACCOUNT, {"account": str(account), "cap": cap.to_json()})
    return _put(state, Balance(account, cap))


def set_cap(state: LedgerState, account: AccountId, cap: Cap) -> Balance:
    """Change the limits of an account; `check_cap` says which changes are allowed."""
    known = state.balance(account)
    new, spent = check_cap(known, cap)
    if known.cap != new:
        state.append(CAP, {"account": str(account), "cap": new.to_json()})
    return _put(state, Balance(account, new, spent))


def write_off(
    state: LedgerState, caps: Mapping[str, Cap], epoch: int, reason: str
) -> Entry:
    """Count every budget as spent, because what was spent is no longer known."""
    for name, cap in caps.items():
        _put(state, Balance(AccountId.parse(name), cap, cap.exhausted))
    accounts = {name: cap.to_json() for name, cap in caps.items()}
    return state.append(
        WRITE_OFF, {"accounts": accounts, "epoch": epoch, "reason": reason}
    )


def record(state: LedgerState, act: str, by: str, facts: Mapping[str, Any]) -> Entry:
    """Write an administrative act into the chain: what, by whom, when."""
    told = {"act": act, "by": by, "facts": dict(facts), "time": seconds()}
    if not all(isinstance(text, str) and text.isprintable() for text in (act, by)):
        raise InvalidParameterError("act and by must be printable text.")
    if len(canonical(told)) > LARGEST_ACT:
        raise InvalidParameterError(
            f"an act takes more than {LARGEST_ACT} characters; name fewer facts."
        )
    return state.append(ACT, told)


def charge(state: LedgerState, request: Request) -> Receipt:
    """Charge for a request once, or return what became of it before."""
    known = state.requests.get(request.key)
    if known is not None:
        return _again(state, request, known)
    for account, name in zip(request.accounts, request.names, strict=True):
        if name not in state.accounts:
            state.balance(account)  # says that it is not open
    fresh, marks, counts = _plan(state, request)
    costs, charged = {}, {}
    for name, count in counts.items():
        if not count:
            continue  # paid for before, so free now even if the cap was lowered
        balance = state.accounts[name]
        cost = state.price(balance, name, request.charge, count)
        spent = balance.cap.after(balance.spent, cost)
        if not balance.cap.allows(spent):
            raise BudgetExhaustedError(_refusal(balance, request, counts))
        costs[name] = cost
        charged[name] = Balance(balance.account, balance.cap, spent)
    if not costs and not request.record:
        return _receipt(state, request, None, Outcome.ANSWERED, ())
    entry = state.append(
        CHARGE,
        charge_body(
            len(fresh),
            request.charge.certificate,
            request.fingerprint,
            request.charge.relation,
            seconds(),  # for people to read; the sequence gives the order
        ),
        request=request.key,
        charges=charges_text(costs) if costs else "",
        marks=marks,
    )
    state.accounts.update(charged)
    state.touched.update(charged)
    outcome = Outcome.DRAW if fresh else Outcome.ANSWERED
    return _receipt(state, request, entry, outcome, fresh)


def settle(state: LedgerState, receipt: Receipt, answers: Sequence[bytes]) -> Receipt:
    """Store the answers drawn for a receipt; those stored first are kept."""
    entry = state.charges.get(receipt.sequence or 0)
    if entry is None or entry.hash != receipt.entry_hash:
        raise LedgerError(
            f"receipt with sequence={receipt.sequence} is not of this ledger."
        )
    body = answer_body(tuple(answers))
    stored = state.answers.get(entry.sequence)
    if stored is None:
        state.append(ANSWER, body, settles=entry.sequence)
    elif stored.body != body:
        raise LedgerError(
            f"the charge with sequence={entry.sequence} has another answer already; "
            "an answer is drawn once."
        )
    return settled(receipt, answers)


def settled(receipt: Receipt, answers: Sequence[bytes]) -> Receipt:
    """Return the receipt with its drawn answers put in place."""
    if receipt.draw == receipt.places:  # each is drawn for itself, and in this order
        return receipt.answered(tuple(answers))
    drawn = dict(zip(receipt.draw, answers, strict=True))
    whole = tuple(
        known if known is not None else drawn[place]
        for known, place in zip(receipt.answers, receipt.places, strict=True)
    )
    return receipt.answered(whole)


def check_answers(receipt: Receipt, answers: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return answers that fit the receipt or refuse them."""
    given = check_answer_bytes(answers)
    if receipt.outcome is not Outcome.DRAW or len(given) != len(receipt.draw):
        raise InvalidParameterError(
            f"n_answers={len(given)} for a receipt that asks for {len(receipt.draw)}; "
            "settle takes one answer for each position in receipt.draw."
        )
    return given


def check_answer_bytes(answers: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return answers that can be stored or refuse them."""
    given = tuple(answers)
    if not all(
        isinstance(answer, bytes) and len(answer) <= LARGEST_ANSWER for answer in given
    ):
        raise InvalidParameterError(
            f"answers must be bytes, at most {LARGEST_ANSWER} each."
        )
    return given


def _put(state: LedgerState, balance: Balance) -> Balance:
    state.accounts[str(balance.account)] = balance
    state.touched.add(str(balance.account))
    return balance


def _plan(
    state: LedgerState, request: Request
) -> tuple[tuple[int, ...], tuple[Mark, ...], dict[str, int]]:
    """Return positions to draw, marks to write, and answers to pay per account.

    Every account pays for a drawn answer. A remembered answer is the same bytes again:
    only an account that paid neither for its draw nor to see it later pays now.
    """
    names = request.names
    if request.memory is None:
        everywhere = tuple(range(len(request.queries)))
        return everywhere, (), dict.fromkeys(names, len(everywhere))
    fresh: dict[str, int] = {}
    views: dict[Mark, None] = {}
    counts = dict.fromkeys(names, 0)
    for position, query in enumerate(request.hashes):
        release = state.releases.get(query)
        if release is None:
            fresh.setdefault(query, position)
            continue
        payers = state.charges[release[0]].costs()
        for name in names:
            view = Mark(query, name, release[0])
            if name not in payers and view not in state.seen and view not in views:
                views[view] = None
                counts[name] += 1
    drawn = [Mark(query, "", state.sequence + 1) for query in fresh]
    for name in names:
        counts[name] += len(fresh)
    return tuple(fresh.values()), (*drawn, *views), counts


def _again(state: LedgerState, request: Request, known: Entry) -> Receipt:
    """Answer a key that was charged before, without charging."""
    if known.content()["fingerprint"] != request.fingerprint:
        raise IdempotencyKeyReusedError(
            "this idempotency key was used for a different request, or for another "
            "version of the model; use a new key for a new request."
        )
    unanswered = known.content()["answers"] and known.sequence not in state.answers
    outcome = Outcome.SPENT if unanswered else Outcome.ANSWERED
    return _receipt(state, request, known, outcome, ())


def _receipt(
    state: LedgerState,
    request: Request,
    entry: Entry | None,
    outcome: Outcome,
    fresh: tuple[int, ...],
) -> Receipt:
    answers: tuple[bytes | None, ...] = (None,) * len(request.queries)
    places = fresh
    if len(fresh) == len(request.queries):
        pass  # all are drawn, each for itself
    elif outcome is Outcome.DRAW and request.memory is not None:
        first = {request.hashes[position]: position for position in fresh}
        places = tuple(
            first.get(query, position) for position, query in enumerate(request.hashes)
        )
    if outcome is not Outcome.SPENT and len(fresh) < len(request.queries):
        drawing = {request.hashes[position] for position in fresh}
        answers = _known_answers(state, request, entry, drawing)
    return Receipt(
        request.key,
        outcome,
        None if entry is None else entry.sequence,
        None if entry is None else entry.hash,
        request.charge,
        {} if entry is None else entry.costs(),
        tuple([state.accounts[name] for name in request.names]),
        fresh,
        answers,
        places,
    )


def _known_answers(
    state: LedgerState, request: Request, entry: Entry | None, drawing: set[str]
) -> tuple[bytes | None, ...]:
    """Return the stored answers: drawn under `entry` itself, else remembered."""
    opened: dict[int, list[bytes]] = {}

    def answer(sequence: int, place: int) -> bytes:
        if sequence not in opened:
            opened[sequence] = unpack_answers(
                state.answers[sequence].content()["answers"]
            )
        return opened[sequence][place]

    if request.memory is None and entry is not None:
        return tuple(
            answer(entry.sequence, place) for place in range(len(request.queries))
        )
    own: dict[str, tuple[int, int]] = {}
    if entry is not None:
        own = {
            mark.query: (entry.sequence, place)
            for place, mark in enumerate(entry.marks)
            if not mark.account
        }
    return tuple(
        None if query in drawing else answer(*(own.get(query) or state.releases[query]))
        for query in request.hashes
    )


def _refusal(balance: Balance, request: Request, counts: Mapping[str, int]) -> str:
    asked = counts[str(balance.account)]
    left = balance.answers_left(request.charge)
    share, _ = balance.share
    used = "all" if share >= 1 else f"{100 * share:.0f} %"
    less = f"Ask for at most {left}, or h" if left else "H"
    what = balance.cap.budget if balance.cap.epsilon else "the cap"
    return (
        f"{balance.account}: {used} of {what} is spent; "
        f"{counted(asked, 'more answer')} at this charge "
        f"{'does' if asked == 1 else 'do'} not fit. {less}ave the cap raised "
        "('reticent accounts cap')."
    )
