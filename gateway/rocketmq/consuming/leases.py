"""What is out to the clients of this gateway, and when each invisible duration is to be renewed. Pure.

A push consumer states no invisible duration: its messages stay invisible as long as it lives. So the gateway that gave them, or that goes on
for another one, renews their handles. Messages of a message group that were received together become visible together, so one handle of
these is renewed for all: that of the first which was not settled beside this gateway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ....log import MessageView
from .receive_parameters import RENEWED_FOR

RENEWED_FOR_S: Final = RENEWED_FOR.total_seconds()
RENEW_BEFORE_S: Final = RENEWED_FOR_S / 2
"""A handle is renewed when its time is over in less than this: so a renewal that fails can be tried again a few times."""
RENEW_MAX_S: Final = 3 * 3600.0
"""A message is not kept from others for longer than this, as with RocketMQ: its handler hangs."""
RENEW_UNSEEN_MAX_S: Final = 120.0
"""The same where it is not sure that the client has it, as another gateway gave it, or its connection broke; unless it settles some of it."""

GroupTopicKey = tuple[str, str]
"""A consumer group, and a topic."""
HandleRun = list[str]
"""The handles of messages that become visible together, in order."""


@dataclass(frozen=True, slots=True)
class DeliveryLease:
    """One delivery that is renewed."""

    client_id: str
    place: GroupTopicKey
    together: tuple[int, str | None] | None
    """The queue and message group of messages that become visible together; None: it is alone."""
    offset: int
    due_s: float
    """When the message becomes visible, by this process's monotonic clock."""
    since_s: float
    """When this gateway began to renew it, or to doubt that it arrived."""
    is_seen: bool
    """Whether it is taken for granted that the client has it."""
    is_given_up: bool = False
    """Whether it is not renewed any more. It stays known, or it would be adopted anew."""

    def until_s(self) -> float:
        """When it is no longer renewed."""
        return self.since_s + (RENEW_MAX_S if self.is_seen else RENEW_UNSEEN_MAX_S)


class DeliveryLeases:
    """The deliveries that are renewed, by receipt handle."""

    def __init__(self) -> None:
        self._leases: dict[str, DeliveryLease] = {}
        self._of_client: defaultdict[str, set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, handle: str) -> bool:
        return handle in self._leases

    def client_of(self, handle: str) -> str | None:
        """The client that a message is out to. None: it is not renewed."""
        return None if (lease := self._leases.get(handle)) is None else lease.client_id

    def clients(self) -> list[str]:
        """The clients that messages are out to."""
        return list(self._of_client)

    def add(
        self,
        client_id: str,
        place: GroupTopicKey,
        messages: Iterable[MessageView],
        *,
        in_order: bool,
        now_s: float,
        due_s: float,
        is_seen: bool = True,
    ) -> None:
        """Note what a client was given. What is known stays as it is: a receive that is repeated gives what it gave, and its time goes on.

        ``is_seen``: whether the client has it for all that is known.
        """
        for message in messages:
            handle = message.receipt_handle
            if handle in self._leases:
                if is_seen:
                    self.seen([handle])
                continue
            self._leases[handle] = DeliveryLease(
                client_id, place, _company(message, in_order=in_order), message.offset, due_s, now_s, is_seen
            )
            self._of_client[client_id].add(handle)

    def seen(self, handles: Iterable[str]) -> None:
        """Note that the client has these."""
        for handle in handles:
            if (lease := self._leases.get(handle)) is not None and (lease.is_given_up or not lease.is_seen):
                self._leases[handle] = replace(lease, is_seen=True, is_given_up=False)

    def mark_unconfirmed(self, handles: Iterable[str], now_s: float) -> None:
        """Note that the client may not have these. Of what was in doubt before, the time goes on."""
        for handle in handles:
            if (lease := self._leases.get(handle)) is not None and lease.is_seen:
                self._leases[handle] = replace(lease, is_seen=False, since_s=now_s)

    def stop_renewing(self, handles: Iterable[str]) -> None:
        """Renew these no longer, as the client does not have them."""
        for handle in handles:
            if (lease := self._leases.get(handle)) is not None:
                self._leases[handle] = replace(lease, is_given_up=True)

    def together(self, handles: Iterable[str]) -> dict[GroupTopicKey, list[HandleRun]]:
        """Those that are known, by what becomes visible together."""
        return _together((handle for handle in handles if handle in self._leases), self._leases)

    def end(self, handle: str) -> None:
        """Forget a delivery: it was settled, or its client said when it becomes visible."""
        if (lease := self._leases.pop(handle, None)) is None:
            return
        handles = self._of_client[lease.client_id]
        handles.discard(handle)
        if not handles:
            del self._of_client[lease.client_id]

    def end_client(self, client_id: str) -> dict[GroupTopicKey, list[HandleRun]]:
        """Forget all that is out to a client, and give it."""
        handles = list(self._of_client.get(client_id, ()))
        ended = _together((handle for handle in handles if not self._leases[handle].is_given_up), self._leases)
        for handle in handles:
            self.end(handle)
        return ended

    def due(self, now_s: float) -> dict[GroupTopicKey, list[HandleRun]]:
        """What to renew now. What is no longer renewed is forgotten."""
        for handle, lease in list(self._leases.items()):
            if lease.since_s + RENEW_MAX_S <= now_s:
                self.end(handle)
            elif lease.until_s() <= now_s and not lease.is_given_up:
                self._leases[handle] = replace(lease, is_given_up=True)
        soon = [handle for handle, lease in self._leases.items() if lease.due_s - now_s < RENEW_BEFORE_S and not lease.is_given_up]
        return _together(soon, self._leases)

    def renewed(self, handle: str, due_s: float) -> None:
        """Note that a handle was renewed, and what becomes visible with it."""
        if (lease := self._leases.get(handle)) is None:
            return
        for other in [handle] if lease.together is None else self._beside(lease):
            self._leases[other] = replace(self._leases[other], due_s=due_s)

    def _beside(self, lease: DeliveryLease) -> Sequence[str]:
        return [
            handle
            for handle in self._of_client[lease.client_id]
            if (one := self._leases[handle]).together == lease.together and one.place == lease.place
        ]


def handle_runs(messages: Iterable[MessageView], *, in_order: bool) -> list[HandleRun]:
    """The handles of what one receive gave, by what becomes visible together."""
    found: defaultdict[object, HandleRun] = defaultdict(list)
    for message in messages:
        found[_company(message, in_order=in_order) or message.receipt_handle].append(message.receipt_handle)
    return list(found.values())


def _company(message: MessageView, *, in_order: bool) -> tuple[int, str | None] | None:
    return (message.queue, message.message_group) if in_order else None


def _together(handles: Iterable[str], leases: dict[str, DeliveryLease]) -> dict[GroupTopicKey, list[HandleRun]]:
    """The handles by what becomes visible together."""
    found: defaultdict[GroupTopicKey, dict[object, HandleRun]] = defaultdict(dict)
    for handle in sorted(handles, key=lambda handle: (leases[handle].offset, handle)):
        lease = leases[handle]
        key = handle if lease.together is None else (lease.client_id, lease.together)
        found[lease.place].setdefault(key, []).append(handle)
    return {place: list(of_place.values()) for place, of_place in found.items()}
