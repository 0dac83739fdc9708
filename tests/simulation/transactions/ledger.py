"""The table of a run with transactions, which tells every change of what it says of one."""

from __future__ import annotations

from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import PRODUCER_GROUPS, PRODUCERS, QUEUES, TRANSACTIONS, producers_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.tables import CellVersion
from penstock.coordinator.tables.memory import MemoryTable
from penstock.coordinator.transactions.members.codec import decode_member
from penstock.coordinator.transactions.members.producer_groups import decode_names
from penstock.coordinator.transactions.members.state import Decision, MemberCell, TransactionRow
from tests.simulation.loop import SimLoop
from tests.simulation.transactions.plot import SOURCE
from tests.simulation.transactions.records import Change, Fate, History

_FATES = {Decision.OPEN: Fate.OPEN, Decision.COMMITTED: Fate.COMMITTED, Decision.ROLLED_BACK: Fate.ROLLED_BACK}


def is_done(cell: QueueCell, offset: int) -> bool:
    """Whether a message is settled, in a group without order."""
    return offset in cell.settled and offset not in cell.tries


class Ledger(MemoryTable):
    """A table that forgets nothing of transactions."""

    def __init__(self, history: History, loop: SimLoop) -> None:
        super().__init__(name="ledger")
        self._history = history
        self._loop = loop
        self.members: dict[str, MemberCell] = {}
        """As they stand, by key."""
        self.queues: dict[str, QueueCell] = {}
        self.names: dict[str, frozenset[str]] = {}
        """The list of producer groups, and of the members of each, by key."""
        self._first_s: dict[str, float] = {}
        self._gone: set[str] = set()
        """Transactions whose rows were taken out."""
        self.bytes_max = 0
        """Of a member's cell."""

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        version = await super().put(key, data, expected=expected)
        body = data[WRITE_ID_BYTES:]
        if key.startswith(TRANSACTIONS):
            self.bytes_max = max(self.bytes_max, len(body))
            self._saw_member(key, decode_member(body, where=key))
        elif key.startswith(QUEUES):
            self._saw_queue(key, decode_cell(body, where=key))
        elif key == PRODUCER_GROUPS or key.startswith(PRODUCERS):
            self._saw_names(key, decode_names(body, where=key))
        return version

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        await super().delete(key, expected=expected)
        if (cell := self.members.pop(key, None)) is not None and cell.rows:
            self.blame("T5", f"the cell {key} was removed, which has transactions: {list(cell.rows)}")

    def rows(self) -> dict[str, TransactionRow]:
        """What stands now, by transaction."""
        return {transaction: row for cell in self.members.values() for transaction, row in cell.rows.items()}

    def unfinished(self) -> list[str]:
        """What is open, or decided and not done with, and what queues' cells still know of."""
        rows = [f"{transaction}: {row.decision.name}" for transaction, row in self.rows().items() if not row.is_finished]
        return rows + [f"{key} names {sorted(cell.transactions)}" for key, cell in self.queues.items() if cell.transactions]

    def decided(self) -> set[str]:
        """Transactions that are decided and not done with: by their own row, or by the cell of the queue that they settle messages of."""
        by_row = {row.id for row in self.rows().values() if row.decision is not Decision.OPEN and not row.is_finished}
        return by_row | {transaction for cell in self.queues.values() for transaction in cell.transactions}

    def _saw_member(self, key: str, cell: MemberCell) -> None:
        before = self.members.get(key)
        self.members[key] = cell
        for transaction, row in cell.rows.items():
            known = before.rows.get(transaction) if before is not None else None
            if known is None and transaction in self._gone:
                self.blame("T5", f"{transaction} came back, after its row was taken out")
            if known is not None and known.is_finished and not row.is_finished:
                self.blame("T5", f"{transaction} was done with, and is not any more")
            self._note(transaction, _FATES[row.decision], row.checks)
        for transaction, row in (before.rows if before is not None else {}).items():
            if transaction not in cell.rows:
                self._gone.add(transaction)
                if row.is_open:
                    self.blame("T5", f"{transaction} was taken out while it was open")

    def _saw_queue(self, key: str, cell: QueueCell) -> None:
        before = self.queues.get(key, QueueCell())
        self.queues[key] = cell
        topic, queue = SOURCE, int(key.rpartition("/")[2])
        new = cell.transactions - before.transactions
        for offset in range(cell.settled.limit):
            place = (topic, queue, offset)
            if is_done(cell, offset) and place not in self._history.settled:
                self._history.settled[place] = next(iter(new), "")
                if len(new) != 1:
                    self.blame("T8", f"{place} was settled by {sorted(new)}")
        for transaction in sorted(new):
            self._history.counts["settled by a transaction"] += 1
            self._note(transaction, Fate.COMMITTED, 0)
            self._history.settling.setdefault(transaction, key)
        for transaction in sorted(before.transactions - cell.transactions):
            if self._history.changes[transaction][-1].fate is not Fate.COMMITTED or transaction not in self._noted:
                self.blame("T8", f"{key} forgot {transaction} before its own row said that it is committed")

    def _saw_names(self, key: str, names: frozenset[str]) -> None:
        if gone := self.names.get(key, names) - names:
            self._history.counts["producer group forgotten" if key == PRODUCER_GROUPS else "member retired"] += len(gone)
        self.names[key] = names
        listed = {producers_key(group) for group in self.names.get(PRODUCER_GROUPS, ())}
        for lost in sorted(one for one, members in self.names.items() if members and one not in {PRODUCER_GROUPS, *listed}):
            self.blame("T10", f"{lost} has members, and its group is not on the list of which finishers know")

    @property
    def _noted(self) -> set[str]:
        """Transactions of which a member's cell says, or said, that they are committed."""
        standing = {transaction for transaction, row in self.rows().items() if row.decision is Decision.COMMITTED}
        return standing | self._gone

    def _note(self, transaction: str, fate: Fate, checks: int) -> None:
        changes = self._history.changes.setdefault(transaction, [])
        now_s = self._loop.now
        first_s = self._first_s.setdefault(transaction, now_s)
        if changes and (changes[-1].fate is fate or (fate is Fate.OPEN and transaction in self._history.settling)):
            return
        changes.append(Change(now_s, fate, now_s - first_s, checks))

    def blame(self, rule: str, what: str) -> None:
        """Note what must never be."""
        self._history.wrong.append(f"{rule} {self._loop.now:.3f} s: {what}")
