"""Units that are held out of training, so that a model can be measured on them."""

from __future__ import annotations

import numpy as np

from reticent.errors import TooFewRecordsError
from reticent.estimators import unit_positions
from reticent.mechanisms import noise_source
from reticent.schemas import Table

#: The largest number of held-out units, if the model's answers are charged.
QUESTIONS = 100
_SHARE = 0.1


def split_rows(rows: Table, *, most: int | None = None) -> tuple[Table, Table]:
    """Return rows for training, and one row of each unit that is held out.

    Units are divided by position, with randomness that does not depend on the data, and
    each unit is in one part only.

    Parameters
    ----------
    rows : Table
        The rows.
    most : int or None, default=None
        The most units that are held out; None takes a tenth.
    """
    positions, n_units = unit_positions(rows.units, len(rows))
    held = max(2, round(_SHARE * n_units))
    held = held if most is None else min(held, most)
    if held >= n_units:
        raise TooFewRecordsError(
            f"n_units={n_units} units are too few to hold some out; train on all of "
            "them, and measure on other rows."
        )
    chosen = np.zeros(n_units, dtype=bool)
    chosen[noise_source(None).permutation(n_units)[:held]] = True
    apart = chosen[positions]
    kept, asked = np.flatnonzero(~apart), np.flatnonzero(apart)
    # The first row of each, in the order of the table.
    first = np.unique(positions[asked], return_index=True)[1]
    return rows.take(kept.tolist()), rows.take(asked[np.sort(first)].tolist())
