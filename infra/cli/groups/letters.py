"""Chosen dead letters, in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from ....consumers.dead_letters.redrive_cell import RedriveStates
from ...operating.letters import StoredLetter, is_of, letter_of
from ...terminal import output
from ..messages.rendering import LineOutput, Row

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


def letter_lines(topic: str, redrives: RedriveStates) -> LineOutput:
    """One line a dead letter, with its origin and reason."""
    return LineOutput(
        topic,
        row=lambda letter: _line(letter_of(letter, redrives, body_bytes=_BODY_BYTES)),
        widths=partial(_cells, with_redrive=redrives != RedriveStates()),
    )


def _line(letter: StoredLetter) -> Row:
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


def _cells(rows: Sequence[Row], *, with_redrive: bool) -> dict[str, int]:
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
