"""``reticent init``: from a messy file to a model, question by question."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from reticent._text import checked_name, protected_one
from reticent.cli.init.asking import Asker
from reticent.cli.init.columns import Given, declare
from reticent.cli.init.file_look import find_format
from reticent.cli.init.running import parts_if_wanted, run_option
from reticent.cli.options import (
    HOME,
    AsJson,
    Decimal,
    Encoding,
    HomeOption,
    Separator,
    Thousands,
    read_schema,
)
from reticent.cli.output import Output
from reticent.cli.schema import check_free, described
from reticent.cli.serve import serve as run_service
from reticent.errors import InvalidParameterError
from reticent.estimators import unit_positions
from reticent.guarantees import Budget, in_plain_words
from reticent.planning import Option, Plan
from reticent.planning import plan as make_plan
from reticent.schemas import (
    ClassLabel,
    NumericTarget,
    Schema,
    check_file,
    open_records,
    read_table,
)

Many = list[str] | None
_EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)

Numbers = Annotated[
    Many, typer.Option("--numeric", help="A column and its public range: 'age=0:120'.")
]
Levels = Annotated[
    Many, typer.Option("--levels", help="A column and its public values: 'ward=A,B'.")
]
Dates = Annotated[
    Many,
    typer.Option(
        "--date",
        help="A column of dates and how they are written: 'admitted=%d.%m.%Y'. The "
        "month and the weekday are used.",
    ),
]
Spans = Annotated[
    Many,
    typer.Option(
        "--span",
        help="A time between dates: 'stay=discharged since admitted days 0:365'.",
    ),
]
Words = Annotated[
    Many,
    typer.Option("--words", help="Free text, hashed into this many buckets: 'note=8'."),
]
Ignore = Annotated[Many, typer.Option("--ignore", help="A column that is not read.")]
Missing = Annotated[
    Many, typer.Option("--missing", help="A column in which values may be missing.")
]
Unit = Annotated[
    str | None,
    typer.Option(help="The column that says whose row it is; 'row' if none does."),
]
Vouch = Annotated[
    bool,
    typer.Option(
        "--public-facts",
        help="Confirm that ranges and values are public, not read from the file.",
    ),
]
Questions = Annotated[
    str | None,
    typer.Option(
        help="How many questions will be asked, or 'unlimited'.",
        show_default="unlimited",
    ),
]
Serve = Annotated[bool, typer.Option("--serve", help="Serve the model at the end.")]


SchemaFile = Annotated[
    Path | None, typer.Option(help="A schema that is written already.")
]
Label = Annotated[str | None, typer.Option(help="The column to be predicted.")]
Classes = Annotated[
    str | None, typer.Option(help="All values that it can have: 'no,yes'.")
]
TargetRange = Annotated[
    str | None, typer.Option(help="Its range, if it is a number: 0:100.")
]
Epsilon = Annotated[
    float | None, typer.Option(help="What all of it may cost in total.")
]
Dataset = Annotated[
    str, typer.Option(help="Whose budget is spent; one name per population.")
]
Measure = Annotated[
    bool | None,
    typer.Option(
        "--measure/--no-measure",
        help="Keep a part of the budget to measure how good the model is, on a tenth "
        "of the units, which are held out.",
        show_default="asks; in a pipe, no",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Take the proposed method.")]


def init(
    data: Annotated[Path, typer.Argument(help="The sensitive rows: CSV or Parquet.")],
    schema: SchemaFile = None,
    label: Label = None,
    classes: Classes = None,
    target_range: TargetRange = None,
    unit: Unit = None,
    numeric: Numbers = None,
    levels: Levels = None,
    date: Dates = None,
    span: Spans = None,
    words: Words = None,
    ignore: Ignore = None,
    missing: Missing = None,
    public_facts: Vouch = False,
    epsilon: Epsilon = None,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-6,
    questions: Questions = None,
    name: Annotated[str, typer.Option(help="What to call the model.")] = "model",
    dataset: Dataset = "data",
    yes: Yes = False,
    measure: Measure = None,
    serve: Serve = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Go from a file of records to a private model, question by question.

    At a terminal it asks for whatever options do not say. In a pipe options must say
    everything. Ranges, lists of values and whom to protect are never read from the
    file: a person has to vouch for them.

    Example: reticent init patients.csv
    """
    ask = Asker(Output(as_json), interactive=sys.stdin.isatty() and not as_json)
    checked_name("--name", name)
    checked_name("--dataset", dataset)
    if epsilon is not None:
        _positive(repr(epsilon))  # before anything is written
    written: dict[str, str | None] = {"separator": separator, "encoding": encoding}
    written |= {"decimal": decimal, "thousands": thousands}
    if schema is None:
        given = Given(
            *(label, classes, target_range, unit),
            *(each or [] for each in (numeric, levels, date, span, words)),
            *(each or [] for each in (ignore, missing)),
        )
        schema = _write_schema(data, given, written, ask, public_facts)
        written = dict.fromkeys(written)  # the schema has them now
    declared = read_schema(schema, *written.values())
    _check_rows(data, schema, declared, ask)
    budget = _budget(ask, epsilon, delta, declared)
    option, units = _method(ask, declared, data, budget, questions, yes=yes)
    parts = parts_if_wanted(ask, option, budget, units, measure)
    named = {"name": name, "dataset": dataset, "home": home, **written}
    run_option(option, data, schema, budget, parts, ask.output, named)
    if serve or _wants_service(ask):
        run_service(port=int(os.environ.get("RETICENT_PORT", "8000")), home=home)


