"""The table and the machines of a run with consumers, which tell what they see."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.consumers.failures.failure_notes import DIED, LAPSED
from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import FAILURES, GROUPS, QUEUES, WORKERS, failures_key, queue_key
from penstock.coordinator.groups.codec import decode_group
from penstock.coordinator.groups.record import CommandKind, GroupRecord
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.queues.commands import caught_up
from penstock.coordinator.registry import failures
from penstock.coordinator.registry.failures import NotedFailure, QueueFailures
from penstock.coordinator.tables import Cell, CellVersion
from penstock.coordinator.workers.lease import Heartbeat, decode_heartbeat
from penstock.log.stores.memory import MemoryStore
from tests.simulation.consumers.records import Altered, History, Line, Positioned, Skipped, Started, Wrote
from tests.simulation.consumers.spilled import Spilled
from tests.simulation.loop import SimLoop
from tests.simulation.workers_table import WorkersTable


class Witness(WorkersTable):
    """A table that tells every write that it carries out, and judges at once what needs others' cells: whether an owner was over."""

    def __init__(self, history: History, loop: SimLoop, lines: list[Line], store: MemoryStore) -> None:
        super().__init__("witness")
        self.spilled = Spilled(store)
        self._history = history
        self._loop = loop
        self._lines = {queue_key(*line): line for line in lines}
        self._records: dict[str, GroupRecord] = {}
        self.cells: dict[Line, QueueCell] = {}
        """As they stand, with all that waits outside of them."""
        self.bare: dict[Line, QueueCell] = {}
        """The same without."""
        self.cell_bytes_max = 0
        self._failures_of = {failures_key(*line): line for line in lines}
        self.failures: dict[Line, QueueFailures] = {}
        """What is kept of last failures."""
        self._begun: set[tuple[Line, int, int]] = set()
        """Queue, offset and attempt of what a handler was given."""
        self._read = 0

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        before = self._cells.get(key)
        version = await super().put(key, data, expected=expected)
        self._history.counts["cell write"] += 1
        old = before.data[WRITE_ID_BYTES:] if before is not None else None
        body = data[WRITE_ID_BYTES:]
        if key.startswith(QUEUES):
            self._saw_cell(key, body)
        elif key.startswith(FAILURES):
            self.failures[line := self._failures_of[key]] = failures._decode(body, where=key)
            self._check_told(line)
        elif key.startswith(GROUPS):
            self._saw_record(key.removeprefix(GROUPS), decode_group(body, where=key))
        elif key.startswith(WORKERS):
            self._saw_heartbeat(key, decode_heartbeat(old, where=key) if old else None, decode_heartbeat(body, where=key))
        return version

    def backup(self) -> dict[str, Cell]:
        """All cells as they stand at this instant."""
        return dict(self._cells)

    def put_back(self, backup: Mapping[str, Cell]) -> None:
        """Let them stand so again. No version comes twice, whatever was written meanwhile."""
        self._cells = dict(backup)
        self._removed -= backup.keys()
        self._records = {
            key.removeprefix(GROUPS): decode_group(cell.data[WRITE_ID_BYTES:], where=key)
            for key, cell in backup.items()
            if key.startswith(GROUPS)
        }
        bare = {key: decode_cell(cell.data[WRITE_ID_BYTES:], where=key) for key, cell in backup.items() if key.startswith(QUEUES)}
        self.bare = {self._lines[key]: cell for key, cell in bare.items()}
        self.cells = {line: self.spilled.whole(line, cell)[0] for line, cell in self.bare.items()}

    def secret(self, group: str) -> str:
        """The group's."""
        return self._records[group].secret

    def is_behind(self, line: Line) -> bool:
        """Whether its owner has not carried out yet what was ordered; a group that was just made anew may not have the topic yet."""
        record, cell = self._records.get(line[0]), self.cells.get(line)
        if record is None or cell is None:
            return False
        position = record.positions.get(line[1])
        # A topic that was made again may have fewer queues.
        if position is None or line[2] >= len(position.generations):
            return True
        return caught_up(cell, record, line[1], line[2]) is not cell

    def _blame(self, rule: str, what: str) -> None:
        self._history.wrong.append(f"{rule} {self._loop.now:.3f} s: {what}")

    def _saw_cell(self, key: str, body: bytes) -> None:
        line, bare = self._lines[key], decode_cell(body, where=key)
        cell, wrong = self.spilled.whole(line, bare)
        for what in wrong:
            self._blame("C1", f"{line}: the cell {what}")
        if spilled := bare.count_spilled:
            self._history.counts["messages outside of a cell, at most"] = max(
                self._history.counts["messages outside of a cell, at most"], spilled
            )
        self._count_spills(self.bare.get(line, QueueCell()), bare)
        before = self.cells.get(line, QueueCell())
        taken = bool(cell.owner) and cell.epoch > before.epoch  # else it was voided, as the topic has the queue no more
        if taken and before.owner not in {"", cell.owner} and not self.is_over(before.owner):
            self._blame("C9", f"{line}: taken by {cell.owner} while {before.owner} was not over")
        self.cells[line], self.bare[line] = cell, bare
        self._check_told(line)
        self.cell_bytes_max = max(self.cell_bytes_max, len(body))
        self._history.records.append(Wrote(self._loop.now, line, cell))

    def told(self, line: Line) -> list[NotedFailure]:
        """The last failures that an operator is told now."""
        return list(self.failures.get(line, QueueFailures()).true_of(self.cells.get(line, QueueCell())))

    def _check_told(self, line: Line) -> None:
        """No failure is told of an attempt that nobody made."""
        for one in self.told(line):
            records, self._read = self._history.records[self._read :], len(self._history.records)
            self._begun |= {
                ((record.group, token.topic, token.queue), token.offset, token.attempt)
                for record in records
                if isinstance(record, Started)
                for token in record.tokens
            }
            self._history.counts["failure told"] += 1
            granted = one.error in {DIED, LAPSED}  # of these a handler need not have begun
            if not granted and (line, one.offset, one.attempt) not in self._begun:
                self._blame("F1", f"{line}: {one} is told, and no handler began that attempt")

    def _count_spills(self, before: QueueCell, after: QueueCell) -> None:
        old, new = ({spill.id: spill for spill in cell.spills} for cell in (before, after))
        counts = self._history.counts
        counts["spill: left the cell"] += len(new.keys() - old.keys())
        counts["spill: came back in part"] += sum(new[one].taken > old[one].taken for one in new.keys() & old.keys())
        counts["spill: named no more"] += len(old.keys() - new.keys())
        counts["spill: taken over"] += bool(new) and after.epoch > before.epoch
        counts["spill: dropped by a reset"] += bool(old) and after.generation > before.generation
        counts["spill: merged"] += len(old.keys() - new.keys()) > 1 and bool(new.keys() - old.keys())

    def _saw_record(self, group: str, record: GroupRecord) -> None:
        before = self._records.get(group)
        self._records[group] = record
        self._history.secrets[group].add(record.secret)
        if before is not None and before.settings != record.settings:
            self._history.records.append(Altered(self._loop.now, group, record.settings))
        for topic, position in record.positions.items():
            known = before.positions.get(topic) if before is not None else None
            for queue, (generation, offset) in enumerate(zip(position.generations, position.offsets, strict=True)):
                if known is None or queue >= len(known.offsets) or known.generations[queue] != generation:
                    self._history.records.append(Positioned(self._loop.now, (group, topic, queue), generation, offset))
                elif known.offsets[queue] != offset:
                    self._blame(
                        "C1", f"{group}/{queue}: generation {generation} began at {known.offsets[queue]}, and begins at {offset}"
                    )
        ordered = {command.number for command in before.commands} if before is not None else set()
        for command in record.commands:
            if command.number not in ordered:
                line = (group, command.topic, command.queue)
                release = command.kind is CommandKind.RELEASE
                self._history.counts[f"ordered: {command.kind.value}"] += 1
                self._history.records.append(Skipped(self._loop.now, line, command.generation, tuple(command.heads), release))

    def _saw_heartbeat(self, key: str, old: Heartbeat | None, new: Heartbeat) -> None:
        if old is not None and old.fenced and not new.fenced:
            self._blame("C9", f"{key}: revived after it was fenced")
        if old is not None:
            known = max((one.number for one in old.members), default=0)
            if any(one.number <= known and one not in old.members for one in new.members):
                self._blame("C9", f"{key}: lists a member again that was over")
        if new.fenced:
            self._history.counts["heartbeat: fenced" if new.members else "heartbeat: left"] += 1
