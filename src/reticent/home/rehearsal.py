"""What a release can be worth on a small table: tried on rows that are made up.

The rows follow from the public schema and the number of units alone. Every column is
half determined by the label, so that there is much to learn. A learner whose noise
drowns even that will hardly do better on real rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from reticent.errors import ReticentWarning
from reticent.estimators import ReleaseExpectation, without_noise
from reticent.schemas import Categorical, Encoder, NumericTarget, Schema, Table

# With more units than this a release is not rehearsed: it would take long, and noise
# is no longer what limits it.
_MOST_UNITS = 1000
_TEST_ROWS = 1000
_TIMES = 12


def rehearse(model: Any, encoder: Encoder, n_units: int) -> ReleaseExpectation | None:
    """Try a learner on made-up rows; None if there are enough for noise to be small.

    Parameters
    ----------
    model : estimator
        A learner whose model is released; it is cloned.
    encoder : Encoder
        How rows are encoded; it has the schema.
    n_units : int
        Number of units of the table that it is for.

    Returns
    -------
    ReleaseExpectation or None
        Its `best` is the mean score of the trials less their standard error.
    """
    rng, schema = np.random.default_rng(0), encoder.schema
    if n_units > _MOST_UNITS:
        return None
    number = isinstance(schema.label, NumericTarget)
    scores = []
    for seed in range(_TIMES):
        rows, hidden = _made_up(schema, n_units, rng)
        trial = _seeded(clone(model), seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReticentWarning)
            trial.fit(encoder.transform(rows), _label(schema, hidden))
        rows, hidden = _made_up(schema, _TEST_ROWS, rng)
        said, truth = trial.predict(encoder.transform(rows)), _label(schema, hidden)
        if number:
            scores.append(1 - np.mean((said - truth) ** 2) / truth.var())
        else:
            scores.append(np.mean(said == truth))
    labels = 1 if number else len(schema.classes)
    chance = 0.0 if number else 1 / labels
    # Cautious: noise that helps by luck in some of the trials must not decide.
    doubt = np.std(scores) / np.sqrt(_TIMES)
    return ReleaseExpectation(
        float(np.mean(scores) - doubt),
        chance,
        n_units,
        without_noise(labels, len(schema.columns)),
        tried=True,
    )


def _seeded(model: Any, seed: int) -> Any:
    """Fix the noise: nobody is in these rows, and equal facts give equal results."""
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    return model


def _made_up(
    schema: Schema, n: int, rng: np.random.Generator
) -> tuple[Table, NDArray[np.float64]]:
    """Draw rows, and for each a number in [0, 1] that half determines every column."""
    cells: dict[str, Any] = {}
    hidden = rng.uniform(size=n)
    for name, column in schema.columns.items():
        place = (hidden + rng.uniform(size=n)) / 2
        if isinstance(column, Categorical):
            codes = (place * len(column.levels)).astype(int)
            cells[name] = [column.levels[code] for code in codes]
        else:
            cells[name] = column.low + place * (column.high - column.low)
    return schema.table(cells), hidden


def _label(schema: Schema, hidden: NDArray[np.float64]) -> NDArray[Any]:
    target: Any = schema.label
    if isinstance(target, NumericTarget):
        return np.asarray(target.low + hidden * (target.high - target.low))
    return (hidden * len(schema.classes)).astype(np.int64)
