"""Delta's log is input: whatever its bytes are, it is read as Delta says, or refused by an error that names the object."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.log.errors import DataDamaged, ForeignObject, NewerFormatError
from penstock.log.limits import NUMBER_MAX, QUEUES_MAX, TIME_MAX_MS
from penstock.log.stores.local import LocalStore
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.delta.actions import (
    CommitContent,
    CommitInfo,
    add_fields,
    decode_commit,
    encode_commit,
    lost_txn,
    metadata,
    parse_add,
    parse_lost,
    protocol,
)
from penstock.log.table.delta.checkpoint import decode_delta_checkpoint, decode_last_checkpoint, encode_delta_checkpoint
from penstock.log.table.delta.delta_log import DAY_MS, DeltaLog
from penstock.log.table.delta.segments import TableFile
from penstock.log.table.delta.snapshot import apply
from penstock.log.table.delta.table_metadata import Action
from penstock.log.table.publisher import Publisher
from tests.log.table.readers import copy_to_folder
from tests.log.topics import LogWriter
from tests.thorough import examples

T = TypeVar("T")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["1", "queue", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


async def published(commits: int = 3) -> LogWriter:
    log = await LogWriter().create()
    await publish(log, commits)
    return log


async def publish(log: LogWriter, commits: int = 1) -> None:
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(commits):
        await log.send({n % 4: 3, 0: 5})
        assert (await publisher.publish_once()).entries


def delta_of(log: LogWriter, store: ObjectStore | None = None) -> DeltaLog:
    return DeltaLog(store or log.store, log.paths, log.record.table, log.runtime)


async def put(log: LogWriter, name: str, data: bytes) -> None:
    await log.store.put(f"{log.paths.table('table')}_delta_log/{name}", data, mode=Put.REPLACE)


def lines() -> list[Action]:
    """Of a whole commit, as Penstock writes it."""
    file = TableFile("queue=3/a.parquet", 3, 10, 12, 2, 100, 1_700_000_000_000, 1_700_000_000_001)
    commit = CommitContent("WRITE", adds=(file,), removes=(file,), txns={"penstock": 7, lost_txn(3, 4): 6})
    actions = encode_commit(commit.actions(write_id="w", time_ms=5, before=(protocol(), metadata("id", 1))))
    return [json.loads(line) for line in actions.splitlines()]


@pytest.mark.parametrize("text", ["line\u2028separator", "next\x85line", "\x0b\x0c\x1c\x1d\x1e", "\r"])
async def test_a_line_of_a_commit_ends_with_a_line_feed_and_nothing_else(text: str) -> None:
    """By a real writer, which stores such characters as they are."""
    log = await published()
    delta = delta_of(log)
    described = {**lines()[2]["metaData"], "description": text}
    line = json.dumps({"metaData": described}, ensure_ascii=False).encode()
    await put(log, f"{4:020d}.json", b'{"commitInfo": {}}\r\n\n' + line + b"\n")
    await publish(log)
    found = (await delta.refresh()).metadata
    assert found is not None
    assert found.description == text


async def test_what_others_have_set_of_the_table_survives_our_checkpoint(tmp_path: Path) -> None:
    log = await published()
    await copy_to_folder(log.store, tmp_path)
    table = str(tmp_path / log.paths.table("table"))
    theirs = deltalake.DeltaTable(table)
    theirs.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    theirs.alter.set_table_description("all\u2028orders")
    theirs.alter.set_table_name("orders")
    store = LocalStore(tmp_path)
    delta = DeltaLog(store, log.paths, "table", log.runtime)
    snapshot = await delta.refresh()
    await delta.write_checkpoint()
    for version in range(snapshot.version + 1):
        await store.delete(f"{delta.root}_delta_log/{version:020d}.json")
    assert (await DeltaLog(store, log.paths, "table", log.runtime).refresh()).metadata == snapshot.metadata
    found = deltalake.DeltaTable(table).metadata()
    assert found.configuration == {"delta.logRetentionDuration": "interval 60 days"}
    assert (found.name, found.description) == ("orders", "all\u2028orders")


@pytest.mark.parametrize(
    "hint",
    [
        b"[" * 200_000,
        b'{"version": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"version": 1e400}',
        b'{"version": -1}',
        b'{"version": true}',
        b'{"version": 1.5}',
        b'{"version": "2"}',
        b'{"version": 99999999999999999999999}',
        b"\xff",
        b"",
        b"7",
    ],
)
async def test_a_hint_that_makes_no_sense_is_passed_over(hint: bytes) -> None:
    assert decode_last_checkpoint(hint) is None
    log = await published()
    snapshot = await delta_of(log).refresh()
    await put(log, "_last_checkpoint", hint)
    delta = delta_of(log)
    assert await delta.refresh() == snapshot
    await delta.write_checkpoint()
    assert decode_last_checkpoint((await log.store.get(f"{delta.root}_delta_log/_last_checkpoint")).data) == 3


class Between(StoreWrapper):
    """Once, just before something is written, something else happens."""

    def __init__(self, inner: ObjectStore, key: str, do: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._key, self._do, self.done = key, do, False

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if not self.done and call.verb == "put" and call.key.endswith(self._key):
            self.done = True
            await self._do()
        return await run()


@pytest.mark.parametrize("before", [False, True])
async def test_the_hint_never_moves_back(before: bool) -> None:
    """Though a later checkpoint was written between the look at it and the write."""
    log = await published()
    if before:
        first = delta_of(log)
        await first.refresh()
        await first.write_checkpoint()
        await publish(log)

    async def later() -> None:
        await publish(log, 2)
        other = delta_of(log)
        await other.refresh()
        await other.write_checkpoint()

    slow = Between(log.store, "_last_checkpoint", later)
    delta = delta_of(log, slow)
    await delta.refresh()
    await delta.write_checkpoint()
    assert slow.done
    hint = await log.store.get(f"{delta.root}_delta_log/_last_checkpoint")
    assert decode_last_checkpoint(hint.data) == delta.snapshot.version + 2


async def test_a_hint_beyond_all_checkpoints_is_put_right() -> None:
    log = await published()
    await put(log, "_last_checkpoint", b'{"version": 1000}')
    delta = delta_of(log)
    await delta.refresh()
    await delta.write_checkpoint()
    assert decode_last_checkpoint((await log.store.get(f"{delta.root}_delta_log/_last_checkpoint")).data) == 3


async def test_a_snapshot_that_is_too_old_is_loaded_anew_as_the_next_version_may_have_been_cleaned_up() -> None:
    """Else its key, free again, would be taken for the table's end."""
    log = await published(4)
    stale = delta_of(log)
    await stale.refresh()
    await publish(log, 3)
    delta = delta_of(log)
    await delta.refresh()
    await delta.write_checkpoint()
    log.clock.advance(hours=24 * 4)
    assert await delta.clean_up(kept_ms=3 * DAY_MS)
    assert (await stale.refresh()).version == 7


