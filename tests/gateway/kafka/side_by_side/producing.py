"""Plays about sending records."""

from __future__ import annotations

import time
from typing import Any

from penstock.gateway.kafka.records.batches import KafkaBatch, batch_of
from penstock.gateway.kafka.records.compression import Compression
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from tests.gateway.kafka.records.oracle import Record, built, read
from tests.gateway.kafka.wire.test_records_by_hand import produce_request
from tests.waiting import until

from .scene import Play, Scene, code_of, each, ends, records_in, word, words

ONE = built([Record()])
HOUR_MS = 3_600_000
KIB = 1024
CRC_AT, MAGIC_AT = 17, 16


async def acks(scene: Scene) -> str:
    topic = await scene.topic()
    codes = {f"{told}": (await scene.produce(topic, ONE, acks=told)).error_code for told in (1, -1, 2)}
    silent, version = await scene.connect(), APIS[ApiKey.PRODUCE].highest
    silent.client.send(ApiKey.PRODUCE, version, produce_request(version, [(topic, [(0, bytes(ONE.data))])], acks=0))
    await silent.ask(ApiKey.API_VERSIONS, 0)  # the next answer is that of the next request

    async def end() -> int:
        return (await scene.offset_of(topic, -1))[1]

    await until(end, lambda found: found == 3, "what nobody was told of is there")
    return f"{words(codes)}; 0: no answer, and it is there"


async def silent_refusal(scene: Scene) -> str:
    silent, version = await scene.connect(), APIS[ApiKey.PRODUCE].highest
    silent.client.send(ApiKey.PRODUCE, version, produce_request(version, [(scene.named("t"), [(0, bytes(ONE.data))])], acks=0))
    return str(await ends(silent.client.answer()))


async def nulls(scene: Scene) -> str:
    given = [Record(None, b"v"), Record(b"k", None), Record(None, None), Record(b"", b"")]
    return await _come_back(scene, given)


async def header_order(scene: Scene) -> str:
    return await _come_back(scene, [Record(headers=(("a", b"1"), ("b", None), ("a", b""), ("ä", b"\xff")))])


async def _come_back(scene: Scene, given: list[Record]) -> str:
    topic = await scene.topic()
    code = (await scene.produce(topic, built(given))).error_code
    found = read(records_in(await scene.fetch(topic)))
    return f"{word(code)}; {'as sent' if found == given else f'not as sent: {found}'}"


async def codecs(scene: Scene) -> str:
    topic, said = await scene.topic(), {}
    given = [Record(value=b"v" * 1000)] * 9
    for offset, codec in enumerate(Compression):
        code = (await scene.produce(topic, built(given, codec))).error_code
        (batch,) = records_in(await scene.fetch(topic, len(given) * offset, partition_max_bytes=1))
        is_same = batch.header.compression == codec
        said[codec.name.lower()] = f"{word(code)}, {'kept' if is_same else 'changed'}"
    return " and ".join(set(said.values()))


async def unknown_codec(scene: Scene) -> str:
    topic = await scene.topic()
    batch = batch_of(ONE.header._replace(attributes=5), bytes(ONE.payload))
    return word((await scene.produce(topic, batch)).error_code)


async def codec_of_topic(scene: Scene) -> str:
    topic = await scene.topic(compression__type="gzip")
    await scene.produce(topic, built([Record(value=b"v" * 1000)]))
    (batch,) = records_in(await scene.fetch(topic))
    return f"comes as {Compression(batch.header.compression).name.lower()}"


async def sizes(scene: Scene) -> str:
    topic = await scene.topic()
    cases = {"900 KiB": 900, "2 MiB": 2 * KIB, "6 MiB": 6 * KIB}
    return words(
        {name: (await scene.produce(topic, built([Record(value=bytes(KIB * size))]))).error_code for name, size in cases.items()}
    )


async def size_of_topic(scene: Scene) -> str:
    topic = await scene.topic(max__message__bytes="1000")
    return words(
        {f"{size} bytes": (await scene.produce(topic, built([Record(value=bytes(size))]))).error_code for size in (500, 5000)}
    )


