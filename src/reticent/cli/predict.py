"""``reticent predict``: private answers for the rows of a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent._text import counted, protected_one
from reticent.cli.options import (
    HOME,
    AsJson,
    Decimal,
    Encoding,
    HomeOption,
    Separator,
    Thousands,
    file_format,
)
from reticent.cli.output import Output, check_new_file
from reticent.errors import IdempotencyKeyReusedError, InvalidParameterError
from reticent.guarantees import guess_in_words
from reticent.home import (
    Home,
    ServedModel,
    answer_rows,
    client_account,
    request_key,
)
from reticent.prediction import PaidAnswers
from reticent.schemas import FileFormat, Table, open_records, read_table

Key = Annotated[
    str | None,
    typer.Option(
        help="Idempotency key: repeated with the same rows, it costs nothing."
    ),
]
AbstainBelow = Annotated[
    float | None,
    typer.Option(min=0.0, help="Give no lasting answer with less evidence than this."),
]
Save = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write rows and answers to this CSV file."),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, help="Ask about the first rows only, at most this many."),
]
Clip = Annotated[
    bool,
    typer.Option(
        "--clip",
        help="Move numbers outside their range to its nearer end, where the schema "
        "does so, instead of refusing them.",
    ),
]


def predict(
    model: Annotated[str, typer.Argument(help="The name of a model.")],
    data: Annotated[
        Path | None, typer.Argument(help="Rows to ask about: CSV or Parquet.")
    ] = None,
    row: Annotated[
        str | None, typer.Option(help="One row as JSON, instead of a file.")
    ] = None,
    client: Annotated[str, typer.Option(help="Whose account is charged.")] = "local",
    key: Key = None,
    abstain_below: AbstainBelow = None,
    output: Save = None,
    limit: Limit = None,
    clip: Clip = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Answer rows privately, charged to the ledger like every other answer.

    Answers go to standard output, or with --output to a file; what they cost goes to
    standard error. Numbers outside their range are refused before anything is charged.

    Example: reticent predict income queries.csv

    Example: reticent predict income queries.csv --limit 2 --output answered.csv
    """
    if output is not None:
        check_new_file("--output", output)
    place, options = Home.existing(home), (separator, encoding, decimal, thousands)
    client_account(client)  # refuses what is not a name
    request_key(client, key)
    asked: list[tuple[float, FileFormat, Table]] = []
    said = Output(as_json)

    def read(served: ServedModel) -> None:
        written = file_format(*options, known=served.stored.schema.file)
        table = _table(served, data, row, written, clip=clip)
        if limit is not None and len(table) > limit:
            table = table.take(range(limit))
        asked.append((_level(served, abstain_below), written, table))
        if served.near_chance is not None:
            said.note(f"warning: answers are near chance: {served.near_chance}")
        if served.charge is not None and served.consensus is None:
            said.note(
                f"this asks {counted(len(table), 'question')}. New ones cost "
                f"{served.stated} each; those that were answered before are free."
            )

    with place.open_model(model, client=client, first=read) as (ledger, served):
        ((below, written, table),) = asked
        try:
            answered = answer_rows(ledger, served, table, client=client, key=key)
        except IdempotencyKeyReusedError:
            raise IdempotencyKeyReusedError(
                f"--key {key!r} was used before, for other rows or another model. Give "
                "each request a key of its own; nothing was charged."
            ) from None
    found = _found(served, answered, below)
    # With a file, the answers are in it; the screen has what they cost.
    said.result(found, _lines(served, found) if output is None else [])
    for line in _costs(served, answered, client):
        said.note(line)
    if output is not None:
        _save(output, found, _given(data, row, written), written)
        said.note(f"wrote {len(found['answers'])} rows to {output}.")


def _found(served: ServedModel, answered: PaidAnswers, below: float) -> dict[str, Any]:
    answers = [json.loads(answer) for answer in answered.answers]
    found: dict[str, Any] = {
        "answers": answers,
        "paid": answered.paid,
        "answers_left": answered.left,
        "certificate": served.stored.certificate.id,
        "cost": served.loss,
    }
    if served.near_chance is not None:
        found["near_chance"] = served.near_chance
    if answered.evidence is not None:
        silent = [below > 0 and seen < below for seen in answered.evidence]
        found["answers"] = [
            None if none else answer
            for answer, none in zip(answers, silent, strict=True)
        ]
        found["evidence"] = answered.evidence
    return found


