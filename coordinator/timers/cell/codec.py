"""Timer cells as bytes."""

from __future__ import annotations

import re

from ....log.errors import DataDamaged, NewerFormatError
from ....log.format.stored_json import shown
from ....log.limits import TIME_MAX_MS
from ...cells.varints import VarintReader, append_bytes, append_varint
from .state import NEVER, Claim, DeliveredBounds, DuePosition, TimerRun, TimerState

_FORMAT = 1
_RUN_BYTES_MIN = 5
_RUN_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_TIME_MAX_US = 1000 * TIME_MAX_MS


def encode_timers(state: TimerState) -> bytes:
    data = bytearray([_FORMAT])
    _append_bounds(data, state.settled)
    append_varint(data, state.next_sequence)
    append_varint(data, 0 if state.claim is None else 1)
    if state.claim is not None:
        _append_bounds(data, state.claim.bounds)
        append_varint(data, state.claim.count)
    append_varint(data, state.gathered)
    _append_runs(data, state.runs)
    _append_runs(data, state.recalls)
    recalled = sorted(state.recalled)
    append_varint(data, len(recalled))
    before_us = 0
    for due in recalled:  # by time, so the differences are small
        append_varint(data, due.time_us - before_us)
        append_varint(data, due.offset)
        before_us = due.time_us
    return bytes(data)


def decode_timers(data: bytes, *, where: str) -> TimerState:
    """Raises `DataDamaged`, or `NewerFormatError` for a cell of a later version."""
    reader = VarintReader(data, where=where)
    if (version := reader.byte()) != _FORMAT:
        raise NewerFormatError(
            "the timers were written by a later version of Penstock", object=where, expected=f"format {_FORMAT}", observed=version
        )
    settled = _read_bounds(reader)
    next_sequence = reader.varint()
    claim = None
    if reader.varint(1):
        bounds, count = _read_bounds(reader), reader.varint(next_sequence)
        claim = Claim(bounds, next_sequence - count, count)
    gathered = reader.varint()
    runs, recalls = (tuple(_read_run(reader, where) for _ in range(reader.count(_RUN_BYTES_MIN))) for _ in range(2))
    recalled, before_us = set(), 0
    for _ in range(reader.count(2)):
        before_us += reader.varint(_TIME_MAX_US - before_us)
        recalled.add(DuePosition(before_us, reader.varint()))
    if not reader.done:
        raise DataDamaged("the timers have more to them than their parts", object=where, observed=f"{len(data)} bytes")
    return TimerState(
        settled=settled,
        claim=claim,
        next_sequence=next_sequence,
        gathered=gathered,
        runs=runs,
        recalled=frozenset(recalled),
        recalls=recalls,
    )


def _append_runs(data: bytearray, runs: tuple[TimerRun, ...]) -> None:
    append_varint(data, len(runs))
    for run in runs:
        append_bytes(data, run.name.encode())
        append_varint(data, run.rows)
        append_varint(data, run.size_bytes)
        _append_due(data, run.last)


def _append_due(data: bytearray, due: DuePosition) -> None:
    """Append a due time, counted from `NEVER`, so that no number is negative."""
    append_varint(data, due.time_us - NEVER.time_us)
    append_varint(data, due.offset - NEVER.offset)


def _read_due(reader: VarintReader) -> DuePosition:
    return DuePosition(reader.varint(_TIME_MAX_US) + NEVER.time_us, reader.varint() + NEVER.offset)


def _append_bounds(data: bytearray, bounds: DeliveredBounds) -> None:
    append_varint(data, bounds.known)
    _append_due(data, bounds.due)


def _read_bounds(reader: VarintReader) -> DeliveredBounds:
    return DeliveredBounds(reader.varint(), _read_due(reader))


def _read_run(reader: VarintReader, where: str) -> TimerRun:
    name = reader.text()
    if not _RUN_NAME.fullmatch(name):  # it becomes a part of a key
        raise DataDamaged("the name of a run is none of ours", object=where, observed=shown(name))
    return TimerRun(name, reader.varint(), reader.varint(), _read_due(reader))