async def other_size(scene: Scene) -> str:
    topic, batch = await scene.topic(max__message__bytes="1000"), built([Record(value=bytes(5000))])
    first = (await scene.produce(topic, batch)).error_code
    await scene.altered(topic, "max.message.bytes", "10000")

    async def code() -> int:
        return int((await scene.produce(topic, batch)).error_code)

    return f"{word(first)}, then {word(await until(code, lambda found: found == 0, 'the change counts'))}"


async def nowhere(scene: Scene) -> str:
    topic = await scene.topic()
    unknown = (await scene.produce(scene.named("other"), ONE)).error_code
    return words({"topic": unknown, "partition 1 of 1": (await scene.produce(topic, ONE, partition=1)).error_code})


async def bad_crc(scene: Scene) -> str:
    data = bytearray(ONE.data)
    data[CRC_AT] ^= 1
    return word((await scene.produce(await scene.topic(), bytes(data))).error_code)


async def formats(scene: Scene) -> str:
    topic, codes = await scene.topic(), {}
    for magic in (0, 1, 3):
        data = bytearray(ONE.data)
        data[MAGIC_AT] = magic
        codes[f"{magic}"] = await code_of(scene.produce(topic, bytes(data), wire=await scene.connect()))
    return each(codes)


async def broken(scene: Scene) -> str:
    topic = await scene.topic()
    cases: dict[str, bytes | None] = {
        "null": None,
        "no byte": b"",
        "two batches": bytes(ONE.data) * 2,
        "half a batch": bytes(ONE.data)[:40],
        "no records": bytes(batch_of(ONE.header._replace(record_count=0, last_offset_delta=-1), b"").data),
        "a wrong count": bytes(batch_of(ONE.header._replace(record_count=2, last_offset_delta=1), bytes(ONE.payload)).data),
        "a record that is too long": bytes(batch_of(ONE.header, b"\x7f" + bytes(ONE.payload)[1:]).data),
    }
    said = {}
    for name, data in cases.items():
        said[name] = await code_of(scene.produce(topic, data, wire=await scene.connect()))
    return each(said)


async def timestamps(scene: Scene) -> str:
    topic, now_ms = await scene.topic(), time.time_ns() // 1_000_000
    cases = {
        "-1": -1,
        "-5": -5,
        "1971": 365 * 24 * HOUR_MS,
        "59 min ahead": now_ms + 59 * 60_000,
        "2 h ahead": now_ms + 2 * HOUR_MS,
    }
    return words({name: (await scene.produce(topic, built([Record(timestamp=at)]))).error_code for name, at in cases.items()})


async def append_time(scene: Scene) -> str:
    return await _times(scene, await scene.topic(message__timestamp__type="LogAppendTime"))


async def create_time(scene: Scene) -> str:
    return await _times(scene, await scene.topic(message__timestamp__type="CreateTime"))


async def _times(scene: Scene, topic: str) -> str:
    answer = await scene.produce(topic, ONE)
    (record,) = read(records_in(await scene.fetch(topic)))
    told = "the append's time" if answer.log_append_time_ms > 0 else "no time"
    return f"told: {told}; fetched with {'the producer' if record.timestamp == ONE.header.max_timestamp else 'the append'}'s time"


async def keyless(scene: Scene) -> str:
    topic = await scene.topic(cleanup__policy="compact")
    return words(
        {
            "with a key": (await scene.produce(topic, ONE)).error_code,
            "without": (await scene.produce(topic, built([Record(None)]))).error_code,
        }
    )


# --- Idempotent producers ---------------------------------------------------------------------------------------------------------


def of(producer: tuple[int, int], sequence: int, count: int = 1, attributes: int = 0) -> KafkaBatch:
    """A batch of a producer's id and epoch."""
    plain = built([Record()] * count)
    header = plain.header._replace(producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence)
    return batch_of(header._replace(attributes=attributes), bytes(plain.payload))


async def a_producer(scene: Scene) -> tuple[int, int]:
    asked = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}

    async def given() -> Any:
        return await scene.ask(ApiKey.INIT_PRODUCER_ID, **asked)

    answer = await until(given, lambda found: found.error_code == 0, "an id is given")
    return answer.producer_id, answer.producer_epoch


async def duplicate(scene: Scene) -> str:
    topic, producer = await scene.topic(), await a_producer(scene)
    answers = [await scene.produce(topic, of(producer, sequence, 2)) for sequence in (0, 2, 0, 2)]
    places = ", ".join(word(one.error_code) if one.error_code else f"offset {one.base_offset}" for one in answers)
    return f"{places}; end {(await scene.offset_of(topic, -1))[1]}"


