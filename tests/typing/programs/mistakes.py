"""A newcomer's mistakes: mypy and pyright find fault with each line that is marked so, and with no other."""

from __future__ import annotations

import penstock
from penstock import BatchResult, ConsumeResult, Message, MessageView

SUCCESS = ConsumeResult.SUCCESS


def returns_none(message: MessageView) -> None:
    print(message.body)


async def awaits_and_returns_none(message: MessageView) -> None:
    print(message.body)


def returns_whether(message: MessageView) -> bool:
    return message.body is not None


def takes_a_text(body: str) -> ConsumeResult:
    return SUCCESS if body else ConsumeResult.FAILURE


def takes_two(message: MessageView, lake: penstock.Lake) -> ConsumeResult:
    return SUCCESS if lake.url else returns_list([message])


def takes_one(message: MessageView) -> ConsumeResult:
    return SUCCESS if message.body else ConsumeResult.FAILURE


def answers_of_a_list(message: MessageView) -> BatchResult:
    return BatchResult(len(message.keys))


def returns_list(messages: list[MessageView]) -> ConsumeResult:
    return SUCCESS if messages else ConsumeResult.FAILURE


def returns_a_number(messages: list[MessageView]) -> int:
    return len(messages)


def listeners(lake: penstock.Lake) -> None:
    lake.push_consumer("orders", group="g", listener=returns_none)  # wrong
    lake.push_consumer("orders", group="g", listener=awaits_and_returns_none)  # wrong
    lake.push_consumer("orders", group="g", listener=returns_whether)  # wrong
    lake.push_consumer("orders", group="g", listener=takes_a_text)  # wrong
    lake.push_consumer("orders", group="g", listener=takes_two)  # wrong
    lake.push_consumer("orders", group="g", listener=answers_of_a_list)  # wrong
    lake.push_consumer("orders", group="g", listener=returns_list)  # wrong
    lake.push_consumer("orders", group="g", listener=lambda message: print(message.body))  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one(next(lake.reader("orders").messages())))  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, batch="group")  # wrong
    lake.push_consumer("orders", group="g", listener=returns_none, batch="queue")  # wrong
    lake.push_consumer("orders", group="g", listener=returns_a_number, batch="queue")  # wrong
    lake.broadcast_consumer("orders", group="g", member="one", listener=returns_none)  # wrong
    lake.broadcast_consumer("orders", group="g", member="one", listener=takes_a_text)  # wrong
    lake.broadcast_consumer("orders", group="g", member="one", listener=returns_list)  # wrong


async def listeners_on_an_event_loop(lake: penstock.aio.Lake) -> None:
    await lake.push_consumer("orders", group="g", listener=returns_none)  # wrong
    await lake.push_consumer("orders", group="g", listener=awaits_and_returns_none)  # wrong
    await lake.push_consumer("orders", group="g", listener=takes_a_text)  # wrong
    await lake.push_consumer("orders", group="g", listener=returns_list)  # wrong
    await lake.push_consumer("orders", group="g", listener=takes_one, batch="group")  # wrong
    await lake.broadcast_consumer("orders", group="g", member="one", listener=awaits_and_returns_none)  # wrong


def words(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_type="FIFFO")  # wrong
    lake.create_topic("orders", routing="xxhash")  # wrong
    lake.create_group("g", delivery_order="FIFO")  # wrong
    lake.create_group("g", dead_letter_policy="stop")  # wrong
    lake.alter_group("g", dead_letter_policy="stop")  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, delivery_order="FIFO")  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, dead_letter_policy="stop")  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, start="newest")  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, on_expired="ignore")  # wrong
    lake.push_consumer("orders", group="g", listener=returns_list, batch="groups")  # wrong
    lake.simple_consumer("orders", group="g", delivery_order="FIFO")  # wrong
    lake.simple_consumer("orders", group="g", dead_letter_policy="stop")  # wrong
    lake.pull_consumer("orders", group="g", start="newest")  # wrong
    lake.reset_offsets("g", "orders", "newest")  # wrong
    lake.producer("orders", on_full="wait")  # wrong
    lake.reader("orders").to_arrow(damaged="ignore")  # wrong
    lake.reader("orders").to_pandas(damaged="ignore")  # wrong
    penstock.RetryPolicy(schedule="linear")  # wrong
    penstock.GroupSettings(delivery_order="FIFO")  # wrong
    penstock.aio.TopicSettings(message_type="FIFFO")  # wrong
    penstock.SyncOptions(into="./tables", policy="skip")  # wrong


def of_a_file(text: str) -> penstock.DeliveryOrderLike:
    return text  # wrong


def checkers(lake: penstock.Lake) -> None:
    lake.check_transactions("shop", lambda transaction: print(transaction.id))  # wrong
    lake.check_transactions("shop", lambda transaction: transaction.checks > 3)  # wrong
    lake.transaction(producer_group="shop", checker=takes_one)  # wrong


def names_and_values(lake: penstock.Lake) -> None:
    lake.create_topic("orders", message_typ="FIFO")  # wrong
    lake.create_topic("orders", retention="3 days")  # wrong
    lake.create_topic("orders", queues="8")  # wrong
    lake.alter_topic("orders", queues="8")  # wrong
    lake.alter_topic("orders", routing="murmur2")  # wrong
    lake.alter_topic("orders", retention="3 days")  # wrong
    lake.alter_group("g", retries=3)  # wrong
    lake.alter_group("g", max_attempts="3")  # wrong
    lake.push_consumer("orders", group="g")  # wrong
    lake.push_consumer("orders", listener=takes_one)  # wrong
    lake.push_consumer("orders", group="g", listener=takes_one, consume_timeout="15 min")  # wrong
    penstock.RetryAfter("10 s")  # wrong
    penstock.RetryPolicy(interval="1 s")  # wrong
    Message("paid")  # wrong
    Message(b"paid", message_group=7)  # wrong
    Message(b"paid", properties={"amount": 10})  # wrong
    Message(b"paid", delay="5 s")  # wrong
    Message(b"paid", keys="order-7")  # wrong
    Message(b"paid", keys={"order-7"})  # wrong
    Message.json({}, keys="order-7")  # wrong
    lake.producer("orders").send_row({}, keys="order-7")  # wrong
    lake.producer("orders").send_batch(7)  # wrong
    lake.producer("orders").send(b"paid")  # wrong
    lake.simple_consumer("orders", group="g").ack(lake.simple_consumer("orders", group="g").receive())  # wrong
    lake.simple_consumer(["orders", "payments"], group="g")  # wrong
    lake.reader("orders").to_polars(column=["body"])  # wrong
    lake.create_topic("orders", schema=7)  # wrong
    lake.evolve_topic("orders", "id bigint", retire="amount")  # wrong
    lake.redrive("g", where=lambda letter: letter.tag)  # wrong
    penstock.SyncOptions(into="./tables", tables="shop.*")  # wrong
    penstock.SyncOptions(into="./tables", keys={"orders": "id"})  # wrong
    penstock.TableOptions(without_columns="secret")  # wrong


async def forgotten_await(lake: penstock.aio.Lake) -> None:
    lake.create_group("g")  # wrong
    lake.reader("orders").messages()  # wrong
    lake.create_topic("orders", penstock.aio.TopicSettings())  # wrong
