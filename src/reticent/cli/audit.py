"""``reticent audit``: whether a model keeps what it promises."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from reticent.audit import examine
from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import DONE, FAILED, Output
from reticent.errors import InvalidParameterError, NearChanceWarning
from reticent.home import Home
from reticent.signing import read_key_file


def audit(
    model: Annotated[
        str, typer.Argument(help="A model's name, or the directory it is stored in.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="The training records: answers about them are checked, and attacked."
        ),
    ] = None,
    answers: Annotated[
        int, typer.Option(help="State what this many answers promise together.")
    ] = 100,
    delta: Annotated[float, typer.Option(help="Delta of that promise.")] = 1e-6,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Directory for audit.html and audit.json.",
            show_default="audit-MODEL",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Draw fewer answers, play fewer games.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(help="File of the signing or public key, if not the home's."),
    ] = None,
    encryption_key: Annotated[
        Path | None, typer.Option(help="File of the key the model is encrypted with.")
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> int:
    """Check a stored model's promise and write a report for people and programs.

    Nothing is asked of the service and nothing is spent. Exits with 0 if nothing was
    refuted, with 1 if something was.

    Example: reticent audit income --data adult.csv
    """
    place = Home(home)
    folder = _folder(model, place)
    output = Output(as_json)
    output.note(f"auditing {folder} ...")
    with warnings.catch_warnings():  # the audit's own small models are near chance
        warnings.simplefilter("ignore", NearChanceWarning)
        sealed = None if encryption_key is None else read_key_file(encryption_key)
        report = examine(
            folder,
            signing_key=place.signing_key() if key is None else read_key_file(key),
            encryption_key=sealed,
            records=data,
            answers=answers,
            delta=delta,
            quick=quick,
            verbose=not as_json and sys.stderr.isatty(),
        )
    html, text = report.write(out or Path(f"audit-{report.model['name']}"))
    written = {"html": str(html), "json": str(text)}
    output.result(
        {**report.as_dict(), "written": written},
        [str(report), f"The report is in {html}; for programs, in {text}."],
    )
    return FAILED if report.refuted else DONE


def _folder(model: str, place: Home) -> Path:
    names = place.settings().models if place.config.exists() else {}
    known = [names[model].path] if model in names else []
    for folder in (Path(model), *known):
        if (folder / "manifest.json").is_file():
            return folder
    raise InvalidParameterError(
        f"{model!r} is neither a model in --home {str(place.path)!r} nor the directory "
        "of one."
    )
