"""The identity at the other end of a connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request that is likely to come again word for word, so that it need not be decoded again."""

    key: int
    """The number of its API."""
    version: int
    body: bytes
    request: Any


@dataclass(slots=True)
class KafkaSession:
    """One connection: who is at its other end."""

    address: str
    """The host, which owns what its connections hold."""
    port: int
    is_tls: bool = False
    principal: str = ""
    """The name that was proved; empty without."""
    proof: str = field(default="", repr=False)
    """The credential."""
    until_s: float = float("inf")
    """The end of the proof, by the process's clock. The client proves its name again before."""
    software: str = ""
    """The client's name for its library, unproved."""
    version: str = ""
    group: str = ""
    """The consumer group that it last worked in."""
    claimed: str = ""
    """The name that a proof claims, for the audit; empty for what is no name."""
    exchange: object | None = field(default=None, repr=False)
    """The proof of identity under way, between its messages."""
    is_ending: bool = False
    """Whether the connection is closed behind the answer to the call under way."""
    last: DecodedRequest | None = field(default=None, repr=False)
    """The last request of a client that waits."""
    producing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Held while the batches of a request join what is appended, so that they do in the order of requests."""

    @property
    def peer(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"
