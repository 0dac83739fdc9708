"""Whether a push consumer got what it was given: the answers of receives, until that is known. Pure.

A connection may break with an answer on its way. Most SDKs then repeat the receive with its attempt id, and get the messages again. The SDK
for Java does so only when its time was over; otherwise it asks with a new attempt id, and its former answer is lost. Without this the
gateway would keep these messages from others as long as the client lives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .leases import Place

_OPEN_MAX: Final = 64
"""The answers of one client that are remembered. Beyond, the oldest count as arrived."""


@dataclass(slots=True)
class _Answer:
    """What one receive gave."""

    place: Place
    peer: str
    """The connection that it went by; empty: another gateway gave it."""
    handles: frozenset[str]
    is_doubtful: bool = False
    """Whether the connection broke since."""


class Answers:
    """The answers to clients, as long as it is open whether they arrived.

    One did when the client settles one of its messages, or asks for more by the same connection, by which answers come in order. It did not
    when that connection broke, and the client asks for other messages.
    """

    def __init__(self) -> None:
        self._open: dict[str, OrderedDict[str, _Answer]] = {}
        """By client and attempt id."""
        self._of_handle: dict[str, tuple[str, str]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def asked(self, client_id: str, place: Place, attempt_id: str, peer: str) -> list[str]:
        """The handles of answers that are lost, as the client asks for other messages now."""
        lost: list[str] = []
        for attempt, answer in list(self._open.get(client_id, OrderedDict()).items()):
            if answer.place != place or attempt == attempt_id:
                continue
            if answer.is_doubtful:
                lost += answer.handles
            if answer.is_doubtful or answer.peer == peer:
                self._close(client_id, attempt)
        return lost

    def given(self, client_id: str, place: Place, attempt_id: str, peer: str, handles: Iterable[str]) -> None:
        """Note an answer that begins."""
        self._close(client_id, attempt_id)
        answers = self._open.setdefault(client_id, OrderedDict())
        answers[attempt_id] = _Answer(place, peer, frozenset(handles))
        for handle in answers[attempt_id].handles:
            self._of_handle[handle] = client_id, attempt_id
        if len(answers) > _OPEN_MAX:
            self._close(client_id, next(iter(answers)))

    def adopted(self, client_id: str, place: Place, handles: Iterable[str]) -> None:
        """Note what another gateway gave by one receive. Whether that arrived shows only when one of its messages is settled."""
        unknown = [handle for handle in handles if handle not in self._of_handle]
        if unknown:
            self.given(client_id, place, f"\0{unknown[0]}", "", unknown)  # no attempt id begins like this

    def broken(self, client_id: str, attempt_id: str) -> list[str]:
        """Note that an answer broke off, and give its handles."""
        answer = self._open.get(client_id, OrderedDict()).get(attempt_id)
        return [] if answer is None else _doubted([answer])

    def all_broken(self, client_id: str) -> list[str]:
        """Note that the client's connection broke, and give the handles of all that may be lost by that."""
        return _doubted(self._open.get(client_id, OrderedDict()).values())

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


def _doubted(answers: Iterable[_Answer]) -> list[str]:
    """The handles of answers of this gateway, which are doubtful now."""
    own = [answer for answer in answers if answer.peer]
    for answer in own:
        answer.is_doubtful = True
    return [handle for answer in own for handle in answer.handles]
