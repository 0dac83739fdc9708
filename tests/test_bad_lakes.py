"""What lies damaged, foreign or newer in a bucket, and a disk that fills, each with the error a user sees: its type and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import penstock
from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.format.checkpoint import encode_checkpoint
from penstock.log.format.floor import encode_floor
from penstock.log.format.state import TopicState
from penstock.log.limits import FORMATS_OF_LOGS, FORMATS_OF_SETTINGS
from penstock.log.paths import TopicPaths
from penstock.log.produce import producer as producer_module
from penstock.log.runtime.runtime import Runtime
from penstock.log.stage import jobs
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, bodies, get, keys, put, read_all, send_all, three_entries
from tests.log.test_reader import publish

Message = penstock.Message
PATHS = TopicPaths.of("orders")


# --- What lies in the bucket ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    return three_entries()


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def positions(data: bytes) -> range:
    """Places all over an object, few enough to try them one by one."""
    return range(0, len(data), max(1, len(data) // 60))


def test_a_damaged_entry_is_named_and_costs_nothing_but_its_rows(store: MemoryStore) -> None:
    """Its footer may be whole, so that the others keep their offsets; or not, so that the log says what would let it go on."""
    key = PATHS.entry(3)
    good = get(store, key)
    for at in positions(good):
        put(store, key, flipped(good, at))
        with penstock.connect(store=store, read_only=True) as lake:
            with pytest.raises(DataDamaged, match=key) as raised:
                bodies(lake)
            assert raised.value.hint
            assert bodies(lake, "sound") == [b"s"]


def test_a_lost_entry_is_named(store: MemoryStore) -> None:
    asyncio.run(store.delete(PATHS.entry(3)))
    with penstock.connect(store=store) as lake, pytest.raises(DataDamaged, match=PATHS.entry(3)):
        bodies(lake)


def test_a_damaged_staged_object_costs_its_own_rows_and_says_which(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_module, "HANDED_BYTES_MAX", 10_000)
    monkeypatch.setattr(jobs, "PART_BYTES", 40_000)
    rows = [Message(os.urandom(1000)) for _ in range(100)]
    with penstock.connect(store=store) as lake:
        with lake.producer("orders") as producer:
            producer.send_batch(rows).result(timeout=TIMEOUT_S)
        send_all(lake, [Message(b"behind")])
    key = [key for key in keys(store, "topics/orders/staged/jobs/") if key.endswith(".parquet")][1]
    good = get(store, key)
    for at in [*positions(good)[::6], None]:
        if at is None:
            asyncio.run(store.delete(key))
        else:
            put(store, key, flipped(good, at))
        with penstock.connect(store=store, read_only=True) as lake:
            reader = lake.reader("orders")
            with pytest.raises(DataDamaged, match=rf"offsets \d+ to \d+ of queue 0 cannot be read any more.*{key}.*damaged='skip'"):
                list(reader.messages())
            found = [(one.offset, one.body) for one in reader.messages(damaged="skip")]
            assert found[:3] == [(0, b"0"), (1, b"1"), (2, b"2")]
            assert found[-1] == (3 + len(rows), b"behind")
            assert 3 + len(rows) / 2 < len(found) < 4 + len(rows), "the other parts are there"
            assert reader.to_arrow(damaged="skip").num_rows == len(found)


def test_damaged_settings_are_named_and_the_other_topics_are_there(store: MemoryStore) -> None:
    good = get(store, PATHS.settings)
    for at in range(len(good)):
        put(store, PATHS.settings, flipped(good, at))
        with penstock.connect(store=store, read_only=True) as lake:
            if at % 20 == 0:
                with pytest.raises((DataDamaged, NewerFormatError), match=PATHS.settings):
                    lake.topics()
                assert list(lake.topics(damaged="skip")) == ["sound"]
                assert bodies(lake, "sound") == [b"s"]
            with pytest.raises((DataDamaged, NewerFormatError), match=PATHS.settings):
                lake.reader("orders")


def test_settings_that_were_lost_are_not_taken_for_a_new_topic(store: MemoryStore) -> None:
    good = get(store, PATHS.settings)
    asyncio.run(store.delete(PATHS.settings))
    with penstock.connect(store=store) as lake:
        with pytest.raises(penstock.TopicNotFound):
            lake.reader("orders")
        with pytest.raises(
            DataDamaged, match=r"not those of the topic that its log holds.*topic.json.*put the former topic.json back"
        ):
            lake.create_topic("orders", queues=1)
        put(store, PATHS.settings, get(store, TopicPaths.of("sound").settings))
        with pytest.raises(DataDamaged, match=r"not those of the topic that its log holds.*incarnation"):
            lake.reader("orders")
        put(store, PATHS.settings, good)
        assert bodies(lake) == [b"0", b"1", b"2"]


def test_a_damaged_checkpoint_is_passed_by(store: MemoryStore) -> None:
    good = encode_checkpoint(TopicState())
    for at in positions(good):
        put(store, PATHS.checkpoint(2), flipped(good, at))
        with penstock.connect(store=store) as lake:
            assert bodies(lake) == [b"0", b"1", b"2"]


def test_a_damaged_floor_is_named(store: MemoryStore) -> None:
    good = encode_floor(2, write_id="w" * 32)
    contents = [b"", b"{}", b"[]", b"7", b'{"floor": "x"}', b"\xff\xfe", *(flipped(good, at) for at in range(len(good)))]
    for content in contents:
        put(store, PATHS.floor, content)
        with penstock.connect(store=store) as lake:
            with pytest.raises((DataDamaged, NewerFormatError), match=PATHS.floor):
                lake.reader("orders")
            assert bodies(lake, "sound") == [b"s"]


def test_a_damaged_table_file_is_named_and_the_rest_readable(store: MemoryStore) -> None:
    publish(store, Runtime())
    with penstock.connect(store=store) as lake:
        send_all(lake, [Message(b"3")])
    key = next(key for key in keys(store, "topics/orders/table/queue=0/") if key.endswith(".parquet"))
    good = get(store, key)
    with penstock.connect(store=store) as lake:
        expected = read_all(lake)
    noticed = 0
    for at in positions(good):
        put(store, key, flipped(good, at))
        with penstock.connect(store=store, read_only=True) as lake:
            reader = lake.reader("orders")
            error, found = attempt(reader)
            assert [one.body for one in reader.messages(start=3)] == [b"3"]
        if error is None:
            assert found == expected, f"byte {at} is not noticed, so it must not matter"
        else:
            noticed += 1
            assert key in str(error)
    assert noticed > len(positions(good)) / 2


def attempt(reader: penstock.Reader) -> tuple[DataDamaged | None, list[penstock.MessageView]]:
    try:
        return None, list(reader.messages())
    except DataDamaged as error:
        return error, []


def test_strangers_in_the_bucket_are_no_messages(store: MemoryStore) -> None:
    for key in (
        "log/notes.txt",
        "log/00000000000000000009",
        "log/checkpoints/x",
        "log/checkpoints/00000000000000000003",
        "staged/handed/x/y",
        "staged/handed/00000000000000000004/AAAA",
        "staged/handed/00000000000000000004/long-x",
        "staged/jobs/x",
        "table/queue=0/x.parquet",
        "README",
    ):
        put(store, PATHS.root + key, b"PAR1 not ours PAR1")
    with penstock.connect(store=store) as lake:
        assert send_all(lake, [Message(b"3")])[0].offset == 3
        assert bodies(lake) == [b"0", b"1", b"2", b"3"]


def test_a_foreign_object_in_an_entrys_place_is_named(store: MemoryStore) -> None:
    for content in (b"", b"hello", b"PAR1" + b"x" * 100 + b"PAR1", parquet()):
        put(store, PATHS.entry(5), content)
        with penstock.connect(store=store) as lake, pytest.raises(DataDamaged, match=PATHS.entry(5)):
            bodies(lake)


def parquet() -> bytes:
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"body": [b"x"]}), sink)
    return sink.getvalue().to_pybytes()


def newer_settings(store: MemoryStore) -> None:
    document = json.loads(get(store, PATHS.settings))
    put(store, PATHS.settings, json.dumps({**document, "format": max(FORMATS_OF_SETTINGS) + 1}).encode())


def newer_entry(store: MemoryStore) -> None:
    from penstock.log.format.entry import FOOTER_KEY
    from penstock.log.format.sealed import read_footer, read_rows, write_file

    data = get(store, PATHS.entry(4))
    header = json.loads(read_footer(data, where="")[FOOTER_KEY])
    put(
        store,
        PATHS.entry(4),
        write_file(read_rows(data, where=""), {FOOTER_KEY: json.dumps({**header, "format": max(FORMATS_OF_LOGS) + 1})}),
    )


def newer_checkpoint(store: MemoryStore) -> None:
    from penstock.log.format.digest import digest

    newer = b'"format":%d' % (max(FORMATS_OF_LOGS) + 1)
    body = encode_checkpoint(TopicState(entry=3)).partition(b"\n")[0].replace(b'"format":1', newer)
    put(store, PATHS.checkpoint(3), body + b"\n" + digest(body).encode() + b"\n")


def newer_floor(store: MemoryStore) -> None:
    document = json.loads(encode_floor(2, write_id="w" * 32))
    put(store, PATHS.floor, json.dumps({**document, "format": 2}).encode())


@pytest.mark.parametrize("make", [newer_settings, newer_entry, newer_checkpoint, newer_floor])
def test_a_newer_format_is_told_from_damage(store: MemoryStore, make: Callable[[MemoryStore], None]) -> None:
    before = keys(store)
    make(store)
    with penstock.connect(store=store) as lake:
        for use in (lambda: bodies(lake), lambda: lake.producer("orders")):
            with pytest.raises(NewerFormatError, match=r"another version of Penstock.*upgrade this process"):
                use()
        assert bodies(lake, "sound") == [b"s"]
    assert set(keys(store)) - set(before) <= {PATHS.checkpoint(3), PATHS.floor}


def test_a_newer_protocol_of_the_table_is_told_from_damage(store: MemoryStore) -> None:
    publish(store, Runtime())
    first = f"{PATHS.table('table')}_delta_log/{0:020}.json"
    put(store, first, get(store, first).replace(b'"minReaderVersion":1', b'"minReaderVersion":3'))
    with penstock.connect(store=store) as lake:
        with pytest.raises(
            NewerFormatError, match=r"features that Penstock does not write.*expected: \(1, 2\).*minReaderVersion.: 3"
        ):
            bodies(lake)
        assert bodies(lake, "sound") == [b"s"]


# --- A disk that is full ----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_fills_while_appending_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as folder:
        with penstock.connect(folder) as lake:
            lake.create_topic("orders", queues=2)
            producer = lake.producer("orders", linger=timedelta(0))
            acknowledged: list[bytes] = []

            def fill() -> None:
                for n in range(100):
                    body = b"%04d" % n + os.urandom(60_000)
                    producer.send(Message(body)).result(timeout=TIMEOUT_S)
                    acknowledged.append(body)

            with pytest.raises(penstock.StorageFull, match=r"no room left.*Free some space") as raised:
                fill()
            assert raised.value.kind == "storage_full"
            assert len(acknowledged) > 5
            assert sorted(bodies(lake)) == sorted(acknowledged)
        (folder / "topics/orders/log/checkpoints").mkdir(exist_ok=True)
        subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
        with penstock.connect(folder) as lake:
            assert sorted(bodies(lake)) == sorted(acknowledged), "nothing half-written shows"
            send_all(lake, [Message(b"room again")])
            assert len(bodies(lake)) == len(acknowledged) + 1
