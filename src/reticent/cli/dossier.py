"""``reticent dossier``: what a data protection officer needs to know about a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli.options import HOME, AsJson, HomeOption
from reticent.cli.output import DONE, FAILED, Output
from reticent.dossier import (
    Dossier,
    Texts,
    read_facts,
    recheck_dossier,
    write_dossier,
)
from reticent.home import Home


def dossier(
    model: Annotated[str, typer.Argument(help="The model's name.")],
    texts: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with what only you know: curator, intended_use, region, "
            "collection, rationale."
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="The audit.json of this model, as evidence."),
    ] = None,
    public: Annotated[
        bool,
        typer.Option("--public", help="Leave out what was computed from records."),
    ] = False,
    recheck: Annotated[
        Path | None,
        typer.Option(help="A dossier.json: derive it again and say what changed."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder.", show_default="dossier-MODEL"),
    ] = None,
    home: HomeOption = HOME,
    as_json: AsJson = False,
) -> int:
    """Write a registry entry, a NIST answer sheet, an EDPB annex and a model card.

    Every field is derived from certificate, ledger, schema, audit and settings, or is
    one of your five texts. Facts that nobody has given are marked as open. Nothing is
    spent.

    Example: reticent dossier income --texts texts.json --audit audit-income/audit.json
    """
    output = Output(as_json)
    given = None if texts is None else Texts.read(texts)
    found = Dossier.of(read_facts(Home.existing(home), model, texts=given, audit=audit))
    if public:
        found = found.published()
    if recheck is not None:
        changed = recheck_dossier(recheck, found)
        holds = "it still holds: every field follows from the facts."
        output.result(
            {"holds": not changed, "changed": changed},
            [f"changed since: {', '.join(changed)}." if changed else holds],
        )
        return FAILED if changed else DONE
    written = write_dossier(found, Path(f"dossier-{model}") if out is None else out)
    left = found.open_fields()
    lines = [f"The dossier is in {written[0]}, and as text and JSON beside it."]
    if left:
        lines.append(f"{len(left)} fields are open: {', '.join(left)}.")
    if found.from_records:
        lines.append(
            "It holds findings that were computed from records. Keep it as carefully "
            "as the records, or write it with --public."
        )
    output.result({**found.as_dict(), "written": [str(p) for p in written]}, lines)
    return DONE
