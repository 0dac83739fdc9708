"""The gateways of a lake and their clients, as the gateways tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...coordinator.cells.keys import GATEWAYS, KAFKA_GATEWAYS
from ...gateway.peers.entries import GatewayEntry, decode_gateways

if TYPE_CHECKING:
    from ...aio import Lake

PROTOCOLS = {"rocketmq": GATEWAYS, "kafka": KAFKA_GATEWAYS}
"""The key of each protocol's list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientKindRow:
    """Some clients of a gateway that say the same of themselves."""

    kind: str
    language: str
    version: str
    group: str
    topics: tuple[str, ...]
    principal: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRow:
    """A gateway in the list of its protocol."""

    protocol: str
    name: str
    address: str
    tls_address: str | None
    signed: bool | None
    """Whether it asks for signatures; None: unknown."""
    renewals: int
    """Rises each 10 s while it lives."""
    clients: int | None
    """None: it does not tell, as an earlier version."""
    alike: tuple[ClientKindRow, ...]

    @property
    def clients_left_out(self) -> int:
        """The clients for which its entry has no room."""
        return max(0, (self.clients or 0) - sum(one.count for one in self.alike))


async def gateways_of(lake: Lake) -> list[GatewayRow]:
    """The listed gateways by protocol and address. Those behind one address of all gateways keep no list."""
    found: list[GatewayRow] = []
    for protocol, key in PROTOCOLS.items():
        stored = await lake.coordination.cells.read(key)
        if stored is not None:
            entries = decode_gateways(stored.data, where=key)
            found += [_row(protocol, name, entry) for name, entry in entries.items()]
    return sorted(found, key=lambda one: (one.protocol, one.address, one.name))


def _row(protocol: str, name: str, entry: GatewayEntry) -> GatewayRow:
    plain, tls = entry.endpoint(tls=False), entry.endpoint(tls=True)
    return GatewayRow(
        protocol=protocol,
        name=name,
        address=str(plain or tls or entry.host),
        tls_address=None if tls is None else str(tls),
        signed=entry.signed,
        renewals=entry.beat,
        clients=entry.clients,
        alike=tuple(
            ClientKindRow(
                kind=one.kind,
                language=one.language,
                version=one.version,
                group=one.group,
                topics=one.topics,
                principal=one.principal,
                count=one.count,
            )
            for one in entry.alike
        ),
    )
