"""Messages that a cell tracks individually: waiting ones, and suspects."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...coordinator.queues.cell import MessageState, QueueCell, Tries
from ...log.message.message import MessageView
from .expiries import Expiries
from .step import Step

_READ_AHEAD_MS = 60_000
"""Messages due within this time are read ahead."""


class TrackedMessages:
    """The tracked messages of one queue in one owner."""

    def __init__(self, cell: QueueCell, *, retained: int) -> None:
        self.tries = dict(cell.tries)
        self.messages: dict[int, MessageView] = {}
        """Messages in memory that are not running."""
        self.suspects = sorted(offset for offset, tries in cell.tries.items() if tries.state is MessageState.SUSPECT)
        """Suspects not run again yet."""
        self._retained = retained
        self._due = [(tries.due_ms, offset) for offset, tries in cell.tries.items() if tries.state is MessageState.WAITING]
        """(when, offset); some entries are out of date."""
        heapq.heapify(self._due)
        self._overdue: dict[int, None] = {}
        self._leaving: dict[int, Tries] = {}
        out = ((tries.due_ms, offset) for offset, tries in cell.tries.items() if tries.state is MessageState.OUT)
        self._expiries = Expiries(self._is_out, out)
        """Messages handed out by handle."""

    def __len__(self) -> int:
        return len(self.tries) + len(self._leaving)

    # --- What is wanted ---------------------------------------------------------------------------------------------------------

    def missing(self, now_ms: int) -> list[int]:
        """Suspects and due messages not in memory, and soon due ones while there is room."""
        soon = [one for one in self._due if one[0] <= now_ms + _READ_AHEAD_MS and one[1] not in self.messages]
        due = [offset for due, offset in soon if due <= now_ms and self._is_waiting(due, offset)]
        wanted = {offset for offset in (*self.suspects, *self._overdue, *due) if offset not in self.messages}
        room = self._retained - len(self.messages) - len(wanted)
        if room > 0 and len(soon) > len(due):
            wanted.update(offset for due, offset in sorted(soon)[: len(due) + room] if self._is_waiting(due, offset))
        return sorted(wanted)

    def next_due_ms(self) -> list[int]:
        while self._due and not self._is_waiting(*self._due[0]):
            heapq.heappop(self._due)
        return [self._due[0][0]] if self._due else []

    def next_expiry_ms(self) -> list[int]:
        """The time when the first of the messages handed out by handle comes back."""
        return self._expiries.first_ms()

    @property
    def is_calm(self) -> bool:
        """Whether none waits, is to be read again, or leaves."""
        return not (self.suspects or self._overdue or self._leaving or self._due)

    @property
    def count_waiting(self) -> int:
        """About the number of waiting messages in the cell."""
        return len(self._due) + len(self._overdue) + len(self._leaving)

    def count_due(self, until_ms: int) -> int:
        """About the number of waiting messages due until then."""
        return len(self._overdue) + sum(due_ms <= until_ms for due_ms, _ in self._due)

    @property
    def wants_solo(self) -> bool:
        return bool(self.suspects) and self.tries[self.suspects[0]].company == 1 and self.all_suspects_loaded

    @property
    def all_suspects_loaded(self) -> bool:
        return all(offset in self.messages for offset in self.suspects)

    # --- What comes in ----------------------------------------------------------------------------------------------------------

    def reread(self, messages: Iterable[MessageView]) -> None:
        self.messages.update((message.offset, message) for message in messages if message.offset in self.tries)

    def adopt(self, cell: QueueCell, offsets: Iterable[int] | None = None) -> None:
        """Take over others' changes of messages that are out. ``offsets``: of no others."""
        for offset in (list(self.tries) if offsets is None else offsets) if self._expiries else ():
            before = self.tries.get(offset)
            if before is None or before.state is not MessageState.OUT:
                continue
            tries = cell.tries.get(offset)
            if tries is before:
                continue
            if tries is None:
                del self.tries[offset]
            elif tries != before:
                self.tries[offset] = tries
                if tries.state is MessageState.WAITING:
                    heapq.heappush(self._due, (tries.due_ms, offset))
                elif tries.state is MessageState.OUT:
                    self._expiries.add(tries.due_ms, (offset,))

    # --- What waits outside of the cell -----------------------------------------------------------------------------------------

    def spill(self, most: int) -> Mapping[int, Tries]:
        """Let the messages due last leave, except ``most``. None runs until `spilled` or `returned`."""
        waiting = sorted(one for one in set(self._due) if self._is_waiting(*one))
        self._due, leaving = waiting[:most], waiting[most:]
        found = {offset: self.tries.pop(offset) for _, offset in leaving}
        self._leaving.update(found)
        for offset in found:
            self.messages.pop(offset, None)
        return found

    def spilled(self, waiting: Iterable[int]) -> None:
        for offset in waiting:
            del self._leaving[offset]

    def returned(self, waiting: Mapping[int, Tries]) -> None:
        """Let these messages wait in the cell."""
        for offset, tries in waiting.items():
            self._leaving.pop(offset, None)
            if offset not in self.tries:
                self.tries[offset] = tries
                heapq.heappush(self._due, (tries.due_ms, offset))

    # --- What becomes of them ---------------------------------------------------------------------------------------------------

    def of(self, message: MessageView) -> Tries:
        """The history of a message in flight, tracked or not."""
        return self.tries.get(message.offset, Tries(MessageState.RUNNING))

    def set(self, offset: int, tries: Tries, step: Step) -> None:
        self.tries[offset] = step.tries[offset] = tries

    def settle(self, offsets: Iterable[int], step: Step) -> None:
        for offset in offsets if self.tries else ():
            self._drop(offset, step)

    def forget(self, messages: Iterable[MessageView], step: Step) -> None:
        for message in messages if self.tries else ():
            self._drop(message.offset, step)

    def wait(self, message: MessageView, tries: Tries, step: Step) -> None:
        self.set(message.offset, tries, step)
        heapq.heappush(self._due, (tries.due_ms, message.offset))
        if len(self.messages) < self._retained:
            self.messages[message.offset] = message

    def run(self, message: MessageView, step: Step, *, company: int = 0) -> MessageView:
        """Count one more delivery. Returns the message for it."""
        before = self.of(message)
        self.set(message.offset, Tries(MessageState.RUNNING, before.attempts + 1, before.strikes, 0, company), step)
        return message._replace(delivery_attempt=before.attempts + 1)

    def take_due(self, now_ms: int, step: Step) -> list[MessageView]:
        self.fall_due(now_ms)
        found = [offset for offset in self._overdue if offset in self.messages]
        for offset in found:
            del self._overdue[offset]
        return [self.run(self.messages.pop(offset), step) for offset in found]

    def fall_due(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            due_ms, offset = heapq.heappop(self._due)
            if self._is_waiting(due_ms, offset):
                self._overdue[offset] = None

    def take_wave(self, most: int, step: Step) -> list[MessageView]:
        """Run the first suspects, no more together than each allows."""
        chosen: list[int] = []
        company = most
        for offset in self.suspects:
            at_most = min(company, self.tries[offset].company)
            if len(chosen) >= at_most:
                break
            company = at_most
            chosen.append(offset)
        self.suspects = self.suspects[len(chosen) :]
        return [self.run(self.messages.pop(offset), step, company=company) for offset in chosen]

    def put_back(self, messages: Sequence[MessageView]) -> None:
        self.messages.update((message.offset, message) for message in messages)
        self.suspects = sorted([*self.suspects, *(message.offset for message in messages)])

    def take_suspects(self, which: Callable[[MessageView], bool]) -> list[MessageView]:
        """Take suspects in memory out of their list."""
        found = [self.messages[offset] for offset in self.suspects if offset in self.messages and which(self.messages[offset])]
        for message in found:
            del self.messages[message.offset]
        gone = {message.offset for message in found}
        self.suspects = [offset for offset in self.suspects if offset not in gone] if gone else self.suspects
        return found

    def let_go(self, earliest: int, step: Step) -> None:
        gone = [
            offset
            for offset, tries in self.tries.items()
            if offset < earliest and tries.state not in (MessageState.RUNNING, MessageState.OUT)
        ]
        step.settled += gone
        for offset in gone:
            self._drop(offset, step)
        self.suspects = [offset for offset in self.suspects if offset >= earliest]

    def leave(self, offsets: Iterable[int], behind: int, step: Step) -> None:
        """Give back unstarted messages; those before ``behind`` without an attempt."""
        for offset in offsets:
            if offset in self.tries:
                continue
            if offset >= behind:
                step.given_back.append(offset)
            else:
                self.set(offset, Tries(MessageState.RUNNING, 0), step)

    def stop_all(self, company: int, step: Step) -> None:
        """Leave messages in flight to the next owner, without a strike."""
        for offset, tries in list(self.tries.items()):
            if tries.state is MessageState.RUNNING:
                self.set(offset, Tries(MessageState.SUSPECT, tries.attempts, tries.strikes, 0, company), step)

    def _drop(self, offset: int, step: Step) -> None:
        self.tries.pop(offset, None)
        self._overdue.pop(offset, None)
        step.tries.pop(offset, None)

    def _is_waiting(self, due_ms: int, offset: int) -> bool:
        tries = self.tries.get(offset)
        return tries is not None and tries.state is MessageState.WAITING and tries.due_ms == due_ms

    def _is_out(self, due_ms: int, offset: int) -> bool:
        tries = self.tries.get(offset)
        return tries is not None and tries.state is MessageState.OUT and tries.due_ms == due_ms
