"""What is authorised is what is acted on: handles and ids of other topics, and clients of other principals, are refused, and nothing happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from penstock.aio import TopicSettings
from penstock.coordinator import CheckedTransaction, TransactionResolution
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.observers.audit import AuditLog
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.observers.calls import AnswerDispatcher
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.handles import check_transaction, recall_of, receipt_of
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.protocol.status import StatusError
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.log import Message, MessageType
from penstock.log.paths import AUDIT_TOPIC
from penstock.log.produce.delays import RecallHandle
from tests.gateway.principals import SIGNED, Caller, caller, consume, message, named, producing, send, signed_gateway
from tests.gateway.raw import receive_request
from tests.gateway.rocketmq.consumers.test_bounds import channel_to
from tests.gateway.stage import ask, gateway

TRANSACTION = TopicSettings(queues=1, message_type=MessageType.TRANSACTION)
DELAY = TopicSettings(queues=1, message_type=MessageType.DELAY)


async def begun(shop: Caller, topic: str = "pay") -> str:
    """The id of a transaction."""
    answer = await shop.ask("SendMessage", message(topic, "A1", message_type=pb.TRANSACTION))
    assert answer.status.code == pb.OK
    return str(answer.entries[0].transaction_id)


def end(topic: str, transaction: str, resolution: pb.TransactionResolution = pb.COMMIT) -> pb.EndTransactionRequest:
    return pb.EndTransactionRequest(topic=named(topic), message_id="A1", transaction_id=transaction, resolution=resolution)


@pytest.mark.parametrize("resolution", [pb.COMMIT, pb.ROLLBACK])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["where it began", "at another gateway"])
async def test_a_transaction_is_not_ended_by_the_right_to_another_topic(
    elsewhere: bool, resolution: pb.TransactionResolution
) -> None:
    async with signed_gateway() as served, Gateway(served.lake, SIGNED) as other:
        await served.lake.create_topic("pay", TRANSACTION)
        await served.lake.create_topic("evilpay", TRANSACTION)
        at = other if elsewhere else served
        async with caller(served, "shop", *send("pay")) as shop, caller(at, "evil", *send("evilpay")) as evil:
            transaction = await begun(shop)
            refused = (await evil.ask("EndTransaction", end("evilpay", transaction, resolution))).status
            assert (refused.code, refused.message) == (
                pb.INVALID_TRANSACTION_ID,
                f"topic evilpay has no transaction {transaction}",
            )
            none = transaction[:-1] + ("0" if transaction[-1] != "0" else "1")
            of_none = (await evil.ask("EndTransaction", end("evilpay", none, resolution))).status
            assert (of_none.code, of_none.message) == (refused.code, refused.message.replace(transaction, none))
            assert (await shop.ask("EndTransaction", end("pay", transaction))).status.code == pb.OK


async def test_a_native_transaction_is_not_ended_by_the_right_to_one_of_its_topics() -> None:
    """Its producer group has the name of one of them, as those of gateways have."""
    async with signed_gateway() as served, caller(served, "shop", *send("pay")) as shop:
        for topic in ("pay", "ledger"):
            await served.lake.create_topic(topic, TRANSACTION)
        transaction = served.lake.transaction(producer_group="pay", checker=lambda _: TransactionResolution.UNKNOWN)
        await transaction.send("pay", Message(b"1"))
        await transaction.send("ledger", Message(b"2"))
        assert transaction.id is not None
        status = (await shop.ask("EndTransaction", end("pay", transaction.id))).status
        assert status.code == pb.INVALID_TRANSACTION_ID
        await transaction.commit()


async def test_a_message_is_not_recalled_by_the_right_to_another_topic() -> None:
    async with signed_gateway() as served:
        await served.lake.create_topic("reminders", DELAY)
        async with caller(served, "shop", *send("reminders")) as shop, caller(served, "evil", *send("orders")) as evil:
            due = datetime.now(UTC) + timedelta(hours=1)
            answer = await shop.ask("SendMessage", message("reminders", "A1", delivery_timestamp=due))
            (handle,) = [entry.recall_handle for entry in answer.entries]
            stolen = pb.RecallMessageRequest(topic=named("orders"), recall_handle=handle)
            refused = (await evil.ask("RecallMessage", stolen)).status
            assert (refused.code, refused.message) == (
                pb.BAD_REQUEST,
                "the recall handle is of topic reminders, and not of orders",
            )
            own = pb.RecallMessageRequest(topic=named("reminders"), recall_handle=handle)
            assert (await shop.ask("RecallMessage", own)).status.code == pb.OK


def settling(group: str, topic: str, handle: str) -> list[tuple[str, Any]]:
    """Every request that names a receipt handle."""
    said: dict[str, Any] = {"group": named(group), "topic": named(topic)}
    change = pb.ChangeInvisibleDurationRequest(**said, receipt_handle=handle)
    change.invisible_duration.FromSeconds(0)
    return [
        ("AckMessage", pb.AckMessageRequest(**said, entries=[pb.AckMessageEntry(receipt_handle=handle)])),
        ("ChangeInvisibleDuration", change),
        ("ForwardMessageToDeadLetterQueue", pb.ForwardMessageToDeadLetterQueueRequest(**said, receipt_handle=handle)),
    ]


async def test_a_delivery_is_not_settled_by_the_right_to_another_group_or_topic() -> None:
    async with signed_gateway() as served:
        await served.lake.create_topic("news", TopicSettings(queues=1))
        for group in ("evils", "audit"):
            await served.lake.create_group(group)
        producer = await served.lake.producer("orders")
        await producer.send(Message(b"paid"))
        grants = [*consume("evils", "news", "orders"), *consume("audit", "news")]
        async with caller(served, "shop", *consume("billing", "orders")) as shop, caller(served, "evil", *grants) as evil:
            frames = await shop.frames("ReceiveMessage", receive_request("billing", "orders"))
            (handle,) = [
                one.message.system_properties.receipt_handle
                for one in map(pb.ReceiveMessageResponse.FromString, frames)
                if one.HasField("message")
            ]
            for group, topic in (("evils", "news"), ("evils", "orders"), ("audit", "news")):
                for rpc, request in settling(group, topic, handle):
                    assert (await evil.ask(rpc, request)).status.code == pb.INVALID_RECEIPT_HANDLE, (rpc, group, topic)
            (ack, *_) = settling("billing", "orders", handle)
            assert (await shop.ask(*ack)).status.code == pb.OK


def test_a_handle_is_compared_before_anybody_is_asked_about_it() -> None:
    handle = ReceiptHandle(group="billing", topic="orders", queue=3, offset=42, generation=0, attempt=2)
    text, recall = handle.encode("00" * 32), RecallHandle("orders", 7, 1, "B2")
    assert receipt_of(text, group="billing", topic="orders") == handle
    assert recall_of(recall.encode(), topic="orders") == recall
    check_transaction("1", "orders", ["orders"], topic="orders")
    refusals: list[tuple[Callable[[], object], int, str]] = [
        (lambda: receipt_of(text, group="billing", topic="news"), pb.INVALID_RECEIPT_HANDLE, "is of topic orders, and not of news"),
        (
            lambda: receipt_of(text, group="audit", topic="orders"),
            pb.INVALID_RECEIPT_HANDLE,
            "is of consumer group billing, and not",
        ),
        (lambda: receipt_of("", group="billing", topic="orders"), pb.INVALID_RECEIPT_HANDLE, "not a receipt handle"),
        (lambda: recall_of(recall.encode(), topic="news"), pb.BAD_REQUEST, "is of topic orders, and not of news"),
        (lambda: recall_of("", topic="orders"), pb.BAD_REQUEST, "recall handle is blank"),
        (lambda: recall_of("?", topic="orders"), pb.BAD_REQUEST, "no recall handle"),
        (lambda: check_transaction("1", "orders", ["news"], topic="orders"), pb.INVALID_TRANSACTION_ID, "no transaction 1"),
        (lambda: check_transaction("1", "news", ["orders"], topic="orders"), pb.INVALID_TRANSACTION_ID, "no transaction 1"),
    ]
    for refused, code, words in refusals:
        with pytest.raises(StatusError, match=words) as found:
            refused()
        assert found.value.code == code


# --- A client's id is not its identity -----------------------------------------------------------------------------------------


async def test_a_client_is_not_ended_by_another_principal_that_states_its_id() -> None:
    async with signed_gateway() as served:
        producer = await served.lake.producer("orders")
        await producer.send(Message(b"paid"))
        async with caller(served, "shop", *consume("billing", "orders")) as shop, caller(served, "evil") as evil:
            frames = await shop.frames("ReceiveMessage", receive_request("billing", "orders", attempt_id="one"))
            assert len(frames) == 3
            deliveries = served.consumers.deliveries
            assert (len(deliveries), len(served.clients)) == (1, 1)
            assert (await evil.ask("NotifyClientTermination", pb.NotifyClientTerminationRequest())).status.code == pb.OK
            assert (len(deliveries), len(served.clients)) == (1, 1), "what it handles stays its own"
            assert (await shop.ask("NotifyClientTermination", pb.NotifyClientTerminationRequest())).status.code == pb.OK
            assert (len(deliveries), len(served.clients)) == (0, 0)


async def test_what_is_out_to_a_client_is_not_found_by_another_principal_that_states_its_id() -> None:
    """At another gateway, which reads in the cells who has what."""
    async with signed_gateway() as served, Gateway(served.lake, SIGNED) as other:
        producer = await served.lake.producer("orders")
        await producer.send(Message(b"paid"))
        shop_s, evil_s = consume("billing", "orders"), consume("billing", "orders")
        async with (
            caller(served, "shop", *shop_s) as shop,
            caller(other, "evil", *evil_s) as evil,
            caller(other, "shop") as moved,
        ):
            await shop.frames("ReceiveMessage", receive_request("billing", "orders", attempt_id="one"))
            await evil.frames("ReceiveMessage", receive_request("billing", "orders", attempt_id="two", poll_s=0.1))
            assert len(other.consumers.deliveries) == 0
            await moved.frames("ReceiveMessage", receive_request("billing", "orders", attempt_id="three", poll_s=0.1))
            assert len(other.consumers.deliveries) == 1


async def checked(served: Gateway, transaction: str) -> CheckedTransaction:
    """What the role that asks senders gives to a gateway."""
    group, _ = await served.lake.transactions.find(transaction)
    messages = tuple(await served.lake.transactions.messages(transaction))
    return CheckedTransaction(transaction, group, datetime.now(UTC), 1, messages)


async def test_a_stream_under_another_principal_s_client_id_is_not_asked_about_its_transactions() -> None:
    async with signed_gateway() as served:
        await served.lake.create_topic("pay", TRANSACTION)
        async with caller(served, "shop", *send("pay")) as shop, caller(served, "evil", *send("orders")) as evil:
            owner = await shop.announced(producing("pay"))
            stolen = await evil.announced(producing("orders"))
            transaction = await begun(shop)
            await served.transactions._ask(await checked(served, transaction))
            asked = pb.TelemetryCommand.FromString(await owner.read()).recover_orphaned_transaction_command
            assert (asked.transaction_id, asked.message.body) == (transaction, b"a secret")
            await stolen.done_writing()
            assert await stolen.read() is grpc.aio.EOF, "nothing was written to it"


async def test_a_stream_is_asked_about_what_it_announced_last_and_no_more() -> None:
    """Its right to the rest may have ended since, and is not looked at any more."""
    async with signed_gateway() as served:
        await served.lake.create_topic("pay", TRANSACTION)
        async with caller(served, "shop", *send("pay"), *consume("billing", "orders")) as shop:
            stream = await shop.announced(producing("pay"))
            assert len(served.clients.producers_of("pay")) == 1
            consumer = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription(group=named("billing")))
            await stream.write(pb.TelemetryCommand(settings=consumer).SerializeToString())
            await stream.read()
            assert served.clients.producers_of("pay") == []


async def test_what_a_native_group_sends_to_other_topics_is_shown_to_nobody_here() -> None:
    async with signed_gateway() as served, caller(served, "shop", *send("pay")) as shop:
        for topic in ("pay", "ledger"):
            await served.lake.create_topic(topic, TRANSACTION)
        stream = await shop.announced(producing("pay"))
        transaction = served.lake.transaction(producer_group="pay", checker=lambda _: TransactionResolution.UNKNOWN)
        await transaction.send("ledger", Message(b"of the ledger"))
        assert transaction.id is not None
        await served.transactions._ask(await checked(served, transaction.id))
        await transaction.rollback()
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


def test_a_check_back_passes_over_a_principal_that_was_removed(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with signed_gateway() as served:
            await served.lake.create_topic("pay", TRANSACTION)
            async with (
                caller(served, "shop", *send("pay")) as shop,
                caller(served, "gone", *send("pay")) as gone,
            ):
                streams = [await gone.announced(producing("pay")), await shop.announced(producing("pay"))]
                transaction = await begun(shop)
                await served.lake.coordination.access.remove("gone")
                assert served.authorizer is not None
                served.authorizer.principals.cache._read_s = None  # some seconds later
                question = await checked(served, transaction)
                for _ in range(2):  # each is first once
                    await served.transactions._ask(question)
                    asked = pb.TelemetryCommand.FromString(await streams[1].read())
                    assert asked.recover_orphaned_transaction_command.transaction_id == transaction

    with caplog.at_level("INFO", logger="penstock.gateway"):
        asyncio.run(main())
    assert "is not asked about transaction" in caplog.text
    assert not [one for one in caplog.records if one.exc_info]


# --- The record of who did what ---------------------------------------------------------------------------------------------------


async def test_the_audit_topic_is_not_written_by_who_may_send_to_any_topic() -> None:
    async with signed_gateway() as served, gateway() as open_to_all, channel_to(open_to_all) as stranger:
        for lake in (served.lake, open_to_all.lake):
            await lake.create_topic(AUDIT_TOPIC, TopicSettings(queues=1))
        async with caller(served, "shop", *send("*")) as shop:
            assert (await shop.ask("SendMessage", message("orders", "A1"))).status.code == pb.OK
            assert (await shop.ask("SendMessage", message(AUDIT_TOPIC, "A1"))).status.code == pb.FORBIDDEN
        assert (await ask(stranger, "SendMessage", message(AUDIT_TOPIC, "A1"))).status.code == pb.FORBIDDEN


def test_the_audit_log_names_what_was_acted_on(caplog: pytest.LogCaptureFixture) -> None:
    audit = AnswerDispatcher([AuditLog(every=True)])
    secret = "00" * 32
    handle = ReceiptHandle(group="billing", topic="orders", queue=3, offset=42, generation=0, attempt=2).encode(secret)
    recall = RecallHandle("reminders", 7, 1, "B2").encode()
    with caplog.at_level("INFO", logger="penstock.gateway.audit"):
        for rpc, request in [
            ("SendMessage", message("orders", "A1")),
            ("EndTransaction", end("pay", "0" * 32)),
            ("RecallMessage", pb.RecallMessageRequest(topic=named("reminders"), recall_handle=recall)),
            *settling("billing", "orders", handle),
            *settling("billing", "orders", "x" * 500),
        ]:
            audit.on_answer(RpcCall(rpc, CallMetadata(), "peer", principal="shop"), request, pb.OK, 0.001, 10)
    where = "orders, queue 3, offset 42, attempt 2"
    assert [one.message for one in caplog.records] == [
        "shop SendMessage orders A1: OK",
        f"shop EndTransaction pay {'0' * 32} A1: OK",
        "shop RecallMessage reminders B2: OK",
        *(f"shop {rpc} billing orders {where}: OK" for rpc in SETTLING),
        *(f"shop {rpc} billing orders {'x' * 128}: OK" for rpc in SETTLING),
    ]
    assert getattr(caplog.records[0], "fields", {})["ids"] == ["A1"]


SETTLING = ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue")
