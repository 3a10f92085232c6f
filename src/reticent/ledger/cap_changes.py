"""Which cap may replace another on an open account, and what is spent afterwards."""

from __future__ import annotations

from fractions import Fraction

from reticent.errors import InvalidParameterError
from reticent.ledger.accounts import Balance
from reticent.ledger.caps import Cap, Method, with_shares
from reticent.ledger.units import EPSILON_UNITS, MAX_UNITS, RHO_UNITS, Spend


def successor(cap: Cap, known: Cap, spent: Spend) -> tuple[Cap, Spend] | None:
    """Return the cap that replaces `known` when `cap` is asked for, and the spend then.

    The method stays, except that an account by ``basic`` without a delta, or by
    ``zcdp``, may continue by ``either``. An account that was charged keeps its split of
    delta: a split chosen after seeing answers is not a filter. None if `cap` cannot
    replace `known`.
    """
    if cap.relation != known.relation:
        return None
    if cap.method is not Method.EITHER:
        return (cap, spent) if cap.same_kind(known) else None
    if not spent.answers and known.method in (Method.BASIC, Method.ZCDP, cap.method):
        return cap, spent
    if known.method is Method.BASIC and not known.delta:
        # The squares of epsilons sum to at most the square of their sum.
        rho = -(-(spent.epsilon**2) * RHO_UNITS // (2 * EPSILON_UNITS**2))
        return cap, spent._replace(rho=rho).counted()
    if not (known.delta and cap.delta):
        return None
    split = with_shares(
        cap, Fraction(known.slack, known.delta), Fraction(known.totals, known.delta)
    )
    if known.method is Method.EITHER:
        return split, spent
    if known.method is Method.ZCDP:  # its epsilons were never counted
        return split, spent._replace(epsilon=MAX_UNITS)
    return None


def check_cap(known: Balance, cap: Cap) -> tuple[Cap, Spend]:
    """Return the cap that follows and the spend then, or refuse a change of cap.

    Raises
    ------
    InvalidParameterError
        If `cap` cannot replace the cap of an open account: see `successor`.
    """
    following = successor(cap, known.cap, known.spent)
    if following is None:
        raise InvalidParameterError(
            f"account={str(known.account)!r} counts by {known.cap.method.value!r} "
            f"under {known.cap.relation!r}; the method is fixed when an account is "
            "opened, and so is whether it has a delta. Open another account instead."
        )
    return following
