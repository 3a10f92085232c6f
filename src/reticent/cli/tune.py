"""``reticent tune``: choose settings with the same records, and pay for choosing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent._text import protected_one
from reticent.cli.fit import (
    AcceptNoise,
    BudgetOption,
    ChangeBudget,
    DeltaOption,
    Learner,
    Release,
)
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
from reticent.errors import InvalidParameterError
from reticent.guarantees import in_plain_words
from reticent.home import FitOptions, Home, Tuning, tune_and_store
from reticent.learners import PrivateSearch
from reticent.schemas import Schema

Grid = Annotated[
    str | None,
    typer.Option(
        help='Settings to try, as JSON: {"detail": [0.3, 3]}.',
        show_default="a public list of 6 to 12",
    ),
]


def tune(
    data: Annotated[Path, typer.Argument(help="The sensitive rows: CSV or Parquet.")],
    schema: Annotated[Path, typer.Option(help="The public schema.")],
    name: Annotated[str, typer.Option(help="What to call the model.")] = "model",
    release: Release = True,
    epsilon: Annotated[
        float, typer.Option(help="Cost of choosing, a released model included.")
    ] = 1.0,
    answer_epsilon: Annotated[
        float, typer.Option(help="With --ask: cost of one answer later.")
    ] = 1.0,
    grid: Grid = None,
    runs: Annotated[
        float | None,
        typer.Option(
            help="The most settings to try; without a delta or with --ask, runs on "
            "average.",
            show_default="5 settings, or 10 runs",
        ),
    ] = None,
    budget: BudgetOption = None,
    delta: DeltaOption = None,
    change_budget: ChangeBudget = False,
    dataset: Annotated[
        str, typer.Option(help="Whose budget is spent; one name per population.")
    ] = "data",
    learner: Learner = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a model of this name.")
    ] = False,
    accept_noise: AcceptNoise = False,
    separator: Separator = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Search for good settings privately, and store the model that was found.

    One certificate covers all of it. A release with a delta tries settings on a small
    share of the budget, and keeps the defaults unless one is clearly better. In all
    other cases nothing but the best of a secret number of runs is shown.

    Example: reticent tune adult.csv --schema adult.json --name income --epsilon 1

    Example: reticent tune adult.csv --schema adult.json --ask --epsilon 2
    """
    output = Output(as_json)
    options = FitOptions(
        name=name,
        dataset=dataset,
        epsilon=epsilon if release else answer_epsilon,
        budget=budget,
        delta=delta,
        change_budget=change_budget,
        learner=learner,
        release=release,
        replace=replace,
        accept_noise=accept_noise,
    )
    tuning = Tuning(
        epsilon=epsilon, grid=_grid(grid), runs=runs, verbose=sys.stderr.isatty()
    )
    place = Home.at(home)
    declared = read_schema(schema, separator, encoding, decimal, thousands)
    search = tune_and_store(place, data, declared, options, tuning, note=output.note)
    _report(output, place, search, options, declared)


def _report(
    output: Output,
    place: Home,
    search: PrivateSearch,
    options: FitOptions,
    schema: Schema,
) -> None:
    name, settings = options.name, search.best_params_
    found = {
        "model": name,
        "path": str(place.model_path(name)),
        "settings": settings,
        "score": search.best_score_,
        "trials": [
            {"settings": setting, "score": score}
            for setting, score in getattr(search, "trials_", [])
        ],
        "certificate": search.certificate_.as_dict(),
        "units": search.n_units_,
    }
    chosen = ", ".join(f"{key}={value}" for key, value in settings.items())
    told = (
        f"Score of the trial of this setting, on a small share of the budget and with "
        f"noise: {search.best_score_:.4f}."
        if found["trials"]
        else f"Score of the best run, with noise: {search.best_score_:.4f}. It is the "
        "best of several, so it is too high on average."
    )
    kept = (
        "released, and charged to the dataset with the search. Its answers are free."
        if options.release
        else f"each answer costs {search.best_estimator_.certificate_.guarantee} more."
    )
    output.result(
        found,
        [
            f"{name}: {chosen or 'the defaults; no setting was clearly better'}.",
            told,
            str(search.certificate_),
            in_plain_words(search.certificate_, about=protected_one(schema.unit)),
            f"{name}: {kept}",
        ],
    )


def _grid(text: str | None) -> dict[str, list[Any]] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not (
        isinstance(found, dict)
        and found
        and all(isinstance(values, list) and values for values in found.values())
    ):
        raise InvalidParameterError(
            "--grid must be JSON with a list for each parameter, for example "
            "'{\"detail\": [0.5, 1.0]}'."
        )
    return found
