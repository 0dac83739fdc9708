"""The deliveries of this gateway: whether each arrived, and when it is renewed. Pure.

A push consumer states no invisible duration: its messages stay invisible as long as it lives. So the gateway that gave them, or its successor, renews
their handles. Messages of a message group from one receive become visible together, by the handle of the first unsettled one.

An answer may be lost with its connection, or come too late. Most SDKs then repeat the receive with its attempt id. The SDK for Java does so only
after a timeout, and that for Go never: a new attempt id means that the former answer is lost. Without this memory the gateway would keep its messages
from others as long as the client lives.

An answer arrived if its client settles one of its messages, or asks for more by the same connection. A broken answer is of no use to any SDK: it is
lost if its client asks for other messages. An answer stays unconfirmed if its connection broke after it was written whole, or if it was written late:
a client with the answer and one without it ask alike.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ....log import MessageView
from .early_acks import EarlyAcks
from .receive_parameters import INVISIBLE_DURATION

INVISIBLE_DURATION_S: Final = INVISIBLE_DURATION.total_seconds()
RENEW_AHEAD_S: Final = INVISIBLE_DURATION_S / 2
"""The rest of a handle's time at its renewal, so that a failed one can be repeated a few times."""
RENEW_MAX_S: Final = 3 * 3600.0
"""A message is kept from others for no longer, as with RocketMQ: its handler hangs."""
RENEW_UNSEEN_MAX_S: Final = 120.0
"""The same for a doubtful arrival, until the client settles some of it."""
WAY_S: Final = 3.0
"""An answer's way. SDKs wait so much longer than they let a poll last."""
_UNCONFIRMED_MAX: Final = 64
"""The kept receives of one client from this gateway; older ones stay unconfirmed. Those of other gateways are kept while they are renewed."""

GroupTopicKey = tuple[str, str]
HandleRun = list[str]
"""Handles with common visibility, in order."""


@dataclass(slots=True, eq=False)
class SentReceive:
    """The messages of one receive, until their arrival is known."""

    client_id: str
    attempt_id: str
    place: GroupTopicKey
    peer: str
    """Its answer's connection; empty: no request confirms the arrival, as for another gateway's."""
    handles: Collection[str]
    until_s: float = float("inf")
    """The end of its client's wait, by the monotonic clock."""
    is_repeated: bool = False
    """Whether its messages were out to the client before."""
    is_whole: bool = False
    is_broken_off: bool = False
    is_late: bool = False
    """Whether its client may have stopped waiting, and goes on by a good connection."""
    is_own: bool = True
    """Whether this gateway gave it."""

    def mark_written(self, now_s: float) -> None:
        self.is_whole, self.is_late = True, now_s > self.until_s - WAY_S


@dataclass(frozen=True, slots=True)
class HandleRenewal:
    """One delivery that is renewed."""

    client_id: str
    place: GroupTopicKey
    visibility_group: tuple[int, str | None] | None
    """The queue and message group of common visibility; None: alone."""
    offset: int
    due_s: float
    """When the message becomes visible, by the monotonic clock."""
    since_s: float
    """The beginning of its renewals, or of the doubt about its arrival."""
    is_seen: bool
    is_given_up: bool = False
    """Whether renewals ended. It stays known, or it would be adopted anew."""

    def until_s(self) -> float:
        return self.since_s + (RENEW_MAX_S if self.is_seen else RENEW_UNSEEN_MAX_S)


