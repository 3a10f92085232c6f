"""Fetch one file over HTTP: with a progress bar, and on from where it stopped."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

CHUNK = 1 << 16
SECONDS = 60
ATTEMPTS = 5


class DownloadError(Exception):
    """A file could not be fetched; says what to do."""


def download(
    url: str, path: Path, *, attempts: int = ATTEMPTS, wait: float = 1.0
) -> None:
    """Fetch a file; what an earlier attempt left in ``*.part`` is not fetched again."""
    part = path.with_name(path.name + ".part")
    reason = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(wait * 2**attempt)
        try:
            if _continue(url, part):
                os.replace(part, path)
                return
            reason = "the connection ended early"
        except urllib.error.HTTPError as error:
            reason = f"HTTP {error.code} {error.reason}"
            if error.code == 416:  # what is there does not belong to this file
                part.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except OSError as error:
            reason = str(getattr(error, "reason", "") or error)
    raise DownloadError(
        f"could not fetch {url}: {reason}. Check the connection and run the command "
        f"again (it goes on where it stopped), or put the file at {path} yourself."
    )


def _continue(url: str, part: Path) -> bool:
    """Fetch what is missing; say whether the file is complete."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "reticent-benchmarks"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        if answer.status != 206:  # the server sends all of it again
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as out:
            for chunk in iter(lambda: answer.read1(CHUNK), b""):
                out.write(chunk)
                have += len(chunk)
                show(part.name.removesuffix(".part"), have, total)
    return total is None or have == total


def show(name: str, have: int, total: int | None) -> None:
    """Draw a bar, on a terminal only."""
    if not sys.stderr.isatty():
        return
    share = have / total if total else 0.0
    bar = "#" * round(30 * share)
    ended = "\n" if have == total else ""
    print(
        f"\r{name} [{bar:30s}] {have / 1e6:.1f} MB",
        end=ended,
        file=sys.stderr,
        flush=True,
    )