def _check_rows(data: Path, schema: Path, declared: Schema, ask: Asker) -> None:
    """Refuse a file that does not fit, with every cell that does not."""
    found = check_file(data, declared)
    for fault in found.faults:
        ask.output.note(f"  {fault}")
    if not found.fits:
        raise InvalidParameterError(
            f"{data} does not fit {schema}. {found.stopped} Correct the cells, or what "
            f"the schema allows; then run 'reticent init {data} --schema {schema}'."
        )


def _write_schema(
    data: Path,
    given: Given,
    written: dict[str, str | None],
    ask: Asker,
    public_facts: bool,
) -> Path:
    """Ask what the columns are, and write it down."""
    out = data.with_name(f"{data.name.split('.')[0]}.schema.json")
    if out.exists():
        raise InvalidParameterError(
            f"{out} is there already. Use it with --schema {out}, or move it away."
        )
    check_free(out, force=False)
    form = find_format(data, ask, written)
    names = open_records(data, written=form).names
    ask.say("", f"{data} has {len(names)} columns: {', '.join(names)}.")
    known = declare(names, form, given, ask)
    declared = known.schema()
    ask.say("", *described(declared), "")
    ask.agree(
        "Are all these ranges and values public, so that they would be the same if any "
        "one person were not in the file?",
        "--public-facts",
        given=public_facts,
    )
    declared.write(out)
    ask.say(f"wrote {out}.")
    return out


def _budget(ask: Asker, epsilon: float | None, delta: float, schema: Schema) -> Budget:
    about = protected_one(schema.unit)
    ask.say(
        "",
        "How much may anybody learn in total, from all answers together (epsilon)?",
        *(
            f"  {in_plain_words(Budget(each, delta), about=about)}"
            for each in _EPSILONS
        ),
    )
    chosen = ask.ask(
        "Epsilon",
        "--epsilon, such as --epsilon 1",
        _positive,
        given=None if epsilon is None else repr(epsilon),
    )
    return Budget(chosen, delta)


def _positive(text: str) -> float:
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise InvalidParameterError(f"epsilon must be a number above 0; got {text!r}.")
    return number


def _questions(text: str) -> int | None:
    if text == "unlimited":
        return None
    if not (text.isdigit() and int(text) > 0):
        raise InvalidParameterError("answer with a whole number, or unlimited.")
    return int(text)


def _method(
    ask: Asker,
    schema: Schema,
    data: Path,
    budget: Budget,
    questions: str | None,
    *,
    yes: bool,
) -> tuple[Option, int]:
    """Return the planner's first method that a command runs, and the units."""
    asked = ask.ask(
        "How many questions will be asked (a number, or unlimited)?",
        "--questions",
        _questions,
        given=questions,
        default="unlimited",
    )
    table = read_table(data, schema)
    _, units = unit_positions(table.units, len(table))
    plan: Plan = make_plan(
        "regression" if isinstance(schema.label, NumericTarget) else "classification",
        units,
        budget.epsilon,
        delta=budget.delta,
        queries=asked,
        schema=schema,
    )
    runnable = [option for option in plan.options if option.command]
    if not runnable:
        raise InvalidParameterError(
            "no method of 'reticent fit' fits these facts; see 'reticent plan'."
        )
    option = runnable[0]
    ask.say(
        "", f"Proposed for {units} units: {option.title}.", *_expected(option, schema)
    )
    if not yes and ask.interactive:
        ask.agree("Continue with it?", "--yes", given=False)
    return option, units


def _expected(option: Option, schema: Schema) -> list[str]:
    if option.estimate is None:
        return []
    if isinstance(schema.label, ClassLabel):
        right = f"right about {100 * (1 - option.estimate):.0f} times in 100"
    else:
        right = f"off by about {100 * option.estimate:.0f} % of the range"
    return [
        f"Its answers are expected to be {right}. This is an estimate from public "
        "tables, not a promise."
    ]


def _wants_service(ask: Asker) -> bool:
    return ask.confirmed("Serve it now, with a dashboard?", default=False)
