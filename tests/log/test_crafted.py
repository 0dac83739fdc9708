"""Entries that a writer of the topic made up: readable by their seal, and not what any process of ours would write.

Each is void, or damage that is named; and in either case verify tells, repair lets the log go on, and nothing takes long or much memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from penstock.log.errors import DataDamaged
from penstock.log.format.entry import FOOTER_KEY
from penstock.log.format.header import Header, encode_header
from penstock.log.format.sealed import write_file
from penstock.log.format.state import TopicState, state_form
from penstock.log.format.stored_json import plain
from penstock.log.limits import ENTRY_ROWS_MAX, NUMBER_MAX, QUEUES_MAX
from penstock.log.message.message import LOG_SCHEMA
from penstock.log.repair import repair
from penstock.log.stores.protocol import Put
from penstock.log.tail.view import View
from penstock.log.topic.settings import encode_record
from penstock.log.verify import verify
from tests.log.strategies import rows_of
from tests.log.topics import LogWriter

Document = dict[str, Any]
Edit = Callable[[Document, TopicState], Any]
DEEP = '{"format":1,"a":' + "[" * 100_000 + "]" * 100_000 + "}"
EMPTY = LOG_SCHEMA.empty_table()


def said(**values: Any) -> Edit:
    return lambda document, _: {**document, **values}


def actions(*found: Any) -> Edit:
    return said(actions=list(found))


def text(value: str) -> Edit:
    return lambda _, __: value


def batch(rows: Any, *, last: Any = 10**6, **more: Any) -> Edit:
    """An entry with one inline batch of these rows, and the bases that it should name."""

    def edit(document: Document, state: TopicState) -> Document:
        one = {"p": "evil", "s": [-1, last], "g": state.generation, "r": rows, "v": 10**9, **more}
        queues = sorted({queue for queue in rows[::2] if type(queue) is int and 0 <= queue < state.queues})
        return {**document, "batches": [one], "bases": [n for queue in queues for n in (queue, state.next_offsets[queue])]}

    return edit


def part(key: str, first_row: int = 0) -> Edit:
    return batch([0, 1], l=[[key, first_row, [0, 1], 10, "0" * 32]])


def again(queues: int) -> Edit:
    """The topic is deleted, and made with as many queues."""

    def edit(document: Document, state: TopicState) -> Document:
        made = {"type": "Created", "incarnation": "evil", "queues": queues, "replaces": state.incarnation}
        return {**document, "actions": [{"type": "Deleted", "incarnation": state.incarnation}, made]}

    return edit


def repaired(entry: int | None = None, **changes: Any) -> Edit:
    """A repair that nobody needed."""

    def edit(document: Document, state: TopicState) -> Document:
        form = {**plain(state_form(state)), **changes}
        return {
            **document,
            "entry": document["entry"] if entry is None else entry,
            "actions": [{"type": "Repair", "state": form, "lost_first": 1, "lost_last": 2}],
        }

    return edit


DAMAGE: dict[str, Edit] = {
    "a time that is text": said(time_ms="x"),
    "a time that is a list": said(time_ms=[1]),
    "a time that is no whole number": said(time_ms=1e300),
    "a time beyond all calendars": said(time_ms=NUMBER_MAX),
    "a time before 1970": said(time_ms=-1),
    "no number": said(entry=None),
    "another number": said(entry=99),
    "a number of 5,000 digits": text('{"format":1,"entry":' + "9" * 5000 + "}"),
    "a document nested deeply": text(DEEP),
    "a document nested deeply where a state belongs": text(
        '{"format":1,"actions":[{"type":"Repair","state":' + "[" * 100_000 + "]" * 100_000 + "}]}"
    ),
    "a list": text("[]"),
    "no document": text("{"),
    "an unknown field": said(more=1),
    "an unknown action": actions({"type": "Explode"}),
    "a repair back to an entry before it": repaired(entry=2),
    "a repair far ahead": repaired(entry=10**15),
    "a repair whose state is none": actions({"type": "Repair", "state": {"entry": 1}, "lost_first": 1, "lost_last": 2}),
    "a repair with negative offsets": repaired(next_offsets=[-1, 0]),
    "a repair with too many queues": repaired(next_offsets=[0] * (QUEUES_MAX + 1)),
    "a repair with a producer of no name": repaired(named=[[["a"], 1, 1, 1]]),
    "an opening of a list": said(openings=[[["a"], "w", 1, 10**9, -1]]),
    "an opening that is too short": said(openings=[["a"]]),
    "a producer's name without end": said(openings=[["a" * 5000, "w", 1, 10**9, -1]]),
    "more batches than an entry has": said(batches=[{"p": "x", "s": [-1, 0], "g": 1, "r": [0, 1], "v": 9}] * 1000),
    "a count of half a row": batch([0, 1.5]),
    "a count that is no number": batch([0, float("nan")]),
    "a count that is too large to store": batch([0, 2**70]),
    "a negative count": batch([0, -1]),
    "counts that do not pair": batch([0, 1, 1]),
    "one queue twice": batch([0, 1, 0, 2]),
    "a queue that is text": batch(["0", 1]),
    "a queue that is a truth value": batch([True, 1]),
    "a validity that is text": batch([0, 1], v="z"),
    "a part that begins before its object": part("topic.json", -5),
    "a part whose name is half a character": part("staged/\ud800"),
    "a job that is a path": batch([0, 1], j="../../pay"),
    "bases that are not the state's": said(bases=[0, NUMBER_MAX]),
    "bases of queues that there are not": said(bases=[n for queue in range(QUEUES_MAX) for n in (10**9 + queue, 1)]),
}
VOID: dict[str, Edit] = {
    "a topic with 300 million queues": again(300_000_000),
    "a topic with no queue": again(0),
    "more rows than an entry can bring": batch([0, 2**62], last=NUMBER_MAX),
    "more rows than offsets": batch([0, NUMBER_MAX], last=NUMBER_MAX),
    "a queue that there is not": batch([NUMBER_MAX, 1]),
    "a part outside of the topic": part("../../pay/log/00000000000000000001.parquet"),
    "a part with an odd name": part("staged/\0"),
    "a part that is the topic's record": part("topic.json"),
}


async def topic() -> LogWriter:
    log = await LogWriter(queues=2).create()
    for _ in range(5):
        await log.send({0: 1, 1: 1})
    return log


async def put(log: LogWriter, edit: Edit, rows: pa.Table = EMPTY) -> str:
    """Append what ``edit`` makes of an empty entry; its key."""
    entry = log.state.entry + 1
    header = Header(entry, "0" * 32, log.clock.wall_ms(), log.state.digest, {})
    made = edit(json.loads(encode_header(header)), log.state)
    data = write_file(rows, {FOOTER_KEY: made if isinstance(made, str) else json.dumps(made)})
    await log.store.put(log.paths.entry(entry), data, mode=Put.CREATE)
    return log.paths.entry(entry)


async def tail(log: LogWriter) -> View:
    view = View(log.store, log.paths, log.runtime)
    await view.open()
    await view.catch_up()
    return view


async def goes_on(log: LogWriter) -> None:
    """The log takes what others send, and has it, dense."""
    before = log.state = (await tail(log)).state
    log._last.clear()
    await log.send({0: 1}, producer="fresh")
    after = (await tail(log)).state
    assert after.next_offsets == (before.next_offsets[0] + 1, before.next_offsets[1])
    assert after.next_offsets[0] < NUMBER_MAX // 2


@pytest.mark.parametrize("what", DAMAGE)
def test_an_entry_without_its_form_is_damage_that_can_be_repaired(what: str) -> None:
    async def test() -> None:
        log = await topic()
        key = await put(log, DAMAGE[what])
        with pytest.raises(DataDamaged) as caught:
            await tail(log)
        error = caught.value
        assert error.object == key
        assert "penstock repair" in (error.hint or "")
        assert error.expected is not None or error.observed is not None
        assert len(str(error)) < 800
        report = await verify(log.store, log.paths, log.record, log.runtime)
        assert [finding.object for finding in report.findings if finding.kind == "damaged"][:1] == [key]
        done = await repair(log.store, log.paths, log.runtime)
        assert done.written
        await goes_on(log)

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("what", VOID)
def test_what_no_process_would_send_is_void(what: str) -> None:
    async def test() -> None:
        log = await topic()
        before = log.state
        await log.store.put(log.paths.settings, encode_record(log.record), mode=Put.CREATE)
        await put(log, VOID[what])
        state = (await tail(log)).state
        assert (state.entry, state.next_offsets) == (before.entry + 1, before.next_offsets)
        report = await verify(log.store, log.paths, log.record, log.runtime)
        assert [finding.kind for finding in report.findings] == ([] if state.alive else ["ended"])
        if state.alive:
            await goes_on(log)

    asyncio.run(asyncio.wait_for(test(), 30))


async def test_offsets_that_a_crafted_entry_claims_are_believed_no_further_than_they_can_be() -> None:
    log = await topic()
    await put(log, lambda document, _: {**document, "bases": [0, 2**62, 1, 3], "state": "0" * 32})
    before = log.state.next_offsets
    await repair(log.store, log.paths, log.runtime)
    after = (await tail(log)).state.next_offsets
    assert before[0] <= after[0] <= before[0] + ENTRY_ROWS_MAX
    assert after[1] == before[1]


def test_an_object_far_behind_the_log_is_none_of_its_entries() -> None:
    async def test() -> None:
        log = await topic()
        stray = log.paths.entry(10**15)
        await log.store.put(stray, b"x", mode=Put.CREATE)
        await goes_on(log)
        assert not (await repair(log.store, log.paths, log.runtime)).needed
        report = await verify(log.store, log.paths, log.record, log.runtime)
        assert [(finding.kind, finding.object) for finding in report.findings] == [("foreign", stray)]

    asyncio.run(asyncio.wait_for(test(), 30))


# --------------------------------------------------------------------------------------------------------------- the rows


def one_row(**columns: pa.Array) -> pa.Table:
    rows = rows_of({0: 1})
    for name, column in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, pa.field(name, column.type), column)
    return rows


def of_bytes(name: str, value: bytes) -> pa.Table:
    """A column of text that is none."""
    length = pa.array([0, len(value)], pa.int32()).buffers()[1]
    return one_row(**{name: pa.StringArray.from_buffers(1, length, pa.py_buffer(value))})


@pytest.mark.parametrize(
    "rows",
    [
        EMPTY,
        one_row(queue=pa.array([1], pa.int32())),
        one_row(queue=pa.array([None], pa.int32())),
        one_row(queue=pa.array(["0"])),
        one_row(body=pa.array([[1]])),
        one_row(message_id=pa.array([None], pa.string())),
        one_row(born_timestamp=pa.array([2**62], pa.timestamp("us", tz="UTC"))),
        one_row(born_timestamp=pa.array([None], pa.timestamp("us", tz="UTC"))),
        one_row(delivery_timestamp=pa.array([-(2**62)], pa.timestamp("us", tz="UTC"))),
        of_bytes("tag", b"\xff\xfe"),
        of_bytes("message_group", b"\xed\xa0\x80"),
        rows_of({0: 1}).drop_columns(["tag"]),
        rows_of({0: 1}).append_column("more", pa.array([1])),
    ],
)
def test_rows_that_are_no_messages_are_named_and_cost_themselves_alone(rows: pa.Table) -> None:
    async def test() -> None:
        log = await topic()
        key = await put(log, batch([0, 1]), rows)
        await goes_on(log)
        report = await verify(log.store, log.paths, log.record, log.runtime)
        assert {(finding.kind, finding.object.removesuffix("/")) for finding in report.findings} <= {
            ("damaged", key),
            ("damaged", log.paths.root.removesuffix("/")),
        }
        assert report.findings

    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize(
    ("repair_of", "kind", "place"),
    [
        (repaired(next_offsets=[10**6, 10**6]), "repair", (0, 5, 10**6)),
        (repaired(next_offsets=[0, 10**6]), "repair", (0, 0, 5)),
        (repaired(next_offsets=[10**6]), "repair", (None, None, None)),
        (repaired(incarnation="evil"), "repair", (None, None, None)),
    ],
)
async def test_a_repair_that_nobody_needed_is_named(repair_of: Edit, kind: str, place: tuple[int | None, ...]) -> None:
    log = await topic()
    key = await put(log, repair_of)
    report = await verify(log.store, log.paths, log.record, log.runtime)
    assert not report.ok
    first = report.findings[0]
    assert (first.kind, first.object) == (kind, key)
    assert (first.queue, first.first_offset, first.limit_offset) == place


async def test_a_repair_that_changes_nothing_is_no_damage() -> None:
    log = await topic()
    await put(log, repaired())
    assert (await verify(log.store, log.paths, log.record, log.runtime)).ok
