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
from reticent.schemas.document import TO_BE_WRITTEN, write_document
from reticent.schemas.encoder import Encoder
from reticent.schemas.faults import Fault, FileCheck, check_file
from reticent.schemas.file_format import ENCODINGS, FileFormat, distinct_names
from reticent.schemas.files import open_records, read_batches, read_table
from reticent.schemas.readings import (
    PARTS,
    SPANS,
    DatePart,
    DateSpan,
    TextWords,
    checked_format,
)
from reticent.schemas.rows import packed_rows
from reticent.schemas.schema import Schema
from reticent.schemas.table import PackedRows, Table, unpacked
from reticent.schemas.transformer import SchemaEncoder

__all__ = [
    "ENCODINGS",
    "PARTS",
    "SPANS",
    "TO_BE_WRITTEN",
    "Categorical",
    "ClassLabel",
    "DatePart",
    "DateSpan",
    "Encoder",
    "Fault",
    "FileCheck",
    "FileFormat",
    "Numeric",
    "NumericTarget",
    "PackedRows",
    "Schema",
    "SchemaEncoder",
    "Table",
    "TextWords",
    "check_file",
    "checked_format",
    "distinct_names",
    "open_records",
    "packed_rows",
    "plain_number",
    "read_batches",
    "read_table",
    "transformed",
    "unpacked",
    "write_document",
]
