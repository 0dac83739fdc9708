"""Unmodified SDKs of RocketMQ consume from Penstock: each test is played by every SDK that is there, at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.programs import ProgramError
from tests.gateway.sdk import PUSHING, RUST, Sdk
from tests.gateway.sdk import sdk as program
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]

INVALID_RECEIPT_HANDLE = 40013
ILLEGAL_INVISIBLE_TIME = 40011
ILLEGAL_FILTER_EXPRESSION = 40010


@pytest.fixture(scope="module")
def served(lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with gateway(lake.url, tmp_path_factory.mktemp("gateway"), in_a_hurry=True) as running:
        yield running


def together(sdks: list[Sdk], play: Callable[[Sdk], None]) -> None:
    """Let every SDK play at the same time: most of it is waiting."""
    with ThreadPoolExecutor(len(sdks)) as pool:
        for one in [pool.submit(play, sdk) for sdk in sdks]:
            one.result()


def named(name: str, sdk: Sdk) -> str:
    return f"{name}-{sdk.language}"


def made(
    lake: penstock.Lake, name: str, *, order: penstock.DeliveryOrderLike = "ORDERLY", queues: int = 1, **settings: Any
) -> None:
    lake.create_topic(name, message_type="FIFO" if order == "ORDERLY" else "NORMAL", queues=queues)
    lake.create_group(name, delivery_order=order, **settings)


def sent(lake: penstock.Lake, topic: str, *bodies: str, **others: Any) -> None:
    """Messages; those that begin with a capital letter are of the message group that it names."""
    with lake.producer(topic) as producer:
        for body in bodies:
            producer.send(penstock.Message(body.encode(), message_group=body[0] if body[0].isupper() else None, **others))


def opened(sdk: Sdk, name: str, filter: str = "*", *, await_s: int = 5) -> None:
    sdk.call("simple", name=name, group=name, subscriptions={name: filter}, await_s=await_s, timeout_s=30)


def received(sdk: Sdk, name: str, count: int = 1, **stated: Any) -> list[dict[str, Any]]:
    """At least so many messages, by as many receives as it takes."""
    messages: list[dict[str, Any]] = []

    def enough() -> bool:
        messages.extend(sdk.call("receive", name=name, **stated))
        return len(messages) >= count

    wait_until(enough, f"{count} messages are received")
    return messages


def refused(sdk: Sdk, op: str, **arguments: Any) -> ProgramError:
    with pytest.raises(ProgramError) as raised:
        sdk.call(op, **arguments)
    return raised.value


def is_settled(lake: penstock.Lake, group: str) -> bool:
    """Whether a group has nothing left to do, nor to write."""
    return all(queue.lag == 0 and queue.dead_letters == 0 for queue in lake.describe_group(group).queues)


def of(sdk: Sdk, name: str) -> list[dict[str, Any]]:
    """What the listener of this name was given so far."""
    return [event for event in sdk.seen if event["name"] == name and event["event"] == "message"]


def bodies(events: list[dict[str, Any]]) -> list[str]:
    return [event["message"]["body"] for event in events]


@pytest.mark.parametrize("language", [pytest.param(one, marks=getattr(pytest.mark, f"{one}_sdk")) for one in PUSHING])
def test_the_sdk_is_there(sdks: list[Sdk], language: str) -> None:
    """Where an SDK is missing, this is what is skipped and counted; the others play without it."""
    assert language in [sdk.language for sdk in sdks]


def test_a_simple_consumer_receives_and_acknowledges(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        made(lake, topic, max_attempts=5)
        sent(lake, topic, "A1", "A2", "A3", tag="new", keys=("k1", "k2"), properties={"region": "north"})
        opened(sdk, topic)
        messages = received(sdk, topic, 3)
        first = messages[0]
        assert [message["body"] for message in messages] == ["A1", "A2", "A3"]
        assert (first["tag"], sorted(first["keys"]), first["properties"]) == ("new", ["k1", "k2"], {"region": "north"})
        assert (first["message_group"], first["attempt"], first["topic"]) == ("A", 1, topic)
        assert first["born_ms"] > 1.6e12

        for message in reversed(messages):
            sdk.call("ack", name=topic, message=message["ref"])
        sdk.call("ack", name=topic, message=first["ref"])
        assert refused(sdk, "change", name=topic, message=first["ref"], invisible_s=10).code == INVALID_RECEIPT_HANDLE
        assert refused(sdk, "receive", name=topic, invisible_s=5).code == ILLEGAL_INVISIBLE_TIME
        assert refused(sdk, "receive", name=topic, invisible_s=12 * 3600 + 1).code == ILLEGAL_INVISIBLE_TIME
        sent(lake, topic, "A4")
        (fourth,) = received(sdk, topic)
        assert (fourth["body"], fourth["attempt"]) == ("A4", 1)
        sdk.call("change", name=topic, message=fourth["ref"], invisible_s=1)
        (again,) = received(sdk, topic)
        assert (again["body"], again["attempt"], again["message_id"]) == ("A4", 2, fourth["message_id"])
        sdk.call("close", name=topic)

    together(sdks, play)


@pytest.mark.thorough
def test_what_is_not_acknowledged_in_time_comes_again(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    """Of a batch all but the first are acknowledged: RocketMQ's own suite demands that all come again, and the later ones only then."""

    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        made(lake, topic, max_attempts=5)
        sent(lake, topic, "A1", "A2", "A3", "A4")
        opened(sdk, topic, await_s=20)
        messages = received(sdk, topic, 3, max=3, invisible_s=10)
        for message in messages[1:]:
            sdk.call("ack", name=topic, message=message["ref"])
        again = received(sdk, topic, 3, max=3)
        assert [(message["body"], message["attempt"]) for message in again] == [("A1", 2), ("A2", 2), ("A3", 2)]
        if sdk.language != "go":  # whose acknowledgements hide the answer's status
            assert refused(sdk, "ack", name=topic, message=messages[0]["ref"]).code == INVALID_RECEIPT_HANDLE
        for message in again:
            sdk.call("ack", name=topic, message=message["ref"])
        assert [message["body"] for message in received(sdk, topic)] == ["A4"]
        sdk.call("close", name=topic)

    together(sdks, play)


