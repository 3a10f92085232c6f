"""Directories of models: complete at every moment, also while they are replaced."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading

import pytest

from reticent.errors import ModelFileError
from reticent.storage import folders
from reticent.storage.folders import Folder, write_folder

FILES = {"a.json": b"1" * 100, "b.npy": b"2" * 1000}


def seen_while_replaced(path, times):
    """Replace a model again and again; return how often a reader did not find it."""
    write_folder(path, FILES, replace=False)
    missing, done = [], threading.Event()

    def look():
        while not done.is_set():
            if not path.exists():
                missing.append(1)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(times):
            write_folder(path, FILES, replace=True)
    finally:
        done.set()
        reader.join()
    return len(missing)


@pytest.mark.skipif(sys.platform != "linux", reason="others cannot exchange two names")
def test_a_model_is_there_while_it_is_replaced(tmp_path):
    assert seen_while_replaced(tmp_path / "income", 100) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["income"]


def test_where_names_cannot_change_places_a_model_is_replaced_all_the_same(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(folders, "_exchanged", lambda one, other: False)
    path = tmp_path / "income"
    write_folder(path, FILES, replace=False)
    write_folder(path, {"c.json": b"new"}, replace=True)
    with Folder(path) as folder:
        assert folder.read("c.json", most=10) == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["income"]


def replaced_and_killed(path, way):
    """Replace a model in a process of its own; return the signal that ended it.

    It is killed when what was there before is about to be removed; or, without the
    exchange, between two renames.
    """
    child = os.fork()
    if child == 0:

        def end(*given, **named):
            os.kill(os.getpid(), signal.SIGKILL)

        if way == "exchange":
            shutil.rmtree = end
        else:
            folders._exchanged = lambda one, other: False
            rename, calls = os.rename, []
            os.rename = lambda *given: end() if calls else calls.append(rename(*given))
        write_folder(path, {"c.json": b"new"}, replace=True)
        os._exit(1)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


@pytest.mark.skipif(sys.platform != "linux", reason="others cannot exchange two names")
@pytest.mark.parametrize("way", ["exchange", "two renames"])
def test_a_kill_while_a_model_is_replaced_leaves_one_in_place(tmp_path, way):
    """Between two renames there is none: the check sees that."""
    path = tmp_path / "income"
    write_folder(path, FILES, replace=False)
    assert replaced_and_killed(path, way) == signal.SIGKILL
    assert path.exists() == (way == "exchange")
    if way == "exchange":
        with Folder(path) as folder:
            assert folder.read("c.json", most=10) == b"new"


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_is_no_directory_is_not_replaced(tmp_path, kind):
    path, elsewhere = tmp_path / "income", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to(elsewhere)
    with pytest.raises(ModelFileError, match="not a directory"):
        write_folder(path, FILES, replace=True)
    assert path.is_symlink() == (kind == "link")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["elsewhere", "income"]
