"""The budget of receiving clients: open polls and unread answers, for the client, for its owner, and for all. Beyond it they wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from ...log import MessageView
from ...log.limits import MIB
from .quotas import Quota, QuotaCounter

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

    @contextmanager
    def hold_poll(self, caller: Caller) -> Iterator[None]:
        """A block with one more open poll. Raises `BackPressureError` at too many polls or unread answers."""
        self._check_held(caller)
        bounds = self.bounds
        with (
            self.shares.hold(bounds.of_client_polls, caller.client, 1),
            self.shares.hold(bounds.of_owner_polls, caller.owner, 1),
        ):
            yield

    @contextmanager
    def hold_messages(self, caller: Caller, messages: list[MessageView]) -> Iterator[None]:
        """A block in which a client reads messages. Raises `BackPressureError` at too many unread ones of others."""
        self._check_held(caller)
        size_bytes = sum(len(one.content) + OVERHEAD_BYTES for one in messages)
        with (
            self.shares.take(self.bounds.of_client_bytes, caller.client, size_bytes),
            self.shares.take(self.bounds.of_owner_bytes, caller.owner, size_bytes),
        ):
            yield

    def _check_held(self, caller: Caller) -> None:
        self.shares.check(self.bounds.of_client_bytes, caller.client)
        self.shares.check(self.bounds.of_owner_bytes, caller.owner)
