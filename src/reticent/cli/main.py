"""The command line: parse, call one function, print what it returned."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from traceback import walk_tb
from typing import Any

import typer

from reticent import __version__
from reticent._sklearn import InvalidParameterError as SklearnError
from reticent.cli.audit import audit
from reticent.cli.certificate import certificate_app
from reticent.cli.demo import demo
from reticent.cli.dossier import dossier
from reticent.cli.erase import erase
from reticent.cli.evaluate import evaluate
from reticent.cli.explain import explain
from reticent.cli.fit import fit
from reticent.cli.init.command import init
from reticent.cli.installation import periods as _periods  # noqa: F401 (adds commands)
from reticent.cli.installation.homes import home_app
from reticent.cli.installation.keys import keys_app
from reticent.cli.installation.ledger import accounts_app, ledger_app
from reticent.cli.installation.models import models_app
from reticent.cli.output import FAILED, MISUSED, Output
from reticent.cli.plan import plan
from reticent.cli.predict import predict
from reticent.cli.schema import schema_app
from reticent.cli.serve import serve
from reticent.cli.suggestions import Commands, UsageError, hinted
from reticent.cli.tune import tune
from reticent.errors import InvalidDataError, InvalidParameterError, ReticentError

app = typer.Typer(
    name="reticent",
    cls=Commands,
    help="Use models trained on sensitive records without giving the records away.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init)
app.add_typer(schema_app, name="schema", cls=Commands)
app.command("plan")(plan)
app.command("fit")(fit)
app.command("tune")(tune)
app.command("predict")(predict)
app.command("evaluate")(evaluate)
app.command("erase")(erase)
app.command("serve")(serve)
app.add_typer(keys_app, name="keys", cls=Commands)
app.add_typer(models_app, name="models", cls=Commands)
app.add_typer(ledger_app, name="ledger", cls=Commands)
app.add_typer(accounts_app, name="accounts", cls=Commands)
app.add_typer(home_app, name="home", cls=Commands)
app.add_typer(certificate_app, name="certificate", cls=Commands)
app.command("audit")(audit)
app.command("dossier")(dossier)
app.command("explain")(explain)
app.command("demo")(demo)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    if version:
        Output(False).result({}, [f"reticent {__version__}"])
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a mistake ends in one sentence, never in a traceback."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(_run(lambda: app(given, standalone_mode=False), "--json" in given))


def _run(command: Callable[[], Any], as_json: bool) -> int:
    output = Output(as_json)
    try:
        result = command()
    except typer.Exit as ended:
        return int(ended.exit_code)
    except UsageError as misused:
        error = hinted(misused)
        if as_json:
            return output.error(InvalidParameterError(error.format_message()))
        error.show()
        return MISUSED
    except (typer.Abort, KeyboardInterrupt):
        output.note("stopped.")
        return FAILED
    except (ReticentError, OSError, SklearnError) as error:
        return output.error(_readable(error))
    except ValueError as error:
        if not _raised_in_sklearn(error):
            raise
        return output.error(_refused(error))
    return result if isinstance(result, int) else 0


def _readable(error: Exception) -> Exception:
    if isinstance(error, SklearnError):
        return InvalidParameterError(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return ReticentError(f"{error.filename}: {error.strerror}.")
    return error


def _raised_in_sklearn(error: ValueError) -> bool:
    """Whether scikit-learn refused what it was given, rather than a bug of ours.

    Either may have called NumPy or SciPy.
    """
    modules = (
        frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)
    )
    owners = [str(module).partition(".")[0] for module in modules]
    ours = [owner for owner in owners if owner in ("reticent", "sklearn")]
    return ours[-1:] == ["sklearn"]


def _refused(error: ValueError) -> Exception:
    """Say what scikit-learn refused, without values, which may be those of a record."""
    said = re.split(r"[:;\[(<'\"\d\n]|\.\s", str(error), maxsplit=1)[0].strip(" .")
    return InvalidDataError(
        f"scikit-learn refused the rows or the settings: {said}. Look at what the "
        "schema and the options say about them."
    )
