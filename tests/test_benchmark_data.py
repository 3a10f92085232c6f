"""Fetching the data of the benchmarks, from a server on this machine."""

from __future__ import annotations

import gzip
import io
import json
import re
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest

from benchmarks import data
from benchmarks.data import __main__ as fetch
from benchmarks.data.content import content_of
from benchmarks.data.download import DownloadError, download
from benchmarks.data.sources import SOURCES

ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, "
    "White, Male, 2174, 0, 40, United-States, {}\n"
)


def archive(*files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, content in files:
            made.writestr(name, content)
    return out.getvalue()


def covertype():
    areas = ["0,0,1,0", "1,0,0,0"]
    soils = [",".join("1" if k == soil else "0" for k in range(40)) for soil in (2, 39)]
    numbers = "2596,51,3,258,0,510,221,232,148,6279"
    rows = [f"{numbers},{a},{s},5" for a, s in zip(areas, soils, strict=True)]
    return gzip.compress("\n".join(rows).encode())


BANK = (
    '"age";"job";"marital";"education";"default";"balance";"housing";"loan";"contact";'
    '"day";"month";"duration";"campaign";"pdays";"previous";"poutcome";"y"\n'
    '58;"management";"married";"tertiary";"no";2143;"yes";"no";"unknown";5;"may";261;1;'
    '-1;0;"unknown";"no"\n'
)
HOUSES = (
    "longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,"
    "households,median_income,median_house_value,ocean_proximity\n"
    "-122.23,37.88,41.0,880.0,,322.0,126.0,8.3252,452600.0,NEAR BAY\n"
)
FILES = {
    "adult.zip": archive(
        ("adult.data", ADULT.format("<=50K")),
        ("adult.test", "|1x3 Cross validator\n" + ADULT.format(">50K.")),
    ),
    # The archive of Bank holds an archive.
    "bank+marketing.zip": archive(("bank.zip", archive(("bank-full.csv", BANK)))),
    "covertype.zip": archive(("covtype.data.gz", covertype())),
    "housing.csv": HOUSES.encode(),
    "skin+segmentation.zip": archive(
        ("Skin_NonSkin.txt", "74\t85\t123\t1\n73\t1\t2\t2\n")
    ),
}


class Server(ThreadingHTTPServer):
    """Serves files from memory; `cut` ends the next answers after some bytes."""

    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.cut, self.asked = files, [], []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.files.get(self.path.lstrip("/"))
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if content is None:
            self.send_error(404)
            return
        start = int(re.match(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        self.wfile.write(body[: self.server.cut.pop()] if self.server.cut else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    made = Server(dict(FILES))
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty cache, and the contents of the made-up files as the known ones."""
    monkeypatch.setattr(data, "PLACES", [tmp_path / "cache"])
    known = {
        name: {
            part: content_of(table, data.document(name))
            for part, table in source.tables(FILES[source.url.split("/")[-1]]).items()
        }
        for name, source in SOURCES.items()
    }
    path = tmp_path / "content.json"
    path.write_text(json.dumps(known))
    monkeypatch.setattr(fetch, "KNOWN", path)
    return tmp_path / "cache"


def test_all_data_sets_are_fetched_checked_and_read(server, home, capsys):
    assert fetch.main(["--base", server.url]) == 0
    asked = len(server.asked)
    assert asked == len(FILES)
    assert fetch.main(["--base", server.url]) == 0
    assert len(server.asked) == asked  # what is there is not fetched again
    assert "is in" in capsys.readouterr().err
    train, test = data.read("adult")
    assert train["income"].tolist() == ["<=50K"]
    assert test["income"].tolist() == [">50K"]
    assert data.load("adult").y.tolist() == [0, 1]
    (forest,) = data.read("covtype")
    assert forest["wilderness_area"].tolist() == [3, 1]
    assert forest["soil_type"].tolist() == [3, 40]
    assert data.read("bank")[0]["job"].tolist() == ["management"]
    assert data.read("california")[0]["total_bedrooms"].isna().all()
    assert data.read("skin")[0].to_numpy().tolist() == [[74, 85, 123, 1], [73, 1, 2, 2]]
    assert not list(home.glob("*.zip"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HOUSES.replace("880.0", "881.0"), "has other contents than the measured one"),
        (HOUSES.replace("population", "people"), "population"),
        ("<html>", "is not the file of StatLib"),
    ],
    ids=["one cell", "one column", "a page"],
)
def test_other_contents_are_refused(server, home, capsys, text, words):
    server.files["housing.csv"] = text.encode()
    assert fetch.main(["--data", "california", "--base", server.url]) == 1
    assert words in capsys.readouterr().err
    assert not list(home.glob("*.parquet"))


def test_rows_in_another_order_are_named(server, home, capsys):
    turned = "73\t1\t2\t2\n74\t85\t123\t1\n"
    server.files["skin+segmentation.zip"] = archive(("Skin_NonSkin.txt", turned))
    assert fetch.main(["--data", "skin", "--base", server.url]) == 0
    assert "another order" in capsys.readouterr().err


def test_an_interrupted_download_goes_on_where_it_stopped(server, tmp_path):
    server.files["long"] = bytes(range(256)) * 400
    server.cut = [50_000, 30_000]
    download(f"{server.url}/long", tmp_path / "long", wait=0.0)
    assert (tmp_path / "long").read_bytes() == server.files["long"]
    assert server.asked == [None, "bytes=30000-", "bytes=80000-"]


def test_a_run_that_was_ended_leaves_what_it_fetched(server, tmp_path):
    server.files["long"] = bytes(range(256)) * 400
    server.cut = [30_000]
    with pytest.raises(DownloadError, match="ended early"):
        download(f"{server.url}/long", tmp_path / "long", attempts=1)
    download(f"{server.url}/long", tmp_path / "long", attempts=1)
    assert (tmp_path / "long").read_bytes() == server.files["long"]
    assert server.asked == [None, "bytes=30000-"]


def test_a_part_that_does_not_belong_to_the_file_is_left(server, tmp_path):
    server.files["short"] = b"0123456789"
    (tmp_path / "short.part").write_bytes(bytes(99))
    download(f"{server.url}/short", tmp_path / "short", wait=0.0)
    assert (tmp_path / "short").read_bytes() == b"0123456789"


def test_an_address_without_the_file_says_what_to_do(server, home, capsys):
    del server.files["housing.csv"]
    assert fetch.main(["--data", "california", "--base", server.url]) == 1
    said = capsys.readouterr().err
    assert "HTTP 404" in said
    assert "housing.csv" in said
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_says_what_to_do(tmp_path):
    with pytest.raises(DownloadError, match="run the command again"):
        download("http://127.0.0.1:9/x", tmp_path / "x", attempts=2, wait=0.0)


def test_an_unknown_data_set_is_refused(capsys):
    with pytest.raises(SystemExit):
        fetch.main(["--data", "iris"])
    assert "iris" in capsys.readouterr().err


def test_the_content_does_not_depend_on_types_of_columns():
    document = {"features": {"a": {}, "b": {}}, "target": "y"}
    one = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "y": [0, 1]})
    other = one.astype({"a": float, "b": "category", "y": "int8"})[["y", "b", "a"]]
    assert content_of(one, document) == content_of(other, document)
    assert content_of(one.assign(b=["x", "z"]), document) != content_of(one, document)
    turned = content_of(one[::-1], document)
    assert turned["in order"] != content_of(one, document)["in order"]
    assert turned["in any order"] == content_of(one, document)["in any order"]


def test_every_data_set_has_a_schema_a_source_and_known_contents():
    known = json.loads(fetch.KNOWN.read_text("utf-8"))
    schema = json.loads(data.SCHEMA.read_text("utf-8"))
    assert set(known) == set(schema) == set(SOURCES)
    for name, parts in known.items():
        assert set(parts) == set(schema[name]["files"])
