"""Whether units vote or a released model answers alone: by released numbers (P10)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reticent.estimators import PartitionModel, Rounds, UnitRows
from reticent.prediction.neighbors.metric import Metric

#: The share of a unit's budget that measuring the model's error may take.
ERROR_SHARE = 0.002
#: A model whose mean squared error is less answers alone. Votes have noise of about
#: this square, so they could hardly correct it; settled on generated tables.
SURE = 0.03
_BITS = 12

#: Why units vote, or do not, as it is said to people.
NO_MODEL = "units near a question vote; there is no released model"
NOT_ASKED = "a released model answers, as asked for"


class Released(NamedTuple):
    """What a fit has released, and who answers."""

    model: PartitionModel | None
    metric: Metric
    local: bool  #: whether units near a question vote
    reason: str  #: why, from public facts and released numbers


def few_units(n_units: int, questions: int, most: int) -> str:
    """Say that there are too few units, and for how many questions there are not."""
    if not most:
        return f"a released model answers: {n_units} units are too few for local votes"
    return (
        f"a released model answers: {n_units} units are too few for local votes on "
        f"{questions} questions, but would do for {most}"
    )


def sure(error: float) -> str:
    """Say that the model needs no votes."""
    return (
        "a released model answers: its mean squared error, measured with noise, is "
        f"{max(error, 0.0):.4f}, which votes could hardly correct"
    )


def asked_for(n_units: int, questions: int, most: int) -> str:
    """Say that units vote because they were told to, and whether they should."""
    if most >= questions:
        return "units near a question vote, as asked for"
    enough = f"would do for {most}" if most else "are too few for any"
    return (
        f"units near a question vote, as asked for: {n_units} units are too few for "
        f"{questions} questions and {enough}, so a released model would usually be "
        "right more often"
    )


def unsure(error: float) -> str:
    """Say that votes can help the model."""
    return (
        "units near a question vote: the mean squared error of the released model, "
        f"measured with noise, is {error:.3f}"
    )


def noisy_error(
    rows: UnitRows, model: PartitionModel, rounds: Rounds, *, share: float
) -> float:
    """Release the mean squared error of a released model, over all units.

    One round: a unit says the mean over its rows, at most one, and pays for that. What
    units say never points apart.

    Parameters
    ----------
    rows : UnitRows
        The rows.
    model : PartitionModel
        A released model.
    rounds : Rounds
        Whose noise is added, and who pays.
    share : float
        The share of its budget that a unit pays at most.
    """
    norm = 2.0**_BITS
    scale = rounds.budget.scale(norm, share=share, times=1, acute=True)
    mean = model.mean(rows.codes)
    if len(mean) > 1:  # Of several labels: half of what a sure and wrong one has.
        mean = mean / mean.sum(axis=0)
    off = ((rows.targets - mean) ** 2).sum(axis=0) / (1 + (len(mean) > 1))
    part = np.floor(norm * np.minimum(off, 1.0) / rows.sizes[rows.unit])
    said = rows.per_unit(part)
    speaks = rounds.admit(slice(None), said * said, scale, acute=True)
    total = rounds.noisy(np.array([int(said[speaks].sum())]), scale)
    return float(total[0]) / (norm * rows.n_units)
