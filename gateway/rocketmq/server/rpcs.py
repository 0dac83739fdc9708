"""RPCs by their names in the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from ..protocol import rocketmq_pb2 as pb

_SERVICE = pb.DESCRIPTOR.services_by_name["MessagingService"]
SERVICE: Final[str] = _SERVICE.full_name


@dataclass(frozen=True, slots=True)
class Rpc:
    """An RPC, and its handler.

    A single answer: ``async def handle(request, call) -> answer``; a streamed one: an asynchronous generator. A two-way RPC: ``async def
    handle(requests, call, send)``. Each may raise `StatusError` or any `PenstockError`.
    """

    name: str
    handle: Callable[..., Any]
    request: type[Message]
    answer: type[Any]
    is_streamed: bool
    is_two_way: bool


def rpc(name: str, handle: Callable[..., Any]) -> Rpc:
    """Raises `KeyError` for an unknown name."""
    method = _SERVICE.methods_by_name[name]
    request: type[Message] = getattr(pb, method.input_type.name)
    answer: type[Any] = getattr(pb, method.output_type.name)
    return Rpc(name, handle, request, answer, method.server_streaming, method.client_streaming)


def by_name(rpcs: Iterable[Rpc]) -> dict[str, Rpc]:
    """Raises `ValueError` for a repeated name."""
    found: dict[str, Rpc] = {}
    for one in rpcs:
        if one.name in found:
            raise ValueError(f"two rooms answer {one.name}")
        found[one.name] = one
    return found
