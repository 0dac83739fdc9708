"""The formats of dumps."""

from enum import StrEnum


class DumpFormat(StrEnum):
    """The format of a dump."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