def test_a_failing_message_holds_up_its_message_group_only_and_becomes_a_dead_letter(
    lake: penstock.Lake, sdks: list[Sdk], name: str
) -> None:
    retry = penstock.RetryPolicy(interval=1)

    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        made(lake, topic, queues=2, max_attempts=3, retry=retry)
        sent(lake, topic, "A1", "A2", "B1", "B2", "C1")
        sdk.call("push", name=topic, group=topic, subscriptions={topic: "*"}, fails={"A1": 9}, timeout_s=30)
        sdk.until(lambda seen: len(of(sdk, topic)) >= 7)
        events = of(sdk, topic)
        assert sorted(bodies(events)) == ["A1", "A1", "A1", "A2", "B1", "B2", "C1"]
        assert [body for body in bodies(events) if body[0] == "A"] == ["A1", "A1", "A1", "A2"]
        assert [body for body in bodies(events) if body[0] == "B"] == ["B1", "B2"]
        # The Python SDK counts its own retries as one delivery.
        counted = [event["message"]["attempt"] for event in events if event["message"]["body"] == "A1"]
        assert counted == ([1, 1, 1] if sdk.language == "python" else [1, 2, 3])
        failed = next(event["message"] for event in events if event["message"]["body"] == "A1")
        wait_until(lambda: is_settled(lake, topic), "all is settled, and the dead letter written")
        with lake.reader(f"%DLQ%{topic}") as reader:
            (letter,) = list(reader.messages())
        assert (letter.body, letter.message_id) == (b"A1", failed["message_id"])
        sdk.call("close", name=topic)

    together(sdks, play)


