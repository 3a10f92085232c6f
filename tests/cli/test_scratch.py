"""Files larger than memory: the command line fits them through a scratch folder."""

from __future__ import annotations

import json

import pytest

from reticent.cli.main import main
from reticent.datasets import adult_sample_files

FILES = adult_sample_files()


@pytest.fixture
def fit(capsys, tmp_path):
    def run(*words, code=0):
        given = ["fit", FILES.data, "--schema", FILES.schema, *words, "--json"]
        with pytest.raises(SystemExit) as ended:
            main([*map(str, given), "--home", str(tmp_path / "home")])
        said = capsys.readouterr()
        assert ended.value.code == code, said
        return said

    return run


def test_a_file_is_fitted_through_a_scratch_folder(fit, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    options = ("--learner", "linear", "--shards", "9")
    whole = json.loads(fit(*options, "--name", "whole").out)
    parts = json.loads(fit(*options, "--name", "parts", "--scratch", scratch).out)
    assert parts["certificate"] == whole["certificate"]
    assert (parts["units"], parts["shards"]) == (whole["units"], 9)
    assert not list(scratch.iterdir())


def test_a_scratch_folder_that_is_not_there_is_named(fit, tmp_path):
    said = fit("--scratch", tmp_path / "absent", code=2)
    assert "absent" in said.out + said.err


def test_releases_need_their_rows_in_memory(fit, tmp_path):
    said = fit("--release", "--scratch", tmp_path, code=2)
    assert "--scratch" in said.out + said.err
