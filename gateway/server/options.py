"""The options of gateways of any protocol."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

from ...coordinator import DeliveryOrder
from ...coordinator.access.sealing import SealingKeys
from ...log.errors import InvalidArgument
from ...log.limits import MIB


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A gateway's host and port for clients."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessOptions:
    """Clients' proof of identity, and the limits of principals at one process."""

    keys: SealingKeys
    calls_per_s: float | None = None
    connections: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TlsOptions:
    """A port for TLS, beside the one without or instead of it."""

    certificate: Path
    """PEM, followed by its chain."""
    key: Path
    """PEM."""
    port: int = 8443
    """0: any that is free."""
    own_port: int | None = None
    """This process's own port where several share the first one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GatewayOptions:
    """How a gateway of any protocol is run."""

    ADDRESS_HINT: ClassVar = "name the host by which clients reach it: --address HOST"

    host: str = "127.0.0.1"
    port: int
    """0: any that is free."""
    own_port: int | None = None
    """This process's own port where several share ``port``."""
    advertise: Endpoint | None = None
    """The one place of all gateways for clients, such as a load balancer's. None: each gateway's own."""
    address: str | None = None
    """The host for clients, if not ``host``."""
    create_topics: bool = False
    """Whether clients' unknown topics are made."""
    create_groups: DeliveryOrder | None = None
    """The delivery order of groups made for clients; None: none are made."""
    drain: timedelta = timedelta(seconds=5)
    """The time for calls under way at a stop."""
    request_bytes_max: int = 32 * MIB
    """The largest decoded request."""
    access: AccessOptions | None = None
    """None: clients prove nothing, and all is allowed."""
    tls: TlsOptions | None = None
    audit: bool = False
    """Whether all calls are in the audit log, or only refused and rare ones."""
    plaintext: bool = True
    """Whether ``port`` is served, without TLS."""

    def __post_init__(self) -> None:
        """Raises `InvalidArgument` for an address that leads clients nowhere."""
        told = self.advertise.host if self.advertise is not None else self.address or self.host
        if is_everywhere(told):
            raise InvalidArgument(
                "clients cannot be told where this gateway is",
                operation="start the gateway",
                object=told or "no host",
                expected="an address that leads clients to this gateway: they are told it",
                observed="the address that means all of a machine, which is for listening only",
                hint=self.ADDRESS_HINT,
            )


def is_everywhere(host: str) -> bool:
    """Whether a host means every address of the machine."""
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
