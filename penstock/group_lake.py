"""A lake with consumer groups, as operators see them: created, altered, described, reset; on the running event loop."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from penstock.consumers.redrive import RedriveReport, redrive
from penstock.consumers.trace import Trace, trace
from penstock.coordinator import (
    ATTEMPTS_DEFAULT,
    Coordination,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupDescription,
    GroupSettings,
    Operators,
    ParkedGroup,
    RetryPolicy,
    WorkerSeen,
    open_coordination,
)
from penstock.log import Lake as LogLake
from penstock.log import MessageView, ObjectStore, Position, Runtime
from penstock.log.limits import check_flag

_SECRETS = ("access_key_id", "secret_access_key", "session_token")


class GroupLake(LogLake):
    """Topics, producers, readers and groups. ``coordination`` names the table of consumer groups (see `penstock.coordinator.open_table`)."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        runtime: Runtime | None = None,
        read_only: bool = False,
        coordination: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(store, runtime=runtime, read_only=read_only)
        self._table_url = coordination
        # A table in the same cloud takes the same credentials. All other options are about the store.
        self._table_options = {name: value for name, value in (options or {}).items() if name in _SECRETS}
        self._coordination: Coordination | None = None
        self._operators: Operators | None = None

    @property
    def coordination_url(self) -> str | None:
        """The name of the table of consumer groups; None: the lake's default."""
        return self._table_url

    @property
    def coordination(self) -> Coordination:
        """The table of consumer groups, and this process's part in it; opened when it is first needed."""
        self._check_open()
        if self._coordination is None:
            self._coordination = open_coordination(
                self._table_url,
                store=self.store,
                runtime=self.runtime,
                options=self._table_options,
                label=f"{socket.gethostname()}/{os.getpid()}",
            )
        return self._coordination

    # --- Consumer groups --------------------------------------------------------------------------------------------------------

    async def create_group(
        self,
        name: str,
        *,
        delivery_order: DeliveryOrder | str = DeliveryOrder.ORDERLY,
        retry: RetryPolicy | None = None,
        max_attempts: int | None = ATTEMPTS_DEFAULT,
        dead_letter_policy: DeadLetterPolicy | str = DeadLetterPolicy.CONTINUE,
        filters: Mapping[str, str] | None = None,
    ) -> GroupSettings:
        """Create a consumer group; fine when it exists with these settings. A consumer creates its group by itself, too.

        ``delivery_order`` is ORDERLY (a message group's messages one after the other) or CONCURRENT, for good. ``retry`` says when a failed
        message is run again (default: each second, CONCURRENT: by RocketMQ's table of 10 s to 2 h). After ``max_attempts`` deliveries
        (None: any number) it goes to the dead-letter queue. With ``dead_letter_policy="park"`` its message group stands still instead,
        until an operator releases or skips it. ``filters`` are by topic: ``{"orders": "paid || refunded"}``, ``{"orders": "SQL92: price >
        10"}``.

        Raises `GroupExists` with both settings when it has other ones, `InvalidArgument` or `LimitExceeded` for a bad name or value.
        """
        stated = {
            "delivery_order": delivery_order,
            "max_attempts": max_attempts,
            "dead_letter_policy": dead_letter_policy,
            "filters": {} if filters is None else filters,
        }
        settings = GroupSettings.stating(stated if retry is None else {**stated, "retry": retry})
        return await self._operating.create(name, settings)

    async def alter_group(self, name: str, **changes: object) -> GroupSettings:
        """Change ``retry``, ``max_attempts``, ``dead_letter_policy`` or ``filters``; members see it within seconds.

        Raises `GroupNotFound`, and `InvalidArgument` for anything else.
        """
        return await self._operating.alter(name, **changes)

    async def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a consumer group. A later group of its name begins anew.

        Raises `GroupInUse` when a member lives, or messages that the group gave up have no dead letter yet. A member that seems dead is
        watched for its lease and a quarter more, to be sure. With ``force`` the group is deleted even so: live members end with an error,
        and dead letters that are not written are lost, which the log tells. Raises `GroupNotFound`.
        """
        check_flag("force", force, operation="delete_group")
        await self._operating.delete(name, force=force)

    async def groups(self) -> dict[str, GroupSettings]:
        """The settings of all consumer groups, by name."""
        return await self._operating.groups()

    async def describe_group(self, name: str) -> GroupDescription:
        """Settings, members, and the owner, progress and obstacles of every queue. Raises `GroupNotFound`."""
        return await self._operating.describe(name)

    async def workers(self, *, watch: timedelta | None = None) -> list[WorkerSeen]:
        """The processes that have consumers open, and whether each lives. They are watched until that is known, at most for ``watch``."""
        return await self._operating.workers(watch=watch)

    # --- Backtrack, parked message groups ---------------------------------------------------------------------------------------

    async def reset_offsets(self, topic: str, group: str, to: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic (backtrack), while its consumers run. Returns the offset of each queue.

        ``to`` is an offset, a store time with a zone, ``"earliest"`` or ``"latest"``, turned into offsets once, now; ``queues``: only
        these. Members carry it out within seconds: messages in flight are fenced, nothing before the new offsets is handed out again, and
        nothing after them is lost. Raises `GroupNotFound`, `TopicNotFound`, `InvalidArgument`, and `OffsetOutOfRange` for an offset that is
        not kept.
        """
        return await self._operating.reset(topic, group, to, queues)

    async def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The parked message groups, with the message that each stands at; only those of a topic, of a queue, or of this name."""
        return await self._operating.parked(group, topic=topic, queue=queue, message_group=message_group)

    async def release(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Try parked messages again, with no strike against them. They are chosen as by `parked`. Returns the groups that were ordered
        released.

        The order is one write, and the owners of the queues carry it out within seconds. Raises `InvalidArgument` when a named message
        group is not parked.
        """
        return await self._operating.release(group, topic=topic, queue=queue, message_group=message_group)

    async def skip(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on behind it. Otherwise like `release`."""
        return await self._operating.skip(group, topic=topic, queue=queue, message_group=message_group)

    @property
    def _operating(self) -> Operators:
        if self._operators is None:
            self._operators = Operators(self, self.coordination)
        self._check_open()
        return self._operators

    # --- Dead letters -----------------------------------------------------------------------------------------------------------

    async def redrive(
        self,
        group: str,
        *,
        limit: int | None = None,
        where: Callable[[MessageView], bool] | None = None,
        damaged: Literal["raise", "skip"] = "raise",
    ) -> RedriveReport:
        """Send the dead letters of a group back to the topics they came from, oldest first, at most ``limit``. Consumers may run meanwhile.

        Each goes back once, however often this is repeated, and as the original message: id, message group, tag, keys, body and properties.
        Every group that reads the topic gets it. ``where`` chooses by the dead letter. Letters that it leaves out, and letters that cannot
        be sent now (the report says why), may go back later.

        Raises `TopicNotFound` when the group has no dead letters, and `DataDamaged` at one that cannot be read (``damaged="skip"`` leaves
        it out). Raises errors of sending; messages sent before stay sent.
        """
        self._check_open()
        return await redrive(self, group, limit=limit, where=where, damaged=damaged)

    # --- One message ------------------------------------------------------------------------------------------------------------

    async def trace(
        self, message_id: str, *, topic: str | None = None, progress: Callable[[int, int], None] = lambda done, topics: None
    ) -> Trace:
        """The stored traces of one message: its places, and how it stands in every consumer group that reads its topic.

        It is looked for in ``topic`` and the dead-letter queues of its groups, or in all topics. The search uses the Bloom filters of their
        tables, and reads the part of their logs that the tables lack. ``progress`` is given the number of topics that are done and of all
        topics. A message that is not found, or not any more, has no places. The stored data says how things stand, not how they came about:
        nobody knows how often a settled message was delivered.

        Raises `InvalidArgument` for what cannot be an id, and `TopicNotFound`. ``unread`` names what cannot be read.
        """
        self._check_open()
        return await trace(self, self.coordination, message_id, topic=topic, progress=progress)

    async def _close(self) -> None:
        try:
            if self._coordination is not None:
                await self._coordination.close()
        finally:
            await super()._close()
