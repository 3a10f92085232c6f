"""How good a stored model is on labelled rows: measured, paid for and remembered."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import InvalidParameterError, OnlyNoiseError
from reticent.estimators import unit_positions
from reticent.evaluation import Evaluation, PrivateMetric
from reticent.guarantees import Certificate
from reticent.home.home import Home
from reticent.home.served_models import (
    ServedModel,
    client_account,
    paying_accounts,
)
from reticent.learners import PrivateTabularClassifier, PrivateTabularRegressor
from reticent.ledger import Charge, Ledger, Request
from reticent.prediction import answer
from reticent.schemas import NumericTarget, Table, read_table

#: What can be measured.
METRICS = ("accuracy", "auc", "calibration", "confusion", "log-loss", "r2")
_NEED_PROBABILITIES = ("auc", "calibration", "log-loss")
_TAKE_UNITS = ("accuracy", "log-loss")
_WITHOUT_ROUNDING = (PrivateTabularClassifier, PrivateTabularRegressor)


def evaluate_model(
    home: Home,
    name: str,
    data: str | os.PathLike[str] | Table,
    *,
    metric: str = "accuracy",
    epsilon: float = 0.1,
    confidence: float = 0.95,
    client: str = "evaluation",
    accept_noise: bool = False,
    note: Callable[[str], None] | None = None,
) -> PrivateMetric:
    """Measure a model on labelled rows that it was not trained on.

    The metric is charged to the model's dataset before its noise is drawn. Answers of
    a model that was not released are charged like all others, but not remembered. The
    result is added to the model's history.

    Parameters
    ----------
    home : Home
        Where the model is.
    name : str
        The model.
    data : path or Table
        Labelled rows: CSV or Parquet, or rows that the model's schema has checked.
    metric : str, default="accuracy"
        One of `METRICS`.
    epsilon : float, default=0.1
        Privacy cost of the metric, for the people in `data`.
    confidence : float, default=0.95
        Confidence of the interval.
    client : str, default="evaluation"
        Whose account pays for answers, in addition to the dataset's.
    accept_noise : bool, default=False
        Whether to measure even if the interval cannot say anything.
    note : callable or None, default=None
        Called with what the measurement costs, before it is paid.

    Raises
    ------
    OnlyNoiseError
        If there are too few rows for this epsilon; nothing is charged then.
    """
    if metric not in METRICS:
        raise InvalidParameterError(
            f"metric={metric!r} must be one of {', '.join(METRICS)}."
        )
    Evaluation(epsilon, confidence)  # refuses numbers before a cost is announced
    read: list[Table] = []

    def check(served: ServedModel) -> None:
        rows = (
            data if isinstance(data, Table) else read_table(data, served.stored.schema)
        )
        read.append(rows)
        _check(served, rows, metric)
        if not accept_noise:
            _check_rows(rows, epsilon, confidence)
        if note is not None:
            note(_announced(served, rows, epsilon))

    with home.open_model(name, client=client, first=check) as (ledger, served):
        (table,) = read

        def pay(certificate: Certificate[Any]) -> None:
            _charge(home, ledger, served, certificate)

        how = Evaluation(epsilon, confidence, pay)
        if metric in _NEED_PROBABILITIES:
            found = _of_probabilities(how, served, table, metric)
        else:
            answers = _asked(ledger, served, table, client)
            found = _of_answers(how, served, table, metric, answers)
        _remember(home, served, found, epsilon)
    return found


def evaluation_history(home: Home, name: str) -> list[dict[str, Any]]:
    """Return all measurements of a model, oldest first.

    Each says whether the metric fell (`fell`): its interval lies below an earlier one
    of the same model and metric. If both intervals contain the truth, the metric really
    fell. A log loss that grows counts as a fall.
    """
    path = _history(home, name)
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [
        {**row, "fell": any(_worse(row, earlier) for earlier in found[:place])}
        for place, row in enumerate(found)
    ]


def _worse(row: dict[str, Any], earlier: dict[str, Any]) -> bool:
    """Return whether a whole interval is worse than an earlier one."""
    same = all(row.get(key) == earlier.get(key) for key in ("model", "metric"))
    if not same or isinstance(row["value"], list):
        return False
    if row["metric"] == "log loss":
        return bool(row["low"] > earlier["high"])
    return earlier["low"] is not None and bool(row["high"] < earlier["low"])


def _asked(
    ledger: Ledger, served: ServedModel, table: Table, client: str
) -> NDArray[Any]:
    """Draw an answer for every row, and pay for all of them.

    The measured rows are sensitive, so nothing that anybody can see later may depend on
    them: answers are not remembered, equal rows are paid for one by one, and the ledger
    gets random names instead of hashes of the rows.
    """
    if served.charge is None:
        drawn = _unit_by_unit(served, table, served.draw)
    else:
        request = Request(
            key=f"/evaluation/{secrets.token_hex(16)}",
            accounts=(*served.accounts, client_account(client)),
            charge=served.charge,
            queries=tuple(secrets.token_bytes(16) for _ in range(len(table))),
        )
        receipt = answer(
            ledger, request, lambda places: served.draw(table.take(list(places)))
        )
        drawn = [each for each in receipt.answers if each is not None]
    return np.array([json.loads(each) for each in drawn])


def _unit_by_unit(
    served: ServedModel, table: Table, say: Callable[[Table], Any]
) -> list[Any]:
    """Return what a release says about each row; a unit's rows meet nobody else's.

    A product of matrices rounds a row by its place and by the number of rows. How many
    rows a unit has is a secret, so it must not move what is said about others. Models
    of tables add up without rounding, so that they may see all rows at once.
    """
    if table.units is None or isinstance(served.stored.predictor, _WITHOUT_ROUNDING):
        return list(say(table))
    positions, n_units = unit_positions(table.units, len(table))
    order = np.argsort(positions, kind="stable")
    ends = np.cumsum(np.bincount(positions, minlength=n_units))
    said: list[Any] = [None] * len(table)
    for own in np.split(order, ends[:-1]):
        for row, about in zip(own.tolist(), say(table.take(own)), strict=True):
            said[row] = about
    return said


def _check(served: ServedModel, table: Table, metric: str) -> None:
    if served.lasting is not None or served.consensus is not None:
        raise InvalidParameterError(
            f"model {served.name!r} remembers what it was asked, and its later answers "
            "depend on it; the measured rows are sensitive and must not be asked. "
            "Measure a release, or a predictor without consensus, of the same data."
        )
    number = isinstance(served.stored.schema.label, NumericTarget)
    if number != (metric == "r2"):
        raise InvalidParameterError(
            f"metric={metric!r} does not fit a model that answers with "
            f"{'numbers: use r2' if number else 'labels: r2 is for numbers'}."
        )
    if metric in _NEED_PROBABILITIES and (
        served.stored.charged or not hasattr(served.stored.predictor, "predict_proba")
    ):
        raise InvalidParameterError(
            f"metric={metric!r} needs probabilities, which model {served.name!r} does "
            "not give. Released classifiers do; accuracy and confusion need none."
        )
    _, n_units = unit_positions(table.units, len(table))
    repeated = n_units < len(table)
    # How many rows a person has is a secret, so it must not show in what is charged.
    if repeated and (metric not in _TAKE_UNITS or served.charge is not None):
        raise InvalidParameterError(
            f"metric={metric!r} needs one row for each unit; keep one row of each."
        )


def _check_rows(table: Table, epsilon: float, confidence: float) -> None:
    """Refuse rows so few that noise alone fills the interval.

    Every metric rests on sums to which a unit adds at most 1, with noise of scale
    ``1 / epsilon`` or more. Public facts decide: the number of units is no secret.
    """
    _, units = unit_positions(table.units, len(table))
    if not (epsilon > 0 and 0 < confidence < 1):
        return  # named where the numbers are used
    noise = -math.log1p(-confidence) / epsilon
    if not noise < units / 2:
        raise OnlyNoiseError(
            f"{units} units at epsilon={epsilon:g} measure nothing: the noise of the "
            f"metric alone is as wide as its range. Give at least "
            f"{math.floor(2 * noise) + 1} units, or an epsilon above "
            f"{2 * noise * epsilon / units:.2g}, or accept the noise (--accept-noise)."
        )


def _announced(served: ServedModel, table: Table, epsilon: float) -> str:
    """Say what a measurement costs, before it is paid."""
    answers = " (the answers of a release are free)"
    if served.charge is not None:
        answers = f", and {len(table)} answers at {served.charge}"
    dataset = served.stored.dataset.name
    cost = f"ε = {epsilon:g} for the metric{answers}"
    return f"this costs {cost}. Dataset {dataset!r} pays."


def _truth(served: ServedModel, table: Table) -> NDArray[Any]:
    """Return the labels as the schema has them, or the numbers."""
    label: Any = table.label
    if served.stored.classes is None:
        return np.asarray(label, dtype=np.float64)
    return np.array([served.stored.schema.classes[code] for code in label])


def _of_answers(
    how: Evaluation, served: ServedModel, table: Table, metric: str, answers: Any
) -> PrivateMetric:
    truth = _truth(served, table)
    if metric == "accuracy":
        return how.accuracy(truth, answers, units=table.units)
    if metric == "confusion":
        return how.confusion(truth, answers, list(served.stored.schema.classes))
    target: Any = served.stored.schema.label
    return how.r2(truth, answers, (target.low, target.high))


def _of_probabilities(
    how: Evaluation, served: ServedModel, table: Table, metric: str
) -> PrivateMetric:
    stored = served.stored
    model: Any = stored.predictor
    said = np.array(
        _unit_by_unit(
            served,
            table,
            lambda own: model.predict_proba(stored.encoder.transform(own)),
        )
    )
    names = list(stored.classes or ())
    truth = _truth(served, table)
    if metric == "log-loss":
        return how.log_loss(truth, said, names, units=table.units)
    if len(names) != 2:
        raise InvalidParameterError(f"metric={metric!r} is for two labels.")
    if metric == "auc":
        return how.auc(truth, said[:, 1], names[1])
    return how.calibration(truth, said[:, 1], names[1])


def _charge(
    home: Home, ledger: Ledger, served: ServedModel, certificate: Certificate[Any]
) -> None:
    ledger.charge(
        Request(
            key=f"/evaluation/{secrets.token_hex(16)}",
            accounts=paying_accounts(home.settings(), served.stored.dataset.name),
            charge=Charge.of(certificate),
            queries=(b"a metric",),
        )
    )


def _history(home: Home, name: str) -> Path:
    return home.path / "evaluations" / f"{name}.jsonl"


def _remember(
    home: Home, served: ServedModel, found: PrivateMetric, epsilon: float
) -> None:
    path = _history(home, served.name)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"time": moment, "model": served.stored.id, "epsilon": epsilon}
    line = json.dumps({**about, **found.as_dict()})
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
