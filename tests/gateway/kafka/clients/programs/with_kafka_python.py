"""kafka-python, driven by lines of JSON: see commands.md beside this file. Arguments: the address."""

import sys
import time

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from lines import as_bytes, compression_of, end_of, headers_of, seen, serve


def code_of(error):
    return getattr(error, "errno", None)


class Client:
    def __init__(self, address):
        self.base, self.members = {"bootstrap_servers": address}, {}

    def op_produce(self, command):
        timeout_ms = int(1000 * command.get("timeout_s", 60))
        producer = KafkaProducer(
            **self.base,
            batch_size=command.get("batch_bytes", 16_384),
            compression_type=compression_of(command),
            enable_idempotence=command.get("idempotent", False) or "transactional_id" in command,
            transactional_id=command.get("transactional_id"),
            allow_auto_create_topics=command.get("create_topics", False),
            max_block_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            request_timeout_ms=min(timeout_ms, 30_000),
        )
        try:
            if "transactional_id" in command:
                producer.init_transactions()
                producer.begin_transaction()
            sent = []
            for record in command["records"]:
                sent.append(
                    producer.send(
                        command["topic"],
                        as_bytes(record.get("value")),
                        as_bytes(record.get("key")),
                        headers_of(record),
                        record.get("partition"),
                        record.get("time_ms"),
                    )
                )
                if command.get("one_by_one"):
                    sent[-1].get()
            told = [one.get() for one in sent]
            if "transactional_id" in command:
                producer.commit_transaction()
            return [{"partition": one.partition, "offset": one.offset} for one in told]
        finally:
            producer.close()

    def consumer(self, command):
        options = {"group_instance_id": command["instance_id"]} if "instance_id" in command else {}
        if "session_timeout_s" in command:
            session_ms = int(1000 * command["session_timeout_s"])
            options |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": session_ms // 3}
        return KafkaConsumer(
            **self.base, group_id=command.get("group"), enable_auto_commit=False, auto_offset_reset="earliest", **options
        )

    @staticmethod
    def place(command):
        return TopicPartition(command["topic"], command.get("partition", 0))

    def op_read(self, command):
        consumer, place = self.consumer(command), self.place(command)
        try:
            consumer.assign([place])
            start = self.offset_at(consumer, command)
            if start is None:
                return []
            consumer.seek(place, start)
            return self.poll(consumer, command)
        finally:
            consumer.close()

    def offset_at(self, consumer, command):
        at, place = command["at"], self.place(command)
        if isinstance(at, dict):
            found = consumer.offsets_for_times({place: at["time_ms"]})[place]
            return None if found is None else found.offset
        if at == "earliest":
            return consumer.beginning_offsets([place])[place]
        if at == "latest":
            return consumer.end_offsets([place])[place]
        return at

    def op_offset(self, command):
        consumer = self.consumer(command)
        try:
            return self.offset_at(consumer, command)
        finally:
            consumer.close()

    @staticmethod
    def poll(consumer, command):
        end, came, count = end_of(command), [], command.get("count", 1)
        while len(came) < count and time.monotonic() < end:
            for records in consumer.poll(100, max_records=count - len(came)).values():
                came += [
                    seen(one.topic, one.partition, one.offset, one.key, one.value, one.headers, one.timestamp) for one in records
                ]
        return came

    def op_create(self, command):
        admin = KafkaAdminClient(**self.base)
        topic = {"num_partitions": command.get("partitions", 1), "replication_factor": 1, "configs": command.get("configs", {})}
        try:
            admin.create_topics({command["topic"]: topic})
        finally:
            admin.close()

    def op_delete(self, command):
        admin = KafkaAdminClient(**self.base)
        try:
            admin.delete_topics([command["topic"]])
        finally:
            admin.close()

    def op_join(self, command):
        consumer = self.consumer(command)
        consumer.subscribe(command["topics"])
        self.members[command["name"]] = consumer

    def op_poll(self, command):
        return self.poll(self.members[command["name"]], command)

    def op_seek(self, command):
        consumer = self.members[command["name"]]
        consumer.seek(self.place(command), self.offset_at(consumer, command))

    def op_commit(self, command):
        self.members[command["name"]].commit()

    def op_close(self, command):
        self.members.pop(command["name"]).close()

    def op_committed(self, command):
        consumer = self.consumer(command)
        try:
            return consumer.committed(self.place(command))
        finally:
            consumer.close()


serve(Client(sys.argv[1]), code_of)
