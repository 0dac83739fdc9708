"""The consumers' RPCs, as the protocol defines them: by a client that says exactly what each test wants."""

from __future__ import annotations

import contextlib

import grpc
import pytest

import penstock
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from tests.gateway.conftest import url_of
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.raw import RawClient, queue_of, raw_client, receive_request
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def made(
    lake: penstock.Lake, name: str, *, order: penstock.DeliveryOrderLike = "ORDERLY", queues: int = 1, max_attempts: int = 3
) -> None:
    """A topic, and a consumer group of the same name."""
    lake.create_topic(name, message_type="FIFO" if order == "ORDERLY" else "NORMAL", queues=queues)
    lake.create_group(name, delivery_order=order, max_attempts=max_attempts)


def sent(lake: penstock.Lake, topic: str, *bodies: str, tag: str | None = None) -> None:
    """Messages; those that begin with a capital letter are of the message group that it names."""
    with lake.producer(topic) as producer:
        for body in bodies:
            producer.send(penstock.Message(body.encode(), message_group=body[0] if body[0].isupper() else None, tag=tag))


def bodies(messages: list[pb.Message]) -> list[str]:
    return [message.body.decode() for message in messages]


def handles(messages: list[pb.Message]) -> list[str]:
    return [message.system_properties.receipt_handle for message in messages]


def attempts(messages: list[pb.Message]) -> list[int]:
    return [message.system_properties.delivery_attempt for message in messages]


# --- Receiving and acknowledging ----------------------------------------------------------------------------------------------