async def test_a_version_that_is_cleaned_up_between_a_look_and_its_reading_is_named_as_missing() -> None:
    class Cleaned(StoreWrapper):
        lists = 0

        async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
            found = await run()
            self.lists += call.verb == "list"
            if self.lists == 1:
                await self._inner.delete(f"{call.key}{2:020d}.json")
            return found

    log = await published()
    with pytest.raises(DataDamaged, match=f"{2:020d}.json"):
        await delta_of(log, Cleaned(log.store)).refresh()


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"txn": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001,
        b"[]",
        b"{}",
        b"\xff",
        b'{"txn": {"appId": "penstock", "version": "7"}}',
        b'{"txn": {"appId": "penstock", "version": -1}}',
        b'{"txn": {"appId": "penstock/queue/1/end", "version": 9223372036854775808}}',
        b'{"txn": {"appId": 7, "version": 7}}',
        b'{"txn": 7}',
        b'{"remove": {"path": null}}',
        b'{"remove": {"path": "a", "deletionTimestamp": "x"}}',
        b'{"metaData": {"id": 7}}',
        b'{"protocol": {"minReaderVersion": 1}}',
        b'{"protocol": [1, 2]}',
        b'{"add": 7}',
        b"",
    ],
)
def test_what_is_no_commit_is_named(line: bytes) -> None:
    with pytest.raises(DataDamaged) as caught:
        decode_commit(line + b"\n", where="the version")
    assert caught.value.object == "the version"
    assert len(str(caught.value)) < 1000


