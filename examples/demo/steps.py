"""The steps of the demo: produce, publish and sync, all at once; then compare."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from penstock import aio
from penstock.cdc.events.debezium import parse_change
from penstock.cdc.events.table_types import types_key
from penstock.infra.files import open_file
from penstock.log.errors import MissingDependency, RetryError, TopicNotFound, install_hint
from penstock.log.message.message_type import MessageType
from penstock.log.paths import TopicPaths
from penstock.log.stores import CountingStore, StoreStatistics, open_store
from penstock.log.stores.protocol import Put
from penstock.log.table.publisher import Publisher
from penstock.log.topic.settings import TopicRecord, TopicSettings

from . import shipped, source
from .checks.capture import count_events, key_columns, read_dumps, read_events
from .checks.check_stream import compare_stream, read_topic
from .checks.compare import compare_tables
from .outcome import DemoFailed, DriverCrash, Findings, Produced
from .place import TARGETS, Place
from .processes.producers import Listener, run_producers
from .processes.reports import DriverTask
from .processes.syncing import Turns, run_driver
from .tables import SHOP, SHOP_TYPES, Target, infer_targets

TOPIC = "shop"
_QUEUES = 16
_PUBLISH_S = 3.0
_EVENTS_PER_BATCH = 100_000
_WARM_UP_S = 10.0
"""The shortest time of sending for which a run waits for a warm driver."""
_FAULTS_MAX, _RETRY_S = 10, 1.0


@dataclass(frozen=True, slots=True)
class Capture:
    """The events to produce, and the expected result."""

    events: Path = field(default_factory=shipped.events_file)
    dumps: Path = shipped.DATA
    """The folder of ``<table>.csv`` or ``<table>.csv.gz``."""

    @property
    def is_shipped(self) -> bool:
        """Whether it is the one that Penstock ships; any other leaves that one packed."""
        return self.dumps == shipped.DATA and self.events == shipped.events_file()

    def targets(self) -> tuple[Target, ...]:
        """The declaration of the target tables."""
        if self.is_shipped:
            return SHOP
        changes = (parse_change(json.loads(event.body)) for event in read_events(self.events))
        return infer_targets(change for change in changes if change is not None)

    def first_group(self) -> str:
        """The message group of the first event."""
        with open_file(str(self.events)) as file:
            return next(source.events(file, name=self.events.name)).message_group or ""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A topic with all events in it, in its Delta table and in the targets."""

    topic: str
    record: TopicRecord
    produced: Produced
    driver_crash: DriverCrash | None
    lag_ms: int
    requests: StoreStatistics
    """The requests of creating the topic and publishing."""


def check_installed(*, spark: bool = True) -> None:
    """Raise `MissingDependency` before anything is done, not after."""
    if find_spec("deltalake") is None:
        raise MissingDependency(
            "the comparison reads tables with deltalake, which is missing",
            operation="demo",
            hint=install_hint("delta"),
        )
    if spark:
        from penstock.spark.java import find_java
        from penstock.spark.versions import check_versions

        check_versions()
        find_java()


async def stream(
    place: Place, capture: Capture, *, producers: int, events_per_s: float, crashes: bool, listener: Listener
) -> Streamed:
    """Create a topic with a free name, produce the capture into it, and publish and sync it meanwhile."""
    store = CountingStore(open_store(place.url))
    async with aio.connect(store=store, maintenance=False) as lake:
        # Tables that an earlier run left would hide what this one fails to do.
        taken = {*await lake.topics(), *await store.list_folders(f"{TARGETS}/")}
        topic = next(name for n in count(1) if (name := TOPIC if n == 1 else f"{TOPIC}-{n}") not in taken)
        settings = TopicSettings(message_type=MessageType.FIFO, queues=_QUEUES, retention=None)
        record = await lake.create_topic(topic, settings)
        for types in SHOP_TYPES if capture.is_shipped else ():  # as a capture does, before its events
            await store.put(types_key(topic, types.name), types.data, mode=Put.REPLACE)
        publisher = Publisher(store, TopicPaths.of(topic), record, lake.runtime)
        turns = Turns(asyncio.Event(), asyncio.Event())

        async def produce() -> Produced:
            produced = await run_producers(
                lake=place.url,
                topic=topic,
                events=str(capture.events),
                producers=producers,
                clock=lake.runtime.clock,
                events_per_s=events_per_s,
                syncing=turns.syncing,
                crashes=crashes,
                listener=listener,
            )
            turns.all_sent.set()
            return produced

        sync = run_driver(
            _driver_task(place, topic, capture, events_per_s=events_per_s, crashes=crashes),
            turns,
            clock=lake.runtime.clock,
            following=listener.following,
            killed=listener.driver_killed,
            returned=listener.driver_returned,
        )
        try:
            async with asyncio.TaskGroup() as group:
                publishing = group.create_task(_publish(publisher, turns.all_sent))
                syncing = group.create_task(sync)
                producing = group.create_task(produce())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
    return Streamed(topic, record, producing.result(), syncing.result(), publishing.result(), store.statistics())


def _driver_task(place: Place, topic: str, capture: Capture, *, events_per_s: float, crashes: bool) -> DriverTask:
    events = count_events(capture.events)
    return DriverTask(
        lake=place.url,
        topic=topic,
        into=place.targets(topic),
        columns={} if capture.is_shipped else {target.table: target.columns for target in capture.targets()},
        # If the driver is to be killed once half of the events are applied, some have to be left.
        events_per_batch=max(1, events // 2) if crashes else _EVENTS_PER_BATCH,
        s3=asdict(place.s3) if place.s3 else None,
        halt_at=events - events // 2 if crashes else None,
        warm_up=events > events_per_s * _WARM_UP_S > 0,
    )


async def _publish(publisher: Publisher, all_sent: asyncio.Event) -> int:
    """Publish as maintenance does until the log's end is reached after all events were sent. Returns the longest lag."""
    lag_ms = faults = 0
    while True:
        last = all_sent.is_set()
        try:
            published = await publisher.publish_once()
        except RetryError:
            faults += 1
            if faults > _FAULTS_MAX:
                raise
            await asyncio.sleep(_RETRY_S)
            continue
        faults = 0
        lag_ms = max(lag_ms, published.lag_ms)
        if not published.caught_up:
            continue
        if last:
            return lag_ms
        try:
            await asyncio.wait_for(all_sent.wait(), _PUBLISH_S)
        except TimeoutError:
            continue


async def find_topic(place: Place, topic: str) -> TopicRecord:
    """The record of a topic that an earlier run left. Raises `TopicNotFound`."""
    async with aio.connect(place.url, read_only=True) as lake:
        topics = await lake.topics()
    if topic not in topics:
        raise TopicNotFound("there is no such topic", object=topic, observed=", ".join(topics) or "no topics")
    return topics[topic]


def compare(place: Place, topic: str, record: TopicRecord, capture: Capture) -> Findings:
    """Compare the content of the lake with the capture: the tables with the dumps, and the topic with the events."""
    from deltalake.exceptions import DeltaError

    events = list(read_events(capture.events))
    dumps = read_dumps(capture.dumps)
    keys = key_columns(events)
    try:
        return Findings(
            compare_tables(dumps, keys, place.targets(topic), place.storage_options),
            compare_stream(events, read_topic(place.topic_table(topic, record), place.storage_options), queues=_QUEUES),
        )
    except (DeltaError, OSError) as error:
        raise DemoFailed("a table could not be read", operation="compare", observed=_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:500]
