"""``reticent accounts split`` and ``renew``: a budget that is given out by period."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.installation.ledger import accounts_app
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.guarantees import Budget, in_plain_words
from reticent.home import (
    LEAST_NEW,
    DatasetSettings,
    Home,
    dataset_account,
    renew_budget,
    split_budget,
)

Dataset = Annotated[str, typer.Argument(help="The dataset whose budget it is.")]


@accounts_app.command("split")
def split(
    dataset: Dataset,
    periods: Annotated[int, typer.Option(min=2, help="How many periods in all.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Give the budget of a dataset out in equal parts, one per period.

    The total does not change, and stays what everybody in the data is promised.

    Example: reticent accounts split data --periods 4
    """
    place = Home.existing(home)
    told = split_budget(place, dataset, periods)
    _tell(place, dataset, told, as_json=as_json)


@accounts_app.command("renew")
def renew(
    dataset: Dataset,
    data: Annotated[Path, typer.Argument(help="The file with the new records in it.")],
    least: Annotated[
        float, typer.Option(help="The least share of units that must be new.")
    ] = LEAST_NEW,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Begin the next period, if the file has new records.

    Then fit the models again on that file ('reticent fit --replace') and restart the
    service. What was left of the period before is not carried over.

    Example: reticent accounts renew data patients-2027.csv
    """
    place = Home.existing(home)
    told = renew_budget(place, dataset, data, least=least)
    _tell(place, dataset, told, as_json=as_json)


def _tell(place: Home, dataset: str, told: DatasetSettings, *, as_json: bool) -> None:
    with place.settings().open_ledger(reading=True) as ledger:
        relation = ledger.balance(dataset_account(dataset)).cap.relation
    total = Budget(told.epsilon, told.delta)
    part = Budget(told.part().epsilon, told.part().delta)
    Output(as_json).result(
        {
            "dataset": dataset,
            "period": told.period,
            "periods": told.periods,
            "part": {"epsilon": part.epsilon, "delta": part.delta},
            "total": {"epsilon": total.epsilon, "delta": total.delta},
        },
        [
            f"period {told.period} of {told.periods} of {dataset}: epsilon "
            f"{part.epsilon:g} and delta {part.delta:g} may be spent in it.",
            f"A person who stays in the data pays in every period: {total}.",
            in_plain_words(total, relation=relation),
        ],
    )
