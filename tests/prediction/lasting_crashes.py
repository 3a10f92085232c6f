"""Workers that answer questions of one lasting model, and are killed at it.

Run as a script, this is a nursery: a process with one thread that forks workers and
kills them. Workers write what clients were told to a diary, a file that survives them;
`findings` compares the diary with what the ledger knows.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from reticent.ledger import MemoryLedger, RecordLog, SQLLedger
from reticent.prediction import LastingInterface, SnapshotFile, log_account
from reticent.prediction.lasting import histories as states
from reticent.prediction.lasting import state as states_of_models
from reticent.prediction.lasting.records import QuestionRecord
from reticent.signing import HMACSigner
from tests.prediction.lasting_toy import toy_predictor

MODEL = toy_predictor(identity="5a" * 16)
SIGNER = HMACSigner(bytes(range(32)))
_PLACES = 4000


class Diary:
    """What clients were told; each line is one write to an appended file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.listener: int | None = None

    def note(self, place: int, answer: str, evidence: float) -> None:
        os.write(self._handle, f"{place} {answer} {evidence!r}\n".encode())
        self.tell()

    def tell(self) -> None:
        """Let whoever waits to kill us know that something happened."""
        if self.listener is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self.listener, b"!")

    def lines(self) -> list[tuple[int, str, float]]:
        found = [line.split(" ") for line in self._path.read_text().splitlines()]
        return [(int(place), answer, float(seen)) for place, answer, seen in found]


def opened(url: str, folder: Path, ledger: Any) -> LastingInterface:
    """Return an interface as a worker opens it."""
    return LastingInterface(
        MODEL, ledger, snapshots=SnapshotFile(folder / "snapshot", SIGNER)
    )


def work(url: str, folder: Path, diary: Diary, seed: int, *, broken: str = "") -> None:
    """Ask random questions in two threads until killed, or as one must not."""
    states_of_models._SECONDS = 0.05  # so that kills fall into snapshots, too
    ledger = MemoryLedger() if broken == "forget" else SQLLedger(url)
    snapshots = folder if broken != "forget" else folder / "elsewhere"
    snapshots.mkdir(exist_ok=True)
    interface = opened(url, snapshots, ledger)
    diary.tell()
    if broken == "reply first":
        state = interface._answers._state
        codes = np.array([[7]], np.int16)
        drawn = MODEL.law_.ask(codes, state.spending.copy(), "a")
        diary.note(7, drawn.answers[0], float(drawn.evidence[0]))
        os.kill(os.getpid(), signal.SIGKILL)

    def loop(thread: int) -> None:
        chance = random.Random(f"{seed}/{thread}")
        while True:
            count = chance.choice((1, 3))
            rows = [[chance.randrange(_PLACES)] for _ in range(count)]
            reply = interface.ask(rows, client=f"c{thread}")
            for (place,), answer, seen in zip(
                rows, reply.answers, reply.evidence, strict=True
            ):
                diary.note(place, answer, float(seen))
            if broken:
                os.kill(os.getpid(), signal.SIGKILL)

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def forked(action: Any) -> int:
    """Run `action` in a child; return the child."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            action()
        os._exit(0)
    return child


def kill_repeatedly(url: str, folder: Path, diary: Diary, kills: int, seed: int) -> int:
    """Keep two workers running, and kill one after the other at random points."""
    chance, died = random.Random(seed), 0
    running: list[tuple[int, int]] = []
    for number in range(kills):
        while len(running) < 2:
            listen, diary.listener = os.pipe()
            mine = 2 * number + len(running)
            child = forked(lambda seed=mine: work(url, folder, diary, seed))
            os.close(diary.listener)
            running.append((child, listen))
        child, listen = running.pop(0)
        for _ in range(1 + chance.randrange(12)):
            os.read(listen, 1)
        time.sleep(chance.uniform(0.0, 0.008))
        os.kill(child, signal.SIGKILL)
        os.close(listen)
        _, status = os.waitpid(child, 0)
        died += os.WIFSIGNALED(status)
    for child, listen in running:
        os.kill(child, signal.SIGKILL)
        os.close(listen)
        os.waitpid(child, 0)
    diary.listener = None
    return died


def work_together(url: str, folder: Path, diary: Diary, workers: int) -> int:
    """Let workers ask the same few questions at once; return how many finished."""

    def ask(number: int) -> None:
        with SQLLedger(url) as ledger:
            interface = opened(url, folder, ledger)
            chance = random.Random(number)
            for _ in range(40):
                rows = [[chance.randrange(90)] for _ in range(2)]
                reply = interface.ask(rows, client=f"w{number}")
                for (place,), answer, seen in zip(
                    rows, reply.answers, reply.evidence, strict=True
                ):
                    diary.note(place, answer, float(seen))
            interface.close()
        os._exit(7)

    children = [forked(lambda n=number: ask(n)) for number in range(workers)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    return codes.count(7)


def findings(url: str, folder: Path, diary: Diary) -> dict[str, int]:
    """Compare diary and log; every number but the first three must be 0."""
    law, told = MODEL.law_, diary.lines()
    with SQLLedger(url) as ledger:
        ledger.verify()
        log = RecordLog(ledger, f"lasting-{law.identity}", log_account(law.identity))
        spending, costs, known = law.start(), {}, {}
        twice = 0
        for number in range(1, len(log)):
            record = QuestionRecord.from_bytes(log.read(number))
            for client, rows in record.by_client():
                for row in rows:
                    before = spending.spent.astype(np.int64)
                    law.replay(row["codes"][None], row["trace"][None], spending, client)
                    place = int(row["codes"][0])
                    twice += place in known
                    label = str(law.classes[int(row["answer"])])
                    known[place] = (label, float(row["evidence"]))
                    costs[place] = spending.spent.astype(np.int64) - before
        reopened = opened(url, folder, ledger)._answers._state
        owed = sum(
            (costs.get(place, 0) for place in {place for place, _, _ in told}),
            start=np.zeros(len(spending.spent), np.int64),
        )
        return {
            "told": len(told),
            "questions": len(known),
            "records": len(log),
            "answers not in the log": sum(
                known.get(place) != (answer, seen) for place, answer, seen in told
            ),
            "questions asked twice": twice,
            "units that spent less than they answered": int(
                (spending.spent < owed).sum()
            ),
            "units forgotten at a restart": int(
                (reopened.spending.spent != spending.spent).sum()
            ),
        }


def main() -> None:
    """Take orders as JSON from standard input, report as JSON."""
    order = json.load(sys.stdin)
    url, folder = order["url"], Path(order["folder"])
    diary = Diary(folder / "diary")
    with SQLLedger(url) as ledger:
        opened(url, folder, ledger)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    if order["act"] == "kill":
        together = work_together(url, folder, diary, order["workers"])
        done = kill_repeatedly(url, folder, diary, order["kills"], order["seed"])
        found = findings(url, folder, diary)
        report = {"together": together, "died": done, "findings": found}
    else:
        report = {}
        for how in order["how"]:
            # A process that starts knows no other log.
            states._histories.clear()
            own = Diary(folder / how)
            child = forked(lambda h=how, d=own: work(url, folder, d, 1, broken=h))
            os.waitpid(child, 0)
            report[how] = findings(url, folder, own)
    sys.stdout.write(json.dumps(report))


def nursery(**order: Any) -> dict[str, Any]:
    """Start a nursery with an order; return its report."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.prediction.lasting_crashes"],
        input=json.dumps(order, default=str),
        cwd=Path(__file__).parents[2],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
