"""Reading the table by ranges: the right rows, few bytes, and no damaged one taken for data."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Sequence
from itertools import islice

import pyarrow as pa
import pytest

from penstock.log.errors import DataDamaged
from penstock.log.format.sealed import ROW_GROUP_ROWS
from penstock.log.message.message import MESSAGE_SCHEMA
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.counting import CountingStore
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.table.delta import segment_reader
from penstock.log.table.delta.lookup import Lookup, _in_filter, lookup
from penstock.log.table.delta.scan import offset_at, scan_queue
from penstock.log.table.delta.segment_reader import SegmentReader
from penstock.log.table.delta.segments import SegmentWriter
from penstock.log.table.delta.snapshot import Snapshot
from tests.log.table.segment_files import write_segment
from tests.log.topics import START_MS, LogWriter

ROWS = 150_000


def rows_of(queue: int, base: int, count: int) -> pa.Table:
    """Rows whose store time is their offset's millisecond."""
    made = random.Random(f"{queue} {base}")
    columns: dict[str, list[object]] = {
        "queue": [queue] * count,
        "offset": list(range(base, base + count)),
        "message_id": [f"{made.getrandbits(128):032x}" for _ in range(count)],
        "message_group": [f"group-{made.randrange(50_000)}" for _ in range(count)],
        "tag": ["paid"] * count,
        "keys": [[f"order-{queue}-{n}"] if n % 2 else None for n in range(base, base + count)],
        "properties": [[("amount", str(n % 9))] for n in range(count)],
        "body": [made.randbytes(40) for _ in range(count)],
        "born_timestamp": [START_MS * 1000] * count,
        "store_timestamp": [(START_MS + base + n) * 1000 for n in range(count)],
        "delivery_timestamp": [None] * count,
        "producer": ["p"] * count,
        "key": [None] * count,
        "headers": [None] * count,
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in MESSAGE_SCHEMA], schema=MESSAGE_SCHEMA)


@pytest.fixture(scope="module")
def table() -> tuple[MemoryStore, Snapshot, dict[int, pa.Table]]:
    """Queue 0: one large file; queue 1: a small one, and one behind a gap."""
    log = LogWriter()

    async def make() -> tuple[MemoryStore, Snapshot, dict[int, pa.Table]]:
        pieces = {0: [rows_of(0, 0, ROWS)], 1: [rows_of(1, 0, 1000), rows_of(1, 1500, 500)]}
        files = {}
        for queue, tables in pieces.items():
            written = [write_segment(rows, f"id{queue}{n}") for n, rows in enumerate(tables)]
            for file, data in written:
                await log.store.put_large(log.paths.table("table") + file.path, data)
            files[queue] = tuple(file for file, _ in written)
        return log.store, Snapshot("table", 1, files=files), {q: pa.concat_tables(tables) for q, tables in pieces.items()}

    return asyncio.run(make())


async def scanned(
    store: object, snapshot: Snapshot, queue: int, start: int, limit: int, columns: list[str] | None = None
) -> pa.Table:
    batches = [b async for b in scan_queue(store, LogWriter().paths, snapshot, queue, start, limit, columns)]  # type: ignore[arg-type]
    schema = MESSAGE_SCHEMA if columns is None else pa.schema([field for field in MESSAGE_SCHEMA if field.name in columns])
    return pa.Table.from_batches(batches, schema)


@pytest.mark.parametrize(
    ("queue", "start", "limit"),
    [(0, 0, 1 << 60), (0, 70_000, 70_001), (0, 65_530, 131_080), (1, 0, 1 << 60), (1, 900, 1600), (1, 1000, 1500), (1, 5, 5)],
)
def test_a_range_is_exactly_its_rows(
    table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]], queue: int, start: int, limit: int
) -> None:
    store, snapshot, rows = table
    found = asyncio.run(scanned(store, snapshot, queue, start, limit))
    offsets = rows[queue].column("offset").to_pylist()
    expected = rows[queue].filter(pa.array([start <= offset < limit for offset in offsets]))
    assert found.equals(expected)