async def old_duplicate(scene: Scene) -> str:
    topic, producer = await scene.topic(), await a_producer(scene)
    for sequence in range(7):
        await scene.produce(topic, of(producer, sequence))
    again = (await scene.produce(topic, of(producer, 0))).error_code
    return f"{word(again)}; end {(await scene.offset_of(topic, -1))[1]}"


async def gap(scene: Scene) -> str:
    topic, producer = await scene.topic(), await a_producer(scene)
    codes = [(await scene.produce(topic, of(producer, sequence))).error_code for sequence in (0, 2, 1)]
    return ", ".join(map(word, codes))


async def epochs(scene: Scene) -> str:
    topic, (number, _) = await scene.topic(), await a_producer(scene)
    cases = {
        "epoch 1, sequence 0": (1, 0),
        "epoch 0, sequence 1": (0, 1),
        "epoch 2, sequence 5": (2, 5),
        "epoch 2, sequence 0": (2, 0),
    }
    return words(
        {name: (await scene.produce(topic, of((number, epoch), sequence))).error_code for name, (epoch, sequence) in cases.items()}
    )


async def unknown_producer(scene: Scene) -> str:
    topic = await scene.topic()
    return word((await scene.produce(topic, of((1 << 40, 0), 7))).error_code)


async def half_numbered(scene: Scene) -> str:
    topic, (number, _) = await scene.topic(), await a_producer(scene)
    cases = {"no sequence": ((number, 0), -1), "no epoch": ((number, -1), 0)}
    return words({name: (await scene.produce(topic, of(*case))).error_code for name, case in cases.items()})


async def in_no_transaction(scene: Scene) -> str:
    topic, producer, name = await scene.topic(), await a_producer(scene), scene.named("x")

    async def code() -> int:
        await scene.ask(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=[name])  # which Kafka has to start first
        return int((await scene.produce(topic, of(producer, 0, attributes=1 << 4), transactional_id=name)).error_code)

    return word(await until(code, lambda found: found != ErrorCode.NOT_ENOUGH_REPLICAS, "the coordinator is there"))


async def control(scene: Scene) -> str:
    topic, producer = await scene.topic(), await a_producer(scene)
    return word((await scene.produce(topic, of(producer, 0, attributes=1 << 5))).error_code)


PLAYS = (
    Play("acks", "Produce with acks", acks),
    Play("silent-refusal", "acks=0 to a topic that is not there", silent_refusal),
    Play("nulls", "null keys and values, and empty ones", nulls),
    Play("headers", "headers: a name twice, null, empty, `ä`", header_order),
    Play("codecs", "none, gzip, snappy, lz4, zstd", codecs),
    Play("unknown-codec", "compression number 5", unknown_codec),
    Play("codec-of-topic", "`compression.type=gzip`, a batch without compression", codec_of_topic),
    Play("sizes", "a record of", sizes),
    Play("size-of-topic", "`max.message.bytes=1000`, a record of", size_of_topic),
    Play("other-size", "a record of 5000 bytes, `max.message.bytes=1000` changed to 10000", other_size),
    Play("nowhere", "Produce to an unknown", nowhere),
    Play("bad-crc", "a batch whose CRC is wrong", bad_crc),
    Play("formats", "a batch of format", formats),
    Play("broken", "in place of a batch", broken),
    Play("timestamps", "a record's time", timestamps),
    Play("create-time", "`message.timestamp.type=CreateTime`", create_time),
    Play("append-time", "`message.timestamp.type=LogAppendTime`", append_time),
    Play("keyless", "`cleanup.policy=compact`, a record", keyless),
    Play("duplicate", "an idempotent producer's two batches of 2, sent twice", duplicate),
    Play("old-duplicate", "the first of 7 batches sent again", old_duplicate),
    Play("gap", "sequences 0, 2, 1", gap),
    Play("epochs", "one after the other, a producer's", epochs),
    Play("unknown-producer", "sequence 7 of a producer that nobody knows", unknown_producer),
    Play("half-numbered", "a producer's id, and", half_numbered),
    Play("in-no-transaction", "a batch in a transaction that was not begun", in_no_transaction),
    Play("control", "a control batch by a client", control),
)
