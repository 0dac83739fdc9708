"""The transactions of a lake."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from ...log.errors import DataDamaged, PenstockError, TopicNotFound
from ...log.lake import LogLake
from ...log.message.columns import with_value
from ...log.message.message import MESSAGE_SCHEMA, VALUE, MessageView, views
from ...log.paths import TopicPaths
from ...log.schema.stored_columns import shown_value
from ...log.schema.topic_schema import TopicSchema
from ...log.stage.half_messages import half_key, read_half, staged_sizes
from ...log.stores.protocol import ObjectMissing, delete_all
from ...log.topic.records import read_record
from ..coordination import Coordination
from .errors import HalfMessagesMissing
from .ids import check_producer_group, job_of, member_of
from .members.acks import Verdict
from .members.member_cells import MemberCells
from .members.own_members import OwnMembers, retire
from .members.producer_groups import ProducerGroups
from .members.state import (
    LINK_S,
    Decider,
    Decision,
    Destination,
    LinkResult,
    MemberCell,
    TransactionRow,
    check_decidable,
    check_open,
    is_aged,
    not_known,
)
from .settlement_cells import SettlementCells
from .statistics import TransactionCounters
from .transaction_linker import TransactionLinker

log = logging.getLogger("penstock.transactions")

LEAVE_S = 5.0
"""The timeout of leaving the producer groups."""


class Transactions:
    """The transactions of one lake. Any process may decide and finish any."""

    def __init__(self, lake: LogLake, coordination: Coordination) -> None:
        self.lake = lake
        self.counting = TransactionCounters()
        self.cells = MemberCells(coordination.cells, lake.runtime, on_write=self.counting.written)
        self.groups = ProducerGroups(coordination.cells, lake.runtime)
        self.queues = SettlementCells(coordination.cells, self.cells, lake.runtime)
        self.own = OwnMembers(self.cells, self.groups, lake.runtime, coordination.claim)

    async def keep_time(self) -> None:
        """Return once times are the store's. Call it before decisions by time."""
        await self.lake.keep_time()

    # --- Finding ----------------------------------------------------------------------------------------------------------------

    async def find(self, transaction: str) -> tuple[str, TransactionRow]:
        """A transaction's producer group and present row. Raises `TransactionNotFound`, or `InvalidArgument` for a bad id."""
        cell = await self.cells.read(member_of(transaction))
        if cell is None:
            raise not_known(transaction)
        return cell.group, cell.row(transaction)

    async def members(self, group: str) -> dict[str, MemberCell]:
        check_producer_group(group)
        names = sorted(await self.groups.members(group))
        cells = [(name, await self.cells.read(name)) for name in names]
        return {name: cell for name, cell in cells if cell is not None}

    async def rows(self, group: str) -> list[TransactionRow]:
        """A producer group's unfinished transactions, and those finished lately by others than their senders; oldest first."""
        rows = [row for cell in (await self.members(group)).values() for row in cell.rows.values()]
        return sorted(rows, key=lambda row: (row.created_ms, row.id))

    async def messages(self, transaction: str) -> list[MessageView]:
        """The messages of an unfinished transaction, by topic, in sending order within each queue. Their offset is -1. Unreadable messages to a
        deleted topic are left out. Raises `HalfMessagesMissing`, `DataDamaged`, `TransactionNotFound`.
        """
        _, row = await self.find(transaction)
        found: list[MessageView] = []
        for one in row.destinations:
            try:
                found += await self._staged(row.id, one)
            except (HalfMessagesMissing, DataDamaged, TopicNotFound):
                if await self._lives(one):
                    raise
        return found

    async def _staged(self, transaction: str, destination: Destination) -> list[MessageView]:
        paths = TopicPaths.of(destination.topic)
        found: list[MessageView] = []
        schema = await self._schema(paths)
        for number, part in enumerate(destination.parts):
            try:
                _, table = await read_half(self.lake.store, paths, job_of(transaction), number, expected=part.digest, schema=schema)
            except ObjectMissing as error:
                raise _missing(transaction, [half_key(paths, job_of(transaction), number)]) from error
            found += views(destination.topic, _placeless(table, schema))
        return found

    async def _schema(self, paths: TopicPaths) -> TopicSchema | None:
        """Raises `TopicNotFound` for a deleted typed topic."""
        record = await read_record(self.lake.store, paths)
        if record is None or record[0].settings.schema is None:
            return None
        topic = await self.lake.topic(paths.topic)
        await topic.tail.catch_up()
        return topic.tail.state.schema

    # --- Deciding ---------------------------------------------------------------------------------------------------------------

    async def decide(self, transaction: str, decision: Decision, by: Decider) -> TransactionRow:
        """The row, once this decision is durable. For all but the transaction's sender.

        Raises the other outcome when it is decided otherwise (`TransactionRolledBack`, `TransactionExpired`, `TransactionCommitted`). Raises
        `HalfMessagesMissing` when an interrupted sender makes a commit impossible, `TransactionNotFound`, or `UnknownOutcome` (ask again). Raises
        `AcksDecide` for a transaction that settles messages, unless an operator rolls it back, which hands them out again.
        """
        await self.keep_time()
        looked_at = await self._looked_at(transaction, decision, by)
        if gives_up(looked_at, decision, by):
            await self.queues.give_up(looked_at)
        clock = self.lake.runtime.clock

        def decided(cell: MemberCell) -> MemberCell:
            row = cell.row(transaction)
            if row.is_open and decision is Decision.COMMITTED:
                check_same(row, looked_at.destinations)
            return cell.decided(transaction, decision, by, now_ms=clock.wall_ms())

        row = (await self.cells.change(member_of(transaction), decided)).row(transaction)
        if row.decision is not decision:
            check_open(row, operation="commit")
        return row

    async def check(self, transaction: str, decision: Decision, by: Decider) -> TransactionRow:
        """Writes nothing, and raises as `decide` does."""
        await self.keep_time()
        row = await self._looked_at(transaction, decision, by)
        if row.acks is not None and gives_up(row, decision, by):
            if await self.queues.verdict(row.id, row.acks) is Verdict.COMMITTED:
                check_open(replace(row, decision=Decision.COMMITTED, by=Decider.ACKS), operation="roll back")
        elif row.is_open and decision is Decision.COMMITTED and is_aged(row, self.lake.runtime.clock.wall_ms()):
            check_open(replace(row, decision=Decision.ROLLED_BACK, by=Decider.AGE), operation="commit")
        return row

    async def _looked_at(self, transaction: str, decision: Decision, by: Decider) -> TransactionRow:
        _, row = await self.find(transaction)
        if row.decision is decision:
            return row
        check_open(row, operation="commit" if decision is Decision.COMMITTED else "roll back")
        if not gives_up(row, decision, by):
            check_decidable(row, by, decision)
        if decision is Decision.COMMITTED:
            await self.check_staged(row)
        return row

    async def check_staged(self, row: TransactionRow) -> None:
        """Raise `HalfMessagesMissing` unless all staged parts are on the store."""
        missing = []
        for one in row.destinations:
            paths = TopicPaths.of(one.topic)
            absent = parts_missing(one, paths, row.id, await staged_sizes(self.lake.store, paths, job_of(row.id)))
            if absent and await self._lives(one):
                missing += absent
        if missing:
            raise _missing(row.id, missing)

    async def gone(self, row: TransactionRow) -> frozenset[str]:
        """The topics deleted, perhaps remade, since messages were sent to them."""
        if row.is_finished:
            return frozenset(one.topic for one in row.destinations if one.linked is not None and one.linked.gone)
        lives = await asyncio.gather(*map(self._lives, row.destinations))
        return frozenset(one.topic for one, lives_on in zip(row.destinations, lives, strict=True) if not lives_on)

    async def _lives(self, destination: Destination) -> bool:
        """Whether the topic's settings, which change after its log's end, are still of this life."""
        found = await read_record(self.lake.store, TopicPaths.of(destination.topic))
        return found is not None and not found[0].deleted and found[0].incarnation == destination.incarnation

    # --- Finishing --------------------------------------------------------------------------------------------------------------

    async def finish(self, transaction: str) -> TransactionRow:
        """Link a decided transaction's messages, or delete what was staged. Raises `TransactionNotFound`, `DataDamaged`, what the stores raise."""
        await self.keep_time()
        clock = self.lake.runtime.clock
        member, asked_s = member_of(transaction), clock.monotonic_s()
        row = (await self.cells.change(member, lambda cell: cell.with_claim(transaction))).row(transaction)
        if row.is_open or row.is_finished:
            return row
        linked = await self.settle(row, deadline_s=asked_s + LINK_S)
        if row.acks is not None and row.decision is Decision.COMMITTED:
            await self.queues.forget(row.id, row.acks)
        cell = await self.cells.change(member, lambda cell: cell.with_finished(transaction, linked, now_ms=clock.wall_ms()))
        return cell.rows.get(transaction, row)

    async def settle(self, row: TransactionRow, *, deadline_s: float) -> dict[str, LinkResult]:
        if row.decision is Decision.ROLLED_BACK:
            await self.discard(row.id, [one.topic for one in row.destinations if not await self._is_linked(row.id, one.topic)])
            return {}
        links = [TransactionLinker(self.lake, row.id, one, deadline_s=deadline_s) for one in row.destinations]
        done = await side_by_side(links)
        return {one.topic: link for one, link in zip(row.destinations, done, strict=True)}

    async def discard(self, transaction: str, topics: Iterable[str]) -> None:
        for topic in topics:
            staged = await staged_sizes(self.lake.store, TopicPaths.of(topic), job_of(transaction))
            self.counting.deleted(topic, await delete_all(self.lake.store, staged))

    async def _is_linked(self, transaction: str, topic: str) -> bool:
        """Whether a transaction to be rolled back was linked before its row was restored from a backup; visible messages are then left to the
        collector.
        """
        try:
            opened = await self.lake.topic(topic)
        except TopicNotFound:
            return False
        await opened.tail.catch_up()
        if job_of(transaction) not in opened.tail.state.closed_jobs:
            return False
        log.error(
            "transaction %s is rolled back, but what it sent to %s was linked, or given up, before that: the coordination table was put back "
            "to an older state. What is visible stays so",
            transaction,
            topic,
        )
        return True

    # --- Tidying up -------------------------------------------------------------------------------------------------------------

    async def tidy(self, group: str) -> None:
        """Forget old finished transactions, and take idle members and empty groups off the lists. Raises what the table raises."""
        await self.keep_time()
        clock = self.lake.runtime.clock
        members = await self.groups.members(group)
        staying = set(members)
        for member in sorted(members):
            cell = await self.cells.read(member)
            if cell is not None and cell.is_idle(clock.wall_ms()):
                with suppress(PenstockError):  # it began something just now
                    await retire(self.cells, self.groups, group, member)
                    staying.discard(member)
            else:
                await self.cells.change(
                    member, lambda cell: cell.without_old(clock.wall_ms()).as_seen(clock.wall_ms()), group=group
                )
        if not staying:
            await self.groups.forget(group)

    async def close(self) -> None:
        """Write pending notes, and leave the producer groups."""
        await self.cells.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self.own.leave()


