"""Every RPC of the protocol asks for rights, and for the right ones. Pure."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from penstock.coordinator.access.grants import Grant, Verb
from penstock.gateway.access.authorizer import missing_right
from penstock.gateway.access.rights import Right
from penstock.gateway.rocketmq.access.rights import rights_of
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.status import StatusError

ORDERS, BILLING = pb.Resource(name="orders"), pb.Resource(name="billing")
IN_SHOP = pb.Resource(resource_namespace="shop", name="orders")
QUEUE = pb.MessageQueue(topic=ORDERS)
SEND, RECEIVE, JOIN = Grant(Verb.SEND, "orders"), Grant(Verb.RECEIVE, "orders"), Grant(Verb.JOIN, "billing")
PRODUCER = pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing(topics=[ORDERS])))
SUBSCRIBED = pb.Subscription(group=BILLING, subscriptions=[pb.SubscriptionEntry(topic=ORDERS)])
CONSUMER = pb.TelemetryCommand(settings=pb.Settings(subscription=SUBSCRIBED))

NEEDED: list[tuple[Message, set[Grant]]] = [
    (pb.SendMessageRequest(messages=[pb.Message(topic=ORDERS)]), {SEND}),
    (pb.EndTransactionRequest(topic=ORDERS), {SEND}),
    (pb.RecallMessageRequest(topic=ORDERS), {SEND}),
    (PRODUCER, {SEND}),
    (CONSUMER, {RECEIVE, JOIN}),
    (pb.HeartbeatRequest(client_type=pb.PRODUCER), set()),
    (pb.HeartbeatRequest(group=BILLING), {JOIN}),
    (pb.NotifyClientTerminationRequest(group=BILLING), {JOIN}),
    (pb.QueryAssignmentRequest(topic=ORDERS, group=BILLING), {RECEIVE, JOIN}),
    (pb.ReceiveMessageRequest(message_queue=QUEUE, group=BILLING), {RECEIVE, JOIN}),
    (pb.AckMessageRequest(topic=ORDERS, group=BILLING), {RECEIVE, JOIN}),
    (pb.ChangeInvisibleDurationRequest(topic=ORDERS, group=BILLING), {RECEIVE, JOIN}),
    (pb.ForwardMessageToDeadLetterQueueRequest(topic=ORDERS, group=BILLING), {RECEIVE, JOIN}),
    (pb.PullMessageRequest(message_queue=QUEUE, group=BILLING), {RECEIVE, JOIN}),
    (pb.UpdateOffsetRequest(message_queue=QUEUE, group=BILLING), {RECEIVE, JOIN}),
    (pb.GetOffsetRequest(message_queue=QUEUE, group=BILLING), {RECEIVE, JOIN}),
    (pb.QueryOffsetRequest(message_queue=QUEUE), {RECEIVE}),
]


def lacking(grants: frozenset[Grant], request: Message) -> Right | None:
    """The first right that a request needs beside these."""
    return missing_right(grants, rights_of(request))


@pytest.mark.parametrize(("request_", "needed"), NEEDED, ids=lambda one: one.DESCRIPTOR.name if isinstance(one, Message) else "")
def test_each_request_needs_all_of_its_rights(request_: Message, needed: set[Grant]) -> None:
    assert lacking(frozenset(needed), request_) is None
    for one in needed:
        assert lacking(frozenset(needed - {one}), request_) == (frozenset({one.verb}), one.pattern)


def test_every_rpc_of_the_protocol_is_among_them() -> None:
    known = {request.DESCRIPTOR.name for request, _ in NEEDED} | {"QueryRouteRequest"}
    service = pb.DESCRIPTOR.services_by_name["MessagingService"]
    assert {method.input_type.name for method in service.methods} == known


def test_a_route_needs_any_right_on_its_topic() -> None:
    route = pb.QueryRouteRequest(topic=ORDERS)
    assert lacking(frozenset({SEND}), route) is lacking(frozenset({RECEIVE}), route) is None
    assert lacking(frozenset({JOIN}), route) == (frozenset({Verb.SEND, Verb.RECEIVE}), "orders")


def test_every_message_of_a_request_is_looked_at() -> None:
    messages = [pb.Message(topic=ORDERS), pb.Message(topic=pb.Resource(name="secrets"))]
    assert lacking(frozenset({SEND}), pb.SendMessageRequest(messages=messages)) == (frozenset({Verb.SEND}), "secrets")


def test_a_namespace_is_part_of_the_name() -> None:
    send = pb.SendMessageRequest(messages=[pb.Message(topic=IN_SHOP)])
    assert lacking(frozenset({SEND}), send) == (frozenset({Verb.SEND}), "shop--orders")
    assert lacking(frozenset({Grant(Verb.SEND, "shop--*")}), send) is None


def test_a_group_s_dead_letters_are_its_own() -> None:
    letters = pb.MessageQueue(topic=pb.Resource(name="%DLQ%billing"))
    others = pb.MessageQueue(topic=pb.Resource(name="%DLQ%audit"))
    assert lacking(frozenset({JOIN}), pb.ReceiveMessageRequest(message_queue=letters, group=BILLING)) is None
    assert lacking(frozenset({JOIN}), pb.ReceiveMessageRequest(message_queue=others, group=BILLING)) is not None


def test_a_group_that_only_rocketmq_writes_so_has_its_dead_letters_too() -> None:
    letters = pb.MessageQueue(topic=pb.Resource(name="%DLQ%a|b%"))
    request = pb.ReceiveMessageRequest(message_queue=letters, group=pb.Resource(name="a|b%"))
    assert lacking(frozenset({Grant(Verb.JOIN, "a|b%")}), request) is None
    pull = pb.QueryOffsetRequest(message_queue=letters)
    assert lacking(frozenset(), pull) == (frozenset({Verb.RECEIVE}), "%DLQ%a!7cb!25")


@pytest.mark.parametrize("name", ["a.b", "a b", "t" * 128])
def test_names_that_only_the_lake_takes_are_refused_in_rocketmq_s_words(name: str) -> None:
    with pytest.raises(StatusError, match="The specified topic"):
        lacking(frozenset(), pb.QueryRouteRequest(topic=pb.Resource(name=name)))
    with pytest.raises(StatusError, match="The specified group"):
        lacking(frozenset(), pb.HeartbeatRequest(group=pb.Resource(name=name)))


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(StatusError):
        lacking(frozenset({Grant(Verb.SEND, "*")}), pb.SendMessageRequest(messages=[pb.Message()]))
