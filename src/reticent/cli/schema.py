"""``reticent schema``: what is publicly known about the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import AsJson
from reticent.cli.output import Output, aligned
from reticent.schemas import Schema, read_batches

schema_app = typer.Typer(
    help="Write and check the public schema: columns, ranges, levels, labels, units.",
    no_args_is_help=True,
)


@schema_app.command("draft")
def draft(
    sample: Annotated[Path, typer.Argument(help="A PUBLIC sample: CSV or Parquet.")],
    label: Annotated[str, typer.Option(help="The column to be predicted.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write it.")],
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Confirm that every value of the sample is public."
        ),
    ] = False,
    unit: Annotated[
        str | None, typer.Option(help="The column that names the person of a row.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from a public sample, to be checked by a person.

    Example: reticent schema draft public.csv --public --label income -o adult.json
    """
    if not public:
        raise typer.BadParameter(
            "a schema is public; drafting it from sensitive rows would publish their "
            "extremes. Pass --public to confirm that the sample is public, or write "
            "the schema by hand."
        )
    schema = Schema.from_sample(sample, public=True, label=label, unit=unit)
    schema.write(out)
    Output(as_json).result(
        {"schema": str(out), "columns": len(schema.columns)},
        [f"wrote {out}: {len(schema.columns)} columns. Check every range and level."],
    )


@schema_app.command("show")
def show(
    schema: Annotated[Path, typer.Argument(help="A schema file.")],
    as_json: AsJson = False,
) -> None:
    """Show a schema as a table."""
    found = Schema.read(schema)
    rows = [(name, str(column)) for name, column in found.columns.items()]
    label = [("label", str(found.label))] if found.label is not None else []
    Output(as_json).result(found.as_dict(), aligned([*rows, *label]))


@schema_app.command("check")
def check(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The schema file.")],
    as_json: AsJson = False,
) -> None:
    """Check that every row of a file fits a schema, without keeping it in memory.

    Example: reticent schema check adult.csv --schema adult.json
    """
    found = Schema.read(schema)
    rows = sum(len(batch) for batch in read_batches(data, found))
    Output(as_json).result(
        {"data": str(data), "rows": rows, "fits": True},
        [f"{data}: {rows} rows fit {schema}."],
    )