def gives_up(row: TransactionRow, decision: Decision, by: Decider) -> bool:
    """Whether an operator is ending the deliveries that a transaction settles."""
    return row.is_open and row.acks is not None and decision is Decision.ROLLED_BACK and by is Decider.OPERATOR


def parts_missing(destination: Destination, paths: TopicPaths, transaction: str, staged: dict[str, int]) -> list[str]:
    keys = [half_key(paths, job_of(transaction), number) for number in range(len(destination.parts))]
    return [key for key, part in zip(keys, destination.parts, strict=True) if staged.get(key) != part.size_bytes]


def check_same(row: TransactionRow, checked: Sequence[Destination]) -> None:
    """Raise `HalfMessagesMissing` when more was sent since the check of staged parts."""
    if row.destinations != tuple(checked):
        raise HalfMessagesMissing("the transaction's sender is sending", operation="commit", object=row.id, hint="try again")


async def side_by_side(links: Sequence[TransactionLinker]) -> list[LinkResult]:
    """The links' outcomes, once all have ended. Raises the first error."""
    done = await asyncio.gather(*(link.run() for link in links), return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]


def _missing(transaction: str, keys: Sequence[str]) -> HalfMessagesMissing:
    return HalfMessagesMissing(
        "messages that the transaction lists are not on the store: its sender was interrupted, or is sending still",
        operation="commit",
        object=transaction,
        expected="every part that was begun",
        observed=f"missing: {', '.join(keys[:3])}" + (", …" if len(keys) > 3 else ""),
        hint="no send that returned is lost; if the sender is gone, roll the transaction back",
    )


def _placeless(rows: pa.Table, schema: TopicSchema | None) -> pa.Table:
    columns = {name: rows[name] for name in rows.column_names}
    columns["offset"] = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
    columns["store_timestamp"] = rows["born_timestamp"]
    if schema is not None:
        columns[VALUE] = shown_value(rows[VALUE], schema)
    shown = with_value(MESSAGE_SCHEMA, None if schema is None else schema.arrow)
    return pa.table({name: columns[name] for name in shown.names}, schema=shown)
