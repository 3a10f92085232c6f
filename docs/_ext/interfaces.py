"""References of the command line and of the HTTP interface, written by themselves."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def escaped(text: str) -> str:
    return re.sub(r"([\\*`|_$<>\[\]{}~])", r"\\\1", " ".join(text.split()))


def command_lines(command: Any, path: str) -> list[str]:
    """Describe a command and its subcommands in Markdown."""
    lines = [f"## {path}", "", *(command.help or "").strip().split("\n"), ""]
    # An example is a command line: show it as one.
    lines = [re.sub(r"^\s*Example: (.*)$", r"`\1`", line) for line in lines]
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        is_argument = parameter.param_type_name == "argument"
        shown = f"`{parameter.name.upper() if is_argument else ', '.join(names)}`"
        default = parameter.default
        blank = default is None or default is False or callable(default)
        note = "required" if parameter.required else "" if blank else f"`{default}`"
        told = escaped(getattr(parameter, "help", None) or "")
        rows.append(f"| {shown} | {told} | {note} |")
    if rows:
        lines += ["| | | default |", "|---|---|---|", *rows, ""]
    for name, inner in getattr(command, "commands", {}).items():
        lines += command_lines(inner, f"{path} {name}")
    return lines


def http_lines(document: dict[str, Any]) -> list[str]:
    """Describe the paths of an OpenAPI document in Markdown."""
    lines: list[str] = []
    for path, methods in document["paths"].items():
        for method, what in methods.items():
            lines += [f"## {method.upper()} {path}", "", what.get("summary", ""), ""]
            text = what.get("description", "").strip()
            lines += [escaped(part) + "\n" for part in text.split("\n\n") if part]
            for parameter in what.get("parameters", ()):
                told = escaped(parameter.get("description", ""))
                need = "required" if parameter.get("required") else "optional"
                where = f"`{parameter['name']}` ({parameter['in']}, {need})"
                lines += [f"- {where} {told}".rstrip()]
            lines += ["", "| status | |", "|---|---|"]
            lines += [
                f"| {status} | {escaped(reply.get('description', ''))} |"
                for status, reply in what["responses"].items()
            ]
            lines += [""]
    return lines


class Generated(SphinxDirective):
    """A directive that shows lines of Markdown made by a program."""

    def lines(self) -> list[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        container = nodes.section()
        container.document = self.state.document
        text = StringList(self.lines(), source="the program itself")
        self.state.nested_parse(text, self.content_offset, container, match_titles=True)
        return container.children


class CommandReference(Generated):
    """``command-reference``: every command with its options."""

    def lines(self) -> list[str]:
        import typer.main

        from reticent.cli.main import app

        found = typer.main.get_command(app)
        lines: list[str] = []
        for name, command in sorted(found.commands.items()):
            lines += command_lines(command, f"reticent {name}")
        return lines


class HTTPReference(Generated):
    """``http-reference``: every path of the service."""

    def lines(self) -> list[str]:
        from reticent.home import MemoryKeys, Registry, Settings
        from reticent.ledger import MemoryLedger
        from reticent.service.app import create_app
        from reticent.signing import new_key

        settings = Settings(
            models={"example": "example"},
            datasets={"data": {"epsilon": 1.0}},
            ledger="sqlite:///ledger.db",
            checkpoints="none",
            secret=new_key(),
            model_key=new_key(),
        )
        # No model is loaded and nothing is opened: only the routes are wanted.
        app = create_app(
            settings,
            ledger=MemoryLedger(),
            keys=MemoryKeys(),
            registry=Registry({}, "replace-one"),
        )
        return http_lines(app.openapi())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("command-reference", CommandReference)
    app.add_directive("http-reference", HTTPReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
