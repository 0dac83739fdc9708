"""librdkafka by confluent-kafka, driven by lines of JSON: see commands.md beside this file. Arguments: the address."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from lines import as_bytes, end_of, headers_of, seen, serve


def code_of(error):
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    return code if code is not None and code > 0 else None  # below 0: the library's own


class Client:
    def __init__(self, address):
        self.base, self.members = {"bootstrap.servers": address, "log_level": 0}, {}
        self.admin = AdminClient(self.base)

    def op_produce(self, command):
        timeout_ms = int(1000 * command.get("timeout_s", 60))
        options = {
            **self.base,
            "batch.size": command.get("batch_bytes", 1_000_000),
            "compression.type": command.get("compression", "none"),
            "enable.idempotence": command.get("idempotent", False) or "transactional_id" in command,
            "message.timeout.ms": timeout_ms,
            "topic.metadata.propagation.max.ms": timeout_ms // 2,
            "linger.ms": 0 if command.get("one_by_one") else 5,
        }
        if "transactional_id" in command:
            options |= {"transactional.id": command["transactional_id"], "transaction.timeout.ms": timeout_ms}
        producer, told = Producer(options), {}
        if "transactional_id" in command:
            producer.init_transactions(timeout_ms / 1000)
            producer.begin_transaction()
        for number, record in enumerate(command["records"]):

            def on_delivery(error, message, number=number):
                told[number] = (error, message)

            place = {} if record.get("partition") is None else {"partition": record["partition"]}
            born = {} if record.get("time_ms") is None else {"timestamp": record["time_ms"]}
            producer.produce(
                command["topic"],
                as_bytes(record.get("value")),
                as_bytes(record.get("key")),
                headers=headers_of(record),
                on_delivery=on_delivery,
                **place,
                **born,
            )
            if command.get("one_by_one"):
                producer.flush()
        if "transactional_id" in command:
            producer.commit_transaction()
        producer.flush()
        for error, _ in told.values():
            if error is not None:
                raise KafkaException(error)
        return [{"partition": told[at][1].partition(), "offset": told[at][1].offset()} for at in range(len(told))]

    def consumer(self, command):
        options = {
            **self.base,
            "group.id": command.get("group", "none"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        if "instance_id" in command:
            options["group.instance.id"] = command["instance_id"]
        if "session_timeout_s" in command:
            session_ms = int(1000 * command["session_timeout_s"])
            options |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": session_ms // 3}
        return Consumer(options)

    @staticmethod
    def place(command, offset=0):
        return TopicPartition(command["topic"], command.get("partition", 0), offset)

    def op_read(self, command):
        consumer, at = self.consumer(command), command["at"]
        try:
            if isinstance(at, dict):
                at = self.offset_at(consumer, command)
                if at is None:
                    return []
            consumer.assign([self.place(command, {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END}.get(at, at))])
            return self.poll(consumer, command)
        finally:
            consumer.close()

    def offset_at(self, consumer, command):
        at, timeout_s = command["at"], command.get("timeout_s", 60)
        if isinstance(at, dict):
            (found,) = consumer.offsets_for_times([self.place(command, at["time_ms"])], timeout_s)
            if found.error is not None:
                raise KafkaException(found.error)
            return None if found.offset == OFFSET_END else found.offset
        earliest, latest = consumer.get_watermark_offsets(self.place(command), timeout_s)
        return {"earliest": earliest, "latest": latest}.get(at, at)

    def op_offset(self, command):
        consumer = self.consumer(command)
        try:
            return self.offset_at(consumer, command)
        finally:
            consumer.close()

    @staticmethod
    def poll(consumer, command):
        end, came = end_of(command), []
        while len(came) < command.get("count", 1) and time.monotonic() < end:
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            came.append(
                seen(
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.headers(),
                    message.timestamp()[1],
                )
            )
        return came

    def op_create(self, command):
        topic = NewTopic(command["topic"], command.get("partitions", 1), 1, config=command.get("configs", {}))
        for done in self.admin.create_topics([topic]).values():
            done.result()

    def op_delete(self, command):
        for done in self.admin.delete_topics([command["topic"]]).values():
            done.result()

    def op_join(self, command):
        consumer = self.consumer(command)
        consumer.subscribe(command["topics"])
        self.members[command["name"]] = consumer

    def op_poll(self, command):
        return self.poll(self.members[command["name"]], command)

    def op_seek(self, command):
        consumer = self.members[command["name"]]
        consumer.seek(self.place(command, self.offset_at(consumer, command)))

    def op_commit(self, command):
        self.members[command["name"]].commit(asynchronous=False)

    def op_close(self, command):
        self.members.pop(command["name"]).close()

    def op_committed(self, command):
        consumer = self.consumer(command)
        try:
            (found,) = consumer.committed([self.place(command)], command.get("timeout_s", 60))
            if found.error is not None:
                raise KafkaException(found.error)
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()


serve(Client(sys.argv[1]), code_of)