class Deliveries:
    """Deliveries by receipt handle and client, their receives, and early acknowledgements."""

    def __init__(self, *, is_balanced: bool = False) -> None:
        """``is_balanced``: a balancer shares one client's calls among connections, so it may go on at another gateway by the same address."""
        self.is_balanced = is_balanced
        self.early_acks = EarlyAcks()
        self._renewals: dict[str, HandleRenewal] = {}
        self._of_client: defaultdict[str, set[str]] = defaultdict(set)
        self._receives: dict[str, OrderedDict[str, SentReceive]] = {}
        """Unconfirmed ones, by client and attempt id."""
        self._receive_of: dict[str, SentReceive] = {}

    def __len__(self) -> int:
        """Renewed ones."""
        return len(self._renewals)

    # --- What clients are given, and whether they have it --------------------------------------------------------------------------

    def add_receive(
        self,
        client_id: str,
        place: GroupTopicKey,
        attempt_id: str,
        peer: str,
        messages: Collection[MessageView],
        *,
        in_order: bool,
        now_s: float,
        until_s: float = float("inf"),
    ) -> SentReceive:
        """Note a client's new messages. The time of known ones goes on. ``until_s``: how long the client waits."""
        handles = [message.receipt_handle for message in messages]
        is_repeated = any(handle in self._renewals for handle in handles)
        self._see(handles)
        self._add_renewals(
            client_id, place, messages, in_order=in_order, now_s=now_s, due_s=now_s + INVISIBLE_DURATION_S, is_seen=True
        )
        return self._add(SentReceive(client_id, attempt_id, place, peer, handles, until_s, is_repeated))

    def adopt(
        self,
        client_id: str,
        place: GroupTopicKey,
        messages: Collection[MessageView],
        *,
        in_order: bool,
        now_s: float,
        due_s: float,
    ) -> int:
        """Note another gateway's receive, and return the number of new messages. Only an acknowledgement confirms the arrival.

        It confirms messages of the same queue only: those of other queues may have been given by yet another gateway under the same attempt id,
        in an answer that was lost.
        """
        count = len(self._renewals)
        self._add_renewals(client_id, place, messages, in_order=in_order, now_s=now_s, due_s=due_s, is_seen=False)
        unknown: defaultdict[int, list[str]] = defaultdict(list)
        for message in messages:
            handle = message.receipt_handle
            if handle not in self._receive_of and not self._renewals[handle].is_seen:
                unknown[message.queue].append(handle)
        for handles in unknown.values():
            attempt_id = f"\0{handles[0]}"  # none begins like this
            self._add(SentReceive(client_id, attempt_id, place, "", handles, is_own=False))
        return len(self._renewals) - count

    def on_request(self, client_id: str, place: GroupTopicKey, attempt_id: str, peer: str, now_s: float) -> list[str]:
        """Judge former receives by a client's new request. Returns the handles of lost ones.

        Their renewals end, and their time is not cut short: the client may get them at another gateway by their attempt id.
        """
        lost: list[str] = []
        for receive in list(self._receives.get(client_id, OrderedDict()).values()):
            if receive.place != place or receive.attempt_id == attempt_id:
                continue
            if receive.is_broken_off:
                lost.extend(receive.handles)
                self._close(receive)
            elif receive.is_whole and receive.is_late:
                self._doubt(receive.handles, now_s)
            elif receive.is_whole and receive.peer == peer:
                self._confirm(receive)
            elif receive.is_whole and not self.is_balanced:
                self._doubt(receive.handles, now_s)
        for handle, renewal in self._known_renewals(lost):
            self._renewals[handle] = replace(renewal, is_given_up=True)
        return lost

    def mark_broken(self, receive: SentReceive, now_s: float) -> None:
        """Note an incomplete answer. Its client may ask for it again."""
        receive.is_broken_off = True
        if self._receives.get(receive.client_id, OrderedDict()).get(receive.attempt_id) is receive:
            self._doubt(receive.handles, now_s)

    def on_stream_end(self, client_id: str, now_s: float) -> None:
        """Doubt the arrivals at a client whose connection broke. Later requests by a balancer's connection do not confirm them."""
        for receive in self._receives.get(client_id, OrderedDict()).values():
            if receive.peer:
                self._doubt(receive.handles, now_s)
                receive.peer = "" if self.is_balanced else receive.peer

    # --- Ends -----------------------------------------------------------------------------------------------------------------------

    def settle(self, handle: str) -> None:
        """End the renewals of a delivery. Its receive has arrived."""
        if (receive := self._receive_of.get(handle)) is not None:
            self._confirm(receive)
        self.forget(handle)

    def forget(self, handle: str) -> None:
        """End the renewals of a delivery. The arrival of its receive stays open while others of it are renewed."""
        if (renewal := self._renewals.pop(handle, None)) is None:
            return
        if (receive := self._receive_of.get(handle)) is not None and self._renewals.keys().isdisjoint(receive.handles):
            self._close(receive)
        handles = self._of_client[renewal.client_id]
        handles.discard(handle)
        if not handles:
            del self._of_client[renewal.client_id]

    def end_client(self, client_id: str) -> dict[GroupTopicKey, list[HandleRun]]:
        """Forget a client, and return its renewed deliveries."""
        for receive in list(self._receives.get(client_id, OrderedDict()).values()):
            self._close(receive)
        handles = list(self._of_client.get(client_id, ()))
        ended = self._runs(handle for handle in handles if not self._renewals[handle].is_given_up)
        for handle in handles:
            self.forget(handle)
        return ended

    # --- Renewing -------------------------------------------------------------------------------------------------------------------

    def client_of(self, handle: str) -> str | None:
        return None if (renewal := self._renewals.get(handle)) is None else renewal.client_id

    def clients(self) -> list[str]:
        return list(self._of_client)

    def runs(self, handles: Iterable[str]) -> dict[GroupTopicKey, list[HandleRun]]:
        """Renewed ones of these handles, by common visibility."""
        return self._runs(handle for handle, _ in self._known_renewals(handles))

    def due(self, now_s: float) -> dict[GroupTopicKey, list[HandleRun]]:
        """The handles to renew now, without those past their limit, which are forgotten."""
        for handle, renewal in list(self._renewals.items()):
            if renewal.since_s + RENEW_MAX_S <= now_s:
                self.forget(handle)
            elif renewal.until_s() <= now_s and not renewal.is_given_up:
                self._renewals[handle] = replace(renewal, is_given_up=True)
        return self._runs(
            handle
            for handle, renewal in self._renewals.items()
            if renewal.due_s - now_s < RENEW_AHEAD_S and not renewal.is_given_up
        )

    def mark_renewed(self, handle: str, due_s: float) -> None:
        if (renewal := self._renewals.get(handle)) is None:
            return
        for other, one in self._known_renewals(
            [handle] if renewal.visibility_group is None else self._of_client[renewal.client_id]
        ):
            if (one.place, one.visibility_group) == (renewal.place, renewal.visibility_group):
                self._renewals[other] = replace(one, due_s=due_s)

    # --- Inside ---------------------------------------------------------------------------------------------------------------------

    def _add_renewals(
        self,
        client_id: str,
        place: GroupTopicKey,
        messages: Iterable[MessageView],
        *,
        in_order: bool,
        now_s: float,
        due_s: float,
        is_seen: bool,
    ) -> None:
        for message in messages:
            handle, visibility_group = message.receipt_handle, _visibility_group_of(message, in_order=in_order)
            if handle not in self._renewals:
                self._renewals[handle] = HandleRenewal(client_id, place, visibility_group, message.offset, due_s, now_s, is_seen)
                self._of_client[client_id].add(handle)

    def _add(self, receive: SentReceive) -> SentReceive:
        if (former := self._receives.get(receive.client_id, OrderedDict()).get(receive.attempt_id)) is not None:
            self._close(former)
        receives = self._receives.setdefault(receive.client_id, OrderedDict())
        receives[receive.attempt_id] = receive
        self._receive_of |= dict.fromkeys(receive.handles, receive)
        if len(receives) > _UNCONFIRMED_MAX:
            own = [one for one in receives.values() if one.is_own]
            if len(own) > _UNCONFIRMED_MAX:
                self._close(own[0])
        return receive

    def _close(self, receive: SentReceive) -> None:
        receives = self._receives[receive.client_id]
        del receives[receive.attempt_id]
        if not receives:
            del self._receives[receive.client_id]
        for handle in receive.handles:
            if self._receive_of.get(handle) is receive:
                del self._receive_of[handle]

    def _confirm(self, receive: SentReceive) -> None:
        self._close(receive)
        self._see(receive.handles)

    def _see(self, handles: Iterable[str]) -> None:
        for handle, renewal in self._known_renewals(handles):
            self._renewals[handle] = replace(renewal, is_seen=True, is_given_up=False)

    def _doubt(self, handles: Iterable[str], now_s: float) -> None:
        """The time of former doubts goes on."""
        for handle, renewal in self._known_renewals(handles):
            if renewal.is_seen:
                self._renewals[handle] = replace(renewal, is_seen=False, since_s=now_s)

    def _known_renewals(self, handles: Iterable[str]) -> Iterator[tuple[str, HandleRenewal]]:
        for handle in handles:
            if (renewal := self._renewals.get(handle)) is not None:
                yield handle, renewal

    def _runs(self, handles: Iterable[str]) -> dict[GroupTopicKey, list[HandleRun]]:
        found: defaultdict[GroupTopicKey, dict[object, HandleRun]] = defaultdict(dict)
        for handle in sorted(handles, key=lambda handle: (self._renewals[handle].offset, handle)):
            renewal = self._renewals[handle]
            key = handle if renewal.visibility_group is None else (renewal.client_id, renewal.visibility_group)
            found[renewal.place].setdefault(key, []).append(handle)
        return {place: list(of_place.values()) for place, of_place in found.items()}


def handle_runs(messages: Iterable[MessageView], *, in_order: bool) -> list[HandleRun]:
    """The handles of one receive, by common visibility."""
    found: defaultdict[object, HandleRun] = defaultdict(list)
    for message in messages:
        found[_visibility_group_of(message, in_order=in_order) or message.receipt_handle].append(message.receipt_handle)
    return list(found.values())


def _visibility_group_of(message: MessageView, *, in_order: bool) -> tuple[int, str | None] | None:
    return (message.queue, message.message_group) if in_order else None
