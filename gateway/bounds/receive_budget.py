"""The budget of receiving clients: open polls and unread answers, for the client, for its owner, and for all. Beyond it they wait."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from ...log import MessageView
from ...log.limits import MIB
from .quotas import HeldShare, Quota, QuotaCounter

OVERHEAD_BYTES: Final = 1_024
"""A message's size beside its body, about."""


class Caller(Protocol):
    """The holder of shares."""

    @property
    def client(self) -> str:
        """Its id, unique among all clients."""
        ...

    @property
    def owner(self) -> str:
        """The principal; without signatures, the address."""
        ...


@dataclass(frozen=True)
class BudgetLimits:
    """An answer that begins below the limits is given as a whole: at most 32 messages."""

    client_polls: int = 256
    owner_polls: int = 10_000
    polls: int = 20_000
    client_bytes: int = 64 * MIB
    owner_bytes: int = 128 * MIB
    bytes: int = 256 * MIB

    @cached_property
    def of_client_polls(self) -> Quota:
        return Quota("open polls of this client", self.client_polls, self.polls)

    @cached_property
    def of_owner_polls(self) -> Quota:
        return Quota("open polls", self.owner_polls, self.polls)

    @cached_property
    def of_client_bytes(self) -> Quota:
        return Quota("bytes of messages that this client has not read", self.client_bytes, self.bytes)

    @cached_property
    def of_owner_bytes(self) -> Quota:
        return Quota("bytes of messages that are not read", self.owner_bytes, self.bytes)


@dataclass(slots=True)
class ReceiveBudget:
    """Counts what is held now."""

    bounds: BudgetLimits = field(default_factory=BudgetLimits)
    shares: QuotaCounter = field(default_factory=QuotaCounter)

    @property
    def polls(self) -> int:
        return self.shares.held(self.bounds.of_owner_polls)

    @property
    def held_bytes(self) -> int:
        return self.shares.held(self.bounds.of_owner_bytes)

    def hold_poll(self, caller: Caller) -> HeldShare:
        """A block with one more open poll. Raises `BackPressureError` at too many polls or unread answers."""
        bounds, client, owner = self.bounds, caller.client, caller.owner
        self._check_held(client, owner)
        self.shares.check(bounds.of_client_polls, client, 1)
        self.shares.check(bounds.of_owner_polls, owner, 1)
        return _Both(self.shares.take(bounds.of_client_polls, client, 1), self.shares.take(bounds.of_owner_polls, owner, 1))

    def hold_messages(self, caller: Caller, messages: list[MessageView]) -> HeldShare:
        """A block in which a client reads messages. Raises `BackPressureError` at too many unread ones of others."""
        bounds, client, owner = self.bounds, caller.client, caller.owner
        self._check_held(client, owner)
        size_bytes = sum([len(one.content) + OVERHEAD_BYTES for one in messages])
        return _Both(
            self.shares.take(bounds.of_client_bytes, client, size_bytes), self.shares.take(bounds.of_owner_bytes, owner, size_bytes)
        )

    def _check_held(self, client: str, owner: str) -> None:
        self.shares.check(self.bounds.of_client_bytes, client)
        self.shares.check(self.bounds.of_owner_bytes, owner)


class _Both(AbstractContextManager[None]):
    """A class, as a generator takes three times as long."""

    __slots__ = ("_of_client", "_of_owner")

    def __init__(self, of_client: HeldShare, of_owner: HeldShare) -> None:
        self._of_client, self._of_owner = of_client, of_owner

    def __enter__(self) -> None:
        self._of_client.__enter__()
        self._of_owner.__enter__()

    def __exit__(self, *_: object) -> None:
        self._of_owner.__exit__(None, None, None)
        self._of_client.__exit__(None, None, None)
