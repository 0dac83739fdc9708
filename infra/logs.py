"""Logs of long-running commands: one line a record on stderr, for people or, as JSON, for programs.

The facts of a record come as ``extra={"fields": {…}}``: the JSON form has them by name.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, TextIO, TypeAlias

from ..log.escapes import escaped, escaped_json

LogFormat: TypeAlias = Literal["text", "json"]
LOGGER = "penstock"


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    found = getattr(record, "fields", None)
    return dict(found) if isinstance(found, dict) else {}


class _OfWorker(logging.Filter):
    """Gives each record the number of this worker as the fact ``worker``."""

    def __init__(self, worker: int) -> None:
        super().__init__()
        self._worker = worker

    def filter(self, record: logging.LogRecord) -> bool:
        record.fields = {**fields_of(record), "worker": self._worker}
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time`` (UTC), ``level``, ``logger``, ``message``, the record's facts, and ``error`` with its traceback.

    A fact of such a name becomes ``fields.<name>``. Values that JSON cannot hold are written as text.
    """

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            document["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            document["traceback"] = self.formatException(record.exc_info)
        for name, value in fields_of(record).items():
            document[f"fields.{name}" if name in document else name] = value
        return escaped_json(json.dumps(document, ensure_ascii=False, default=str))


class TextFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z WARNING penstock.consumers: group billing, orders queue 3: …``, and a traceback below.

    Only a record's first line is not indented. A worker of a pool has its number in brackets: ``penstock.consumers [2]: …``.
    """

    def format(self, record: logging.LogRecord) -> str:
        worker = fields_of(record).get("worker")
        place = record.name if worker is None else f"{record.name} [{worker}]"
        text = f"{_time(record)} {record.levelname} {place}: {escaped(record.getMessage())}"
        if not record.exc_info:
            return text
        trace = self.formatException(record.exc_info).split("\n")
        return "\n".join([text, *(f"  {escaped(line)}" for line in trace)])


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def logging_to(
    stream: TextIO | None = None, *, format: LogFormat = "text", level: int = logging.INFO, worker: int | None = None
) -> Iterator[None]:
    """Write the library's log to ``stream`` (stderr) inside the block, and nowhere else. ``worker``: the number of this worker in its pool."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    if worker is not None:
        handler.addFilter(_OfWorker(worker))
    logger = logging.getLogger(LOGGER)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
