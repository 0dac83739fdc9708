"""Every kind of bad input and of fault that the issue lists, each with the error a user sees: its type and what it says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.log import producer as producer_module
from penstock.log import staging
from penstock.log.checkpoints import encode_checkpoint
from penstock.log.errors import DataDamaged, NewerFormatError
from penstock.log.floor import encode_floor
from penstock.log.limits import CHECKPOINT_ENTRIES, TopicLimits
from penstock.log.paths import TopicPaths
from penstock.log.runtime import Runtime
from penstock.log.state import State
from penstock.log.stores import MemoryStore
from penstock.log.table.maintenance import Maintenance
from penstock.log.topics import read_record
from penstock.testing import HandClock, memory_lake
from tests.lakes import TIMEOUT_S, bodies, get, keys, put, read_all, send_all
from tests.log.test_reader import publish
from tests.servers import free_port, moto_server, versitygw_server

Message = penstock.Message
LONG = timedelta(hours=1)
PATHS = TopicPaths.of("orders")


# --- Where the lake is ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hdfs://host/lake", r"unknown scheme.*a path, file://, memory://, s3://, gs:// or az://.*hdfs://"),
        ("", "not a store's URL"),
        (None, "not a store's URL"),
        (7, "not a store's URL.*7"),
        (b"lake", "not a store's URL.*b'lake'"),
        ("s3://", "names no bucket"),
    ],
)
def test_an_unknown_place(url: Any, said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        penstock.connect(url)


@pytest.mark.parametrize("as_url", [False, True])
def test_a_lake_that_is_a_file(tmp_path: Path, as_url: bool) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    with pytest.raises(penstock.InvalidArgument, match=f"this is a file, and a store is a folder.*{place}.*name a folder"):
        penstock.connect(place.as_uri() if as_url else place)
    assert place.read_text() == "not a folder"


def test_azure_without_an_account_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(penstock.InvalidArgument, match=r"options do not fit.*\?account=.*AZURE_STORAGE_ACCOUNT_NAME"):
        penstock.connect("az://container/lake")


@pytest.mark.parametrize("connect", [penstock.connect, penstock.aio.connect])
def test_an_unknown_coordination_table(connect: Any) -> None:
    with pytest.raises(penstock.InvalidArgument, match=r"not a coordination table's URL.*sqlite:///path.*zookeeper://"):
        connect("memory://", coordination="zookeeper://host")


@pytest.mark.parametrize("connect", [penstock.connect, penstock.aio.connect])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "./lake"}, r"either a URL or a store.*both, and the URL is ./lake"),
        ({"options": {"region": "x"}}, "options beside a store"),
    ],
)
def test_two_places_at_once(connect: Any, given: dict[str, Any], said: str) -> None:
    with pytest.raises(penstock.InvalidArgument, match=said):
        connect(store=MemoryStore(), **given)


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.mark.s3
def test_a_bucket_that_is_missing_and_credentials_that_are_not_there(no_credentials: None) -> None:
    with moto_server() as server:
        url = server.url("lake").replace("s3://penstock/", "s3://elsewhere/")
        with penstock.connect(url, options=server.credentials) as lake:
            for use in (lake.topics, lambda: lake.reader("orders"), lambda: lake.create_topic("orders")):
                with pytest.raises(penstock.InvalidArgument, match=r"(?s)no such bucket.*s3://elsewhere.*Create s3://elsewhere,"):
                    use()
        started_s = time.monotonic()
        lake = penstock.connect(server.url("lake", connect_timeout_s="0.2", timeout_s="0.5"))
        with lake, pytest.raises(penstock.PermissionDenied, match=r"no credentials were found.*AWS_ACCESS_KEY_ID"):
            lake.topics()
        assert time.monotonic() - started_s < TIMEOUT_S


def test_a_server_that_is_not_there(no_credentials: None) -> None:
    url = f"s3://bucket/lake?endpoint=http://127.0.0.1:{free_port()}&timeout_s=0.3&connect_timeout_s=0.2"
    lake = penstock.connect(url, options={"access_key_id": "a", "secret_access_key": "b"})
    with lake, pytest.raises(penstock.StoreUnavailable, match="did not answer as it should"):
        lake.topics()


@pytest.mark.s3
@pytest.mark.versitygw
def test_read_only_access_to_a_real_server_reads_and_says_what_it_may_not(tmp_path: Path) -> None:
    with versitygw_server(tmp_path) as server, penstock.connect(server.url("lake"), options=server.credentials) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"x")])
    with (
        versitygw_server(tmp_path, "--readonly") as server,
        penstock.connect(server.url("lake"), options=server.credentials) as lake,
    ):
        assert bodies(lake) == [b"x"]
        assert list(lake.topics()) == ["orders"]
        for use in (lambda: lake.producer("orders"), lambda: lake.create_topic("other"), lambda: lake.delete_topic("orders")):
            with pytest.raises(penstock.PermissionDenied, match=r"the store refused.*put.*Check what they may do"):
                use()
        assert bodies(lake) == [b"x"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone who may not")
def test_a_folder_that_may_not_be_written_is_read() -> None:
    """As a child without root's rights."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        said = as_nobody(Path(name) / "lake")
    assert said.startswith("read [b'x']; PermissionDenied: the file system refused"), said
    assert "Check the folder's owner and mode" in said


