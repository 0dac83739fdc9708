"""The gauges of RocketMQ's gateway and its clients."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator

from ....log.metrics import Sample
from ...metrics import CLIENTS
from ...peers.clients import AlikeClients
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


def told(registry: ClientRegistry) -> list[AlikeClients]:
    """What the list of gateways tells of each client."""
    return [
        AlikeClients(
            kind=_type_name(one.client_type).removeprefix("CLIENT_TYPE_"),
            language=_language(one.language),
            version=one.version,
            group=one.group,
            topics=tuple(sorted(one.topics | one.subscribed)),
            principal=one.principal,
        )
        for one in registry.all()
    ]


def _type_name(client_type: int) -> str:
    try:
        return pb.ClientType.Name(pb.ClientType.ValueType(client_type))
    except ValueError:
        return str(client_type)


def _language(stated: str) -> str:
    """A language of the protocol, as clients' own texts would make series without end."""
    return stated if stated in _LANGUAGES else "OTHER"
