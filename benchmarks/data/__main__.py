"""Fetch the data sets of the benchmarks from their public homes.

    python -m benchmarks.data [--data adult,skin] [--again] [--base URL]

Files go to benchmarks/cache, or to the folder RETICENT_DATA. A file that is there is
not fetched again, and a download that was interrupted goes on where it stopped. Each
file becomes a table, and the SHA-256 checksum of what the table contains is compared
with the one that the measured numbers were computed on (benchmarks/data/content.json).
A table with other contents is refused. `--base` takes the files from a mirror: the last
part of each address below this one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from benchmarks import data
from benchmarks.data.content import content_of
from benchmarks.data.download import DownloadError, download
from benchmarks.data.sources import SOURCES, Source

KNOWN = Path(__file__).parent / "content.json"


class ContentError(Exception):
    """A table does not hold the rows that were measured."""


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=",".join(SOURCES), help="names, with commas")
    parser.add_argument("--again", action="store_true", help="fetch what is there, too")
    parser.add_argument("--base", default="", help="a mirror's address")
    asked = parser.parse_args(words)
    names = asked.data.split(",")
    unknown = sorted(set(names) - set(SOURCES))
    if unknown:
        parser.error(f"unknown data {unknown}; there are {', '.join(SOURCES)}")
    folder = data.own_folder()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(data.SCHEMA, folder / "schema.json")
    failed = 0
    for name in names:
        try:
            say(f"{name}: {get(name, folder, base=asked.base, again=asked.again)}")
        except (DownloadError, ContentError) as error:
            failed += 1
            say(f"{name}: {error}")
    return 1 if failed else 0


def get(name: str, folder: Path, *, base: str = "", again: bool = False) -> str:
    """Fetch and check one data set; say what was done."""
    document = data.document(name)
    wanted = {part: folder / file for part, file in document["files"].items()}
    if not again and all(path.exists() for path in wanted.values()):
        return f"is in {folder}"
    source = SOURCES[name]
    last = source.url.rsplit("/", 1)[-1]
    raw = folder / last
    if again:
        raw.unlink(missing_ok=True)
    if not raw.exists():
        download(f"{base.rstrip('/')}/{last}" if base else source.url, raw)
    remarks = made_tables(name, source, raw, wanted)
    raw.unlink()
    return f"fetched into {folder}{remarks}"


def made_tables(name: str, source: Source, raw: Path, wanted: dict[str, Path]) -> str:
    """Make tables of a file and keep them if they hold the known rows."""
    try:
        tables = source.tables(raw.read_bytes())
        contents = {p: content_of(tables[p], data.document(name)) for p in wanted}
    except Exception as error:
        raise ContentError(
            f"{raw} is not the file of {source.home} "
            f"({type(error).__name__}: {error}). Remove it and run the command again; "
            "if that does not help, the source has changed."
        ) from error
    known = json.loads(KNOWN.read_text("utf-8"))[name]
    remarks = ""
    for part, found in contents.items():
        if found["in any order"] != known[part]["in any order"]:
            raise ContentError(
                f"the table '{part}' of {raw} has other contents than the measured "
                f"one ({found['rows']:,} rows, checksum {found['in order'][:16]}...; "
                f"known are {known[part]['rows']:,} rows, "
                f"{known[part]['in order'][:16]}...). It is not used. Remove the file "
                "to fetch it again."
            )
        if found["in order"] != known[part]["in order"]:
            remarks = "; the rows have another order, so splits differ from ours"
    for part, path in wanted.items():
        beside = path.with_suffix(".new")
        tables[part].to_parquet(beside, compression="zstd", index=False)
        os.replace(beside, path)
    return remarks


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
