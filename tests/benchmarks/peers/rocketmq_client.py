"""Send and read rates of RocketMQ 5's Python client; run by the interpreter that has it. Prints a JSON line before and after each measurement.

Bodies of 100 bytes, message groups from 10,000, a FIFO topic of 8 queues.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
import uuid
from functools import partial

os.environ["HOME"] = tempfile.mkdtemp(prefix="rocketmq-client.")  # where the client writes its log
from rocketmq import (  # type: ignore[import-not-found]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
)

BODY = b"v" * 100
GROUPS = [f"group-{number}" for number in range(10_000)]


def main(endpoint: str, topic: str, count: int, repeats: int, groups: list[str]) -> None:
    """``groups``: made with ordered delivery, and never used before; a listener runs in each."""
    configuration = ClientConfiguration(endpoint, Credentials())
    producer = Producer(configuration, (topic,))
    producer.startup()
    time.sleep(1)  # the settings arrive after startup has returned
    say(doing="warm up")
    send(producer, topic, count)
    report("RocketMQ: send, 100 B, 16 threads", [partial(send, producer, topic, count)] * repeats)
    report("RocketMQ: receive and ack, 32 at a time", [partial(read, configuration, topic, count)])
    report("RocketMQ: push, ORDERLY, single messages", [partial(push, configuration, topic, count, group) for group in groups])
    producer.shutdown()


def report(name: str, measurements: list[partial[tuple[float, float]]]) -> None:
    for number, measure in enumerate(measurements, 1):
        say(doing=f"{name}, {number} of {len(measurements)}")
        rate, cpu_us = measure()
        say(name=name, rate=rate, cpu_us=cpu_us)


def say(**document: str | float) -> None:
    print(json.dumps(document), flush=True)


def send(producer: Producer, topic: str, count: int, threads: int = 16) -> tuple[float, float]:
    def work(first: int) -> None:
        for number in range(first, count, threads):
            message = Message()
            message.topic, message.body, message.message_group = topic, BODY, GROUPS[number % len(GROUPS)]
            producer.send(message)

    start_s, cpu_s = time.perf_counter(), time.process_time()
    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return count / (time.perf_counter() - start_s), 1e6 * (time.process_time() - cpu_s) / count


def read(configuration: ClientConfiguration, topic: str, count: int) -> tuple[float, float]:
    consumer = SimpleConsumer(configuration, f"group-{uuid.uuid4().hex[:12]}", {topic: FilterExpression("*")}, 5)
    consumer.startup()
    time.sleep(1)
    got, start_s, cpu_s = 0, time.perf_counter(), time.process_time()
    while got < count:
        messages = consumer.receive(32, 30)
        for message in messages:
            consumer.ack(message)
        got += len(messages)
    rate = got / (time.perf_counter() - start_s), 1e6 * (time.process_time() - cpu_s) / got
    consumer.shutdown()
    return rate


class Counting(MessageListener):  # type: ignore[misc]
    """Does nothing but count, from the first message on."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.count = 0
        self.first = (0.0, 0.0)
        self.last = (0.0, 0.0)
        self.done = threading.Event()
        self._lock = threading.Lock()

    def consume(self, message: Message) -> ConsumeResult:
        with self._lock:
            self.count += 1
            if self.count in (1, self.expected):
                self.last = time.perf_counter(), time.process_time()
            if self.count == 1:
                self.first = self.last
            if self.count == self.expected:
                self.done.set()
        return ConsumeResult.SUCCESS


def push(configuration: ClientConfiguration, topic: str, count: int, group: str) -> tuple[float, float]:
    listener = Counting(count)
    consumer = PushConsumer(configuration, group, listener, {topic: FilterExpression("*")})
    consumer.startup()
    if not listener.done.wait(300):
        raise RuntimeError(f"{listener.count} of {count} messages came")
    (first_s, first_cpu_s), (last_s, last_cpu_s) = listener.first, listener.last
    consumer.shutdown()
    return count / (last_s - first_s), 1e6 * (last_cpu_s - first_cpu_s) / count


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
