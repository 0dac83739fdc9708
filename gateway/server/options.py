"""The options of a gateway."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from ...coordinator import DeliveryOrder
from ...coordinator.access.sealing import SealingKeys
from ...log.errors import InvalidArgument
from ...log.limits import MIB


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and a port at which clients reach a gateway."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessOptions:
    """How clients prove who they are, and how much each principal may do at one gateway process."""

    keys: SealingKeys
    calls_per_s: float | None = None
    connections: int | None = None
    utc_only: bool = False
    """Whether signatures must be made in UTC. SDKs sign their local time: without this it may be that of any zone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsOptions:
    """A port for TLS, beside the one without or instead of it."""

    certificate: Path
    """PEM: the gateway's certificate, and behind it those that lead to its issuer's."""
    key: Path
    """PEM: its private key."""
    port: int = 8443
    """0: any that is free."""
    own_port: int | None = None
    """The second port of one of several processes that share the first one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayOptions:
    """How a gateway is run."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: int = 8081
    """0: any that is free."""
    own_port: int | None = None
    """A second port of this process alone, where several listen at ``port``; None: it is the only one there."""
    advertise: Endpoint | None = None
    """The one place of all gateways that clients are told, such as a load balancer's. None: each gateway's own."""
    address: str | None = None
    """The host by which clients reach this gateway, where that is not ``host``."""
    create_topics: bool = False
    """Whether a topic that a client names is made when there is none."""
    create_groups: DeliveryOrder | None = None
    """The delivery order of consumer groups that are made when a client names one that there is not; None: none are made."""
    drain: timedelta = field(default=timedelta(seconds=5))
    """How long calls under way may last when the gateway stops."""
    first_check: timedelta = field(default=timedelta(seconds=60))
    """When the sender of a transaction that it did not end is asked first, unless the message says when."""
    request_bytes_max: int = 32 * MIB
    """The largest request that is decoded."""
    access: AccessOptions | None = None
    """None: everybody may do everything."""
    tls: TlsOptions | None = None
    audit: bool = False
    """Whether every call is in the audit log; otherwise those that are refused, or seldom."""
    plaintext: bool = True
    """Whether ``port`` is served, without TLS."""

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` where clients would be told an address that leads nowhere."""
        told = self.advertise.host if self.advertise is not None else self.address or self.host
        if is_everywhere(told):
            raise InvalidArgument(
                "clients cannot be told where this gateway is",
                operation="start the gateway",
                object=told or "no host",
                expected="an address that leads clients to this gateway: they are told it in routes",
                observed="the address that means all of a machine, which is for listening only",
                hint="name the host by which clients reach it: --address HOST, or for all gateways together --advertise HOST:PORT",
            )


def is_everywhere(host: str) -> bool:
    """Whether a host means every address of the machine that listens there."""
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
