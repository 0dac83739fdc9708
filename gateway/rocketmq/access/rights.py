"""The rights that each request asks for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from google.protobuf.message import Message

from ....coordinator.access.grants import Verb
from ...access.rights import Right
from ..protocol import rocketmq_pb2 as pb
from ..protocol.resources import dead_letters_of, group_of, topic_of

_SEND: Final = frozenset({Verb.SEND})
_RECEIVE: Final = frozenset({Verb.RECEIVE})
_EITHER: Final = _SEND | _RECEIVE
_JOIN: Final = frozenset({Verb.JOIN})


def rights_of(request: Message) -> Iterator[Right]:
    """Raises `StatusError` for invalid names, and `KeyError` for an unknown request."""
    yield from _RIGHTS[type(request)](request)


def _topic(verbs: frozenset[Verb], resource: pb.Resource) -> Right:
    return verbs, topic_of(resource)


def _group(resource: pb.Resource) -> Right:
    return _JOIN, group_of(resource)


def _received(group: pb.Resource, topic: pb.Resource) -> Iterator[Right]:
    """The right to join a group covers its dead letters."""
    yield _group(group)
    name = topic_of(topic)
    if name != dead_letters_of(group_of(group)):
        yield _RECEIVE, name


def _of_group_and_topic(request: Any) -> Iterator[Right]:  # noqa: ANN401 - one of several requests
    return _received(request.group, request.topic)


def _of_group_and_queue(request: Any) -> Iterator[Right]:  # noqa: ANN401 - the same
    return _received(request.group, request.message_queue.topic)


def _of_sends(request: pb.SendMessageRequest) -> Iterator[Right]:
    topics = {(one.topic.resource_namespace, one.topic.name): one.topic for one in request.messages}
    return (_topic(_SEND, topic) for topic in topics.values())


def _of_settings(request: pb.TelemetryCommand) -> Iterator[Right]:
    """A producer's stream brings check-backs, with messages of transactions."""
    settings = request.settings
    for topic in settings.publishing.topics:
        yield _topic(_SEND, topic)
    if settings.HasField("subscription"):
        yield _group(settings.subscription.group)
        for entry in settings.subscription.subscriptions:
            yield from _received(settings.subscription.group, entry.topic)


def _of_a_client(request: Any) -> Iterator[Right]:  # noqa: ANN401 - a heartbeat, or its last one
    if request.HasField("group"):
        yield _group(request.group)


_RIGHTS: Final[dict[type[Message], Callable[[Any], Iterator[Right]]]] = {
    pb.QueryRouteRequest: lambda request: iter([_topic(_EITHER, request.topic)]),
    pb.HeartbeatRequest: _of_a_client,
    pb.NotifyClientTerminationRequest: _of_a_client,
    pb.TelemetryCommand: _of_settings,
    pb.SendMessageRequest: _of_sends,
    pb.EndTransactionRequest: lambda request: iter([_topic(_SEND, request.topic)]),
    pb.RecallMessageRequest: lambda request: iter([_topic(_SEND, request.topic)]),
    pb.QueryAssignmentRequest: _of_group_and_topic,
    pb.ReceiveMessageRequest: _of_group_and_queue,
    pb.AckMessageRequest: _of_group_and_topic,
    pb.ChangeInvisibleDurationRequest: _of_group_and_topic,
    pb.ForwardMessageToDeadLetterQueueRequest: _of_group_and_topic,
    pb.PullMessageRequest: _of_group_and_queue,
    pb.UpdateOffsetRequest: _of_group_and_queue,
    pb.GetOffsetRequest: _of_group_and_queue,
    pb.QueryOffsetRequest: lambda request: iter([_topic(_RECEIVE, request.message_queue.topic)]),
}
