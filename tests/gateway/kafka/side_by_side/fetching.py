"""Plays about reading records, and about offsets and topics' lives."""

from __future__ import annotations

import asyncio
import time

from penstock.gateway.kafka.wire.apis import ApiKey
from tests.gateway.kafka.records.oracle import NOW_MS, Record, built, read
from tests.waiting import until

from .scene import Play, Scene, each, records_in, word, words

FEW_MS = 300


async def out_of_range(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a", "b")
    cases = {"-5": -5, "2, the end": 2, "3": 3}
    found = {name: await scene.fetch(topic, offset, max_wait_ms=FEW_MS) for name, offset in cases.items()}
    return words({name: one.error_code for name, one in found.items()})


async def waits(scene: Scene) -> str:
    topic, waiting = await scene.topic(), await scene.connect()
    begun_s = time.monotonic()
    empty = await scene.fetch(topic, max_wait_ms=FEW_MS)
    waited = time.monotonic() - begun_s > FEW_MS / 1000 - 0.05
    woken = asyncio.ensure_future(scene.fetch(topic, wire=waiting, max_wait_ms=28_000))
    await scene.send(topic, "a")
    begun_s = time.monotonic()
    count = len(records_in(await woken))
    early = time.monotonic() - begun_s < 20
    return (
        f"nothing comes: {len(records_in(empty))} records, {'after its time' if waited else 'at once'}; "
        f"a record comes: {count} batch, {'at once' if early else 'late'}"
    )


async def least_bytes(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a")
    begun_s = time.monotonic()
    found = await scene.fetch(topic, min_bytes=1_000_000, max_wait_ms=FEW_MS)
    waited = time.monotonic() - begun_s > FEW_MS / 1000 - 0.05
    return f"{len(records_in(found))} batch, {'after its time' if waited else 'at once'}"


async def small_limits(scene: Scene) -> str:
    topic = await scene.topic(partitions=2)
    for partition in (0, 1):
        await scene.send(topic, "a" * 500, "b" * 500, partition=partition)
    found = {
        "a byte of the partition": await scene.fetch(topic, partition_max_bytes=1),
        "a byte of the answer": await scene.fetch(topic, max_bytes=1),
        "none": await scene.fetch(topic, max_bytes=0),
    }
    both = await scene.fetched([(topic, 0, 0), (topic, 1, 0)], max_bytes=1)
    counts = [len(records_in(part)) for one in both.responses for part in one.partitions]
    said = each({name: f"{len(records_in(part))} of 2 batches" for name, part in found.items()})
    return f"{said}; a byte, of two partitions: {sum(counts)} of 4 batches"


async def amid_batch(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.produce(topic, built([Record()] * 5))
    (batch,) = records_in(await scene.fetch(topic, 3))
    return f"the batch of offsets {batch.header.base_offset} to {batch.header.last_offset}"


async def unknown(scene: Scene) -> str:
    topic = await scene.topic()
    found = {"topic": await scene.fetch(scene.named("other")), "partition 1 of 1": await scene.fetch(topic, partition=1)}
    found["name `a b`"] = await scene.fetch("a b")
    return words({name: one.error_code for name, one in found.items()})


async def committed(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a", "b")
    found = await scene.fetch(topic, isolation_level=1)
    aborted = found.aborted_transactions or []
    ends = f"last stable offset {found.last_stable_offset}, high watermark {found.high_watermark}"
    return f"{len(records_in(found))} batches; {ends}, {len(aborted)} aborted"


async def leader_epochs(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a")
    epoch = (await scene.metadata_of(topic))[topic].partitions[0].leader_epoch
    cases = {"the leader's": epoch, "none": -1, "a later one": epoch + 1}
    return words({name: (await scene.fetch(topic, current_leader_epoch=one)).error_code for name, one in cases.items()})


async def same_epoch(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a")
    (batch,) = records_in(await scene.fetch(topic))
    epoch = (await scene.metadata_of(topic))[topic].partitions[0].leader_epoch
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "current_leader_epoch": epoch, "timestamp": -1}]}]
    listed = (await scene.ask(ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=asked)).topics[0].partitions[0]
    return (
        "the same"
        if {batch.header.leader_epoch, epoch, listed.leader_epoch} == {epoch}
        else f"{batch.header.leader_epoch}, {epoch}, {listed.leader_epoch}"
    )


async def deleted(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a")
    code = await scene.deleted(topic)

    async def fetched() -> int:
        return int((await scene.fetch(topic, max_wait_ms=FEW_MS)).error_code)

    found = await until(fetched, lambda seen: seen != 0, "the topic is gone")
    return f"{word(code)}; Fetch: {word(found)}; deleted again: {word(await scene.deleted(topic))}"


async def made_anew(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "old-1", "old-2")
    before = await topic_id(scene, topic)
    await scene.made_anew(topic)
    await scene.send(topic, "new")
    is_other = before != await topic_id(scene, topic)
    late = await scene.fetch(topic, 2, max_wait_ms=FEW_MS)
    found = ", ".join(one.value.decode() for one in read(records_in(await scene.fetch(topic))) if one.value)
    return f"{'another id' if is_other else 'the same id'}; from 0: {found}; from 2: {word(late.error_code)}"


async def topic_id(scene: Scene, topic: str) -> object:
    answer = await scene.ask(ApiKey.METADATA, topics=[{"name": topic, "topic_id": None}], allow_auto_topic_creation=False)
    return answer.topics[0].topic_id


async def waiting_deleted(scene: Scene) -> str:
    topic, waiting = await scene.topic(), await scene.connect()
    woken = asyncio.ensure_future(scene.fetch(topic, wire=waiting, max_wait_ms=28_000))
    await scene.deleted(topic)
    begun_s = time.monotonic()
    found = await woken
    return f"{word(found.error_code)}, {'at once' if time.monotonic() - begun_s < 20 else 'after its time'}"


async def sessions(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.send(topic, "a")
    begun = await scene.fetched([(topic, 0, 0)], session_id=0, session_epoch=0)
    other = await scene.fetched([(topic, 0, 0)], session_id=1 << 30, session_epoch=1)
    told = "a session" if begun.session_id else "no session, whole answers"
    return f"asked for one: {told}; an unknown one: {word(other.error_code)}"


# --- Offsets ----------------------------------------------------------------------------------------------------------------------


async def ends_of(scene: Scene) -> str:
    topic = await scene.topic()
    empty = [await scene.offset_of(topic, at) for at in (-2, -1, -3, -4)]
    await scene.send(topic, "a", "b")
    found = [await scene.offset_of(topic, at) for at in (-2, -1, -4)]
    return f"empty: {', '.join(map(told, empty))}; with two: {', '.join(map(told, found))}"


def told(found: tuple[int, int, int]) -> str:
    code, offset, timestamp = found
    if code:
        return word(code)
    return f"{offset}" if timestamp < 0 else f"{offset} of +{timestamp - NOW_MS}"


async def by_time(scene: Scene) -> str:
    topic = await scene.topic()
    for at in (10, 20, 30):
        await scene.produce(topic, built([Record(timestamp=NOW_MS + at)]))
    cases = {"before": 0, "the second's": 20, "between": 25, "after the last": 31}
    found = {name: told(await scene.offset_of(topic, NOW_MS + at)) for name, at in cases.items()}
    return "; ".join(f"{name}: {one}" for name, one in found.items())


async def amid_a_batch_by_time(scene: Scene) -> str:
    topic = await scene.topic()
    await scene.produce(topic, built([Record(timestamp=NOW_MS + at) for at in (10, 20, 30)]))
    return f"the second's: {told(await scene.offset_of(topic, NOW_MS + 20))}"


async def unordered_times(scene: Scene) -> str:
    topic = await scene.topic()
    for at in (10, 30, 20):
        await scene.produce(topic, built([Record(timestamp=NOW_MS + at)]))
    return f"20 or later: {told(await scene.offset_of(topic, NOW_MS + 20))}"


async def latest_time(scene: Scene) -> str:
    topic = await scene.topic()
    for at in (10, 20, 30):
        await scene.produce(topic, built([Record(timestamp=NOW_MS + at)]))
    other = await scene.topic("u")
    for at in (10, 30, 20):
        await scene.produce(other, built([Record(timestamp=NOW_MS + at)]))
    return f"10, 20, 30: {told(await scene.offset_of(topic, -3))}; 10, 30, 20: {told(await scene.offset_of(other, -3))}"


async def no_offsets(scene: Scene) -> str:
    topic = await scene.topic()
    codes = {
        "topic": (await scene.offset_of(scene.named("other"), -1))[0],
        "partition": (await scene.offset_of(topic, -1, partition=1))[0],
        "time -9": (await scene.offset_of(topic, -9))[0],
        "epoch": (await scene.offset_of(topic, -1, current_leader_epoch=99))[0],
    }
    return words(codes)


PLAYS = (
    Play("out-of-range", "Fetch of two records, from", out_of_range),
    Play("waits", "Fetch at the end", waits),
    Play("least-bytes", "`fetch.min.bytes` above what is there", least_bytes),
    Play("small-limits", "limits below a batch", small_limits),
    Play("amid-batch", "Fetch from the fourth record of a batch of 5", amid_batch),
    Play("unknown", "Fetch of an unknown", unknown),
    Play("read-committed", "`isolation.level=read_committed`, two records", committed),
    Play("leader-epochs", "Fetch with a leader epoch", leader_epochs),
    Play("same-epoch", "the epochs in Metadata, ListOffsets and batches", same_epoch),
    Play("deleted", "a topic deleted", deleted),
    Play("made-anew", "a topic deleted and made again", made_anew),
    Play("waiting-deleted", "a topic deleted while a Fetch waits", waiting_deleted),
    Play("sessions", "fetch sessions", sessions),
    Play("ends", "ListOffsets: earliest, latest, latest time, earliest local", ends_of),
    Play("by-time", "ListOffsets by time", by_time),
    Play("amid-a-batch", "ListOffsets by time, inside of a batch", amid_a_batch_by_time),
    Play("unordered-times", "ListOffsets by time, times 10, 30, 20", unordered_times),
    Play("latest-time", "ListOffsets of the latest time", latest_time),
    Play("no-offsets", "ListOffsets of an unknown", no_offsets),
)
