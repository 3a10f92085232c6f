"""``reticent predict``: private answers for the rows of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.errors import InvalidParameterError
from reticent.home import Home, ServedModel, answer_rows
from reticent.schemas import Schema, Table, read_table


def predict(
    model: Annotated[str, typer.Argument(help="The name of a model.")],
    data: Annotated[
        Path | None, typer.Argument(help="Rows to ask about: CSV or Parquet.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="One row as JSON, instead of a file.")
    ] = None,
    client: Annotated[str, typer.Option(help="Whose account is charged.")] = "local",
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: the same again costs nothing more."),
    ] = None,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Give no lasting answer with less evidence than this."
        ),
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Answer rows privately, charged to the ledger like every other answer.

    Example: reticent predict income queries.csv
    """
    with Home.existing(home).open_model(model, client=client) as (ledger, served):
        below = _level(served, abstain_below)
        table = _table(served.stored.schema, data, row)
        answered = answer_rows(ledger, served, table, client=client, key=key)
    answers = [json.loads(answer) for answer in answered.answers]
    found: dict[str, Any] = {
        "answers": answers,
        "paid": answered.paid,
        "answers_left": answered.left,
        "certificate": served.stored.certificate.id,
    }
    lines = [str(answer) for answer in answers]
    if answered.evidence is not None:
        silent = [below > 0 and seen < below for seen in answered.evidence]
        found["answers"] = [
            None if none else answer
            for answer, none in zip(answers, silent, strict=True)
        ]
        found["evidence"] = answered.evidence
        lines = [
            f"{'too little evidence' if answer is None else answer} "
            f"(evidence {seen:.4g})"
            for answer, seen in zip(found["answers"], answered.evidence, strict=True)
        ]
    Output(as_json).result(found, lines)


def _level(served: ServedModel, wanted: float | None) -> float:
    """Return the evidence below which nothing is answered."""
    if served.lasting is not None:
        return max(served.lasting.abstain_below, wanted or 0.0)
    if wanted is not None:
        raise InvalidParameterError(
            "--abstain-below is for models whose answers come with evidence."
        )
    return 0.0


def _table(schema: Schema, data: Path | None, row: str | None) -> Table:
    if (data is None) == (row is None):
        raise InvalidParameterError("give a file of rows or --row with one, not both.")
    if data is not None:
        return read_table(data, schema, labelled=False)
    try:
        parsed = json.loads(row or "")
    except ValueError:
        raise InvalidParameterError(
            '--row must be JSON, for example \'{"age": 41, "job": "nurse"}\'.'
        ) from None
    return schema.rows([parsed])