def as_nobody(place: Path) -> str:
    """What a child without rights says of a lake of ours."""
    with penstock.connect(place) as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"x")])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - measured in the parent only
        said = "nothing"
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with penstock.connect(place) as own:
                said = f"read {bodies(own)}; "
                own.producer("orders")
        except BaseException as error:  # noqa: BLE001 - all of them are told
            said += f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


# --- What is sent ---------------------------------------------------------------------------------------------------------------------

LIMITS = TopicLimits(body_bytes=10, properties_bytes=30, properties=2, group_bytes=6)
BAD_MESSAGES: list[tuple[Any, type[penstock.PenstockError], str]] = [
    ("text", penstock.InvalidArgument, "send takes a penstock.Message.*str"),
    (b"bytes", penstock.InvalidArgument, "send takes a penstock.Message.*bytes"),
    (None, penstock.InvalidArgument, "send takes a penstock.Message.*NoneType"),
    ((b"x", "g", None, (), {}, None), penstock.InvalidArgument, "send takes a penstock.Message.*tuple"),
    (Message("text", message_group="g"), penstock.InvalidArgument, r"the body must be bytes.*str.*Message.json\(...\) encodes"),  # type: ignore[arg-type]
    (Message(None, message_group="g"), penstock.InvalidArgument, "the body must be bytes.*NoneType"),  # type: ignore[arg-type]
    (Message(7, message_group="g"), penstock.InvalidArgument, "the body must be bytes.*int"),  # type: ignore[arg-type]
    (
        Message(b"x" * 11, message_group="g"),
        penstock.LimitExceeded,
        "the body is over the limit.*at most 10 bytes.*11 bytes.*body_bytes=",
    ),
    (Message(memoryview(b"abcdefghijkl").cast("I"), message_group="g"), penstock.LimitExceeded, "the body is over.*12 bytes"),  # type: ignore[arg-type]
    (
        Message(b"x", "1234567"),
        penstock.LimitExceeded,
        "the message group is over the limit.*at most 6 bytes.*7 bytes.*group_bytes=",
    ),
    (Message(b"x", "üüüü"), penstock.LimitExceeded, "the message group is over the limit.*8 bytes"),
    (Message(b"x", ""), penstock.InvalidArgument, "the message group must be visible characters.*''"),
    (Message(b"x", " "), penstock.InvalidArgument, "the message group must be visible characters"),
    (Message(b"x", "a\nb"), penstock.InvalidArgument, r"the message group must be visible characters.*\\n"),
    (Message(b"x", "\ud800"), penstock.InvalidArgument, "the message group must be visible characters"),
    (Message(b"x", 7), penstock.InvalidArgument, "the message group must be a string.*int"),  # type: ignore[arg-type]
    (Message(b"x", ["g"]), penstock.InvalidArgument, "the message group must be a string.*list"),  # type: ignore[arg-type]
    (
        Message(b"x"),
        penstock.MessageTypeMismatch,
        "topic takes FIFO messages, and this is a NORMAL message.*give the message a message_group",
    ),
    (
        Message(b"x", delivery_timestamp=datetime.now(UTC), message_group="g"),
        penstock.MessageTypeMismatch,
        "topic takes FIFO messages, and this is a DELAY message.*leave delivery_timestamp out",
    ),
    (Message(b"x", tag="a|b", message_group="g"), penstock.InvalidArgument, r"a tag must not contain '\|'.*a\|b"),
    (Message(b"x", tag="", message_group="g"), penstock.InvalidArgument, "the tag must be visible characters"),
    (Message(b"x", tag=7, message_group="g"), penstock.InvalidArgument, "the tag must be a string.*int"),  # type: ignore[arg-type]
    (
        Message(b"x", tag="t" * 31, message_group="g"),
        penstock.LimitExceeded,
        "properties, tag and keys together.*at most 30 bytes.*31 bytes",
    ),
    (Message(b"x", keys="order", message_group="g"), penstock.InvalidArgument, "keys must be a list of strings.*str"),
    (Message(b"x", keys={"a"}, message_group="g"), penstock.InvalidArgument, "keys must be a list of strings.*set"),  # type: ignore[arg-type]
    (Message(b"x", keys=[7], message_group="g"), penstock.InvalidArgument, "a key must be a string.*int"),  # type: ignore[list-item]
    (Message(b"x", keys=[""], message_group="g"), penstock.InvalidArgument, "a key must be visible characters"),
    (Message(b"x", keys=["k"] * 129, message_group="g"), penstock.LimitExceeded, "the number of keys.*at most 128 keys.*129 keys"),
    (Message(b"x", properties="a", message_group="g"), penstock.InvalidArgument, "properties must be a mapping"),  # type: ignore[arg-type]
    (Message(b"x", properties={"a": 1}, message_group="g"), penstock.InvalidArgument, "property 'a' must be a string.*int"),  # type: ignore[dict-item]
    (Message(b"x", properties={1: "a"}, message_group="g"), penstock.InvalidArgument, "a property's name must be a string"),  # type: ignore[dict-item]
    (Message(b"x", properties={"": "a"}, message_group="g"), penstock.InvalidArgument, "a property's name must be visible"),
    (Message(b"x", properties={"a": "\x00"}, message_group="g"), penstock.InvalidArgument, "property 'a' must be visible"),
    (
        Message(b"x", properties=dict.fromkeys("abc", ""), message_group="g"),
        penstock.LimitExceeded,
        "number of properties.*at most 2.*3",
    ),
    (
        Message(b"x", properties={"a": "x" * 30}, message_group="g"),
        penstock.LimitExceeded,
        "properties, tag and keys together.*31 bytes",
    ),
]


