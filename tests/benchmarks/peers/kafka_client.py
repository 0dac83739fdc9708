"""Send and read rates of Kafka's C client; run by the interpreter that has it. Prints a JSON line before and after each measurement.

Bodies of 100 bytes, keys from 10,000 groups, 8 partitions, acks=all, idempotent producer.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

BODY = b"v" * 100
KEYS = [f"group-{number}".encode() for number in range(10_000)]


def main(bootstrap: str, count: int, repeats: int, label: str = "Kafka") -> None:
    """``label`` names the server in what is printed."""
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})  # a name of its own: once collected it answers no more
    admin.create_topics([NewTopic(topic, 8, 1)])[topic].result(30)
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 25}
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    say(doing="warm up")
    send(producer, topic, count)
    report(f"{label}: produce, 100 B, linger 25 ms", repeats, lambda: send(producer, topic, count))
    report(f"{label}: consume in batches of 1,000", repeats, lambda: read(bootstrap, topic, count, 1000))
    report(f"{label}: consume, one poll a message", repeats, lambda: read(bootstrap, topic, count, 1))


def report(name: str, repeats: int, measure: Callable[[], tuple[float, float]]) -> None:
    for number in range(1, repeats + 1):
        say(doing=f"{name}, {number} of {repeats}")
        rate, cpu_us = measure()
        say(name=name, rate=rate, cpu_us=cpu_us)


def say(**document: str | float) -> None:
    print(json.dumps(document), flush=True)


def send(producer: Producer, topic: str, count: int) -> tuple[float, float]:
    """(messages a second, processor µs a message of this process), from the first call to the last acknowledgement."""
    start_s, cpu_s = time.perf_counter(), time.process_time()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, BODY, KEYS[number % len(KEYS)])
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} messages were not acknowledged")
    return count / (time.perf_counter() - start_s), 1e6 * (time.process_time() - cpu_s) / count


def read(bootstrap: str, topic: str, count: int, at_once: int) -> tuple[float, float]:
    """As `send`, from the first message on; offsets are committed as by default, each 5 s."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got, start_s, cpu_s = 0, 0.0, 0.0
    while got < count:
        if at_once == 1:
            message = consumer.poll(1)
            fresh = int(message is not None and message.error() is None)
        else:
            fresh = len([message for message in consumer.consume(at_once, 1) if message.error() is None])
        if fresh and not got:
            start_s, cpu_s = time.perf_counter(), time.process_time()
        got += fresh
    rate = got / (time.perf_counter() - start_s), 1e6 * (time.process_time() - cpu_s) / got
    consumer.close()
    return rate


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
