"""Places that cannot be a lake, and offsets that cannot be read, each with the error a user sees: its type and what it says."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.log.limits import CHECKPOINT_ENTRIES
from penstock.log.paths import TopicPaths
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from penstock.log.table.maintenance import TopicMaintenance
from penstock.log.topic.records import read_record
from penstock.testing import HandClock, memory_lake
from tests.lakes import TIMEOUT_S, bodies, keys, send_all, three_entries
from tests.log.test_reader import publish
from tests.servers import free_port, moto_server, versitygw_server

Message = penstock.Message
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

    done = await TopicMaintenance(store, PATHS, found[0], Runtime(clock=clock), append).run_once()
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
def test_a_reader_that_is_asked_for_what_cannot_be(published: bool) -> None:
    store = three_entries()
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