def test_a_bad_message_is_refused_and_nothing_of_it_is_sent() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2, limits=LIMITS)
        with lake.producer("orders") as producer:
            for number, (message, error, said) in enumerate(BAD_MESSAGES):
                producer.send(Message(b"%d" % number, message_group="g"))
                for send in (producer.send, lambda message: producer.send_batch([Message(b"no", message_group="g"), message])):
                    with pytest.raises(error, match=said):
                        send(message)
        assert bodies(lake) == [b"%d" % number for number in range(len(BAD_MESSAGES))]


def test_a_normal_topic_takes_no_groups() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with lake.producer("orders") as producer:
            with pytest.raises(penstock.MessageTypeMismatch, match=r"takes NORMAL messages, and this is a FIFO message.*leave"):
                producer.send(Message(b"x", message_group="g"))
            with pytest.raises(penstock.MessageTypeMismatch, match=r"this is a FIFO message.*row 1"):
                producer.send_batch(pa.table({"body": [b"a", b"b"], "message_group": [None, "g"]}))


def table(**columns: Any) -> pa.Table:
    given = {"body": pa.array([b"a", b"b"]), "message_group": pa.array(["g", "h"]), **columns}
    return pa.table({name: values for name, values in given.items() if values is not None})


MAPS = pa.map_(pa.string(), pa.string())
BAD_TABLES: list[tuple[Any, type[penstock.PenstockError], str]] = [
    (
        table(body=None),
        penstock.InvalidArgument,
        "the column body is missing.*expected: queue, message_group.*observed: message_group",
    ),
    (table(message_id=["a", "b"]), penstock.InvalidArgument, r"unknown columns \['message_id'\]"),
    (table(Body=["a", "b"]), penstock.InvalidArgument, r"unknown columns \['Body'\]"),
    (table(body=[1, 2]), penstock.InvalidArgument, "column body has the wrong type.*expected: binary.*observed: int64"),
    (table(queue=["1", "x"]), penstock.InvalidArgument, "column queue has the wrong type.*expected: int32.*observed: string"),
    (table(queue=[0, 2**40]), penstock.InvalidArgument, "column queue has the wrong type"),
    (table(keys=["a", "b"]), penstock.InvalidArgument, "column keys has the wrong type"),
    (table(properties=["a", "b"]), penstock.InvalidArgument, "column properties has the wrong type"),
    (table(body=pa.array([b"a", None])), penstock.InvalidArgument, "column body is null.*row 1.*nothing of the batch was sent"),
    (table(message_group=["g", None]), penstock.MessageTypeMismatch, "takes FIFO messages.*row 1"),
    (table(message_group=None), penstock.MessageTypeMismatch, "takes FIFO messages.*row 0"),
    (table(message_group=["g", ""]), penstock.InvalidArgument, "the message group must be visible characters.*row 1"),
    (table(message_group=["g", "1234567"]), penstock.LimitExceeded, "the message group is over 6 bytes.*row 1.*group_bytes="),
    (
        pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"]), pa.array(["g"])], ["body", "body", "message_group"]),
        penstock.InvalidArgument,
        r"columns \['body'\] are there twice",
    ),
    (table(body=[b"a", b"x" * 11]), penstock.LimitExceeded, "the body is over 10 bytes.*row 1"),
    (table(queue=pa.array([0, 2], pa.int32())), penstock.InvalidArgument, "the topic has queues 0 to 1.*row 1"),
    (table(queue=pa.array([-1, 0], pa.int32())), penstock.InvalidArgument, "the topic has queues 0 to 1.*row 0"),
    (table(tag=["a", "b|c"]), penstock.InvalidArgument, r"a tag must not contain '\|'.*row 1"),
    (table(message_group=["g", "a\tb"]), penstock.InvalidArgument, "the message group must be visible characters.*row 1"),
    (table(tag=["a", ""]), penstock.InvalidArgument, "the tag must be visible characters.*row 1"),
    (table(tag=["a", "x" * 1025]), penstock.LimitExceeded, "the tag is over 1024 bytes.*row 1"),
    (table(keys=[["a"], ["b", " "]]), penstock.InvalidArgument, "a key must be visible characters.*row 1"),
    (table(keys=[["a", None], ["b"]]), penstock.InvalidArgument, "a key must be visible characters.*row 0"),
    (table(keys=[[], ["k"] * 129]), penstock.LimitExceeded, "more than 128 keys.*row 1"),
    (table(keys=[["gone"], ["a"], ["\n"]], body=[b""] * 3, message_group=["g"] * 3).slice(1), penstock.InvalidArgument, "row 1"),
    (table(properties=pa.array([[], [("", "x")]], MAPS)), penstock.InvalidArgument, "a property's name must be visible.*row 1"),
    (table(properties=pa.array([[("a", "x\0")], []], MAPS)), penstock.InvalidArgument, "a property's value must be visible.*row 0"),
    (table(tag=["a", "x" * 31]), penstock.LimitExceeded, "properties, tag and keys together are over 30 bytes.*row 1"),
    (
        table(properties=pa.array([[], [("a", ""), ("b", ""), ("c", "")]], MAPS)),
        penstock.LimitExceeded,
        "more than 2 properties.*row 1",
    ),
    (table(properties=pa.array([[], [("a", "x" * 30)]], MAPS)), penstock.LimitExceeded, "over 30 bytes.*row 1"),
    (table(keys=[["a"], ["x" * 31]]), penstock.LimitExceeded, "over 30 bytes.*row 1"),
    ({"body": [b"a"]}, penstock.InvalidArgument, "send takes a penstock.Message.*str"),
    (7, penstock.InvalidArgument, "send_batch takes Arrow data or messages.*int"),
]


