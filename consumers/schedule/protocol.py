"""The schedule as the life of a queue needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ...coordinator.groups.record import GroupSettings
from ...coordinator.queues.cell import QueueCell
from ...coordinator.queues.offsets import OffsetSet
from ...coordinator.registry.former_work import FormerWork
from ...log.message.message import MessageView
from .blocked_groups import BlockedGroups
from .tracked_messages import TrackedMessages


class QueueSchedule(Protocol):
    """A schedule as its queue's processor needs it."""

    settings: GroupSettings
    closed: bool
    """Whether all messages wait for a former queue."""
    blocked: BlockedGroups

    @property
    def tracked(self) -> TrackedMessages: ...

    in_memory: int

    @property
    def held(self) -> int:
        """The messages in memory for which there must be room."""
        ...

    next_load: int
    next_fresh: int

    def wait_for(self, work: FormerWork) -> None:
        """Let messages wait for what is left in former queues."""
        ...

    def load(self, messages: Sequence[MessageView], filtered: OffsetSet, limit: int) -> None: ...

    def reread(self, messages: Iterable[MessageView], start: int, limit: int) -> None: ...

    def expired(self, earliest: int) -> None: ...

    def adopt(self, cell: QueueCell) -> None: ...

    def room(self, cell: QueueCell) -> int: ...

    def missing(self, now_ms: int) -> list[int]: ...

    def next_due_ms(self, cell: QueueCell) -> int | None: ...

    def next_expiry_ms(self) -> int | None: ...
