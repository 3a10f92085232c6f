"""Every command that needs no server, run in one process after the other.

Run as a program, this file takes a folder and the names of packages to block. It runs
the commands in the folder and prints their exit codes and outputs as JSON. It imports
nothing of the tests, so that another environment can run it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from importlib.abc import MetaPathFinder

ROW = '{"age": 40}'
COMMANDS = [
    "--version",
    "demo --export exported",
    "explain zcdp",
    "explain",
    "schema draft public.csv --public --label sick -o schema.json",
    "schema show schema.json",
    "schema skeleton rows.csv --label sick -o skeleton.json",
    "schema check rows.csv --schema schema.json",
    "plan --rows 60 --schema schema.json --epsilon 1",
    "fit rows.csv --schema schema.json --learner linear --shards 3 --name asked",
    "fit rows.csv --schema schema.json --release --name released",
    "tune rows.csv --schema schema.json --runs 2 --name tuned "
    "--grid '{\"detail\": [0.5, 1]}'",
    "tune rows.csv --schema schema.json --ask --learner linear --runs 2 --name chosen "
    "--grid '{\"n_shards\": [3, 5]}'",
    f"predict asked --row {ROW!r}",
    f"predict asked --row {ROW!r} --client somebody --key visit-1",
    "predict asked queries.csv",
    "predict released queries.csv",
    "certificate show asked --answers 5 --delta 1e-6",
    "certificate check released",
    "certificate sign released -o signed.json",
    "certificate verify signed.json",
    "evaluate released rows.csv --epsilon 0.5",
    "evaluate tuned rows.csv --metric auc --epsilon 0.5",
    "evaluate released --history",
    "audit asked --data rows.csv --quick",
    "audit released --quick",
    "dossier asked --audit audit-asked/audit.json --public",
    "keys create ward-7",
    "keys list",
    "keys rotate KEY --days 9",
    "keys revoke KEY",
    "schema draft people.csv --public --label sick --unit who -o people.json",
    "fit people.csv --schema people.json --learner linear --shards 3 --name people "
    "--dataset people --accept-noise",
    "accounts split people --periods 2",
    "accounts renew people newcomers.csv",
    "fit rows.csv --schema schema.json --release --name apart --dataset apart",
    "erase rows.csv --unit 7 --dataset apart",
    "ledger show",
    "ledger verify",
    "init rows.csv --label sick --classes no,yes --unit row --numeric age=0:100 "
    "--public-facts --epsilon 8 --yes --name started --dataset other",
    "models list",
    "models show asked",
    "models versions asked",
    "fit rows.csv --schema schema.json --learner linear --shards 3 --name asked "
    "--replace",
    "models rollback asked",
    "models remove released --yes",
    "ledger history",
    "ledger export -o spent.csv",
    "ledger backup -o copy.db",
    "ledger restore copy.db --reason nothing --yes",
    "accounts cap client:local --epsilon 9",
    "home show",
    "home adopt",
    "ledger write-off --reason lost",
]
SERVER_COMMANDS = ["serve", "demo --once"]
# Commands that need one more package, which is blocked, and the extra that brings it.
EXTRA_COMMANDS = {"models export tuned --onnx tuned.onnx": "onnx"}


class Block(MetaPathFinder):
    """Makes packages look as if they were not installed."""

    def __init__(self, names):
        self.names = set(names)

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return


def write_rows():
    ages = [(37 * n) % 100 for n in range(60)]
    rows = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
    for name, lines in {
        "rows.csv": ["age,sick", *rows],
        "public.csv": ["age,sick", "0,no", "100,yes", "50,no"],
        "queries.csv": ["age", "10", "90"],
        "people.csv": ["who,age,sick", *(f"a{n},{row}" for n, row in enumerate(rows))],
        "newcomers.csv": [
            "who,age,sick",
            *(f"b{n},{row}" for n, row in enumerate(rows)),
        ],
    }.items():
        with open(name, "w") as file:
            file.write("\n".join(lines) + "\n")


def run(command):
    """Return the exit code of a command and what it printed."""
    import shlex

    from reticent.cli.main import main

    said = io.StringIO()
    code = None
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(shlex.split(command))
        except SystemExit as ended:
            code = ended.code
    return code, said.getvalue()


if __name__ == "__main__":
    folder, *blocked = sys.argv[1:]
    os.chdir(folder)
    sys.meta_path.insert(0, Block(blocked))
    write_rows()
    results = {}
    more = [*SERVER_COMMANDS, *EXTRA_COMMANDS] if blocked else []
    for command in COMMANDS + more:
        made = results.get("keys create ward-7", (0, "rk__"))[1]
        results[command] = run(command.replace("KEY", made.split("_")[1]))
    sys.stdout.write(json.dumps(results))
