"""Damaged bytes raise many things on their way; callers see one kind of error."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reticent.errors import LedgerError, ReticentError


@contextlib.contextmanager
def refusing_damage() -> Iterator[None]:
    """Raise a `LedgerError` for whatever reading a damaged database can raise."""
    try:
        yield
    except (ReticentError, ImportError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a flipped bit can become any of them
        damage = type(error).__name__
    else:
        return
    raise LedgerError(
        f"the ledger's database holds something that cannot be read ({damage}); it is "
        "damaged. Restore a good copy and write the budget off."
    )