def test_few_columns_and_a_narrow_range_cost_few_bytes(table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]]) -> None:
    store, snapshot, _ = table
    size = snapshot.files[0][0].size_bytes
    counting = CountingStore(store)
    found = asyncio.run(scanned(counting, snapshot, 0, 0, ROWS, ["tag", "producer"]))
    assert found.column_names == ["tag", "producer"]
    assert found.num_rows == ROWS
    bytes_read = counting.statistics().get.bytes
    assert bytes_read < size / 4


async def test_a_scan_that_is_left_early_leaves_nothing_running(table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]]) -> None:
    store, snapshot, _ = table
    scan = scan_queue(store, LogWriter().paths, snapshot, 0, 0, ROWS)
    async for _ in scan:
        break
    await scan.aclose()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("time_ms", [-5, 0, 1, 65_535, 65_536, 100_000, ROWS - 1, ROWS])
def test_seeking_by_time(table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]], time_ms: int) -> None:
    store, snapshot, _ = table
    found = asyncio.run(offset_at(store, LogWriter().paths, snapshot, 0, START_MS + time_ms, runtime=Runtime()))
    assert found == (max(0, time_ms) if time_ms < ROWS else None)


def test_seeking_into_a_gap_gives_the_row_behind_it(table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]]) -> None:
    store, snapshot, _ = table
    assert asyncio.run(offset_at(store, LogWriter().paths, snapshot, 1, START_MS + 1200, runtime=Runtime())) == 1500


