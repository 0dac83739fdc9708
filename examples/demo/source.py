"""The capture as the demo's producers send it: every row's events through one producer, with sequences from the source's log."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from penstock.infra.formats import DEBEZIUM_LABELS, FileFormat, read_records
from penstock.infra.labels import InputRecord
from penstock.log.errors import InvalidArgument


def producer_of(message_group: str, producers: int) -> int:
    """The number of the producer, among ``producers``, that sends the events of a row."""
    return zlib.crc32(message_group.encode()) % producers


def events(file: BinaryIO, *, name: str, producers: int = 1, producer: int = 0) -> Iterator[InputRecord]:
    """One producer's share of a capture, in the order of its lines, with strictly increasing sequences.

    A sequence is the source's position (`position_of`). The line order is the commit order, and so is that of positions, which is checked
    as they are read. Raises `InvalidArgument` for a line that is no change event, has no position or is out of order.
    """
    last = -1
    for record in read_records(file, FileFormat.DEBEZIUM, name=name, labels=replace(DEBEZIUM_LABELS, sequence="position")):
        sequence, group = record.sequence, record.message_group
        if sequence is None or group is None:
            raise InvalidArgument("an event has no position or no key", operation="read the capture", object=name)
        if sequence <= last:
            raise InvalidArgument(
                "the events are not in the order of the source's log",
                operation="read the capture",
                object=name,
                expected=f"a position above {last}",
                observed=f"{sequence} for {group}",
            )
        last = sequence
        if producer_of(group, producers) == producer:
            yield record
