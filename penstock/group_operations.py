"""Operators' work with consumer groups for synchronous callers; it is done on the lake's event-loop thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from penstock.consumers.redrive import RedriveReport
from penstock.consumers.trace import Trace
from penstock.coordinator import (
    ATTEMPTS_DEFAULT,
    DeadLetterPolicy,
    DeliveryOrder,
    GroupDescription,
    GroupSettings,
    ParkedGroup,
    RetryPolicy,
    WorkerSeen,
)
from penstock.log import MessageView, Position
from penstock.log.portal import Portal

from .group_lake import GroupLake


class GroupOperations:
    """The part of a lake that is about consumer groups and their dead letters."""

    def __init__(self, lake: GroupLake, portal: Portal) -> None:
        self._groups = lake
        self._portal = portal

    @property
    def coordination_url(self) -> str | None:
        """The name of the table of consumer groups; None: the lake's default."""
        return self._groups.coordination_url

    # --- Consumer groups --------------------------------------------------------------------------------------------------------

    def create_group(
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
        return self._portal.run(
            lambda: self._groups.create_group(
                name,
                delivery_order=delivery_order,
                retry=retry,
                max_attempts=max_attempts,
                dead_letter_policy=dead_letter_policy,
                filters=filters,
            )
        )

    def alter_group(self, name: str, **changes: object) -> GroupSettings:
        """Change ``retry``, ``max_attempts``, ``dead_letter_policy`` or ``filters``; members see it within seconds.

        Raises `GroupNotFound`, and `InvalidArgument` for anything else.
        """
        return self._portal.run(lambda: self._groups.alter_group(name, **changes))

    def delete_group(self, name: str, *, force: bool = False) -> None:
        """Delete a consumer group. A later group of its name begins anew.

        Raises `GroupInUse` when a member lives, or messages that the group gave up have no dead letter yet. A member that seems dead is
        watched for its lease and a quarter more, to be sure. With ``force`` the group is deleted even so: live members end with an error,
        and dead letters that are not written are lost, which the log tells. Raises `GroupNotFound`.
        """
        self._portal.run(lambda: self._groups.delete_group(name, force=force))

    def groups(self) -> dict[str, GroupSettings]:
        """The settings of all consumer groups, by name."""
        return self._portal.run(self._groups.groups)

    def describe_group(self, name: str) -> GroupDescription:
        """Settings, members, and the owner, progress and obstacles of every queue. Raises `GroupNotFound`."""
        return self._portal.run(lambda: self._groups.describe_group(name))

    def workers(self, *, watch: timedelta | None = None) -> list[WorkerSeen]:
        """The processes that have consumers open, and whether each lives. They are watched until that is known, at most for ``watch``."""
        return self._portal.run(lambda: self._groups.workers(watch=watch))

    # --- Backtrack, parked message groups ---------------------------------------------------------------------------------------

    def reset_offsets(self, topic: str, group: str, to: Position, *, queues: Sequence[int] | None = None) -> dict[int, int]:
        """Let a group go on from another place on a topic (backtrack), while its consumers run. Returns the offset of each queue.

        ``to`` is an offset, a store time with a zone, ``"earliest"`` or ``"latest"``, turned into offsets once, now; ``queues``: only
        these. Members carry it out within seconds: messages in flight are fenced, nothing before the new offsets is handed out again, and
        nothing after them is lost. Raises `GroupNotFound`, `TopicNotFound`, `InvalidArgument`, and `OffsetOutOfRange` for an offset that is
        not kept.
        """
        return self._portal.run(lambda: self._groups.reset_offsets(topic, group, to, queues=queues))

    def parked(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """The parked message groups, with the message that each stands at; only those of a topic, of a queue, or of this name."""
        return self._portal.run(lambda: self._groups.parked(group, topic=topic, queue=queue, message_group=message_group))

    def release(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Try parked messages again, with no strike against them. They are chosen as by `parked`. Returns the groups that were ordered
        released.

        The order is one write, and the owners of the queues carry it out within seconds. Raises `InvalidArgument` when a named message
        group is not parked.
        """
        return self._portal.run(lambda: self._groups.release(group, topic=topic, queue=queue, message_group=message_group))

    def skip(
        self, group: str, *, topic: str | None = None, queue: int | None = None, message_group: str | None = None
    ) -> list[ParkedGroup]:
        """Give parked messages up: each becomes a dead letter, and its message group goes on behind it. Otherwise like `release`."""
        return self._portal.run(lambda: self._groups.skip(group, topic=topic, queue=queue, message_group=message_group))

    # --- Dead letters -----------------------------------------------------------------------------------------------------------

    def redrive(
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
        return self._portal.run(lambda: self._groups.redrive(group, limit=limit, where=where, damaged=damaged))

    # --- One message ------------------------------------------------------------------------------------------------------------

    def trace(
        self, message_id: str, *, topic: str | None = None, progress: Callable[[int, int], None] = lambda done, topics: None
    ) -> Trace:
        """The stored traces of one message: its places, and how it stands in every consumer group that reads its topic.

        It is looked for in ``topic`` and the dead-letter queues of its groups, or in all topics. The search uses the Bloom filters of their
        tables, and reads the part of their logs that the tables lack. ``progress`` is given the number of topics that are done and of all
        topics. A message that is not found, or not any more, has no places. The stored data says how things stand, not how they came about:
        nobody knows how often a settled message was delivered.

        Raises `InvalidArgument` for what cannot be an id, and `TopicNotFound`. ``unread`` names what cannot be read.
        """
        return self._portal.run(lambda: self._groups.trace(message_id, topic=topic, progress=progress))
