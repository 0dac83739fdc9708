"""What holds for simulated runs: a log record does not keep its world."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


class TextOnly(logging.Filter):
    """Takes a record's text for its arguments and its exception, whose frames hold the world of the run."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = record.getMessage(), None
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        return True


@pytest.fixture(autouse=True)
def records_without_worlds(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """pytest keeps the records of a test to its end; hundreds of worlds made each collection of garbage take longer."""
    text_only = TextOnly()
    handlers = [handler for handler in logging.getLogger().handlers if hasattr(handler, "records")]
    for handler in handlers:
        handler.addFilter(text_only)
    yield
    for handler in handlers:
        handler.removeFilter(text_only)
