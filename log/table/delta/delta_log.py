"""The Delta log of one topic's table: snapshots and commits.

A commit is one create-if-absent of the next version's JSON, recognised by the write id in its `commitInfo`. It is given up a day after its work
began, before the collector (48 hours) or the clean-up of versions can touch it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ...errors import DataDamaged, InternalError, RetryError, StoreUnavailable
from ...paths import TopicPaths, parse_padded, zero_padded
from ...runtime.runtime import Runtime
from ...stores.protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, delete_all
from .actions import CommitContent, decode_commit, encode_commit, metadata, protocol, write_id_of
from .checkpoint import (
    decode_delta_checkpoint,
    decode_last_checkpoint,
    encode_delta_checkpoint,
    encode_last_checkpoint,
)
from .snapshot import Snapshot, apply
from .table_metadata import Action
from .table_schema import UNTYPED, TableForm

DELTA_LOG = "_delta_log/"
COMMIT, CHECKPOINT = ".json", ".checkpoint.parquet"
LAST_CHECKPOINT = DELTA_LOG + "_last_checkpoint"
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
COMMIT_LIFE_S = 24 * 3600.0
"""Half of `ORPHAN_AGE_MS`, from the first upload on."""
ORPHAN_AGE_MS = 48 * HOUR_MS
"""The age above which an unreferenced table file is deleted."""
REMOVED_KEPT_MS = 7 * DAY_MS
"""The time for which removed files stay, for readers of older snapshots."""
LOG_KEPT_MS_MIN = 2 * DAY_MS
CHECKPOINT_VERSIONS = 100
_READ_BACKS = 4
_HITS_IN_A_ROW = 4
"""The versions read singly before the others are listed and fetched side by side."""
_FETCHED_AT_ONCE = 16


class DeltaLog:
    """One process's view of a topic's table. ``keep_removes`` keeps the lately removed files, most of an old table's snapshot, for collector and
    checkpoints.
    """

    def __init__(self, store: ObjectStore, paths: TopicPaths, folder: str, runtime: Runtime, *, keep_removes: bool = True) -> None:
        self.keeps_removes = keep_removes
        self._store = store
        self._runtime = runtime
        self._folder = folder
        self.root = paths.table(folder)
        self.snapshot = Snapshot(folder)
        self._read_s = float("-inf")

    @property
    def now_s(self) -> float:
        return self._runtime.clock.monotonic_s()

    async def refresh(self) -> Snapshot:
        """The newest snapshot; `Snapshot.exists` is false when there is no table. Raises `DataDamaged`."""
        hits = 0
        while self.snapshot.exists and not self.is_stale():  # another task may forget it meanwhile
            sent_s, before = self.now_s, self.snapshot
            version = before.version + 1
            key = self._commit_key(version)
            try:
                data = (await self._store.get(key)).data
            except ObjectMissing:
                if self.snapshot is before:
                    self._read_s = sent_s
                return max(before, self.snapshot, key=lambda one: one.version)  # another task may have moved on, or forgotten
            if self.snapshot.version == version - 1:
                self.snapshot = self._apply(self.snapshot, [(version, data)])
            hits += 1
            if hits % _HITS_IN_A_ROW == 0:
                await self._leap()
        self.snapshot = loaded = await self._load()
        return loaded

    async def _leap(self) -> None:
        """Advance by many versions, from a checkpoint when one lies far ahead."""
        start, hinted = self.snapshot, await self._hinted()
        if hinted is not None and hinted - start.version > CHECKPOINT_VERSIONS:
            start = await self._read_checkpoint(hinted) or start
        ahead = await self._follow(start)
        if ahead.version > self.snapshot.version:  # another task may have been faster
            self.snapshot = ahead

    def prove(self, version: int, sent_s: float) -> None:
        if self.snapshot.version == version:
            self._read_s = max(self._read_s, sent_s)

    def forget(self) -> None:
        """Read the table from its beginning the next time."""
        self.snapshot, self._read_s = Snapshot(self._folder), float("-inf")

    @property
    def was_read(self) -> bool:
        return self._read_s > float("-inf")

    def was_read_within(self, age_s: float) -> bool:
        return self.now_s - self._read_s < age_s

    def is_stale(self) -> bool:
        """Whether the next version's key may be free again, after a clean-up."""
        return self.now_s - self._read_s > COMMIT_LIFE_S

    async def has_begun(self) -> bool:
        """Whether there is a table, without loading it."""
        for key in (self._commit_key(0), self.root + LAST_CHECKPOINT):  # the first version may have been cleaned up
            with suppress(ObjectMissing):
                await self._store.get(key)
                return True
        return False

    async def create(self, txns: dict[str, int], form: TableForm = UNTYPED) -> Snapshot:
        """Make an empty table with these `txn` values unless there is one."""
        started_s = self.now_s
        if not (await self.refresh()).exists:
            before = (protocol(form), metadata(_uuid(self._runtime.new_id()), self._runtime.clock.wall_ms(), form))
            await self.commit(CommitContent("CREATE TABLE", txns=txns), on=self.snapshot, started_s=started_s, before=before)
        return await self.refresh()

    async def commit(self, commit: CommitContent, *, on: Snapshot, started_s: float, before: tuple[Action, ...] = ()) -> bool:
        """Try to make ``commit`` the version after ``on``. False: another commit has that version; decide anew.

        ``started_s`` is the monotonic time before ``on`` was read and before the first upload. Raises `RetryError` a day after it, and
        `StoreUnavailable` for an unknown outcome.
        """
        version = on.version + 1
        key = self._commit_key(version)
        time_ms = max(self._runtime.clock.wall_ms(), on.time_ms + 1)
        write_id = self._runtime.new_id()
        data = encode_commit(commit.actions(write_id=write_id, time_ms=time_ms, before=before))
        for _ in range(_READ_BACKS):
            self.check_life(started_s)
            try:
                await self._store.put(key, data, mode=Put.CREATE)
            except (Conflict, StoreUnavailable):
                stored = await self._read_back(key)
                if stored is None:
                    continue
                if not self.is_mine(stored, write_id):
                    return False
                data = stored
            if self.snapshot.version == on.version:
                self.snapshot = self._apply(on, [(version, data)])
            return True
        raise StoreUnavailable("the commit's outcome is unknown", operation="commit", object=key, hint="the next try finds out")

    def check_life(self, started_s: float) -> None:
        """Raise `RetryError` a day after the work began."""
        if not self.is_in_time(started_s):
            raise RetryError("a commit that took over a day was given up", operation="commit", object=self.root)

    def is_in_time(self, started_s: float) -> bool:
        return self.now_s - started_s <= COMMIT_LIFE_S

    @staticmethod
    def is_mine(stored: bytes, write_id: str) -> bool:
        return write_id_of(decode_commit(stored, where="a commit read back")) == write_id

    async def _read_back(self, key: str) -> bytes | None:
        try:
            return (await self._store.get(key)).data
        except ObjectMissing:
            return None

    # --- checkpoints and clean-up

    async def write_checkpoint(self) -> None:
        if not self.keeps_removes:
            raise InternalError("a checkpoint without removes would have their files deleted under their readers")
        before_ms = await self._store.clock_ms() - REMOVED_KEPT_MS
        self.snapshot = snapshot = self.snapshot.forget_removes(before_ms)
        encoded = await self._runtime.offload(lambda: encode_delta_checkpoint(snapshot))
        with suppress(Conflict):
            await self._store.put(self._checkpoint_key(snapshot.version), encoded[0], mode=Put.CREATE)
        await self._hint(snapshot.version, encoded[1])

    async def _hint(self, version: int, actions: int) -> None:
        """Let `_last_checkpoint` name this version, unless a later one exists."""
        key = self.root + LAST_CHECKPOINT
        for _ in range(_READ_BACKS):
            mode: PutMode = Put.CREATE
            with suppress(ObjectMissing):
                found = await self._store.get(key)
                hinted = decode_last_checkpoint(found.data)
                if hinted is not None and (hinted == version or (hinted > version and await self._read_checkpoint(hinted))):
                    return
                mode = IfMatch(found.version)
            with suppress(Conflict):
                await self._store.put(key, encode_last_checkpoint(version, actions), mode=mode)
                return

    async def clean_up(self, *, kept_ms: int) -> int:
        """Delete the versions before the newest checkpoint older than ``kept_ms``."""
        now_ms = await self._store.clock_ms()
        listed = await self._store.list(self.root + DELTA_LOG)
        old_ms = now_ms - max(kept_ms, LOG_KEPT_MS_MIN)
        old = [info.key for info in listed if info.last_modified_ms < old_ms]
        checkpoints = [version for key in old if (version := _version(key, CHECKPOINT)) is not None]
        if not checkpoints:
            return 0
        anchor = max(checkpoints)
        gone = [info.key for info in listed if (v := _version(info.key, "")) is not None and v < anchor]
        return await delete_all(self._store, gone)

    # --- loading

    async def before(self, version: int) -> Snapshot:
        """The table before a version. Raises `DataDamaged`."""
        listed = [info.key for info in await self._store.list(self.root + DELTA_LOG)]
        snapshot = Snapshot(self._folder)
        checkpoints = (v for key in listed if (v := _version(key, CHECKPOINT)) is not None and v < version)
        for checkpoint in sorted(checkpoints, reverse=True):
            if (read := await self._read_checkpoint(checkpoint)) is not None:
                snapshot = read
                break
        commits = [v for key in listed if (v := _version(key, COMMIT)) is not None and snapshot.version < v < version]
        try:
            return await self._applied(snapshot, commits, self.now_s)
        finally:
            self.forget()  # it is not the newest

    async def _load(self) -> Snapshot:
        hinted = await self._hinted()
        if hinted is not None:
            snapshot = await self._read_checkpoint(hinted)
            if snapshot is not None:
                with suppress(DataDamaged):  # the hint was old, and the versions after it were cleaned up meanwhile
                    return await self._follow(snapshot)
        sent_s = self.now_s
        listed = [info.key for info in await self._store.list(self.root + DELTA_LOG)]
        for version in sorted((v for key in listed if (v := _version(key, CHECKPOINT)) is not None), reverse=True):
            snapshot = await self._read_checkpoint(version)
            if snapshot is not None:
                return await self._follow(snapshot)
        commits = [v for key in listed if (v := _version(key, COMMIT)) is not None]
        if commits and min(commits) > 0:
            raise DataDamaged("no readable checkpoint covers the versions that were cleaned up", object=self.root + DELTA_LOG)
        return await self._applied(Snapshot(self._folder), commits, sent_s)

    async def _follow(self, snapshot: Snapshot) -> Snapshot:
        after = self._commit_key(snapshot.version) if snapshot.exists else None
        sent_s = self.now_s
        listed = await self._store.list(self.root + DELTA_LOG, after=after)
        return await self._applied(snapshot, [v for info in listed if (v := _version(info.key, COMMIT)) is not None], sent_s)

    async def _applied(self, snapshot: Snapshot, versions: list[int], sent_s: float) -> Snapshot:
        """Apply a LIST sent at ``sent_s``: its result was the newest then."""
        if versions and versions != list(range(snapshot.version + 1, snapshot.version + 1 + len(versions))):
            raise DataDamaged("a version of the table is missing", object=self.root + DELTA_LOG, observed=versions[:10])
        for start in range(0, len(versions), _FETCHED_AT_ONCE):
            some = versions[start : start + _FETCHED_AT_ONCE]
            try:
                read = await asyncio.gather(*(self._store.get(self._commit_key(version)) for version in some))
            except ObjectMissing as error:  # it was listed: others have cleaned up meanwhile
                raise DataDamaged("a version of the table is missing", object=error.object) from error
            commits = [(v, found.data) for v, found in zip(some, read, strict=True)]
            snapshot = await self._runtime.offload(lambda before=snapshot, commits=commits: self._apply(before, commits))  # type: ignore[misc]
        self._read_s = max(self._read_s, sent_s)
        return snapshot

    def _apply(self, snapshot: Snapshot, commits: list[tuple[int, bytes]]) -> Snapshot:
        decoded = [(version, decode_commit(data, where=self._commit_key(version))) for version, data in commits]
        after = apply(snapshot, decoded, keep_removes=self.keeps_removes)
        if after.exists and after.metadata is None:
            raise DataDamaged("the table's first version has no metadata", object=self._commit_key(0))
        return after

    async def _hinted(self) -> int | None:
        try:
            return decode_last_checkpoint((await self._store.get(self.root + LAST_CHECKPOINT)).data)
        except ObjectMissing:
            return None

    async def _read_checkpoint(self, version: int) -> Snapshot | None:
        key = self._checkpoint_key(version)
        try:
            data = (await self._store.get(key)).data
            return await self._runtime.offload(
                lambda: decode_delta_checkpoint(
                    data, folder=self._folder, version=version, where=key, keep_removes=self.keeps_removes
                )
            )
        except (ObjectMissing, DataDamaged):
            return None

    def _commit_key(self, version: int) -> str:
        return f"{self.root}{DELTA_LOG}{zero_padded(version)}{COMMIT}"

    def _checkpoint_key(self, version: int) -> str:
        return f"{self.root}{DELTA_LOG}{zero_padded(version)}{CHECKPOINT}"


def version_of(key: str) -> int | None:
    return parse_padded(key.rpartition("/")[2].partition(".")[0])


def _version(key: str, ending: str) -> int | None:
    """An empty ``ending`` means either a commit or a checkpoint."""
    name, dot, rest = key.rpartition("/")[2].partition(".")
    return parse_padded(name) if dot + rest in ((ending,) if ending else (COMMIT, CHECKPOINT)) else None


def _uuid(hex_id: str) -> str:
    return "-".join((hex_id[:8], hex_id[8:12], hex_id[12:16], hex_id[16:20], hex_id[20:]))
