"""Ways to remove a guard of transactions for a while: `mutants` says which guard is which."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from penstock.coordinator.cells.cells import CellChanged
from penstock.coordinator.cells.keys import PRODUCER_GROUPS, producers_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.invisibility import acknowledged
from penstock.coordinator.queues.receipt_handle import ReceiptHandle, ReceiptRefused
from penstock.coordinator.transactions.finisher import Finisher
from penstock.coordinator.transactions.members.acks import AckedDelivery, Acks, Verdict
from penstock.coordinator.transactions.members.producer_groups import ProducerGroups
from penstock.coordinator.transactions.members.state import Decision, TransactionRow
from penstock.coordinator.transactions.sending.settlement import Settlement
from penstock.coordinator.transactions.sending.transaction import Transaction


def linked_first(original: Any) -> Any:
    async def decide(self: Transaction, decision: Decision) -> TransactionRow:
        """Links, and then decides."""
        if decision is Decision.COMMITTED and self.id is not None:
            _, row = await self._transactions.find(self.id)
            if row.is_open:
                await self._link(row, self._runtime.clock.monotonic_s())
        return await original(self, decision)

    return decide


def unforgiving(original: Any) -> Any:
    async def commit(self: Transaction) -> Any:
        """Commits whatever became of the sends."""
        self._failure = None
        return await original(self)

    return commit


def at_once(original: Any) -> Any:
    async def joined(self: Any, group: str, member: str) -> None:
        """Does not wait until the member is on the list."""

    return joined


def known(_: Any) -> Any:
    async def name(self: ProducerGroups, group: str) -> None:
        """Writes nothing where nothing is new."""
        await self._names(PRODUCER_GROUPS).change(lambda groups: groups | {group})

    return name


def unmet(_: Any) -> Any:
    async def forget(self: ProducerGroups, group: str) -> None:
        """Leaves the list of members as it is."""
        members, groups = self._names(producers_key(group)), self._names(PRODUCER_GROUPS)
        if not await members.read() and group in await groups.read():
            with suppress(CellChanged):
                await groups.write(groups.value - {group})

    return forget


def unwritten(original: Any) -> Any:
    async def withdraw(self: Transaction) -> TransactionRow | None:
        """Takes a row that is not there for one that never will be."""
        try:
            return (await self._transactions.find(self._known_id))[1]
        except LookupError:
            return None

    return withdraw


def impatient(_: Any) -> Any:
    async def sends_ended(self: Transaction) -> None:
        """Takes sends that are under way for ended."""

    return sends_ended


def nobody(_: Any) -> Any:
    async def held_jobs(cells: object, jobs: object) -> frozenset[str]:
        """Leaves no upload alone."""
        return frozenset()

    return held_jobs


def unasked(_: Any) -> Any:
    async def keep_time(self: object) -> None:
        """Goes by the machine's clock."""

    return keep_time


def forgotten_first(original: Any) -> Any:
    async def settle(self: Settlement, transaction: str, acks: Acks) -> None:
        """Lets the queue's cell forget the transaction before its row says that it is committed."""
        await original(self, transaction, acks)
        await self._settler.settle_by(acks.topic, acks.queue, (), partial(QueueCell.without_transactions, noted=(transaction,)))

    return settle


def one_by_one(original: Any) -> Any:
    def settled_by(cell: Any, transaction: str, handles: list[ReceiptHandle], *, now_ms: int) -> Any:
        """Settles what can be settled, and calls that a commit."""
        if transaction in cell.transactions:
            return cell
        for handle in handles:
            try:
                cell = acknowledged(cell, handle, now_ms=now_ms)
            except ReceiptRefused:
                continue
        return cell.with_transaction(transaction)

    return settled_by


def idless(original: Any) -> Any:
    def verdict(cell: Any, transaction: str, acks: Acks) -> Verdict:
        """Looks at the deliveries only."""
        return original(None if cell is None else cell.without_transactions((transaction,)), transaction, acks)

    return verdict


def by_the_clock(original: Any) -> Any:
    def can_be_settled(cell: Any, acks: Acks, one: AckedDelivery) -> bool:
        """Takes a delivery for ended when its time may be over, whether anybody has ended it or not."""
        return False

    return can_be_settled


def hesitant(_: Any) -> Any:
    known: dict[int, frozenset[str]] = {}

    async def once(self: Finisher, group: str) -> int:
        """Does only what stood so at its look before."""
        known[id(self)] = await self.look(group, spare=known.get(id(self), frozenset()))
        await self._transactions.tidy(group)
        return len(known[id(self)])

    return once
