"""``reticent erase``: take one person out of the models of a home."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import DONE, FAILED, Output
from reticent.errors import InvalidParameterError
from reticent.home import Home, erase_unit


def erase(
    data: Annotated[
        Path,
        typer.Argument(
            help="The file the models were trained on, with the person in it."
        ),
    ],
    unit: Annotated[
        str, typer.Option(help="The person's id, as in the schema's unit column.")
    ],
    dataset: Annotated[
        str, typer.Option(help="The dataset whose models are changed.")
    ] = "data",
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> int:
    """Take one person out of every model on a dataset, as far as each method allows.

    Stop the service first. Only the shard that held the person is fitted again; lasting
    models drop the person's rows. Earlier versions that the person may be in are
    deleted. Nothing is charged, and what was spent stays spent. A record without the id
    is kept in erasures.jsonl. Remove the person from the data file yourself,
    afterwards. Models on other datasets are left alone, and named. Exits with 1 if
    something is left to do for a model.

    Example: reticent erase patients.csv --unit 4711
    """
    place = Home.existing(home)
    others = _others(place, dataset)
    done = erase_unit(place, unit, data, dataset)
    Output(as_json).result(
        {"models": [asdict(each) for each in done], "other_datasets": others},
        [
            *(f"{each.model}: {each.action}. {each.explanation}" for each in done),
            *map(_told, others, others.values()),
        ],
    )
    return DONE if all(each.done for each in done) else FAILED


def _others(place: Home, dataset: str) -> dict[str, list[str]]:
    """Return the models on other datasets of a home, by dataset."""
    settings = place.settings()
    found: dict[str, list[str]] = {}
    for name in sorted(settings.models):
        found.setdefault(settings.load_model(name).dataset.name, []).append(name)
    if dataset not in found and found:
        raise InvalidParameterError(
            f"there is no model on the dataset {dataset!r} in this home; it has models "
            f"on {', '.join(map(repr, sorted(found)))}. Choose with --dataset."
        )
    return {name: models for name, models in found.items() if name != dataset}


def _told(dataset: str, models: list[str]) -> str:
    return (
        f"This home also has models on the dataset {dataset!r} "
        f"({', '.join(models)}), and the person may be in them: run it with --dataset "
        f"{dataset}."
    )
