"""``reticent models``: what is stored, which version is in use, what it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent._text import protected_one
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output, aligned, check_new_file, confirmed
from reticent.cli.schema import described, protected
from reticent.guarantees import in_plain_words
from reticent.home import (
    Home,
    ServedModel,
    dataset_account,
    model_versions,
    open_accounts,
    open_registry,
    remove_model,
    roll_back,
)
from reticent.prediction import promised_by
from reticent.storage import write_onnx

models_app = typer.Typer(
    help="List, show, export and remove models, and go back to earlier versions.",
    no_args_is_help=True,
)
Name = Annotated[str, typer.Argument(help="The name of a model.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before deleting.")]


@models_app.command("list")
def show_all(home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """List the models of a home with what an answer costs."""
    place = Home.existing(home)
    settings = place.settings()
    rows: list[tuple[str, ...]] = [("model", "version", "dataset", "answers")]
    found = []
    for name in sorted(settings.models):
        model = open_registry(settings, name).models[name]
        version = next(v for v in model_versions(place, name) if v.current)
        found.append({**version.as_dict(), **_facts(model)})
        dataset = model.stored.dataset.name
        rows.append((name, str(version.number), dataset, _price(model)))
    lines = aligned(rows) if found else ["no model yet; make one: 'reticent fit'."]
    Output(as_json).result({"models": found}, lines)


@models_app.command("show")
def show(name: Name, home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """Show a model: what it promises, what is left of its budget, its columns.

    Example: reticent models show income
    """
    place = Home.existing(home)
    place.model_path(name)
    settings = place.settings()
    model = open_registry(settings, name).models[name]
    schema = model.stored.schema
    version = next(v for v in model_versions(place, name) if v.current)
    with settings.open_ledger(reading=True) as ledger:
        balance = ledger.balance(dataset_account(model.stored.dataset.name))
    left = None if model.price is None else balance.answers_left(model.price)
    about = protected_one(schema.unit)
    certificate = model.certificate
    lines = [
        f"{name}, version {version.number} of {version.made}",
        f"answers: {_price(model)}",
        f"protects: {protected(schema)}",
        f"promise: {certificate.headline()}",
        in_plain_words(certificate, about=about, delta=model.delta),
    ]
    if model.near_chance is not None:
        lines.append(f"Its answers are near chance: {model.near_chance}")
    if left is not None:
        lines.append(f"answers left: {left}, within {balance.cap.budget}")
        relation = balance.cap.relation
        meant = in_plain_words(promised_by(balance), about=about, relation=relation)
        lines.append(meant)
    lines += ["", *described(schema)]
    found = {
        **version.as_dict(),
        **_facts(model),
        "answers_left": left,
        "near_chance": model.near_chance,
        "certificate": certificate.as_dict(),
        "schema": schema.as_dict(),
    }
    Output(as_json).result(found, lines)


@models_app.command("versions")
def versions(name: Name, home: HomeOption = HOME, as_json: AsJson = False) -> None:
    """List the versions of a model, with the one in use."""
    found = model_versions(Home.existing(home), name)
    rows: list[tuple[str, ...]] = [("version", "made", "")]
    rows += [(str(v.number), v.made, "in use" if v.current else "") for v in found]
    Output(as_json).result({"versions": [v.as_dict() for v in found]}, aligned(rows))


@models_app.command("rollback")
def rollback(
    name: Name,
    version: Annotated[
        int | None,
        typer.Option(help="Which version.", show_default="the one before"),
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Put an earlier version of a model back in use.

    What was paid for any version stays paid. A running service notices.

    Example: reticent models rollback income
    """
    found = roll_back(Home.existing(home), name, version)
    Output(as_json).result(
        found.as_dict(),
        [f"{name} is version {found.number} of {found.made} again."],
    )


@models_app.command("export")
def export(
    name: Name,
    onnx: Annotated[Path, typer.Option(help="Write the model to this ONNX file.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a released model to a file that runs without reticent and without Python.

    The file gives the same labels as 'reticent predict'. Only a model that was released
    and paid for can leave its home: any other is as secret as the records.

    Example: reticent models export income --onnx income.onnx
    """
    check_new_file("--onnx", onnx)
    place = Home.existing(home)
    place.model_path(name)
    settings = place.settings()
    registry = open_registry(settings, name)
    model = registry.models[name]
    model.stored.check_released()
    with settings.open_ledger() as ledger:
        open_accounts(ledger, registry, settings)  # refuses what nobody paid for
    write_onnx(model.stored, onnx)
    encoded = model.stored.encoder.style != "ordinal"
    columns = list(model.stored.schema.columns)
    about = protected_one(model.stored.schema.unit)
    takes = "encoded rows (see its metadata)" if encoded else ", ".join(columns)
    Output(as_json).result(
        {
            "model": name,
            "onnx": str(onnx),
            "columns": columns,
            "encoder": model.stored.encoder.settings(),
            "certificate": model.certificate.id,
        },
        [
            f"wrote {onnx}: {model.certificate.headline()}.",
            in_plain_words(model.certificate, about=about, delta=model.delta),
            f"It takes {takes}.",
        ],
    )


@models_app.command("remove")
def remove(
    name: Name,
    version: Annotated[
        int | None,
        typer.Option(help="Only this version.", show_default="all versions"),
    ] = None,
    yes: Yes = False,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Delete a model, or one version of it. What it has cost stays spent.

    Example: reticent models remove income --yes
    """
    place = Home.existing(home)
    place.model_path(name)
    what = f"model {name!r}" if version is None else f"version {version} of {name!r}"
    confirmed(f"Delete {what} for good?", yes=yes)
    gone = remove_model(place, name, version)
    Output(as_json).result(
        {"model": name, "removed": gone},
        [f"{what} is deleted. What it has cost stays spent."],
    )


def _price(model: ServedModel) -> str:
    if model.lasting is not None:
        return "free and unlimited, under one total"
    if model.charge is None:
        return "free, the model was released"
    per = "answer" if model.consensus is None else "session"
    return f"each {per} costs {model.stated}"


def _facts(model: ServedModel) -> dict[str, Any]:
    return {
        "kind": model.stored.kind,
        "dataset": model.stored.dataset.name,
        "cost": model.loss,
        "stated": None if model.stated is None else model.stated.as_dict(),
        "unit": model.stored.schema.unit,
    }
