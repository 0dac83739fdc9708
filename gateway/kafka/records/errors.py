"""Why a record batch is refused."""

from __future__ import annotations

from typing import Final


class RecordsError(Exception):
    """A batch that cannot be taken. The others beside it can."""

    def __init__(self, code_name: str, message: str, batch: int = 0, record: int | None = None) -> None:
        """``code_name``: Kafka's name of the error code. ``batch``: which of those that were given, from 0. ``record``: the one in it that
        is bad, where that is known.
        """
        super().__init__(code_name, message, batch, record)
        self.code_name: Final = code_name
        self.message: Final = message
        self.batch: Final = batch
        self.record: Final = record

    def __str__(self) -> str:
        record = "" if self.record is None else f", record {self.record}"
        return f"{self.code_name}: {self.message} (batch {self.batch}{record})"
