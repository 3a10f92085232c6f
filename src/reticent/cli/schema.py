"""``reticent schema``: what is publicly known about the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli.init.declarations import Declarations
from reticent.cli.options import (
    AsJson,
    Decimal,
    Encoding,
    Separator,
    Thousands,
    file_format,
)
from reticent.cli.output import DONE, MISUSED, Output, aligned
from reticent.errors import InvalidParameterError
from reticent.schemas import (
    Categorical,
    ClassLabel,
    DatePart,
    DateSpan,
    Numeric,
    Schema,
    check_file,
    open_records,
    plain_number,
    write_document,
)

schema_app = typer.Typer(
    help="Write and check the public schema: columns, ranges, levels, labels, units.",
    no_args_is_help=True,
)

# Levels of a column that a table shows.
_SHOWN = 4

Out = Annotated[Path, typer.Option("--out", "-o", help="Where to write it.")]
Force = Annotated[
    bool, typer.Option("--force", help="Replace a file that is there already.")
]
Ignore = Annotated[
    list[str] | None, typer.Option(help="A column that is not read; repeatable.")
]
Unit = Annotated[
    str | None, typer.Option(help="The column that names the person of a row.")
]


@schema_app.command("draft")
def draft(
    sample: Annotated[Path, typer.Argument(help="A PUBLIC sample: CSV or Parquet.")],
    label: Annotated[str, typer.Option(help="The column to be predicted.")],
    out: Out,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Confirm that every value of the sample is public."
        ),
    ] = False,
    unit: Unit = None,
    ignore: Ignore = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="A column of numbers that are codes; repeatable."),
    ] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Draft a schema from a public sample, to be checked by a person.

    Example: reticent schema draft public.csv --public --label income -o adult.json
    """
    if not public:
        raise typer.BadParameter(
            "a schema is public; drafting it from sensitive rows would publish their "
            "extremes. Pass --public to confirm that the sample is public, or start "
            "from the column names alone: 'reticent schema skeleton'."
        )
    check_free(out, force=force)
    schema = Schema.from_sample(
        sample,
        public=True,
        label=label,
        unit=unit,
        ignored=ignore or (),
        categorical=categorical or (),
        file=file_format(separator, encoding, decimal, thousands),
    )
    schema.write(out)
    Output(as_json).result(
        {"schema": str(out), "columns": len(schema.columns)},
        [f"wrote {out}: {len(schema.columns)} columns. Check every range and level."],
    )