@pytest.mark.thorough
def test_a_concurrent_push_consumer_counts_its_attempts(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    retry = penstock.RetryPolicy(interval=1)

    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        made(lake, topic, order="CONCURRENT", queues=2, max_attempts=3, retry=retry)
        sent(lake, topic, *[f"m{i}" for i in range(8)])
        fails = {"m0": 2, "m1": 9}
        sdk.call("push", name=topic, group=topic, subscriptions={topic: "*"}, fails=fails, timeout_s=30)
        sdk.until(lambda seen: len(of(sdk, topic)) >= 12)
        counted = defaultdict(list)
        for event in of(sdk, topic):
            counted[event["message"]["body"]].append(event["message"]["attempt"])
        assert counted == {**{f"m{i}": [1] for i in range(2, 8)}, "m0": [1, 2, 3], "m1": [1, 2, 3]}
        wait_until(lambda: is_settled(lake, topic), "all is settled, and the dead letter written")
        assert f"%DLQ%{topic}" in lake.topics()
        sdk.call("close", name=topic)

    together(sdks, play)


def test_filters(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    def play(sdk: Sdk) -> None:
        tags, sql = f"{named(name, sdk)}-tags", f"{named(name, sdk)}-sql"
        for topic in (tags, sql):
            made(lake, topic, order="CONCURRENT")
            for tag, amount in (("a", "1"), ("b", "10"), ("c", "20")):
                sent(lake, topic, f"{tag}-{amount}", tag=tag, properties={"amount": amount})
        opened(sdk, tags, "a || b")
        opened(sdk, sql, "SQL:amount > 5 AND TAGS IN ('b', 'c')")
        assert sorted(message["body"] for message in received(sdk, tags, 2)) == ["a-1", "b-10"]
        assert sorted(message["body"] for message in received(sdk, sql, 2)) == ["b-10", "c-20"]
        sdk.call("simple", name="other", group=tags, subscriptions={tags: "c"}, await_s=5, timeout_s=30)
        assert refused(sdk, "receive", name="other").code == ILLEGAL_FILTER_EXPRESSION
        for one in (tags, sql, "other"):
            sdk.call("close", name=one)

    together(sdks, play)


def test_rusts_sdk_which_has_simple_consumers_only(lake: penstock.Lake, served: RunningGateway, tmp_path: Path, name: str) -> None:
    if not RUST.exists():
        pytest.skip("`make sdks-rust` has not built the SDK of rust")
    with program("rust", served.endpoints, tmp_path) as client:
        topic = named(name, client)
        made(lake, topic, max_attempts=5)
        sent(lake, topic, "A1", "A2", "A3", tag="new", keys=("k1", "k2"), properties={"region": "north"})
        opened(client, topic, "SQL:region = 'north'", await_s=20)
        messages = received(client, topic, 3, invisible_s=10)
        first = messages[0]
        assert [message["body"] for message in messages] == ["A1", "A2", "A3"]
        assert (first["tag"], sorted(first["keys"]), first["properties"]) == ("new", ["k1", "k2"], {"region": "north"})
        assert (first["message_group"], first["attempt"], first["topic"]) == ("A", 1, topic)
        again = received(client, topic, 3)
        assert [(message["body"], message["attempt"]) for message in again] == [("A1", 2), ("A2", 2), ("A3", 2)]
        assert "INVALID_RECEIPT_HANDLE" in str(refused(client, "ack", name=topic, message=first["ref"]))
        for message in reversed(again):
            client.call("ack", name=topic, message=message["ref"])
        wait_until(lambda: is_settled(lake, topic), "all is acknowledged")
        client.call("close", name=topic)


def test_after_a_reset_of_offsets_all_comes_again(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        made(lake, topic)
        sent(lake, topic, "A1", "A2")
        opened(sdk, topic)
        for message in received(sdk, topic, 2):
            sdk.call("ack", name=topic, message=message["ref"])
        lake.reset_offsets(topic, topic, "earliest")
        assert [(message["body"], message["attempt"]) for message in received(sdk, topic, 2)] == [("A1", 1), ("A2", 1)]
        sdk.call("close", name=topic)

    together(sdks, play)


def test_groups_and_topics_that_there_are_not(lake: penstock.Lake, sdks: list[Sdk], name: str) -> None:
    def play(sdk: Sdk) -> None:
        topic = named(name, sdk)
        lake.create_topic(topic)
        lake.create_group(topic)

        def used(group: str, subscribed: str) -> None:
            subscriptions = {subscribed: "*"}
            sdk.call("simple", name="x", group=group, subscriptions=subscriptions, await_s=5, timeout_s=10)
            sdk.call("receive", name="x")

        with pytest.raises(ProgramError):
            used(f"{topic}-nobody", topic)
        with pytest.raises(ProgramError):
            used(topic, f"{topic}-nothing")

    together(sdks, play)


def test_native_members_and_sdks_share_one_group_and_keep_order(
    lake: penstock.Lake, sdks: list[Sdk], served: RunningGateway, name: str
) -> None:
    groups, each = 12, 20
    made(lake, name, queues=8, max_attempts=5)
    seen: list[tuple[int, str, str]] = []

    def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
        seen.append((len(seen), "native", message.body.decode()))
        return penstock.ConsumeResult.SUCCESS

    for sdk in sdks:
        sdk.call("push", name=name, group=name, subscriptions={name: "*"}, timeout_s=30)
    with lake.push_consumer(name, group=name, listener=listen), lake.producer(name) as producer:
        wait_until(lambda: len({queue.owner for queue in lake.describe_group(name).queues} - {""}) == 2, "both own queues")
        for number in range(each):
            for group in range(groups):
                producer.send(penstock.Message(f"{group}:{number}".encode(), message_group=str(group)))
        producer.flush()

        def all_came() -> bool:
            for sdk in sdks:
                sdk.drain_events()
            return len(seen) + sum(len(of(sdk, name)) for sdk in sdks) >= groups * each

        wait_until(all_came, "all messages are handled")
    heard = {"native": [body for _, _, body in seen]} | {sdk.language: bodies(of(sdk, name)) for sdk in sdks}
    assert sum(map(len, heard.values())) == groups * each, "none is handled twice"
    numbers = defaultdict(list)
    for member in heard.values():
        for body in member:
            message_group, place = body.split(":")
            numbers[message_group].append(int(place))
    assert {message_group: sorted(found) for message_group, found in numbers.items()} == {
        str(one): list(range(each)) for one in range(groups)
    }
    for member in heard.values():
        for message_group in map(str, range(groups)):
            found = [int(body.split(":")[1]) for body in member if body.split(":")[0] == message_group]
            assert found == sorted(found), "a member handles a message group in order"
    assert heard["native"]
    assert any(heard[sdk.language] for sdk in sdks)
    for sdk in sdks:
        sdk.call("close", name=name)
