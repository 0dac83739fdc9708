"""Whether a push consumer got what it was given: the answers of receives, until that is known. Pure.

A connection may break with an answer on its way, or the client's time may be over. Most SDKs then repeat the receive with its attempt id, and
get the messages again. The SDK for Java does so only when its time was over, and that for Go never: they ask with a new attempt id, and the
former answer is lost. Without this the gateway would keep these messages from others as long as the client lives.

An answer that broke off before its end is of no use to any SDK. One that was written whole may have arrived or not when its connection
breaks behind it: a new attempt id says nothing then, as the client asks in the same way for the messages behind those that it handles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from .leases import GroupTopicKey

WAY_S: Final = 3.0
"""How long an answer may be on its way. SDKs wait so much longer than they let a poll last."""
_OPEN_MAX: Final = 64
"""The answers of one client that are remembered. Of the oldest beyond nothing more is learnt."""


@dataclass(slots=True, eq=False)
class SentReceive:
    """What one receive gave."""

    client_id: str
    attempt_id: str
    place: GroupTopicKey
    peer: str
    """The connection that it went by; empty: nothing that comes by it shows that it arrived, as where another gateway gave it."""
    handles: frozenset[str]
    until_s: float = float("inf")
    """How long its client waits for it, by this process's monotonic clock."""
    is_whole: bool = False
    """Whether it was written to its end."""
    is_broken_off: bool = False
    """Whether it ended before that."""
    is_late: bool = False
    """Whether its client may have stopped waiting before it arrived, and goes on by a connection that is good."""

    def mark_written(self, now_s: float) -> None:
        """Note that it was written to its end."""
        self.is_whole, self.is_late = True, now_s > self.until_s - WAY_S


class ReceiveOutcomes(NamedTuple):
    """What a client shows of former answers as it asks for messages."""

    arrived: list[str]
    """The handles of those that it has."""
    lost: list[str]
    """Those that it has not, and does not ask for again."""
    left: list[str]
    """Those that may be lost, as they were written to another connection than it has now."""
    late: list[str]
    """Those that may be lost, as it may have stopped waiting before they arrived."""


class UnconfirmedReceives:
    """The answers of which it is not known yet whether their clients have them.

    An answer arrived if its client settles one of the answer's messages, or asks for more by the same connection, as a connection keeps
    order. An answer is lost if writing it was broken off, and its client asks for other messages. An answer stays unconfirmed if its
    connection broke after it was written, or if it was written so late that its client may not have waited.
    """

    def __init__(self) -> None:
        self._open: dict[str, OrderedDict[str, SentReceive]] = {}
        """By client and attempt id."""
        self._of_handle: dict[str, tuple[str, str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def note_request(self, client_id: str, place: GroupTopicKey, attempt_id: str, peer: str) -> ReceiveOutcomes:
        """What it shows that the client asks for other messages now."""
        shown = ReceiveOutcomes([], [], [], [])
        for attempt, answer in list(self._open.get(client_id, OrderedDict()).items()):
            if answer.place != place or attempt == attempt_id:
                continue
            if answer.is_broken_off:
                shown.lost.extend(self._close(client_id, attempt))
            elif answer.is_whole and answer.is_late:
                shown.late.extend(answer.handles)
            elif answer.is_whole and answer.peer == peer:
                shown.arrived.extend(self._close(client_id, attempt))
            elif answer.is_whole:
                shown.left.extend(answer.handles)
        return shown

    def add(
        self,
        client_id: str,
        place: GroupTopicKey,
        attempt_id: str,
        peer: str,
        handles: Iterable[str],
        *,
        until_s: float = float("inf"),
    ) -> SentReceive:
        """Note an answer that begins. ``until_s``: how long its client waits for it."""
        self._close(client_id, attempt_id)
        answers = self._open.setdefault(client_id, OrderedDict())
        answer = answers[attempt_id] = SentReceive(client_id, attempt_id, place, peer, frozenset(handles), until_s)
        for handle in answer.handles:
            self._of_handle[handle] = client_id, attempt_id
        if len(answers) > _OPEN_MAX:
            self._close(client_id, next(iter(answers)))
        return answer

    def add_adopted(self, client_id: str, place: GroupTopicKey, handles: Iterable[str]) -> None:
        """Note what another gateway gave by one receive. Whether that arrived shows only when one of its messages is settled."""
        unknown = [handle for handle in handles if handle not in self._of_handle]
        if unknown:
            self.add(client_id, place, f"\0{unknown[0]}", "", unknown)  # no attempt id begins like this

    def mark_broken(self, answer: SentReceive) -> frozenset[str]:
        """Note that an answer ended before it was whole. Gives its handles, unless it is known already what became of it."""
        answer.is_broken_off = True
        is_open = self._open.get(answer.client_id, OrderedDict()).get(answer.attempt_id) is answer
        return answer.handles if is_open else frozenset()

    def unconfirmed_handles(self, client_id: str, *, is_peer_shared: bool = False) -> list[str]:
        """The handles of all that this gateway gave a client and that may be lost, as its connection broke.

        ``is_peer_shared``: whether that was to a balancer, whose own connection goes on. What comes by that shows nothing of these any more.
        """
        given = [answer for answer in self._open.get(client_id, OrderedDict()).values() if answer.peer]
        for answer in given if is_peer_shared else ():
            answer.peer = ""
        return [handle for answer in given for handle in answer.handles]

    def settled(self, handle: str) -> frozenset[str]:
        """The handles of the answer that has arrived, as the client settles one of its messages."""
        of = self._of_handle.get(handle)
        return frozenset() if of is None else self._close(*of)

    def end_client(self, client_id: str) -> None:
        """Forget a client."""
        for attempt in list(self._open.get(client_id, ())):
            self._close(client_id, attempt)

    def _close(self, client_id: str, attempt_id: str) -> frozenset[str]:
        answers = self._open.get(client_id, OrderedDict())
        if (answer := answers.pop(attempt_id, None)) is None:
            return frozenset()
        for handle in answer.handles:
            if self._of_handle.get(handle) == (client_id, attempt_id):
                del self._of_handle[handle]
        if not answers:
            del self._open[client_id]
        return answer.handles
