"""Random names: none is handed out twice, whatever threads and forks do."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor

from reticent._ids import random_name


def test_no_name_is_handed_out_twice():
    random_name()  # some are ready when the process forks
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, "\n".join(random_name() for _ in range(600)).encode())
        os._exit(0)
    with ThreadPoolExecutor(4) as pool:
        mine = list(pool.map(lambda _: random_name(), range(4_000)))
    os.close(writing)
    theirs = b""
    while part := os.read(reading, 2**16):
        theirs += part
    os.waitpid(child, 0)
    names = mine + theirs.decode().split("\n")
    assert len(set(names)) == len(names) == 4_600
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in names)
