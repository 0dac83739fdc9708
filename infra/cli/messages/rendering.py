"""Messages as lines of a table, or JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import click

from ...operating.messages import message_document
from ...terminal import output

if TYPE_CHECKING:
    import pyarrow as pa

    from ....log import MessageView

Row: TypeAlias = Mapping[str, str]
Widths: TypeAlias = Callable[[Sequence[Row]], dict[str, int]]
"""The columns of the first rows, in their order, and the cells of each."""

_CELLS = {"offset": (8, 20), "group": (12, 28), "tag": (8, 16), "keys": (10, 28)}
"""The least and the greatest width of each column."""
_BODY_CELLS_MIN = 20
BODY_CHARS = 60
BODY_BYTES = 4 * BODY_CHARS
"""The read part of a body of which a cell shows `BODY_CHARS`: UTF-8 has at most 4 bytes a character."""


class MessageSink(Protocol):
    """The destination of messages."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes a batch with all columns."""
        ...


def delivery(message: MessageView) -> dict[str, object]:
    """A delivered message as JSON values, with its delivery attempt and epoch."""
    return {**message_document(message), "delivery_attempt": message.delivery_attempt, "epoch": message.epoch}


class JsonLineOutput:
    """One JSON object a message, on standard output."""

    def __init__(self, topic: str, *, spelt: Callable[[MessageView], dict[str, object]] = message_document) -> None:
        self._topic = topic
        self._spelt = spelt

    def write(self, batch: pa.RecordBatch) -> None:
        from ....log import views

        self.show(views(self._topic, batch))

    def show(self, messages: Iterable[MessageView]) -> None:
        for message in messages:
            output.emit(self._spelt(message))


class FittedLines:
    """Lines of cells under one heading, in widths by the first rows."""

    def __init__(self, widths: Widths) -> None:
        self._widths = widths
        self._cells: dict[str, int] | None = None

    def show(self, rows: Sequence[Row]) -> None:
        if self._cells is None:
            self._cells = self._widths(rows)
            output.say(click.style(_joined({name: name for name in self._cells}, self._cells), bold=True))
        output.say("\n".join(_joined(row, self._cells) for row in rows))


def _joined(row: Row, cells: Mapping[str, int]) -> str:
    # A schema that evolved meanwhile may have other fields.
    return "  ".join(output.fit_width(row.get(name, "-"), width) for name, width in cells.items()).rstrip()


def _line(message: MessageView) -> Row:
    keys = ",".join(message.keys)
    return {
        "queue": f"{message.queue:>5}",
        "offset": f"{message.offset:>8}",
        "time": output.time_text(message.store_timestamp),
        "due": "" if message.delivery_timestamp is None else output.time_text(message.delivery_timestamp),
        "group": output.printable(message.message_group or "-"),
        "tag": output.printable(message.tag or "-"),
        "keys": output.printable(keys or "-"),
        "body": output.printable(message.content[:1000].decode(errors="replace")),
    }


def _cells(rows: Sequence[Row]) -> dict[str, int]:
    longest = {name: min(most, max(least, *(len(row[name]) for row in rows))) for name, (least, most) in _CELLS.items()}
    due = {"due": 24} if any(row["due"] for row in rows) else {}
    cells = {"queue": 5, "offset": longest.pop("offset"), "time": 24, **due, **longest}
    left = output.width() - sum(cells.values()) - 2 * len(cells)
    return {**cells, "body": max(left, _BODY_CELLS_MIN)}


class LineOutput:
    """One line a message; long values are shortened."""

    def __init__(self, topic: str, *, row: Callable[[MessageView], Row] = _line, widths: Widths = _cells) -> None:
        self._topic = topic
        self._row = row
        self._lines = FittedLines(widths)

    def write(self, batch: pa.RecordBatch) -> None:
        from ....log import views

        self.show(views(self._topic, batch))

    def show(self, messages: Iterable[MessageView]) -> None:
        self._lines.show([self._row(message) for message in messages])
