"""aiokafka, driven by lines of JSON: see commands.md beside this file. Arguments: the address."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import for_code
from lines import as_bytes, compression_of, end_of, headers_of, seen, serve


def code_of(error):
    return getattr(error, "errno", None)


class Client:
    def __init__(self, address):
        self.base, self.members = {"bootstrap_servers": address}, {}

    async def op_produce(self, command):
        timeout_ms = int(1000 * command.get("timeout_s", 60))
        producer = AIOKafkaProducer(
            **self.base,
            max_batch_size=command.get("batch_bytes", 16_384),
            compression_type=compression_of(command),
            enable_idempotence=command.get("idempotent", False),
            transactional_id=command.get("transactional_id"),
            request_timeout_ms=timeout_ms,
        )
        async with asyncio.timeout(timeout_ms / 1000), producer:
            if "transactional_id" in command:
                await producer.begin_transaction()
            sent = []
            for record in command["records"]:
                sent.append(
                    await producer.send(
                        command["topic"],
                        as_bytes(record.get("value")),
                        as_bytes(record.get("key")),
                        record.get("partition"),
                        record.get("time_ms"),
                        headers_of(record),
                    )
                )
                if command.get("one_by_one"):
                    await sent[-1]
            told = await asyncio.gather(*sent)
            if "transactional_id" in command:
                await producer.commit_transaction()
            return [{"partition": one.partition, "offset": one.offset} for one in told]

    def consumer(self, command, *topics):
        options = {"group_instance_id": command["instance_id"]} if "instance_id" in command else {}
        if "session_timeout_s" in command:
            session_ms = int(1000 * command["session_timeout_s"])
            options |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": session_ms // 3}
        return AIOKafkaConsumer(
            *topics,
            **self.base,
            group_id=command.get("group"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **options,
        )

    @staticmethod
    def place(command):
        return TopicPartition(command["topic"], command.get("partition", 0))

    async def op_read(self, command):
        place = self.place(command)
        async with self.consumer(command) as consumer:
            consumer.assign([place])
            start = await self.offset_at(consumer, command)
            if start is None:
                return []
            consumer.seek(place, start)
            return await self.poll(consumer, command)

    async def offset_at(self, consumer, command):
        at, place = command["at"], self.place(command)
        if isinstance(at, dict):
            found = (await consumer.offsets_for_times({place: at["time_ms"]}))[place]
            return None if found is None else found.offset
        if at == "earliest":
            return (await consumer.beginning_offsets([place]))[place]
        if at == "latest":
            return (await consumer.end_offsets([place]))[place]
        return at

    async def op_offset(self, command):
        async with self.consumer(command) as consumer:
            return await self.offset_at(consumer, command)

    @staticmethod
    async def poll(consumer, command):
        end, came, count = end_of(command), [], command.get("count", 1)
        while len(came) < count and time.monotonic() < end:
            for records in (await consumer.getmany(timeout_ms=100, max_records=count - len(came))).values():
                came += [
                    seen(one.topic, one.partition, one.offset, one.key, one.value, one.headers, one.timestamp) for one in records
                ]
        return came

    @asynccontextmanager
    async def admin(self):
        admin = AIOKafkaAdminClient(**self.base)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def op_create(self, command):
        topic = NewTopic(command["topic"], command.get("partitions", 1), 1, topic_configs=command.get("configs", {}))
        async with self.admin() as admin:
            self.check((await admin.create_topics([topic])).topic_errors)

    async def op_delete(self, command):
        async with self.admin() as admin:
            self.check((await admin.delete_topics([command["topic"]])).topic_error_codes)

    @staticmethod
    def check(told):
        for _, code, *text in told:
            if code:
                raise for_code(code)(*text)

    async def op_join(self, command):
        consumer = self.consumer(command, *command["topics"])
        await consumer.start()
        self.members[command["name"]] = consumer

    async def op_poll(self, command):
        return await self.poll(self.members[command["name"]], command)

    async def op_seek(self, command):
        consumer = self.members[command["name"]]
        consumer.seek(self.place(command), await self.offset_at(consumer, command))

    async def op_commit(self, command):
        await self.members[command["name"]].commit()

    async def op_close(self, command):
        await self.members.pop(command["name"]).stop()

    async def op_committed(self, command):
        async with self.consumer(command) as consumer:
            return await consumer.committed(self.place(command))


serve(Client(sys.argv[1]), code_of)
