"""The gauges of RocketMQ's gateway and its clients."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from ....log.metrics import Sample
from ...metrics import CLIENTS
from ..clients.registry import ClientRegistry
from ..metrics import PROXY_UP, STREAMS
from ..protocol import rocketmq_pb2 as pb

_LANGUAGES = frozenset(pb.Language.keys())


def gauges(registry: ClientRegistry, *, is_up: bool) -> Iterator[Sample]:
    clients = registry.all()
    yield Sample(PROXY_UP, (), int(is_up))
    yield Sample(STREAMS, (), sum(one.send is not None for one in clients))
    for kind, count in Tally((_type_name(one.client_type), _language(one.language)) for one in clients).items():
        yield Sample(CLIENTS, kind, count)


def _type_name(client_type: int) -> str:
    try:
        return pb.ClientType.Name(pb.ClientType.ValueType(client_type))
    except ValueError:
        return str(client_type)


def _language(stated: str) -> str:
    """A language of the protocol, as clients' own texts would make series without end."""
    return stated if stated in _LANGUAGES else "OTHER"
