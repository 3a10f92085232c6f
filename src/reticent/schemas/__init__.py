"""Public facts about columns: ranges, levels, labels, units.

A schema is written from a codebook or from public data, never read from the records.
It validates files, data frames and rows sent by clients, and encodes them as matrices;
the encoding depends on the schema alone.
"""

from reticent.schemas.columns import (
    Categorical,
    ClassLabel,
    Numeric,
    NumericTarget,
    plain_number,
    transformed,
)
from reticent.schemas.encoder import Encoder
from reticent.schemas.files import read_batches, read_table
from reticent.schemas.schema import Schema
from reticent.schemas.table import Table
from reticent.schemas.transformer import SchemaEncoder

__all__ = [
    "Categorical",
    "ClassLabel",
    "Encoder",
    "Numeric",
    "NumericTarget",
    "Schema",
    "SchemaEncoder",
    "Table",
    "plain_number",
    "read_batches",
    "read_table",
    "transformed",
]
