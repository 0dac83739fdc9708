"""The gateway in this process, asked by plain gRPC calls: what it answers, whatever comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest

from penstock.aio import Lake, connect
from penstock.coordinator import GroupSettings
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.log import MessageType, TopicSettings
from penstock.log.schema.topic_schema import schema_of_source
from penstock.log.stores import MemoryStore

ID = "01A2B3C4D5E6F708090A0B0C0D0E0F1011"
TOPICS = {one.value.lower(): TopicSettings(message_type=one, queues=2) for one in MessageType}
METHODS = pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name


class Client:
    """Calls of one client."""

    def __init__(self, channel: grpc.aio.Channel, client_id: str = "client-1") -> None:
        self.channel = channel
        self.metadata = (("x-mq-client-id", client_id), ("x-mq-language", "JAVA"), ("x-mq-request-id", "r-1"))

    async def raw(self, path: str, data: bytes, *, known: bool = True) -> bytes:
        method: Any = self.channel.unary_unary(path)
        answer: bytes = await method(data, metadata=self.metadata if known else ())
        return answer

    async def call(self, name: str, request: Any, *, known: bool = True) -> Any:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        answer = await self.raw(f"/apache.rocketmq.v2.MessagingService/{name}", data, known=known)
        return getattr(pb, METHODS[name].output_type.name).FromString(answer)

    async def send(self, topic: str, body: bytes = b"paid", **system: Any) -> Any:
        return await self.call("SendMessage", pb.SendMessageRequest(messages=[message(topic, body, **system)]))


def message(topic: str, body: bytes = b"paid", **system: Any) -> pb.Message:
    properties = pb.SystemProperties(**{"message_id": ID, **system})
    return pb.Message(topic=pb.Resource(name=topic), body=body, system_properties=properties)


@asynccontextmanager
async def serving(store: MemoryStore, **options: Any) -> AsyncIterator[tuple[Lake, Client]]:
    async with connect(store=store, maintenance=False) as lake:
        for topic, settings in TOPICS.items():
            await lake.create_topic(topic, settings)
        async with (
            Gateway(lake, RocketMQOptions(port=0, **options)) as gateway,
            grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
        ):
            yield lake, Client(channel)


def play(body: Callable[[Lake, Client], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with serving(MemoryStore(), **options) as (lake, client):
            await body(lake, client)

    asyncio.run(run())


async def stored(lake: Lake, topic: str) -> list[Any]:
    return [one async for one in (await lake.reader(topic)).messages()]


def test_a_message_is_stored_under_its_id_and_told_so() -> None:
    async def body(lake: Lake, client: Client) -> None:
        answer = await client.send("fifo", message_group="g", tag="t", trace_context="00-1")
        assert answer.status.code == pb.OK
        (entry,) = answer.entries
        assert (entry.status.code, entry.message_id, entry.transaction_id, entry.offset) == (pb.OK, ID, ID, 0)
        (found,) = await stored(lake, "fifo")
        assert (found.message_id, found.body, found.message_group, found.tag) == (ID, b"paid", "g", "t")
        assert found.headers == (("rocketmq.trace_context", b"00-1"),)
        assert (await client.send("fifo", message_group="g")).entries[0].offset == 1

    play(body)


def test_refusals_are_statuses_and_every_answer_has_one() -> None:
    async def body(lake: Lake, client: Client) -> None:
        assert (await client.send("nosuch")).status.code == pb.TOPIC_NOT_FOUND
        assert (await client.send("a b")).status.code == pb.ILLEGAL_TOPIC
        assert (await client.send("t" * 128)).status.message == "The specified topic is longer than topic max length 127."
        assert (await client.send("normal", message_group="g")).status.code == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        assert (await client.send("normal", b"")).status.code == pb.MESSAGE_BODY_EMPTY
        assert (await client.call("SendMessage", pb.SendMessageRequest())).status.code == pb.BAD_REQUEST
        assert (await client.call("SendMessage", b"\xff\xff")).status.code == pb.BAD_REQUEST
        unnamed = await client.call("SendMessage", pb.SendMessageRequest(messages=[message("normal")]), known=False)
        assert unnamed.status.code == pb.CLIENT_ID_REQUIRED
        assert not await stored(lake, "normal")

    play(body)


def test_a_request_that_is_too_large_is_refused_before_it_is_decoded() -> None:
    async def body(lake: Lake, client: Client) -> None:
        answer = await client.call("SendMessage", b"\xff" * 2000)
        assert answer.status.code == pb.PAYLOAD_TOO_LARGE

    play(body, request_bytes_max=1000)


def test_rpcs_that_are_not_served_have_a_status_too() -> None:
    async def body(lake: Lake, client: Client) -> None:
        answer = await client.raw("/apache.rocketmq.v2.MessagingService/SyncLiteSubscription", b"")
        assert pb.HeartbeatResponse.FromString(answer).status.code == pb.NOT_IMPLEMENTED
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await client.raw("/other.Service/Call", b"")
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED

    play(body)


def test_one_bad_row_beside_good_ones_is_refused_alone() -> None:
    async def body(lake: Lake, client: Client) -> None:
        await lake.create_topic("typed", TopicSettings(queues=1, schema=schema_of_source("n INT NOT NULL")))
        bodies = [b'{"n": 1}', b'{"n": "many"}', b"no JSON", b'{"n": 2}']
        request = pb.SendMessageRequest(messages=[message("typed", one, message_id=f"m{at}") for at, one in enumerate(bodies)])
        answer = await client.call("SendMessage", request)
        assert answer.status.code == pb.MULTIPLE_RESULTS
        assert [one.status.code for one in answer.entries] == [pb.OK, pb.BAD_REQUEST, pb.BAD_REQUEST, pb.OK]
        assert "many" in answer.entries[1].status.message
        assert [json.loads(one.content) for one in await stored(lake, "typed")] == [{"n": 1}, {"n": 2}]

    play(body)


def test_a_delayed_message_is_called_back_by_its_handle() -> None:
    async def body(lake: Lake, client: Client) -> None:
        sent = message("delay")
        sent.system_properties.delivery_timestamp.FromMilliseconds(lake.runtime.clock.wall_ms() + 3_600_000)
        (entry,) = (await client.call("SendMessage", pb.SendMessageRequest(messages=[sent]))).entries
        recall = pb.RecallMessageRequest(topic=pb.Resource(name="delay"), recall_handle=entry.recall_handle)
        answer = await client.call("RecallMessage", recall)
        assert (answer.status.code, answer.message_id) == (pb.OK, ID)
        assert (await client.call("RecallMessage", recall)).status.code == pb.BAD_REQUEST, "it was recalled before"
        recall.recall_handle = "nonsense"
        assert (await client.call("RecallMessage", recall)).status.code == pb.BAD_REQUEST

    play(body)


def end(transaction: str, resolution: pb.TransactionResolution) -> pb.EndTransactionRequest:
    return pb.EndTransactionRequest(
        topic=pb.Resource(name="transaction"), message_id=ID, transaction_id=transaction, resolution=resolution
    )


async def begun(client: Client, body: bytes = b"paid") -> str:
    (entry,) = (await client.send("transaction", body, message_type=pb.TRANSACTION)).entries
    assert entry.status.code == pb.OK
    transaction: str = entry.transaction_id
    return transaction


def test_transactions_are_ended_as_their_sender_says() -> None:
    async def body(lake: Lake, client: Client) -> None:
        kept, dropped = await begun(client, b"kept"), await begun(client, b"dropped")
        assert not await stored(lake, "transaction")
        assert (await client.call("EndTransaction", end(kept, pb.COMMIT))).status.code == pb.OK
        assert (await client.call("EndTransaction", end(kept, pb.COMMIT))).status.code == pb.OK, "an answer may have been lost"
        assert (await client.call("EndTransaction", end(dropped, pb.ROLLBACK))).status.code == pb.OK
        assert (await client.call("EndTransaction", end(dropped, pb.COMMIT))).status.code == pb.INVALID_TRANSACTION_ID
        assert (await client.call("EndTransaction", end("nonsense", pb.COMMIT))).status.code == pb.INVALID_TRANSACTION_ID
        assert (await client.call("EndTransaction", end("", pb.COMMIT))).status.code == pb.INVALID_TRANSACTION_ID
        assert [(one.body, one.message_id) for one in await stored(lake, "transaction")] == [(b"kept", ID)]

    play(body)


async def test_another_gateway_ends_a_transaction_that_it_did_not_begin() -> None:
    store = MemoryStore()
    async with serving(store) as (_, one), serving(store) as (lake, other):
        begun_there = await begun(one)
        assert (await other.call("EndTransaction", end(begun_there, pb.COMMIT))).status.code == pb.OK
        assert [found.body for found in await stored(lake, "transaction")] == [b"paid"]
        assert (await one.call("EndTransaction", end(begun_there, pb.COMMIT))).status.code == pb.OK


def announced(*topics: str, group: str | None = None) -> pb.TelemetryCommand:
    settings = pb.Settings(client_type=pb.PRODUCER if group is None else pb.PUSH_CONSUMER)
    if group is None:
        settings.publishing.topics.extend(pb.Resource(name=one) for one in topics)
    else:
        settings.subscription.group.name = group
    return pb.TelemetryCommand(settings=settings)


class Stream:
    """A telemetry stream."""

    def __init__(self, client: Client) -> None:
        method: Any = client.channel.stream_stream("/apache.rocketmq.v2.MessagingService/Telemetry")
        self._call = method(metadata=client.metadata)

    async def ask(self, command: pb.TelemetryCommand) -> pb.TelemetryCommand:
        await self._call.write(command.SerializeToString())
        return await self.read()

    async def read(self) -> pb.TelemetryCommand:
        return pb.TelemetryCommand.FromString(await self._call.read())

    async def end(self) -> None:
        await self._call.done_writing()
        assert await self._call.read() is grpc.aio.EOF


def test_settings_are_answered_with_a_status_and_by_the_groups_record() -> None:
    async def body(lake: Lake, client: Client) -> None:
        await lake.create_group("billing", delivery_order="CONCURRENT")
        stream = Stream(client)
        answer = await stream.ask(announced("normal"))
        assert (answer.status.code, answer.settings.publishing.max_body_size) == (pb.OK, 4 * 1024 * 1024)
        answer = await stream.ask(announced(group="billing"))
        assert (answer.status.code, answer.settings.subscription.fifo) == (pb.OK, False)
        answer = await stream.ask(announced(group="nosuch"))
        assert (answer.status.code, answer.settings.subscription.fifo) == (pb.CONSUMER_GROUP_NOT_FOUND, True)
        await stream.end()

    play(body)


def test_groups_and_topics_are_made_only_where_that_is_wanted() -> None:
    async def body(lake: Lake, client: Client) -> None:
        answer = await Stream(client).ask(announced(group="billing"))
        assert (answer.status.code, answer.settings.subscription.fifo) == (pb.OK, False)
        assert (await lake.groups())["billing"] == GroupSettings.of("CONCURRENT")
        assert (await client.send("fresh")).status.code == pb.OK
        assert (await stored(lake, "fresh"))[0].body == b"paid"

    play(body, create_groups="CONCURRENT", create_topics=True)


def test_a_client_that_says_neither_what_it_sends_nor_consumes_is_refused_by_its_stream() -> None:
    async def body(lake: Lake, client: Client) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await Stream(client).ask(pb.TelemetryCommand(settings=pb.Settings()))
        assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    play(body)


@pytest.mark.slow
def test_the_sender_of_an_open_transaction_is_asked_by_its_stream() -> None:
    async def body(lake: Lake, client: Client) -> None:
        stream = Stream(client)
        await stream.ask(announced("transaction"))
        left = await begun(client)
        asked = (await stream.read()).recover_orphaned_transaction_command
        assert (asked.transaction_id, asked.message.body) == (left, b"paid")
        assert asked.message.system_properties.message_id == ID
        assert asked.message.system_properties.body_encoding == pb.IDENTITY
        assert (await client.call("EndTransaction", end(left, pb.COMMIT))).status.code == pb.OK
        assert [one.body for one in await stored(lake, "transaction")] == [b"paid"]
        await stream.end()

    play(body, first_check=timedelta(milliseconds=1))


async def test_a_gateway_that_ends_ends_its_streams_and_lets_calls_under_way_end() -> None:
    async with connect(store=MemoryStore(), maintenance=False) as lake:
        await lake.create_topic("normal", TOPICS["normal"])
        gateway = Gateway(lake, RocketMQOptions(port=0, drain=timedelta(hours=1)))
        await gateway.start()
        there = asyncio.Event()
        gateway.calls.on_call = lambda call: there.set()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel:
            client = Client(channel)
            stream = Stream(client)
            await stream.ask(announced("normal"))
            there.clear()
            sending = asyncio.ensure_future(client.send("normal"))
            await there.wait()
            async with asyncio.timeout(60):
                await gateway.stop()
            assert (await sending).status.code == pb.OK
            await stream.end()
            with pytest.raises(grpc.aio.AioRpcError):
                await client.send("normal")


def test_routes_and_assignments_lead_back_where_the_client_came_from() -> None:
    async def body(lake: Lake, client: Client) -> None:
        await lake.create_group("billing")
        asked = pb.Endpoints(scheme=pb.IPv4, addresses=[pb.Address(host="127.0.0.1", port=9)])
        topic = pb.Resource(name="fifo")
        route = await client.call("QueryRoute", pb.QueryRouteRequest(topic=topic, endpoints=asked))
        assert [(one.id, one.broker.endpoints) for one in route.message_queues] == [(0, asked), (1, asked)]
        request = pb.QueryAssignmentRequest(topic=topic, group=pb.Resource(name="billing"), endpoints=asked)
        (assigned,) = (await client.call("QueryAssignment", request)).assignments
        assert (assigned.message_queue.id, assigned.message_queue.broker.endpoints) == (-1, asked)
        request.group.name = "nosuch"
        assert (await client.call("QueryAssignment", request)).status.code == pb.CONSUMER_GROUP_NOT_FOUND
        missing = await client.call("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="nosuch")))
        assert missing.status.code == pb.TOPIC_NOT_FOUND

    play(body)


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "::1")])
async def test_a_gateway_at_all_addresses_tells_clients_the_one_that_it_is_given(host: str, address: str) -> None:
    options = RocketMQOptions(host=host, address=address, port=0)
    async with (
        connect(store=MemoryStore(), maintenance=False) as lake,
        Gateway(lake, options) as gateway,
        grpc.aio.insecure_channel(f"localhost:{gateway.port}") as channel,
    ):
        await lake.create_topic("normal", TOPICS["normal"])
        request = pb.QueryRouteRequest(topic=pb.Resource(name="normal"))
        (queue, _) = (await Client(channel).call("QueryRoute", request)).message_queues
        (told,) = queue.broker.endpoints.addresses
        assert (told.host, told.port) == (address, gateway.port)


async def test_health_tells_readiness_and_liveness_apart() -> None:
    async with (
        connect(store=MemoryStore(), maintenance=False) as lake,
        Gateway(lake, RocketMQOptions(port=0)) as gateway,
        grpc.aio.insecure_channel(f"127.0.0.1:{gateway.port}") as channel,
    ):
        client = Client(channel)
        check = "/grpc.health.v1.Health/Check"
        assert await client.raw(check, b"") == b"\x08\x01"
        gateway.server.health.is_ready = False
        assert await client.raw(check, b"") == b"\x08\x02"
        assert await client.raw(check, b"\x0a\x08liveness") == b"\x08\x01"
