"""Sends half messages: named in the transaction's row and uploaded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa

from ....log.errors import LimitExceeded, TopicDeleted
from ....log.format.header import Part
from ....log.limits import MIB
from ....log.message.batch_rows import MessageIds
from ....log.message.message import Message
from ....log.message.routing import Router
from ....log.runtime.backoff import until_answered
from ....log.runtime.runtime import Runtime
from ....log.stage.half_messages import HalfFile, half_files, half_rows
from ....log.stores.protocol import Put
from ....log.topic.topics import Topic
from ..errors import TransactionRolledBack
from ..ids import job_of, new_transaction
from ..limits import BYTES_MAX, MESSAGES_MAX, PARTS_MAX, TOPICS_MAX
from ..members.member_cells import MemberCells
from ..members.own_members import OwnMembers
from ..members.state import SEND_S, HalfPart, MemberCell

TIMEOUT = timedelta(minutes=2)
"""The timeout of each send, and of linking."""
_PUT_LARGE_BYTES = 8 * MIB


@dataclass(slots=True)
class StagedHalves:
    """One topic's objects staged here."""

    topic: Topic
    router: Router
    parts: list[Part] = field(default_factory=list)
    extended: bool = False


class HalfMessageSender:
    """One transaction's staged objects."""

    def __init__(self, cells: MemberCells, own: OwnMembers, runtime: Runtime, group: str, *, first_check: timedelta | None) -> None:
        self._cells = cells
        self._own = own
        self._runtime = runtime
        self._group = group
        self._first_check_ms = None if first_check is None else round(first_check.total_seconds() * 1000)
        self.id: str | None = None
        """None before the first message."""
        self.member = ""
        self.topics: dict[str, StagedHalves] = {}
        self.messages = 0
        self.begun = False
        """Whether a row may exist."""
        self.given_up = False
        self._bytes = 0

    def take(self, opened: Topic, count: int, size_bytes: int) -> StagedHalves:
        """Count these messages. Raises `LimitExceeded`, and `TopicDeleted`."""
        name = opened.paths.topic
        sent = self.topics.get(name)
        if sent is not None and sent.topic.record.incarnation != opened.record.incarnation:
            raise TopicDeleted(
                "the topic was deleted and created again since the transaction's first message to it", operation="send", object=name
            )
        _at_most("messages", self.messages + count, MESSAGES_MAX)
        _at_most("bytes", self._bytes + size_bytes, BYTES_MAX, unit=" bytes")
        _at_most("topics", len(self.topics) + (sent is None), TOPICS_MAX)
        _at_most("sends to one topic", 1 + (0 if sent is None else len(sent.parts)), PARTS_MAX)
        if sent is None:
            queues, routing = opened.settings.queues, opened.settings.routing
            sent = self.topics[name] = StagedHalves(opened, Router(queues, routing, first=self._runtime.random.randrange(queues)))
        if self.id is None:
            self.member = self._own.choose(self._group)
            self.id = new_transaction(self.member, self._runtime)
        self.messages += count
        self._bytes += size_bytes
        return sent

    async def stage(
        self,
        sent: StagedHalves,
        messages: Sequence[Message],
        queue: int | None,
        ids: MessageIds,
        started_s: float,
        typed: pa.Table | None = None,
    ) -> None:
        """Return once the messages are durable. ``typed`` is as for `half_rows`. Raises `TransactionRolledBack`, with nothing written, after a
        rollback.
        """
        assert self.id is not None, "given by the first send"
        born_us = 1000 * self._runtime.clock.wall_ms()
        transaction = self.id
        files = await self._runtime.offload(
            lambda: half_files(half_rows(messages, queue, sent.router, born_us=born_us, producer=transaction, ids=ids, typed=typed))
        )
        await self._own.joined(self._group, self.member)  # otherwise nobody would find the row
        self._check_wanted()
        number = len(sent.parts)  # nothing is awaited from here until the parts are named, so that they are named in order
        parts = [file.part(sent.topic.paths, job_of(self.id), number + at) for at, file in enumerate(files)]
        sent.parts += parts
        sent.extended = sent.extended or any(file.extended for file in files)
        waits: list[Awaitable[object]] = [self._name(sent, number, files, parts, started_s)]
        waits += [self._upload(sent, file, part) for file, part in zip(files, parts, strict=True)]
        await _all_of(waits)
        self._own.used(self._group, self.member, started_s)

    def _check_wanted(self) -> None:
        if self.given_up:
            raise rolled_back("send in a transaction", self.id)

    def _name(
        self, sent: StagedHalves, number: int, files: Sequence[HalfFile], parts: Sequence[Part], started_s: float
    ) -> Awaitable[object]:
        assert self.id is not None
        first, self.begun = not self.begun, True
        transaction, topic, incarnation = self.id, sent.topic.paths.topic, sent.topic.record.incarnation
        halves = [HalfPart(part.size_bytes, part.digest, file.messages) for file, part in zip(files, parts, strict=True)]
        clock = self._runtime.clock

        def named(cell: MemberCell) -> MemberCell:
            for at, half in enumerate(halves):
                cell = cell.with_half(
                    transaction,
                    topic,
                    incarnation,
                    number + at,
                    half,
                    now_ms=clock.wall_ms(),
                    first_check_ms=self._first_check_ms,
                    first=first,
                )
            return cell

        if first:
            return self._cells.change(self.member, named, group=self._group, until_s=started_s + SEND_S, grows=True)
        return self._cells.change(self.member, named, grows=True)

    async def _upload(self, sent: StagedHalves, file: HalfFile, part: Part) -> None:
        store, key = sent.topic.store, sent.topic.paths.root + part.key
        if len(file.data) > _PUT_LARGE_BYTES:
            await self._answered(lambda: store.put_large(key, file.data))
        else:
            await self._answered(lambda: store.put(key, file.data, mode=Put.REPLACE))

    async def _answered(self, work: Any) -> None:  # noqa: ANN401 - any request
        await until_answered(work, self._runtime.clock, timeout_s=TIMEOUT.total_seconds())


def rolled_back(operation: str, transaction: str | None) -> TransactionRolledBack:
    return TransactionRolledBack(
        "the transaction was rolled back",
        operation=operation,
        object=transaction,
        observed="by its sender",
        hint=None if operation == "commit" else "begin another one",
    )


async def _all_of(waits: Sequence[Awaitable[object]]) -> None:
    """Return once all have ended. Raises the first error."""
    done = await asyncio.gather(*waits, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one


def _at_most(what: str, observed: int, limit: int, *, unit: str = "") -> None:
    if observed > limit:
        raise LimitExceeded(
            f"the transaction has too many {what}",
            operation="send in a transaction",
            expected=f"at most {limit}{unit}",
            observed=f"{observed}{unit}",
            hint="end it, and send the rest in another one",
        )
