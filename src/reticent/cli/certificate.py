"""``reticent certificate``: what is promised, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reticent._text import protected_one
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import Output
from reticent.dossier import (
    issuer_of,
    issuing_key,
    read_facts,
    signed_certificate,
    verified_certificate,
)
from reticent.errors import InvalidParameterError, RuleError
from reticent.guarantees import Certificate, Stated, in_plain_words, recheck, repeat
from reticent.home import Home, PeriodTotal, total_over_periods

certificate_app = typer.Typer(
    help="Show, compose and check certificates.", no_args_is_help=True
)


@certificate_app.command("show")
def show(
    what: Annotated[str, typer.Argument(help="A model's name, or a certificate file.")],
    answers: Annotated[
        int, typer.Option(help="Show what this many answers promise together.")
    ] = 1,
    delta: Annotated[
        float, typer.Option(help="Delta for many answers together.")
    ] = 0.0,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Print the derivation as a tree, each step with its rule and source.

    Where a budget is given out by period, the total over all periods follows, and is
    what --json writes.

    Example: reticent certificate show income --answers 200 --delta 1e-6
    """
    found, own, about = _find(what, home)
    shown = found if answers == 1 else repeat(found, answers, delta=delta)
    lines = [str(shown), *_meaning(shown, delta or own, about)]
    total = _total(what, home, found, None if answers == 1 else answers)
    if total is not None:
        shown = total.certificate
        lines += ["", total.sentence(), str(shown), *_meaning(shown, own, about)]
    Output(as_json).result(shown.as_dict(), lines)


@certificate_app.command("check")
def check(
    what: Annotated[str, typer.Argument(help="A model's name, or a certificate file.")],
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Derive a certificate again from its mechanisms up, and compare."""
    found, delta, about = _find(what, home)
    recheck(found)
    lines = [f"it follows: {found.headline()}", *_meaning(found, delta, about)]
    told: dict[str, Any] = {"certificate": found.id, "follows": True}
    total = _total(what, home, found)
    if total is not None:
        recheck(total.certificate)
        lines += [f"it follows: {total.certificate.headline()}", total.sentence()]
        told["total"] = total.as_dict()
    Output(as_json).result(told, lines)


@certificate_app.command("sign")
def sign(
    model: Annotated[str, typer.Argument(help="The model's name.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File.", show_default="MODEL.certificate.json"
        ),
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> None:
    """Write a certificate as a signed document that anybody can check offline.

    The first time, a key for such documents is made in the home. Publish the issuer's
    name where others can find it.

    Example: reticent certificate sign income -o income.certificate.json
    """
    place = Home.existing(home)
    facts, key = read_facts(place, model), issuing_key(place)
    path = Path(f"{model}.certificate.json") if out is None else out
    text = json.dumps(signed_certificate(facts, key), indent=1) + "\n"
    path.write_text(text, encoding="utf-8")
    Output(as_json).result(
        {"written": str(path), "issuer": issuer_of(key)},
        [f"The signed certificate is in {path}.", f"Its issuer is {issuer_of(key)}."],
    )


@certificate_app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A signed certificate.")],
    issuer: Annotated[
        str | None,
        typer.Option(help="Who must have signed it: a name that begins with did:key:."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a signed certificate: its signature, and that its promise follows.

    Needs no service, no home and no network.

    Example: reticent certificate verify income.certificate.json
    """
    found = verified_certificate(file.read_bytes(), issuer)
    lines = [
        f"it follows: {found['headline']}",
        f"The issuer says that everything from the dataset {found['dataset']!r} stays "
        f"within {Stated(float(found['epsilon']), float(found['delta']))}, for "
        f"{found['unit']}.",
    ]
    if issuer is None:
        lines.append("Who signed it was not checked: give --issuer.")
    Output(as_json).result({**found, "issuer_checked": issuer is not None}, lines)


def _meaning(found: Certificate[Any], delta: float, about: str) -> list[str]:
    """Say in plain words what is promised, where that is about privacy."""
    try:
        return [in_plain_words(found, about=about, delta=delta)]
    except RuleError:
        return []


def _total(
    what: str, home: Path, found: Certificate[Any], answers: int | None = None
) -> PeriodTotal | None:
    """Return the total over all periods of a model's dataset, if it has periods."""
    if Path(what).is_file():
        return None
    settings = Home(home).settings()
    dataset = settings.load_model(what).dataset.name
    with settings.open_ledger() as ledger:
        return total_over_periods(settings, ledger, dataset, found, answers=answers)


def _find(what: str, home: Path) -> tuple[Certificate[Any], float, str]:
    """Return a certificate, the delta of its dataset, and whom it protects."""
    path = Path(what)
    if path.is_file():
        return Certificate.from_json(path.read_bytes()), 0.0, protected_one()
    place = Home(home)
    settings = place.settings() if place.config.exists() else None
    if settings is None or what not in settings.models:
        raise InvalidParameterError(
            f"{what!r} is neither a certificate file nor a model in --home "
            f"{str(home)!r}."
        )
    stored = settings.load_model(what)
    budget = settings.datasets.get(stored.dataset.name)
    delta = 0.0 if budget is None else budget.delta
    return stored.certificate, delta, protected_one(stored.schema.unit)
