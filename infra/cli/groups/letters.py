"""Chosen dead letters, in lines."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pyarrow as pa

from ....consumers.dead_letters.redrive_cell import RedriveStates
from ....log import views
from ...operating.letters import StoredLetter, is_of, letter_document, letter_of
from ...terminal import output

_REASON_CELLS, _BODY_CELLS_MIN = 36, 20
_BODY_BYTES = 1000


def of_origin(topic: str | None, reason: str | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The dead letters of this topic with this text in their reason; None: all."""
    for batch in batches:
        if topic is None and reason is None:
            yield batch
        else:
            mine = [is_of(dict(pairs or ()), topic, reason) for pairs in batch.column("properties").to_pylist()]
            yield batch.filter(pa.array(mine, pa.bool_()))


def at_most(limit: int | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        batch = batch.slice(0, left)
        if batch.num_rows:
            yield batch
        if left is not None and (left := left - batch.num_rows) == 0:
            return


def show(topic: str, redrives: RedriveStates, batches: Iterator[pa.RecordBatch]) -> int:
    """Show one line a dead letter. Returns their number."""
    count = 0
    cells: dict[str, int] | None = None
    for batch in batches:
        rows = [_line(letter_of(letter, redrives, body_bytes=_BODY_BYTES)) for letter in views(topic, batch)]
        count += len(rows)
        if cells is None:
            cells = _cells(rows, with_redrive=redrives != RedriveStates())
            output.say(click.style(_joined({name: name for name in cells}, cells), bold=True))
        output.say("\n".join(_joined(row, cells) for row in rows))
    return count


def show_json(topic: str, redrives: RedriveStates, batches: Iterator[pa.RecordBatch]) -> int:
    """Show one JSON object a dead letter. Returns their number."""
    count = 0
    for batch in batches:
        count += batch.num_rows
        for letter in views(topic, batch):
            output.emit(letter_document(letter, redrives))
    return count


def _line(letter: StoredLetter) -> dict[str, str]:
    origin = letter.origin
    return {
        "offset": f"{letter.offset:>6}",
        "time": output.time_text(letter.stored),
        "from": "-" if origin is None else output.printable(f"{origin.topic}/{origin.queue}/{origin.offset}"),
        "group": output.printable(letter.message_group or "-"),
        "retries": f"{'-' if origin is None else origin.reconsume_times:>7}",
        "redrive": letter.redrive,
        "reason": output.printable(origin.reason or "-") if origin is not None else "-",
        "body": output.printable(letter.body.text),
    }


def _cells(rows: list[dict[str, str]], *, with_redrive: bool) -> dict[str, int]:
    def longest(name: str, least: int, most: int) -> int:
        return min(most, max(least, *(len(row[name]) for row in rows)))

    cells = {
        "offset": 6,
        "time": 24,
        "from": longest("from", 16, 30),
        "group": longest("group", 8, 20),
        "retries": 7,
        **({"redrive": 9} if with_redrive else {}),
        "reason": longest("reason", 8, _REASON_CELLS),
    }
    left = output.width() - sum(cells.values()) - 2 * len(cells)
    return {**cells, "body": max(left, _BODY_CELLS_MIN)}


def _joined(row: dict[str, str], cells: dict[str, int]) -> str:
    return "  ".join(output.fit_width(row[name], width) for name, width in cells.items()).rstrip()
