"""Where the data sets come from, and how their files become tables.

Rows are neither dropped nor changed. Names of columns are those of schema.json.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

UCI = "https://archive.ics.uci.edu/static/public"
CALIFORNIA = (
    "https://raw.githubusercontent.com/ageron/handson-ml2/"
    "1e2115277b50f6c584cd668fa30e3af309a5b136/datasets/housing/housing.csv"
)
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
COVERTYPE = [
    "elevation",
    "aspect",
    "slope",
    "horizontal_distance_to_hydrology",
    "vertical_distance_to_hydrology",
    "horizontal_distance_to_roadways",
    "hillshade_9am",
    "hillshade_noon",
    "hillshade_3pm",
    "horizontal_distance_to_fire_points",
]
AREAS, SOILS = 4, 40
Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True)
class Source:
    """One data set: its address, its home page, and what makes tables of the file."""

    url: str
    home: str
    tables: Callable[[bytes], Tables]


def member(archive: bytes, ending: str) -> bytes:
    """Return the file of an archive whose name ends so, from archives in it as well."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        for name in found.namelist():
            if name.endswith(ending):
                return found.read(name)
        for name in found.namelist():
            if name.endswith(".zip"):
                try:
                    return member(found.read(name), ending)
                except KeyError:
                    continue
    raise KeyError(ending)


def adult(archive: bytes) -> Tables:
    """The published split; labels of the test file end with a dot there."""
    found = {}
    for part, ending in (("train", "adult.data"), ("test", "adult.test")):
        text = member(archive, ending).decode()
        lines = [line for line in text.splitlines() if line and line[0] != "|"]
        frame = pd.read_csv(
            io.StringIO("\n".join(lines)),
            names=ADULT,
            skipinitialspace=True,
            keep_default_na=False,
        )
        frame["income"] = frame["income"].str.strip().str.rstrip(".")
        found[part] = frame
    return found


def bank(archive: bytes) -> Tables:
    text = member(archive, "bank-full.csv").decode()
    return {"all": pd.read_csv(io.StringIO(text), sep=";", keep_default_na=False)}


def covertype(archive: bytes) -> Tables:
    """Indicator columns of areas and soils become one code each, without loss."""
    raw = gzip.decompress(member(archive, "covtype.data.gz"))
    values = pd.read_csv(io.BytesIO(raw), header=None, dtype=np.int16).to_numpy()
    cut = len(COVERTYPE)
    areas, soils = values[:, cut : cut + AREAS], values[:, cut + AREAS : -1]
    if soils.shape[1] != SOILS or not (areas.sum(1) == 1).all():
        raise ValueError("the columns are not those of Covertype")
    if not (soils.sum(1) == 1).all():
        raise ValueError("a row has several soils or none")
    frame = pd.DataFrame(values[:, :cut], columns=COVERTYPE)
    frame["wilderness_area"] = (areas.argmax(1) + 1).astype(np.int8)
    frame["soil_type"] = (soils.argmax(1) + 1).astype(np.int8)
    frame["cover_type"] = values[:, -1].astype(np.int8)
    return {"all": frame}


def skin(archive: bytes) -> Tables:
    text = member(archive, "Skin_NonSkin.txt").decode()
    names = ["b", "g", "r", "skin"]
    frame = pd.read_csv(io.StringIO(text), sep=r"\s+", names=names, dtype=np.uint8)
    return {"all": frame}


def california(text: bytes) -> Tables:
    return {"all": pd.read_csv(io.BytesIO(text))}


SOURCES = {
    "adult": Source(f"{UCI}/2/adult.zip", "UCI, Adult", adult),
    "bank": Source(f"{UCI}/222/bank+marketing.zip", "UCI, Bank Marketing", bank),
    "covtype": Source(f"{UCI}/31/covertype.zip", "UCI, Covertype", covertype),
    "california": Source(
        CALIFORNIA, "StatLib; with missing cells, as in a textbook's copy", california
    ),
    "skin": Source(f"{UCI}/229/skin+segmentation.zip", "UCI, Skin Segmentation", skin),
}