async def test_a_table_without_metadata_is_named() -> None:
    log = await published(1)
    await put(log, f"{0:020d}.json", b'{"txn": {"appId": "penstock", "version": 7}}')
    with pytest.raises(DataDamaged, match="metadata"):
        await delta_of(log).refresh()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", "../../../topics/other/log/floor"),
        ("path", "queue=3/../../x"),
        ("path", "queue=3/.."),
        ("path", "queue=3/"),
        ("path", "queue=2/a.parquet"),
        ("path", "s3://elsewhere/a.parquet"),
        ("path", "queue=3/a\n.parquet"),
        ("size", -1),
        ("size", 1.5),
        ("modificationTime", 2**62),
        ("modificationTime", True),
        ("partitionValues", {"queue": " 3"}),
        ("partitionValues", {"queue": "4096"}),
        ("partitionValues", {"queue": None}),
        ("tags", {"base_offset": "12", "end_offset": "12"}),
        ("tags", {"base_offset": "1_0", "end_offset": "12"}),
        ("tags", {"base_offset": "10", "end_offset": "9" * 19}),
        ("tags", None),
        ("stats", "[" * 100_000),
        ("stats", json.dumps({"numRecords": 3, "minValues": {"store_timestamp": "x"}, "maxValues": {"store_timestamp": "x"}})),
        ("stats", None),
    ],
)
def test_an_add_that_is_not_penstocks_is_named(name: str, value: object) -> None:
    add = next(action["add"] for action in lines() if "add" in action)
    assert decode_commit(json.dumps({"add": add}).encode(), where="it")
    with pytest.raises(ForeignObject, match="did not add") as caught:
        decode_commit(json.dumps({"add": {**add, name: value}}).encode(), where="it")
    assert len(str(caught.value)) < 1000


STORED_MS = 1_700_000_000_000
WIDEST = TableFile(f"queue={QUEUES_MAX - 1}/a.parquet", QUEUES_MAX - 1, 0, NUMBER_MAX, 1, 1, STORED_MS, STORED_MS)
"""What a file may be at the most."""


@pytest.mark.parametrize("file", [WIDEST, replace(WIDEST, first_offset=NUMBER_MAX - 1), replace(WIDEST, store_first_ms=0)])
def test_a_file_may_lie_at_every_limit(file: TableFile) -> None:
    assert parse_add(add_fields(file, data_change=True), where="it") == file


@pytest.mark.parametrize(
    "file",
    [
        replace(WIDEST, queue=QUEUES_MAX, path=f"queue={QUEUES_MAX}/a.parquet"),
        replace(WIDEST, path=f"queue={QUEUES_MAX - 1}/."),
        replace(WIDEST, limit_offset=NUMBER_MAX + 1),
        replace(WIDEST, limit_offset=0),
        replace(WIDEST, rows=0),
        replace(WIDEST, first_offset=5, limit_offset=7, rows=3),
        replace(WIDEST, store_first_ms=STORED_MS + 1),
    ],
)
def test_a_file_that_cannot_be_is_refused(file: TableFile) -> None:
    with pytest.raises(ForeignObject, match="did not add"):
        parse_add(add_fields(file, data_change=True), where="it")


@pytest.mark.parametrize("time", ["2023-11-14T22:13:20.000", "1969-12-31T23:59:59.999Z"])
def test_a_file_of_no_certain_time_is_refused(time: str) -> None:
    fields = add_fields(WIDEST, data_change=True)
    stats = json.loads(fields["stats"])
    stats["minValues"]["store_timestamp"] = stats["maxValues"]["store_timestamp"] = time
    with pytest.raises(ForeignObject, match="no time of the table"):
        parse_add({**fields, "stats": json.dumps(stats)}, where="it")


def test_anything_may_stand_in_a_commits_information_and_in_actions_nobody_knows() -> None:
    for line in (
        b'{"commitInfo": 7}',
        b'{"commitInfo": {"timestamp": 1e99, "penstockWriteId": []}}',
        b'{"x": [1]}',
        b'{"add": null}',
    ):
        assert apply(delta_of(LogWriter()).snapshot, [(0, decode_commit(line, where="it"))]).time_ms == 0