def test_a_received_message_is_acknowledged_and_never_comes_back(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2", "B1")
    code, messages = client.receive(name, name)
    assert (code, bodies(messages), attempts(messages)) == (pb.OK, ["A1", "A2", "B1"], [1, 1, 1])
    answer = client.ack(name, name, *handles(messages))
    assert (answer.status.code, [entry.status.code for entry in answer.entries]) == (pb.OK, [pb.OK] * 3)
    assert client.receive(name, name, poll_s=0.5) == (pb.MESSAGE_NOT_FOUND, [])
    assert client.ack(name, name, handles(messages)[0]).status.code == pb.OK, "its answer may have been lost"


def test_acknowledgements_ahead_of_earlier_messages_wait_for_them(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2", "A3", "A4")
    _, messages = client.receive(name, name)
    first, second, third, fourth = handles(messages)
    for handle in (third, second, first):
        assert client.ack(name, name, handle).status.code == pb.OK
    assert client.change(name, name, fourth, 0).status.code == pb.OK
    _, again = client.receive(name, name)
    assert (bodies(again), attempts(again)) == (["A4"], [2])


def test_what_was_acknowledged_ahead_comes_again_with_what_was_not(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2", "A3")
    _, messages = client.receive(name, name)
    for handle in handles(messages)[1:]:
        assert client.ack(name, name, handle).status.code == pb.OK
    assert client.change(name, name, handles(messages)[0], 0).status.code == pb.OK
    _, again = client.receive(name, name)
    assert (bodies(again), attempts(again)) == (["A1", "A2", "A3"], [2, 2, 2])


def test_what_was_acknowledged_ahead_does_not_come_after_the_last_attempt_of_an_earlier_one(
    lake: penstock.Lake, client: RawClient, name: str
) -> None:
    made(lake, name, max_attempts=2)
    sent(lake, name, "A1", "A2", "A3")
    for attempt in (1, 2):
        _, messages = client.receive(name, name)
        assert (bodies(messages), attempts(messages)) == (["A1", "A2", "A3"], [attempt] * 3)
        first, second, _ = handles(messages)
        assert client.ack(name, name, second).status.code == pb.OK
        assert client.change(name, name, first, 0).status.code == pb.OK
    _, left = client.receive(name, name)
    assert (bodies(left), attempts(left)) == (["A3"], [2]), "SDKs know of two attempts"
    assert client.ack(name, name, *handles(left)).status.code == pb.OK
    assert client.receive(name, name, poll_s=0.5) == (pb.MESSAGE_NOT_FOUND, [])


def test_each_entry_of_an_acknowledgement_has_a_status_of_its_own(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1")
    _, messages = client.receive(name, name)
    answer = client.ack(name, name, handles(messages)[0], "nonsense")
    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [pb.OK, pb.INVALID_RECEIPT_HANDLE]
    assert [entry.message_id for entry in answer.entries] == ["m0", "m1"]


def test_handles_that_are_not_this_groups(lake: penstock.Lake, client: RawClient, name: str) -> None:
    other = f"{name}-other"
    made(lake, name)
    made(lake, other)
    sent(lake, name, "A1")
    (handle,) = handles(client.receive(name, name)[1])
    for group, topic, given in ((other, name, handle), (name, other, handle), (name, name, handle[:-2] + "AA"), (name, name, "")):
        assert client.ack(group, topic, given).status.code == pb.INVALID_RECEIPT_HANDLE
        assert client.change(group, topic, given, 10).status.code == pb.INVALID_RECEIPT_HANDLE
        assert client.forward(group, topic, given).status.code == pb.INVALID_RECEIPT_HANDLE
    assert client.ack(name, name, handle).status.code == pb.OK
    assert client.change(name, name, handle, 10).status.code == pb.INVALID_RECEIPT_HANDLE, "it is settled"


def test_a_long_poll_ends_as_soon_as_there_is_a_message(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name, order="CONCURRENT")
    assert client.receive(name, name, poll_s=0.2) == (pb.MESSAGE_NOT_FOUND, [])
    waiting = client.stream("ReceiveMessage", receive_request(name, name, poll_s=20))
    sent(lake, name, "a")
    frames = list(waiting)
    assert frames[0].status.code == pb.OK
    assert frames[1].message.body == b"a"
    assert frames[-1].HasField("delivery_timestamp")


def test_a_batch_has_no_more_than_was_asked_for(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name, order="CONCURRENT")
    sent(lake, name, *map(str, range(40)))
    assert len(client.receive(name, name, most=3)[1]) == 3
    assert len(client.receive(name, name, most=100)[1]) == 32


def test_an_answer_that_is_cut_off_gives_its_messages_back(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name, order="CONCURRENT")
    with lake.producer(name) as producer:  # more than fits on its way, so that the gateway is in the midst of its answer
        for _ in range(30):
            producer.send(penstock.Message(bytes(1_000_000)))
    answer = client.stream("ReceiveMessage", receive_request(name, name, invisible_s=3600))
    assert next(answer).status.code == pb.OK
    answer.cancel()
    seen = 0

    def all_again() -> bool:
        nonlocal seen
        messages = client.receive(name, name, poll_s=2)[1]
        assert set(attempts(messages)) <= {1, 2}
        seen += len(messages)
        return seen >= 30

    wait_until(all_again, "the messages of the answer come again")


# --- Filters --------------------------------------------------------------------------------------------------------------------


def test_a_group_takes_the_first_filter_and_refuses_others(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name, order="CONCURRENT")
    sent(lake, name, "1", tag="a")
    sent(lake, name, "2", tag="b")
    sent(lake, name, "3", tag="c")
    found: list[str] = []
    while len(found) < 2:
        found += bodies(client.receive(name, name, filter="a || b")[1])
    assert found == ["1", "2"]
    assert client.receive(name, name, filter="b||a", poll_s=0.1)[0] == pb.MESSAGE_NOT_FOUND
    for other, kind in (("*", pb.TAG), ("a", pb.TAG), ("TAGS = 'a'", pb.SQL), ("TAGS =", pb.SQL), ("||", pb.TAG)):
        assert client.receive(name, name, filter=other, filter_type=kind)[0] == pb.ILLEGAL_FILTER_EXPRESSION
    lake.alter_group(name, filters={name: "c"})
    wait_until(lambda: client.receive(name, name, filter="c", poll_s=0.1)[0] != pb.ILLEGAL_FILTER_EXPRESSION, "the filter is known")


# --- Bad input ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"invisible_s": 5}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_s": 12 * 3600 + 1}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_s": None}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"most": 0}, pb.BAD_REQUEST),
        ({"poll_s": -1}, pb.ILLEGAL_POLLING_TIME),
        ({"attempt_id": "x" * 2_000}, pb.BAD_REQUEST),
    ],
)
def test_receives_that_are_refused(lake: penstock.Lake, client: RawClient, name: str, stated: dict[str, object], code: int) -> None:
    made(lake, name)
    assert client.receive(name, name, **stated) == (code, [])


def test_names_that_there_are_not(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    assert client.receive("nobody", name)[0] == pb.CONSUMER_GROUP_NOT_FOUND
    assert client.receive(name, "nothing")[0] == pb.TOPIC_NOT_FOUND
    assert client.receive("", name)[0] == pb.ILLEGAL_CONSUMER_GROUP
    assert client.receive(name, "a b")[0] == pb.ILLEGAL_TOPIC
    assert client.ack(name, "nothing", "x").status.code == pb.TOPIC_NOT_FOUND


def test_bytes_that_are_no_request(client: RawClient, served: RunningGateway) -> None:
    assert client.call("AckMessage", b"\xff\xff\xff").status.code == pb.BAD_REQUEST
    (frame,) = client.stream("ReceiveMessage", b"\xff\xff\xff")
    assert frame.status.code == pb.BAD_REQUEST
    with raw_client(served.endpoints, "") as nobody:
        assert nobody.ack("g", "t", "x").status.code == pb.CLIENT_ID_REQUIRED
    assert client.call("AckMessage", pb.AckMessageRequest(group={"name": "g"}, topic={"name": "t"})).status.code == pb.BAD_REQUEST


def test_a_client_that_waits_too_short_for_any_answer(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    with contextlib.suppress(grpc.RpcError):  # its deadline comes first on a busy machine
        (frame,) = client.stream("ReceiveMessage", receive_request(name, name), timeout_s=0.4)
        assert frame.status.code == pb.ILLEGAL_POLLING_TIME


# --- Push consumers' ------------------------------------------------------------------------------------------------------------


def test_a_message_is_given_up_by_its_handle(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2")
    first, second = handles(client.receive(name, name, attempt_id="once")[1])
    assert client.forward(name, name, first).status.code == pb.OK
    assert client.forward(name, name, first).status.code == pb.OK, "an SDK asks until that is the answer"
    assert client.ack(name, name, second).status.code == pb.OK
    letters = f"%DLQ%{name}"
    wait_until(
        lambda: all(queue.lag == 0 and queue.dead_letters == 0 for queue in lake.describe_group(name).queues),
        "the letter is written",
    )
    lake.create_group(f"{name}-letters", delivery_order="CONCURRENT")
    _, (letter,) = client.receive(f"{name}-letters", letters, poll_s=20)
    assert letter.body == b"A1"
    assert letter.system_properties.dead_letter_queue.topic == name


def test_what_a_client_held_that_ends_becomes_visible_soon(
    lake: penstock.Lake, client: RawClient, served: RunningGateway, name: str
) -> None:
    made(lake, name)
    sent(lake, name, "A1", "B1")
    with raw_client(served.endpoints, "ends") as ends:
        assert bodies(ends.receive(name, name, attempt_id="once")[1]) == ["A1", "B1"]
        assert client.receive(name, name, poll_s=0.2)[1] == []
        answer = ends.call("NotifyClientTermination", pb.NotifyClientTerminationRequest(group={"name": name}))
        assert answer.status.code == pb.OK
    _, again = client.receive(name, name, poll_s=20)
    assert (sorted(bodies(again)), attempts(again)) == (["A1", "B1"], [2, 2])


def test_a_repeated_receive_gives_the_same_at_another_gateway(
    lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2", "B1")
    folder = tmp_path_factory.mktemp("two")
    with gateway(url_of(lake), folder / "one") as one, gateway(url_of(lake), folder / "two") as two:
        with raw_client(one.endpoints, "survivor") as client:
            _, messages = client.receive(name, name, attempt_id="lost")
            assert bodies(messages) == ["A1", "A2", "B1"]
            one.kill()
        with raw_client(two.endpoints, "survivor") as client:
            code, again = client.receive(name, name, attempt_id="lost")
            assert code == pb.OK
            assert [message.system_properties for message in again] != []
            assert (bodies(again), attempts(again), handles(again)) == (bodies(messages), [1, 1, 1], handles(messages))
            assert client.ack(name, name, *handles(messages)).status.code == pb.OK
            assert client.receive(name, name, attempt_id="next", poll_s=1)[0] == pb.MESSAGE_NOT_FOUND


def test_a_gateway_that_stops_answers_those_who_wait(
    lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    made(lake, name)
    with gateway(url_of(lake), tmp_path_factory.mktemp("stops")) as stops, raw_client(stops.endpoints) as client:
        assert client.receive(name, name, poll_s=0.1)[0] == pb.MESSAGE_NOT_FOUND
        waiting = client.stream("ReceiveMessage", receive_request(name, name, poll_s=20))
        client.receive(name, name, poll_s=0.1)  # the first one has begun by then
        stops.process.terminate()
        assert [frame.status.code for frame in waiting] == [pb.MESSAGE_NOT_FOUND]


# --- Offsets --------------------------------------------------------------------------------------------------------------------


def test_a_queue_is_read_by_offsets(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name, order="CONCURRENT")
    sent(lake, name, *map(str, range(5)))
    queue = queue_of(name, 0)

    def query(policy: pb.QueryOffsetPolicy) -> int:
        answer = client.call("QueryOffset", pb.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy))
        assert answer.status.code == pb.OK
        return int(answer.offset)

    assert (query(pb.BEGINNING), query(pb.END), query(pb.TIMESTAMP)) == (0, 5, 0)
    request = pb.PullMessageRequest(group={"name": name}, message_queue=queue, offset=2, batch_size=2)
    request.filter_expression.expression = "*"
    request.long_polling_timeout.FromMilliseconds(100)
    frames = list(client.stream("PullMessage", request))
    assert [frame.message.body for frame in frames if frame.HasField("message")] == [b"2", b"3"]
    assert (frames[0].status.code, frames[-1].next_offset) == (pb.OK, 4)
    request.offset = 5
    frames = list(client.stream("PullMessage", request))
    assert (frames[0].status.code, frames[-1].next_offset) == (pb.MESSAGE_NOT_FOUND, 5)
    request.offset = 6
    assert [frame.status.code for frame in client.stream("PullMessage", request)] == [pb.ILLEGAL_OFFSET]

    get = pb.GetOffsetRequest(group={"name": name}, message_queue=queue)
    assert client.call("GetOffset", get).status.code == pb.OFFSET_NOT_FOUND
    update = pb.UpdateOffsetRequest(group={"name": name}, message_queue=queue, offset=3)
    assert client.call("UpdateOffset", update).status.code == pb.OK
    assert client.call("GetOffset", get).offset == 3
    update.offset = 99
    assert client.call("UpdateOffset", update).status.code == pb.ILLEGAL_OFFSET
    assert bodies(client.receive(name, name)[1]) == ["3", "4"]


def test_after_a_reset_all_comes_again(lake: penstock.Lake, client: RawClient, name: str) -> None:
    made(lake, name)
    sent(lake, name, "A1", "A2")
    _, messages = client.receive(name, name)
    assert client.ack(name, name, *handles(messages)).status.code == pb.OK
    lake.reset_offsets(name, name, "earliest")
    _, again = client.receive(name, name, poll_s=20)
    assert (bodies(again), attempts(again)) == (["A1", "A2"], [1, 1])
    assert client.ack(name, name, handles(messages)[0]).status.code == pb.INVALID_RECEIPT_HANDLE, "it is from before the reset"