@schema_app.command("skeleton")
def skeleton(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet.")],
    out: Out,
    label: Annotated[
        str | None, typer.Option(help="The column to be predicted.")
    ] = None,
    unit: Unit = None,
    ignore: Ignore = None,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a schema with the column names alone, to be filled in by a person.

    Only the header of the file is read, no row. Every range and level is left to
    public knowledge.

    Example: reticent schema skeleton adult.csv --label income -o skeleton.json
    """
    check_free(out, force=force)
    written = file_format(separator, encoding, decimal, thousands)
    known = Declarations(open_records(data, written=written).names, file=written)
    for name in ignore or ():
        known.ignore(name)
    if unit is not None:
        known.unit_is(unit)
    if label is not None and label not in known.open_names():
        raise InvalidParameterError(
            f"--label {label!r} is not a column of the file, or has another role."
        )
    found = known.skeleton(label)
    write_document(out, found)
    todo = [each["name"] for each in found["columns"]]
    Output(as_json).result(
        {"schema": str(out), "to_be_written": todo, "label": label},
        [
            f"wrote {out}. Write the kind of {len(todo)} columns into it: 'numeric' "
            "with low and high, or 'categorical' with levels, from public knowledge."
        ],
    )


def check_free(out: Path, *, force: bool) -> None:
    """Refuse to write over a file that somebody may have edited."""
    if out.exists() and not out.is_char_device() and not force:
        raise InvalidParameterError(
            f"{out} is there already, and may have been edited by hand. Choose another "
            "name with -o, or replace it with --force."
        )


@schema_app.command("show")
def show(
    schema: Annotated[Path, typer.Argument(help="A schema file.")],
    as_json: AsJson = False,
) -> None:
    """Show a schema as a table."""
    found = Schema.read(schema)
    Output(as_json).result(found.as_dict(), described(found))


def described(schema: Schema) -> list[str]:
    """Return a schema as lines for people."""
    rows: list[tuple[str, ...]] = [("column", "kind", "allowed", "missing", "from")]
    for name, spec in schema.columns.items():
        missing = "yes" if spec.missing else "no"
        kind = "number" if isinstance(spec, Numeric) else "category"
        rows.append((name, kind, _allowed(spec), missing, _source(schema, name)))
    if not schema.readings:
        rows = [row[:-1] for row in rows]
    lines = aligned(rows)
    lines.append("")
    if isinstance(schema.label, ClassLabel):
        classes = ", ".join(map(str, schema.label.classes))
        lines.append(f"to be predicted: {schema.label.name}, one of {classes}")
    elif schema.label is not None:
        low, high = plain_number(schema.label.low), plain_number(schema.label.high)
        lines.append(f"to be predicted: {schema.label.name}, a number {low} to {high}")
    lines.append(f"protected unit: {protected(schema)}")
    if schema.ignored:
        lines.append(f"not read: {', '.join(schema.ignored)}")
    written = schema.file.as_dict()
    if written:
        shown = ", ".join(f"{name} {value!r}" for name, value in written.items())
        lines.append(f"files: {shown}")
    return lines


def protected(schema: Schema) -> str:
    """Say whom a schema protects."""
    if schema.unit is None:
        return "one row"
    return f"one person, with all rows of one {schema.unit!r}"


def _allowed(spec: Any) -> str:
    if isinstance(spec, Categorical):
        shown = ", ".join(map(str, spec.levels[:_SHOWN]))
        rest = len(spec.levels) - _SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return shown + more + (", or others" if spec.other else "")
    text = f"{plain_number(spec.low)} to {plain_number(spec.high)}"
    if spec.transform != "none":
        text += f", on the scale {spec.transform}"
    return text + (", others refused" if spec.outside == "error" else "")


def _source(schema: Schema, name: str) -> str:
    reading = schema.readings.get(name)
    if reading is None:
        return ""
    if isinstance(reading, DatePart):
        return f"{reading.part} of {reading.column} ({reading.format})"
    if isinstance(reading, DateSpan):
        return f"{reading.unit} from {reading.since} to {reading.column}"
    return f"words of {reading.column}, bucket {reading.bucket} of {reading.buckets}"


@schema_app.command("check")
def check(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The schema file.")],
    unlabelled: Annotated[
        bool,
        typer.Option("--unlabelled", help="For rows to ask about: no label, no unit."),
    ] = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    as_json: AsJson = False,
) -> int:
    """Find every cell of a file that does not fit a schema, by column and line.

    Values are not shown. What is shown is for the keeper of the file alone. Exits with
    2 if the file does not fit.

    Example: reticent schema check adult.csv --schema adult.json
    """
    found = Schema.read(schema)
    written = file_format(separator, encoding, decimal, thousands, known=found.file)
    result = check_file(data, found, labelled=not unlabelled, written=written)
    verdict = "fit" if result.fits else "do not fit"
    lines = [f"{data}: {result.n_rows} rows {verdict} {schema}."]
    lines += [f"  {fault}" for fault in result.faults]
    if result.stopped:
        lines.append(f"  {result.stopped}")
    if not result.fits:
        lines.append("Correct the cells, or what the schema allows, and check again.")
    output = Output(as_json)
    message = f"{data} does not fit {schema}: see the faults."
    output.result(
        {
            "data": str(data),
            "rows": result.n_rows,
            "fits": result.fits,
            "faults": [fault.as_dict() for fault in result.faults],
            "stopped": result.stopped,
            **(
                {}
                if result.fits
                else {"error": {"code": "InvalidDataError", "message": message}}
            ),
        },
        lines,
        failed=not result.fits,
    )
    return DONE if result.fits else MISUSED
