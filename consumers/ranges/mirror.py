"""A stream's progress as a consumer group's progress, for its lag."""

from __future__ import annotations

import logging
from dataclasses import replace

from ...coordinator.groups.record import GroupInUse, GroupRecord
from ...coordinator.operators.operators import Operators
from ...log.errors import PenstockError
from .offsets import StreamOffset
from .topic_view import TopicView

log = logging.getLogger("penstock.consumers")


class GroupMirror:
    """Moves a group to the stream's progress, by one write a batch, as a reset does. A consumer of the group begins where the stream stopped; the
    checkpoint alone decides where the stream goes on.
    """

    def __init__(self, view: TopicView, topic: str, group: str) -> None:
        self._view = view
        self._topic = topic
        self._group = group
        self._reported: StreamOffset | None = None
        self._dead: frozenset[str] | None = None
        """None: not looked up yet."""

    def report(self, reached: StreamOffset) -> None:
        """Note progress. Raises `GroupInUse`; the table's errors are logged."""
        if reached == self._reported:
            return
        try:
            self._view.opened.run(lambda: self._save(reached))
        except GroupInUse:
            raise
        except PenstockError as error:
            log.warning("the progress of the stream on %s does not show in group %s: %s", self._topic, self._group, error)
        else:
            self._reported = replace(reached, queues=dict(reached.queues))  # a copy, as the caller goes on counting in it

    async def _save(self, reached: StreamOffset) -> None:
        coordination = await self._view.opened.coordination()
        if self._dead is None:
            record = await coordination.groups.ensure(self._group, {})
            await Operators(self._view.opened.lake, coordination).check_unused(self._group, operation="mirror a stream's progress")
            self._dead = frozenset(record.members)
        offsets = tuple(offset for _, offset in sorted(reached.queues.items()))

        def moved(before: GroupRecord) -> GroupRecord:
            if joined := set(before.members) - (self._dead or frozenset()):
                raise GroupInUse(
                    "a consumer joined the group that shows this stream's progress",
                    operation="mirror a stream's progress",
                    object=self._group,
                    observed=", ".join(sorted(joined)),
                    hint="give the stream a group of its own",
                )
            known = before.positions.get(self._topic)
            if known is not None and (known.life > reached.life or (known.life, known.offsets) == (reached.life, offsets)):
                return before  # the topic is gone, or the group stands there already
            return before.begun(self._topic, offsets, reached.life)

        await coordination.groups.update(self._group, moved)
