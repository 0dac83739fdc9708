"""A client that says exactly what a test wants: the protocol's requests, without any SDK."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import grpc

from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["MessagingService"]
TIMEOUT_S = 60.0


class RawClient:
    """One connection, and one client id."""

    def __init__(self, endpoints: str, client_id: str) -> None:
        self.client_id = client_id
        # A subchannel pool of its own: else channels to one place share a connection.
        self._channel = grpc.insecure_channel(endpoints, [("grpc.use_local_subchannel_pool", 1)])

    def close(self) -> None:
        self._channel.close()

    def call(self, name: str, request: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The answer of a single call."""
        return self._method(name)(request, timeout=timeout_s, metadata=self._metadata())

    def stream(self, name: str, request: Any, *, timeout_s: float = TIMEOUT_S) -> Any:
        """The call whose answers are a stream."""
        return self._method(name)(request, timeout=timeout_s, metadata=self._metadata())

    def receive(self, group: str, topic: str, **stated: Any) -> tuple[int, list[Any]]:
        """The code and the messages of a receive."""
        code, messages = 0, []
        for frame in self.stream("ReceiveMessage", receive_request(group, topic, **stated)):
            if frame.HasField("status"):
                code = frame.status.code
            elif frame.HasField("message"):
                messages.append(frame.message)
        return code, messages

    def ack(self, group: str, topic: str, *handles: str) -> Any:
        entries = [pb.AckMessageEntry(message_id=f"m{i}", receipt_handle=handle) for i, handle in enumerate(handles)]
        return self.call("AckMessage", pb.AckMessageRequest(group=_named(group), topic=_named(topic), entries=entries))

    def change(self, group: str, topic: str, handle: str, seconds: float) -> Any:
        request = pb.ChangeInvisibleDurationRequest(group=_named(group), topic=_named(topic), receipt_handle=handle)
        request.invisible_duration.FromTimedelta(timedelta(seconds=seconds))
        return self.call("ChangeInvisibleDuration", request)

    def forward(self, group: str, topic: str, handle: str) -> Any:
        request = pb.ForwardMessageToDeadLetterQueueRequest(group=_named(group), topic=_named(topic), receipt_handle=handle)
        return self.call("ForwardMessageToDeadLetterQueue", request)

    def _metadata(self) -> list[tuple[str, str]]:
        return [("x-mq-client-id", self.client_id)] if self.client_id else []

    def _method(self, name: str) -> Any:
        method = _SERVICE.methods_by_name[name]
        make = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        answer = getattr(pb, method.output_type.name)
        return make(
            f"/{_SERVICE.full_name}/{name}",
            request_serializer=lambda request: request if isinstance(request, bytes) else request.SerializeToString(),
            response_deserializer=answer.FromString,
        )


def receive_request(
    group: str,
    topic: str,
    *,
    most: int = 32,
    invisible_s: float | None = 30,
    poll_s: float = 10,
    attempt_id: str | None = None,
    filter: str = "*",
    filter_type: pb.FilterType = pb.TAG,
) -> Any:
    """A receive as simple consumers ask, or, with an attempt id, as push consumers do."""
    request = pb.ReceiveMessageRequest(
        group=_named(group),
        message_queue=pb.MessageQueue(topic=_named(topic), id=-1),
        filter_expression=pb.FilterExpression(type=filter_type, expression=filter),
        batch_size=most,
        auto_renew=attempt_id is not None,
        attempt_id=attempt_id,
    )
    request.long_polling_timeout.FromTimedelta(timedelta(seconds=poll_s))
    if invisible_s is not None and attempt_id is None:
        request.invisible_duration.FromTimedelta(timedelta(seconds=invisible_s))
    return request


def queue_of(topic: str, queue: int) -> Any:
    return pb.MessageQueue(topic=_named(topic), id=queue)


def _named(name: str) -> Any:
    return pb.Resource(name=name)


@contextlib.contextmanager
def raw_client(endpoints: str, client_id: str = "client-1") -> Iterator[RawClient]:
    client = RawClient(endpoints, client_id)
    try:
        yield client
    finally:
        client.close()
