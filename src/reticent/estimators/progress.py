"""A progress bar, shown on terminals and in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Task = TypeVar("Task")


def with_progress(
    tasks: Iterable[Task], *, total: int, label: str, stream: TextIO | None
) -> Iterator[Task]:
    """Yield `tasks` and show on `stream` how many have been yielded.

    Counting tasks that are yielded, not finished, works with every joblib backend. The
    bar is tqdm's if it is installed, a plain counter otherwise; nothing is written to a
    stream that nobody watches.
    """
    if stream is None or not _watched(stream):
        return iter(tasks)
    try:
        from tqdm import tqdm
    except ImportError:
        return _with_counter(tasks, total=total, label=label, stream=stream)
    return iter(tqdm(tasks, total=total, desc=label, file=stream, leave=False))


def _watched(stream: TextIO) -> bool:
    """Say whether a stream is a terminal, or a notebook's."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


def _with_counter(
    tasks: Iterable[Task], *, total: int, label: str, stream: TextIO
) -> Iterator[Task]:
    for done, task in enumerate(tasks):
        stream.write(f"\r{label}: {done}/{total}")
        stream.flush()
        yield task
    stream.write(f"\r{label}: {total}/{total}\n")
    stream.flush()