async def found_by(store: object, snapshot: Snapshot, wanted: Lookup) -> list[tuple[int, int]]:
    batches = [b async for b in lookup(store, LogWriter().paths, snapshot, wanted, runtime=Runtime())]  # type: ignore[arg-type]
    return [(row["queue"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def test_messages_are_found_by_id_key_and_group(table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]]) -> None:
    store, snapshot, rows = table
    for queue, offset in ((0, 0), (0, 65_536), (0, ROWS - 1), (1, 999), (1, 1501)):
        row = rows[queue].slice(rows[queue].column("offset").to_pylist().index(offset), 1).to_pylist()[0]
        assert asyncio.run(found_by(store, snapshot, Lookup(message_id=row["message_id"]))) == [(queue, offset)]
        if row["keys"]:
            assert asyncio.run(found_by(store, snapshot, Lookup(key=row["keys"][0]))) == [(queue, offset)]
    group = rows[0].column("message_group")[77].as_py()
    narrow = [(q, row) for q in (0, 1) for row in rows[q].select(["offset", "message_group"]).to_pylist()]
    expected = [(q, row["offset"]) for q, row in narrow if row["message_group"] == group]
    assert asyncio.run(found_by(store, snapshot, Lookup(message_group=group))) == expected
    assert asyncio.run(found_by(store, snapshot, Lookup(message_group=group, key="order-0-77"))) == [(0, 77)]
    assert asyncio.run(found_by(store, snapshot, Lookup(message_id="nobody"))) == []


def test_nothing_is_decoded_on_the_event_loop(
    table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producers of the process send on it, and a row group takes a while."""
    store, snapshot, tables = table
    decode = SegmentReader.decode_group
    threads = []

    def noted(self: SegmentReader, group: int, columns: Sequence[str] | None = None) -> pa.Table:
        threads.append(threading.current_thread())
        return decode(self, group, columns)

    monkeypatch.setattr(SegmentReader, "decode_group", noted)
    assert len(asyncio.run(found_by(store, snapshot, Lookup(message_id=tables[0].column("message_id")[5].as_py())))) == 1
    asyncio.run(offset_at(store, LogWriter().paths, snapshot, 0, START_MS + 70_000, runtime=Runtime()))
    asyncio.run(scanned(store, snapshot, 1, 0, 10))
    assert len(threads) == 4
    assert threading.main_thread() not in threads


def test_looking_for_what_is_not_there_reads_footers_and_a_block_a_row_group(
    table: tuple[MemoryStore, Snapshot, dict[int, pa.Table]],
) -> None:
    """One in twenty lookups meets a false positive in a row group, and reads its column too."""
    store, snapshot, _ = table
    counting = CountingStore(store)
    costs = []
    for n in range(9):
        before = counting.statistics()
        asyncio.run(found_by(counting, snapshot, Lookup(key=f"order-of-nobody-{n}")))
        costs.append((counting.statistics() - before).get.bytes)
    assert sorted(costs)[4] <= 3 * segment_reader._FOOTER_GUESS_BYTES + 5 * 32
    assert max(costs) < snapshot.files[0][0].size_bytes / 4


def with_keys(rows: pa.Table, counts: list[int]) -> pa.Table:
    keys = [[f"key-{row}-{n}" for n in range(count)] for row, count in enumerate(counts)]
    return rows.set_column(rows.schema.get_field_index("keys"), MESSAGE_SCHEMA.field("keys"), pa.array(keys, pa.list_(pa.string())))


@pytest.mark.parametrize(
    ("counts", "groups"),
    [([1] * 5000, 1), ([2] * 5000, 1), ([8] * 5000, 1), ([0] * 2500 + [8] * 2500, 1), ([0] * ROW_GROUP_ROWS + [3] * 2000, 2)],
)
async def test_the_filter_of_keys_is_made_for_all_keys_of_its_rows(counts: list[int], groups: int) -> None:
    file, data = write_segment(with_keys(rows_of(0, 0, len(counts)), counts), "id")
    store = MemoryStore()
    await store.put(file.path, data, mode=Put.CREATE)
    reader = await SegmentReader(store, "", file).open()
    assert reader.row_groups == groups
    for group in range(groups):
        admitted = [await _in_filter(reader, group, "keys", f"absent-{n}") for n in range(1000)]
        assert sum(admitted) < 100, "of a filter that is made for 5 %"
    rows = (row for row in range(len(counts)) if counts[row])
    assert all([await _in_filter(reader, groups - 1, "keys", f"key-{row}-0") for row in islice(rows, 500)])


async def test_a_row_group_with_more_keys_than_the_first_is_cut() -> None:
    """So that its filter, of the first one's size, is not too full."""
    counts = [1] * ROW_GROUP_ROWS + [4] * ROW_GROUP_ROWS
    file, data = write_segment(with_keys(rows_of(0, 0, len(counts)), counts), "id")
    store = MemoryStore()
    await store.put(file.path, data, mode=Put.CREATE)
    reader = await SegmentReader(store, "", file).open()
    assert reader.row_groups == 5
    admitted = [await _in_filter(reader, group, "keys", f"absent-{n}") for group in range(5) for n in range(400)]
    assert sum(admitted) < 200


def test_a_damaged_byte_is_never_read_as_data() -> None:
    log = LogWriter()
    file, data = write_segment(rows_of(0, 0, 300), "id")
    snapshot = Snapshot("table", 1, files={0: (file,)})
    whole = rows_of(0, 0, 300)
    chosen = random.Random(5).sample(range(len(data)), 400)

    async def test() -> int:
        detected = 0
        for at in chosen:
            broken = bytearray(data)
            broken[at] ^= 1 << (at % 8)
            await log.store.put(log.paths.table("table") + file.path, bytes(broken), mode=Put.REPLACE)
            try:
                found = await scanned(log.store, snapshot, 0, 0, 300)
            except DataDamaged:
                detected += 1
            else:
                assert found.equals(whole), f"byte {at}"  # a filter's byte, which a scan does not read
        return detected

    assert asyncio.run(test()) > 300


async def test_a_file_that_is_cut_off_is_named() -> None:
    log = LogWriter()
    file, data = write_segment(rows_of(0, 0, 300), "id")
    await log.store.put(log.paths.table("table") + file.path, data[:-20], mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match=file.path):
        await scanned(log.store, Snapshot("table", 1, files={0: (file,)}), 0, 0, 300)


def test_rows_out_of_order_are_not_written() -> None:
    writer = SegmentWriter(rows_expected=20)
    writer.write(rows_of(0, 10, 10))
    with pytest.raises(Exception, match="out of order"):
        writer.write(rows_of(0, 19, 5))
