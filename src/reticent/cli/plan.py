"""``reticent plan``: which method, from what is known before anybody looks at data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from reticent._text import protected_one
from reticent.cli.options import AsJson
from reticent.cli.output import Output
from reticent.errors import InvalidParameterError
from reticent.guarantees import Budget, in_plain_words
from reticent.planning import Plan
from reticent.planning import plan as make_plan
from reticent.schemas import NumericTarget, Schema

UnitRows = Annotated[
    int | None,
    typer.Option(help="The largest number of rows of one person.", show_default="1"),
]
Accuracy = Annotated[
    float | None, typer.Option(help="Accuracy wanted: says how many rows it takes.")
]
BaseAccuracy = Annotated[
    float | None, typer.Option(help="Guess of boosted trees without privacy.")
]
LinearAccuracy = Annotated[
    float | None, typer.Option(help="Guess of a linear model without privacy.")
]
Majority = Annotated[
    float | None, typer.Option(help="Guess of the most frequent label's share.")
]
Plot = Annotated[
    Path | None, typer.Option(help="Draw error against queries, epsilon and rows.")
]


def plan(
    rows: Annotated[int, typer.Option(help="Number of sensitive rows.")],
    epsilon: Annotated[
        float, typer.Option(help="What all answers, or the release, may cost.")
    ] = 1.0,
    delta: Annotated[float, typer.Option(help="Its delta; 0 for pure privacy.")] = 1e-6,
    queries: Annotated[
        str, typer.Option(help="How many different queries, or 'unlimited'.")
    ] = "unlimited",
    schema: Annotated[
        Path | None, typer.Option(help="The public schema: columns, labels, task.")
    ] = None,
    features: Annotated[int, typer.Option(help="Number of columns.")] = 10,
    labels: Annotated[
        int, typer.Option(help="Number of labels; 1 to predict a number.")
    ] = 2,
    dimension: Annotated[
        int | None, typer.Option(help="VC dimension for the lower bound.")
    ] = None,
    public: Annotated[int, typer.Option(help="Public rows without labels.")] = 0,
    unit_rows: UnitRows = None,
    accuracy: Accuracy = None,
    base_accuracy: BaseAccuracy = None,
    linear_accuracy: LinearAccuracy = None,
    majority: Majority = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Rank the ways to answer queries privately. No data are looked at.

    Estimates come from a learning curve typical of public tables; bounds are theorems.

    Example: reticent plan --rows 32561 --features 14 --epsilon 1 --queries 1000

    Example: reticent plan --rows 5000 --schema adult.json --accuracy 0.8 --plot p.png
    """
    declared = None if schema is None else Schema.read(schema)
    number = labels == 1
    if declared is not None:
        number = isinstance(declared.label, NumericTarget)
    found = make_plan(
        "regression" if number else "classification",
        rows,
        epsilon,
        delta=delta,
        queries=_queries(queries),
        alpha=None if accuracy is None else _error_of(accuracy),
        d=dimension,
        features=features,
        labels=1 if number else labels,
        public=public,
        rows_per_unit=1 if unit_rows is None else unit_rows,
        base_accuracy=base_accuracy,
        linear_accuracy=linear_accuracy,
        majority=majority,
        schema=declared,
    )
    output = Output(as_json)
    if plot is not None:
        found.plot(plot)
        output.note(f"drawn: {plot}")
    if declared is not None and unit_rows is None:
        _warn_of_units(output, declared, rows)
    about = protected_one() if declared is None else protected_one(declared.unit)
    meaning = in_plain_words(Budget(epsilon, delta), about=about)
    output.result(
        json.loads(found.to_json()), [*str(found).splitlines(), meaning, *_next(found)]
    )


def _warn_of_units(output: Output, schema: Schema, rows: int) -> None:
    """Say that a unit may have several rows, if nobody has said how many."""
    if schema.unit is not None:
        output.note(
            f"warning: the schema protects all rows of one {schema.unit!r} together, "
            f"and this plan takes {rows} rows for {rows} units. Give --unit-rows, the "
            "most rows that one of them has, or the number of units as --rows."
        )


def _next(found: Plan) -> list[str]:
    """Return what to do: the first option's reason, and how to carry it out."""
    best = found.best
    how = best.command or (
        f"{best.estimator}, built by reticent.planning.plan(...).best.build(schema=...)"
    )
    return [f"Take option 1 ({best.reason}):", f"  {how}"]


def _queries(text: str) -> int | None:
    if text == "unlimited":
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (1 <= number < math.inf and number == math.floor(number)):
        raise InvalidParameterError(
            f"--queries {text!r} must be a whole number >= 1, or 'unlimited'."
        )
    return int(number)


def _error_of(accuracy: float) -> float:
    if not 0 < accuracy < 1:
        raise InvalidParameterError(
            f"--accuracy {accuracy!r} must be between 0 and 1, such as 0.8."
        )
    return 1 - accuracy