@pytest.mark.parametrize("number", range(len(BAD_TABLES)))
def test_a_bad_batch_is_refused_as_a_whole_and_its_row_named(number: int) -> None:
    data, error, said = BAD_TABLES[number]
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", message_type="FIFO", queues=2, limits=LIMITS)
        with lake.producer("orders") as producer:
            with pytest.raises(error, match=said):
                producer.send_batch(data)
            producer.send_batch(table(body=[b"good", b"rows"]))
        assert sorted(bodies(lake)) == [b"good", b"rows"]


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("", penstock.InvalidArgument, "a producer's name must be visible characters"),
        ("a\tb", penstock.InvalidArgument, "a producer's name must be visible characters"),
        (7, penstock.InvalidArgument, "a producer's name must be visible characters.*7"),
        ("x" * 129, penstock.LimitExceeded, "name is too long.*at most 128 bytes"),
    ],
)
def test_a_producer_that_cannot_be_called_so(name: Any, error: type[penstock.PenstockError], said: str) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with pytest.raises(error, match=said):
            lake.producer("orders", name=name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"linger": 5}, "linger must be a timedelta"),
        ({"linger": timedelta(-1)}, "linger must be a timedelta, not negative"),
        ({"delivery_timeout": None}, "delivery_timeout must be a timedelta"),
        ({"memory_bytes": 0}, "memory_bytes must be a positive whole number"),
        ({"batch_bytes": 1.5}, "batch_bytes must be a positive whole number"),
        ({"on_full": "drop"}, "on_full must be 'block' or 'raise'.*drop"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders")
        with pytest.raises(penstock.InvalidArgument, match=said):
            lake.producer("orders", **options)


# --- What is read ---------------------------------------------------------------------------------------------------------------------


def test_an_offset_that_was_trimmed_says_the_earliest() -> None:
    clock = HandClock()
    store = MemoryStore(clock=clock)
    with memory_lake(clock=clock, store=store) as lake:
        lake.create_topic("orders", queues=1, retention=timedelta(hours=12))
        with lake.producer("orders", linger=timedelta(0)) as producer:
            for _ in range(CHECKPOINT_ENTRIES + 1):
                producer.send(Message(b"x")).result(timeout=TIMEOUT_S)
        asyncio.run(maintain(store, clock))
        clock.advance(timedelta(hours=20))
        send_all(lake, [Message(b"last")])
        for _ in range(3):
            asyncio.run(maintain(store, clock))
            clock.advance(timedelta(hours=2))
        assert PATHS.entry(2) not in keys(store)
        reader = lake.reader("orders")
        assert [one.offset for one in reader.messages()] == [CHECKPOINT_ENTRIES + 1]
        for start in (0, CHECKPOINT_ENTRIES):
            said = rf"no such offset.*orders, queue 0.*the earliest kept is 65; observed: offset {start}\).*earliest"
            with pytest.raises(penstock.OffsetOutOfRange, match=said):
                next(reader.messages(start=start))


async def maintain(store: MemoryStore, clock: HandClock) -> None:
    """Every step of the topic's maintenance once."""
    found = await read_record(store, PATHS)
    assert found is not None

    async def append(actions: object) -> None:
        raise AssertionError("no job is left to close")

    done = await Maintenance(store, PATHS, found[0], Runtime(clock=clock), append).run_once()
    assert not done.errors


def test_offsets_out_of_range_say_what_there_is() -> None:
    with penstock.connect("memory://") as lake:
        lake.create_topic("orders", queues=1)
        send_all(lake, [Message(b"x")] * 3)
        reader = lake.reader("orders")
        new = (
            r"no such offset.*orders, queue 0.*the next one to be written is 3.*observed: offset 4.*'earliest', 'latest' or a time"
        )
        with pytest.raises(penstock.OffsetOutOfRange, match=new):
            next(reader.messages(start=4))
        with pytest.raises(penstock.OffsetOutOfRange, match=r"the earliest kept is 0.*observed: offset -1"):
            next(reader.messages(start=-1))
        for start in ("first", 1.5, None, True):
            with pytest.raises(penstock.InvalidArgument, match="an offset, a datetime, 'earliest' or 'latest'"):
                next(reader.messages(start=start))  # type: ignore[arg-type]
        for queue in (1, -1, "0", True):
            with pytest.raises(penstock.InvalidArgument, match=r"no such queue.*0 to 0"):
                next(reader.messages(queue=queue))  # type: ignore[arg-type]
        with pytest.raises(penstock.InvalidArgument, match=r"bad tag filter.*separated by '\|\|'.*a \| b"):
            next(reader.messages(tags="a | b"))
        with pytest.raises(penstock.InvalidArgument):
            reader.lookup()


@pytest.mark.parametrize("published", [False, True])
def test_a_reader_that_is_asked_for_what_cannot_be(store: MemoryStore, published: bool) -> None:
    if published:
        publish(store, Runtime())
    with penstock.connect(store=store, read_only=True) as lake:
        reader = lake.reader("orders")
        for name, value in (("message_id", 5), ("key", b"x"), ("message_group", "\ud800")):
            with pytest.raises(penstock.InvalidArgument, match=rf"{name} is not a text.*operation: lookup.*observed: "):
                reader.lookup(**{name: value})  # type: ignore[arg-type]
        for tags in (5, b"a", ["a"], "\ud800"):
            with pytest.raises(penstock.InvalidArgument, match="a tag filter is a text"):
                next(reader.read(tags=tags))  # type: ignore[arg-type]
        for damaged in ("ignore", None, True):
            with pytest.raises(penstock.InvalidArgument, match="'raise' or 'skip'"):
                next(reader.read(damaged=damaged))  # type: ignore[arg-type]
        for columns in ("body", 5, [5]):
            with pytest.raises(penstock.InvalidArgument, match="columns are a list of names"):
                next(reader.read(columns=columns))  # type: ignore[arg-type]
        assert [one.body for one in reader.messages()] == [b"0", b"1", b"2"]


# --- What lies in the bucket ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> MemoryStore:
    """Three entries of one message each in queue 0, behind the one that made the topic; beside it a sound topic."""
    made = MemoryStore()
    with penstock.connect(store=made) as lake:
        lake.create_topic("orders", queues=1)
        lake.create_topic("sound", queues=1)
        send_all(lake, [Message(b"s")], "sound")
        with lake.producer("orders", linger=timedelta(0)) as producer:
            for n in range(3):
                producer.send(Message(b"%d" % n)).result(timeout=TIMEOUT_S)
    return made


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
    monkeypatch.setattr(staging, "PART_BYTES", 40_000)
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
    good = encode_checkpoint(State())
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
    put(store, PATHS.settings, json.dumps({**document, "format": 2}).encode())


def newer_entry(store: MemoryStore) -> None:
    from penstock.log.entries import FOOTER_KEY
    from penstock.log.files import read_footer, read_rows, write_file

    data = get(store, PATHS.entry(4))
    header = json.loads(read_footer(data, where="")[FOOTER_KEY])
    put(store, PATHS.entry(4), write_file(read_rows(data, where=""), {FOOTER_KEY: json.dumps({**header, "format": 2})}))


def newer_checkpoint(store: MemoryStore) -> None:
    from penstock.log.files import digest

    body = encode_checkpoint(State(entry=3)).partition(b"\n")[0].replace(b'"format":1', b'"format":2')
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
        with pytest.raises(NewerFormatError, match=r"features that Penstock does not write.*minReaderVersion.: 1.*3"):
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

            with pytest.raises(penstock.CallError, match=r"no room left on the file system.*Free some space") as raised:
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
