"""The demo's checks find nothing in a faithful run, and every single dropped, doubled or swapped event in another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from examples.demo import shipped
from examples.demo.checks.capture import event_of, key_columns, read_dumps, read_events
from examples.demo.checks.check_stream import Stored, StreamDifference, compare_stream, read_topic
from examples.demo.checks.compare import TableDifference, compare_table, compare_tables, same_value
from penstock.log.errors import InvalidArgument
from tests.demo.captures import (
    CAPTURE,
    DUMPS,
    PAIRS,
    QUEUES,
    apply,
    doubled,
    dropped,
    dumps_of,
    event,
    produce,
    swapped,
)


def check(lines: Sequence[bytes]) -> tuple[StreamDifference, list[TableDifference]]:
    """Send these lines, apply them, and compare with the true capture."""
    stored = produce(lines)
    capture = [event_of(line) for line in CAPTURE]
    keys, tables = key_columns(capture), apply(stored)
    return compare_stream(capture, stored, queues=QUEUES), [
        compare_table(dump, tables.get(dump.table, []), keys[dump.table]) for dump in dumps_of(DUMPS)
    ]


def is_last_of_its_row(index: int) -> bool:
    return all(index != first for first, _ in PAIRS)


def test_a_faithful_run_differs_in_nothing() -> None:
    stream, tables = check(CAPTURE)
    assert stream.equal
    assert (stream.expected, stream.found) == (11, 11)
    assert [(table.table, table.expected, table.found, table.equal) for table in tables] == [
        ("bills", 2, 2, True),
        ("lines", 1, 1, True),
    ]


@pytest.mark.parametrize("index", range(len(CAPTURE)))
def test_a_dropped_event_is_found(index: int) -> None:
    stream, tables = check(dropped(index))
    assert (stream.missing, stream.doubled, stream.out_of_order, stream.equal) == (1, 0, 0, False)
    assert f"missing: event {index + 1}" in stream.examples
    assert all(table.equal for table in tables) == (not is_last_of_its_row(index))


@pytest.mark.parametrize("index", range(len(CAPTURE)))
def test_a_doubled_event_is_found_although_the_tables_hide_it(index: int) -> None:
    stream, tables = check(doubled(index))
    assert (stream.missing, stream.doubled, stream.out_of_order, stream.equal) == (0, 1, 0, False)
    assert all(table.equal for table in tables)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_swapped_events_of_a_row_are_found(first: int, second: int) -> None:
    stream, tables = check(swapped(first, second))
    assert (stream.missing, stream.doubled, stream.equal) == (0, 0, False)
    assert stream.out_of_order >= 1
    assert all(table.equal for table in tables) == (not is_last_of_its_row(second))


def test_a_row_spread_over_two_queues_is_found() -> None:
    messages = produce(CAPTURE)
    moved = [m if m.offset or m.queue != messages[0].queue else type(m)(99, 0, m.event) for m in messages]
    capture = [event_of(line) for line in CAPTURE]
    assert compare_stream(capture, sorted(moved, key=lambda m: m.queue), queues=64).out_of_order >= 1


def test_a_row_that_goes_on_in_a_queue_of_a_growth_is_in_order_and_one_that_comes_from_there_is_not() -> None:
    capture = [event_of(line) for line in CAPTURE]
    row = next(first for first, _ in PAIRS)
    first, second, *_ = (event for event in capture if event.row == capture[row].row)
    assert compare_stream([first, second], [Stored(1, 0, first), Stored(1 + QUEUES, 0, second)], queues=QUEUES).equal
    assert compare_stream([first, second], [Stored(1, 0, second), Stored(1 + QUEUES, 0, first)], queues=QUEUES).out_of_order == 1


def test_a_message_that_is_no_event_of_the_capture_is_found() -> None:
    changed = [line.replace(b'"count": 5', b'"count": 6') for line in CAPTURE]
    stream, _ = check([*changed, event(99, 1, "bills", "c", {"id": 9}, {})])
    assert (stream.foreign, stream.missing) == (2, 1)


def test_missing_extra_doubled_and_different_rows_are_counted_and_named() -> None:
    [_, lines] = dumps_of(DUMPS)
    row = {"id": 1, "line": 1, "count": 5}
    assert compare_table(lines, [row], ("id", "line")).equal
    assert compare_table(lines, [], ("id", "line")).missing == 1
    assert compare_table(lines, [row, row], ("id", "line")).extra == 1
    assert compare_table(lines, [row, {**row, "line": 2}], ("id", "line")).examples == ("extra id 1, line 2",)
    different = compare_table(lines, [{**row, "count": 6}], ("id", "line"))
    assert (different.different, different.examples) == (1, ("id 1, line 1: count should be 5 and is 6",))


def test_a_column_too_few_or_too_many_makes_a_row_different() -> None:
    [_, lines] = dumps_of(DUMPS)
    assert compare_table(lines, [{"id": 1, "line": 1}], ("id", "line")).different == 1
    assert compare_table(lines, [{"id": 1, "line": 1, "count": 5, "more": None}], ("id", "line")).different == 1


@pytest.mark.parametrize(
    ("text", "value", "same"),
    [
        ("1.10", Decimal("1.1"), True),
        ("1.10", Decimal("1.11"), False),
        ("7", 7, True),
        ("7", 8, False),
        ("seven", 7, False),
        ("0.5", 0.5, True),
        ("t", True, True),
        ("t", False, False),
        ("2026-11-20 12:17:34.03283+00", datetime(2026, 11, 20, 12, 17, 34, 32830, UTC), True),
        ("2026-11-20 13:17:34.03283+01", datetime(2026, 11, 20, 12, 17, 34, 32830, UTC), True),
        ("2026-11-20 12:17:34.03284+00", datetime(2026, 11, 20, 12, 17, 34, 32830, UTC), False),
        (None, None, True),
        (None, "", True),
        (None, 0, False),
        ("x", None, False),
        ("a", "a", True),
        ("1.0", "1.00", False),
    ],
)
def test_values_are_compared_by_what_they_mean(text: str | None, value: Any, same: bool) -> None:
    assert same_value(text, value) is same


def test_tables_and_topic_are_read_from_delta(tmp_path: Path) -> None:
    stored = produce(CAPTURE)
    write_deltalake(
        str(tmp_path / "topic"),
        pa.table(
            {
                "queue": pa.array([m.queue for m in reversed(stored)], pa.int32()),
                "offset": pa.array([m.offset for m in reversed(stored)], pa.int64()),
                "body": pa.array([m.event.body for m in reversed(stored)], pa.binary()),
            }
        ),
        partition_by=["queue"],
    )
    assert list(read_topic(str(tmp_path / "topic"))) == stored
    write_deltalake(str(tmp_path / "lines"), pa.Table.from_pylist(apply(stored)["lines"]))
    keys = key_columns(message.event for message in stored)
    bills, lines = compare_tables(dumps_of(DUMPS), keys, str(tmp_path))
    assert lines.equal
    assert (bills.found, bills.missing) == (0, 2)


def test_dumps_are_read_with_empty_fields_as_null(tmp_path: Path) -> None:
    for name, text in DUMPS.items():
        (tmp_path / name).write_text(text)
    assert read_dumps(tmp_path) == dumps_of(DUMPS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="nothing to compare with"):
        read_dumps(tmp_path / "empty")


def test_a_line_of_another_form_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no event of the capture's form"):
        event_of(b'{"value": null}')


@pytest.mark.thorough
@pytest.mark.slow
def test_the_shipped_capture_gives_the_shipped_dumps() -> None:
    capture = list(read_events(shipped.events_file()))
    tables, keys = apply(produce((e.body for e in capture), queues=16)), key_columns(capture)
    differences = [compare_table(dump, tables[dump.table], keys[dump.table]) for dump in read_dumps(shipped.DATA)]
    assert [(d.table, d.expected, d.equal) for d in differences] == [
        ("customers", 2_467, True),
        ("order_items", 20_132, True),
        ("orders", 8_059, True),
    ]
    assert len(capture) == 71_828