@pytest.mark.parametrize(
    ("timestamp", "time_ms"), [(-1, 0), (0, 0), (1, 1), (TIME_MAX_MS, TIME_MAX_MS), (TIME_MAX_MS + 1, 0), ("1", 0), (None, 0)]
)
def test_a_commits_time_is_none_unless_it_can_be(timestamp: object, time_ms: int) -> None:
    assert CommitInfo(timestamp).time_ms == time_ms


@pytest.mark.parametrize(
    "app_id", ["penstock/queue/x/lost/1", "penstock/queue/1/lost/-1", "penstock/queue/1/lost/", "other/queue/1/lost/1"]
)
def test_what_only_looks_like_a_lost_range_is_none(app_id: str) -> None:
    assert parse_lost(app_id) is None
    assert parse_lost(lost_txn(3, 4)) == (3, 4)


@settings(max_examples=examples(300))
@given(st.data())
def test_a_commit_with_anything_anywhere_is_read_or_named(data: st.DataObject) -> None:
    commit = lines()
    at = data.draw(st.integers(0, len(commit) - 1))
    (kind, found), *_ = commit[at].items()
    if data.draw(st.booleans()):
        found = data.draw(JSON)
    else:
        found[data.draw(st.sampled_from(sorted(found)))] = data.draw(JSON)
    commit[at] = {kind: found}
    try:
        decoded = decode_commit(b"\n".join(json.dumps(line).encode() for line in commit), where="it")
    except (DataDamaged, NewerFormatError):
        return
    snapshot = apply(delta_of(LogWriter()).snapshot, [(0, decoded)])
    snapshot.lost(3)
    if snapshot.metadata is None or snapshot.protocol is None:
        return
    again = decode_delta_checkpoint(encode_delta_checkpoint(snapshot)[0], folder="table", version=0, where="it")
    assert (again.files, again.txns, again.metadata) == (snapshot.files, snapshot.txns, snapshot.metadata)
    assert again.protocol == snapshot.protocol


@settings(max_examples=examples(200))
@given(st.data())
def test_a_commit_with_other_bytes_is_read_or_named(data: st.DataObject) -> None:
    written = bytearray(encode_commit(lines()))
    start = data.draw(st.integers(0, len(written)))
    written[start : start + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=20))
    with suppress(DataDamaged, NewerFormatError):
        apply(delta_of(LogWriter()).snapshot, [(0, decode_commit(bytes(written), where="it"))]).lost(3)


@pytest.mark.parametrize(
    "columns",
    [
        {"metaData": ["x"]},
        {"metaData": [{"id": 7, "schemaString": "{}", "partitionColumns": ["queue"]}]},
        {"metaData": [{"id": "7", "schemaString": "{}", "partitionColumns": "queue"}]},
        {"add": [{"path": "queue=0/a"}]},
        {"add": [7]},
        {"txn": [{"appId": "penstock", "version": 1.5}]},
        {"txn": pa.array([{"appId": b"penstock", "version": 1}])},
        {"protocol": [{"minReaderVersion": None, "minWriterVersion": 2}]},
        {"remove": [["x"]]},
        {"x": [1]},
    ],
)
def test_a_checkpoint_of_other_columns_and_types_is_named(columns: dict[str, object]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    with pytest.raises(DataDamaged) as caught:
        decode_delta_checkpoint(sink.getvalue().to_pybytes(), folder="table", version=0, where="it")
    assert caught.value.object == "it"


def test_a_small_checkpoint_that_unpacks_to_more_than_memory_is_named() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"txn": pa.nulls(10_000_001, pa.struct([("appId", pa.string()), ("version", pa.int64())]))}), sink)
    data = sink.getvalue().to_pybytes()
    assert len(data) < 100_000
    with pytest.raises(DataDamaged, match="too large"):
        decode_delta_checkpoint(data, folder="table", version=0, where="it")


@settings(max_examples=examples(100))
@given(st.data())
def test_a_checkpoint_with_other_bytes_is_read_or_named(data: st.DataObject) -> None:
    snapshot = apply(delta_of(LogWriter()).snapshot, [(0, decode_commit(encode_commit(lines()), where="it"))])
    written = bytearray(encode_delta_checkpoint(snapshot)[0])
    start = data.draw(st.integers(0, len(written)))
    written[start : start + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    with suppress(DataDamaged, NewerFormatError):
        decode_delta_checkpoint(bytes(written), folder="table", version=0, where="it")
