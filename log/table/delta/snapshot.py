"""The topic's table at one version, computed from Delta actions alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .actions import PUBLISHED, CommitInfo, Logged, RemoveFile, Txn, end_txn, parse_lost, start_txn
from .segments import TableFile
from .table_metadata import Protocol, TableMetadata


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table at ``version``; -1: there is no table yet."""

    folder: str
    """Relative to the topic."""
    version: int = -1
    protocol: Protocol | None = None
    metadata: TableMetadata | None = None
    files: Mapping[int, tuple[TableFile, ...]] = field(default_factory=dict)
    """Files in offset order."""
    txns: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    """Removed files with their time by the store's clock. Readers keep none."""
    time_ms: int = 0
    """The time of the newest commit; the next one's is later."""

    @property
    def exists(self) -> bool:
        return self.version >= 0

    @property
    def published(self) -> int:
        """The last entry whose rows are in the table; -1: there is no table."""
        return self.txns.get(PUBLISHED, -1)

    def start(self, queue: int) -> int:
        return self.txns.get(start_txn(queue), 0)

    def end(self, queue: int) -> int:
        return self.txns.get(end_txn(queue), 0)

    def lost(self, queue: int) -> list[tuple[int, int]]:
        """The ranges (first, limit) of rows lost before publication."""
        named = ((parse_lost(app_id), limit) for app_id, limit in self.txns.items())
        return sorted((place[1], limit) for place, limit in named if place is not None and place[0] == queue)

    def forget_removes(self, before_ms: int) -> Snapshot:
        return replace(self, removed={path: time_ms for path, time_ms in self.removed.items() if time_ms >= before_ms})

    @property
    def all_files(self) -> list[TableFile]:
        return [file for files in self.files.values() for file in files]

    @property
    def paths(self) -> set[str]:
        return {file.path for file in self.all_files}

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.all_files)


def apply(snapshot: Snapshot, commits: Iterable[tuple[int, Iterable[Logged]]], *, keep_removes: bool = True) -> Snapshot:
    files: dict[str, TableFile] = {}
    gone: set[str] = set()
    txns = dict(snapshot.txns)
    removed = dict(snapshot.removed)
    version, time_ms, protocol, metadata = snapshot.version, snapshot.time_ms, snapshot.protocol, snapshot.metadata
    for at, actions in commits:
        version = at
        for action in actions:
            match action:
                case TableFile():
                    files[action.path] = action
                    removed.pop(action.path, None)
                    gone.discard(action.path)
                    time_ms = max(time_ms, action.modified_ms)
                case RemoveFile():
                    if keep_removes:
                        removed[action.path] = action.deletion_timestamp or 0
                    files.pop(action.path, None)
                    gone.add(action.path)
                case Txn():
                    txns[action.app_id] = action.version
                case Protocol():
                    protocol = action
                case TableMetadata():
                    metadata = action
                case CommitInfo():
                    time_ms = max(time_ms, action.time_ms)
    return replace(
        snapshot,
        version=version,
        protocol=protocol,
        metadata=metadata,
        files=_merge(snapshot.files, files, gone),
        txns=txns,
        removed=removed,
        time_ms=time_ms,
    )


def _merge(
    before: Mapping[int, tuple[TableFile, ...]], added: Mapping[str, TableFile], gone: set[str]
) -> dict[int, tuple[TableFile, ...]]:
    merged = dict(before)
    of_queue: dict[int, list[TableFile]] = {}
    for file in added.values():
        of_queue.setdefault(file.queue, []).append(file)
    changed = set(of_queue) | ({queue for queue, files in before.items() if any(f.path in gone for f in files)} if gone else set())
    for queue in changed:
        kept = {file.path: file for file in before.get(queue, ()) if file.path not in gone}
        kept.update({file.path: file for file in of_queue.get(queue, ())})
        merged[queue] = tuple(sorted(kept.values(), key=lambda file: (file.first_offset, file.path)))
    return {queue: files for queue, files in merged.items() if files}
