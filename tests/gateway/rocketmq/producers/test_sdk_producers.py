"""What producers see, by RocketMQ's own unmodified SDKs: every type of message, recalls, transactions and the questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import penstock
from tests.gateway.gateways import gateway
from tests.gateway.programs import ProgramError
from tests.gateway.sdk import SDKS, Sdk, in_turns, sdk
from tests.lakes import read_all
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module", params=in_turns(SDKS))
def client(request: pytest.FixtureRequest, lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sdk]:
    """A producer of every type of topic, and its program."""
    language: str = request.param
    if not SDKS[language].exists():
        pytest.skip(f"`make sdks`, for Rust `make sdks-rust`, has not installed the SDK of {language}")
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp(language)
        served = stack.enter_context(gateway(lake.url, folder / "gateway", "--first-check", "2s"))
        client = stack.enter_context(sdk(language, served.endpoints, folder))
        topics = []
        for kind in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"):
            topics.append(f"{language}-{kind.lower()}")
            lake.create_topic(topics[-1], message_type=kind, queues=2)
        client.call("producer", name="all", topics=topics, checks={"left": "COMMIT"})
        yield client


def topic(client: Sdk, kind: str) -> str:
    return f"{client.language}-{kind}"


def test_a_normal_message_keeps_all_it_has(client: Sdk, lake: penstock.Lake) -> None:
    sent = client.call(
        "send", name="all", topic=topic(client, "normal"), body="paid", tag="t", keys=["k1", "k2"], properties={"amount": "10"}
    )
    (found,) = read_all(lake, topic(client, "normal"))
    assert (found.message_id, found.body) == (sent["message_id"], b"paid")
    assert (found.tag, sorted(found.keys), found.properties) == ("t", ["k1", "k2"], {"amount": "10"})


def test_messages_of_a_group_are_stored_in_the_order_of_the_sends(client: Sdk, lake: penstock.Lake) -> None:
    for number in range(10):
        client.call("send", name="all", topic=topic(client, "fifo"), body=str(number), message_group=f"g{number % 2}")
    stored = read_all(lake, topic(client, "fifo"))
    for group in ("g0", "g1"):
        numbers = [int(one.body) for one in stored if one.message_group == group]
        assert numbers == sorted(numbers)
    assert len(stored) == 10


def test_a_delayed_message_is_called_back(client: Sdk, lake: penstock.Lake) -> None:
    sent = client.call("send", name="all", topic=topic(client, "delay"), body="later", delay_s=3600)
    (waiting,) = lake.waiting(topic(client, "delay"))
    assert waiting.message_id == sent["message_id"]
    if client.language in ("go", "rust"):
        return  # their SDKs drop the handle that they are given, and have no recall
    assert client.call("recall", name="all", topic=topic(client, "delay"), handle=sent["recall_handle"]) == sent["message_id"]
    assert not lake.waiting(topic(client, "delay"))
    with pytest.raises(ProgramError):
        client.call("recall", name="all", topic=topic(client, "delay"), handle=sent["recall_handle"])


def test_transactions_are_committed_rolled_back_and_asked_about(client: Sdk, lake: penstock.Lake) -> None:
    for body, outcome in (("kept", "commit"), ("dropped", "rollback"), ("left", "leave")):
        client.call("send", name="all", topic=topic(client, "transaction"), body=body, transaction=outcome)
    asked = client.until(lambda seen: any(one["event"] == "check" for one in seen))[-1]
    assert (asked["body"], asked["resolution"]) == ("left", "COMMIT")
    stored = wait_until(
        lambda: len(found := read_all(lake, topic(client, "transaction"))) == 2 and found, "two messages are visible"
    )
    assert stored
    assert sorted(one.body for one in stored) == [b"kept", b"left"]


def test_a_mixed_topic_takes_messages_of_several_types(client: Sdk, lake: penstock.Lake) -> None:
    mixed = topic(client, "mixed")
    client.call("send", name="all", topic=mixed, body="plain")
    client.call("send", name="all", topic=mixed, body="grouped", message_group="g")
    client.call("send", name="all", topic=mixed, body="kept", transaction="commit")
    stored = wait_until(lambda: len(found := read_all(lake, mixed)) == 3 and found, "three messages are visible")
    assert stored
    assert {one.body: one.message_group for one in stored} == {b"plain": None, b"grouped": "g", b"kept": None}
    with pytest.raises(ProgramError):
        client.call("send", name="all", topic=mixed, body="later", delay_s=60)


def test_a_message_of_another_type_is_refused(client: Sdk) -> None:
    with pytest.raises(ProgramError):
        client.call("send", name="all", topic=topic(client, "normal"), body="paid", message_group="g")
