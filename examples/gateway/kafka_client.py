"""A client of Kafka, by kafka-python: a sender, or a member of a consumer group. It prints what is acknowledged, or read.

Arguments: the gateways (host:port,host:port), the topic, and ``send`` with a number of records, or ``read`` with a group.
"""

import signal
import sys

from kafka import KafkaConsumer, KafkaProducer


def send(servers: list[str], topic: str, count: int) -> None:
    """Send records of 50 keys. An append is a PUT, so records wait 50 ms for others, and batches are large."""
    producer = KafkaProducer(bootstrap_servers=servers, linger_ms=50, batch_size=1_000_000, acks="all", retries=100)
    sent = [producer.send(topic, key=b"order-%d" % (number % 50), value=b"%d" % number) for number in range(count)]
    for number, future in enumerate(sent):
        place = future.get(timeout=120)
        print(number, place.partition, place.offset, flush=True)
    producer.close()


def read(servers: list[str], topic: str, group: str) -> None:
    """Read as a member of a group until SIGTERM, and commit."""
    consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        for record in consumer:
            print(int(record.value), record.partition, record.offset, flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    servers, topic, what, value = sys.argv[1:]
    if what == "send":
        send(servers.split(","), topic, int(value))
    else:
        read(servers.split(","), topic, value)
