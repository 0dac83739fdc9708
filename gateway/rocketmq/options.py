"""The options of RocketMQ's gateway."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from ..server.options import GatewayOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class RocketMQOptions(GatewayOptions):
    """How RocketMQ's gateway is run."""

    ADDRESS_HINT: ClassVar = f"{GatewayOptions.ADDRESS_HINT}, or for all gateways together --advertise HOST:PORT"

    port: int = 8081
    """0: any that is free."""
    first_check: timedelta = timedelta(seconds=60)
    """The first check-back of a transaction, unless the message states it."""
    utc_signatures: bool = False
    """Whether signatures must be made in UTC, while SDKs sign local time."""