def _lines(served: ServedModel, found: dict[str, Any]) -> list[str]:
    if served.lasting is None or not served.lasting.local:
        return [str(answer) for answer in found["answers"]]
    few = "too little evidence"
    return [
        f"{few if answer is None else answer} (evidence {_shown(seen)})"
        for answer, seen in zip(found["answers"], found["evidence"], strict=True)
    ]


def _shown(evidence: float) -> str:
    """Return evidence as text; noise can make it less than nothing."""
    return f"{evidence:.4g}" if evidence >= 0 else "about 0"


def _costs(served: ServedModel, answered: PaidAnswers, client: str) -> list[str]:
    """Say what the answers cost, what is left, and what an answer means."""
    about = protected_one(served.stored.schema.unit)
    if served.lasting is not None:
        return [
            f"free: all answers together are covered by {served.stated}.",
            guess_in_words(served.certificate, about=about),
        ]
    if answered.left is None:
        return ["free: the model was released, and paid for then."]
    again = len(answered.answers) - answered.paid
    known = f", {again} remembered" if again else ""
    return [
        f"paid for {counted(answered.paid, 'answer')}{known}, each {served.stated}; "
        f"{answered.left} more {'is' if answered.left == 1 else 'are'} left for "
        f"{client!r}.",
        f"About one answer: {guess_in_words(served.certificate, about=about)}",
    ]


def _save(
    output: Path,
    found: dict[str, Any],
    given: Iterator[dict[str, Any]],
    written: FileFormat,
) -> None:
    """Write the rows as they were given, with the answer beside each."""
    output.touch(mode=0o600)
    extra = ["prediction", *(["evidence"] if "evidence" in found else [])]
    with output.open("w", encoding=written.encoding, newline="") as file:
        writer: Any = None
        for place, answer in enumerate(found["answers"]):
            row = next(given)
            if writer is None:
                names = [_fresh(name, row) for name in extra]
                between = written.separator or ","
                writer = csv.writer(file, delimiter=between, lineterminator="\n")
                writer.writerow([*row, *names])
            told = ["" if answer is None else answer]
            if "evidence" in found:
                told.append(f"{found['evidence'][place]:.6g}")
            cells = ["" if cell is None else cell for cell in row.values()]
            writer.writerow([*cells, *told])


def _fresh(name: str, row: dict[str, Any]) -> str:
    while name in row:
        name = f"{name} (answer)"
    return name


def _given(
    data: Path | None, row: str | None, written: FileFormat
) -> Iterator[dict[str, Any]]:
    """Yield the rows as they were given, cells as text."""
    if data is None:
        yield json.loads(row or "")
        return
    file = open_records(data, written=written)
    for chunk in file.chunks(list(dict.fromkeys(file.names))):
        yield from chunk.to_pylist()


def _level(served: ServedModel, wanted: float | None) -> float:
    """Return the evidence below which nothing is answered."""
    if served.lasting is not None:
        return served.lasting.level(wanted)
    if wanted is not None:
        raise InvalidParameterError(
            "--abstain-below is for models whose answers come with evidence."
        )
    return 0.0


def _table(
    served: ServedModel,
    data: Path | None,
    row: str | None,
    written: FileFormat,
    *,
    clip: bool,
) -> Table:
    schema = served.stored.schema
    if (data is None) == (row is None):
        neither = "neither was given" if data is None else "not both"
        raise InvalidParameterError(
            f"give a file of rows or --row with one; {neither}."
        )
    if data is not None:
        return read_table(data, schema, labelled=False, written=written, clip=clip)
    try:
        parsed = json.loads(row or "")
    except ValueError:
        raise InvalidParameterError(
            '--row must be JSON, for example \'{"age": 41, "job": "nurse"}\'.'
        ) from None
    return schema.rows([parsed], clip=clip)
