"""A store in a folder.

A write becomes visible by one atomic step (``link`` or ``rename``) once its bytes are on the disk. A crash leaves at most a draft.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from ..errors import (
    NO_ROOM,
    NO_ROOM_HINT,
    ClosedError,
    InvalidArgument,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
    UnsafeStoreError,
)
from ..runtime.runtime import Runtime, run_in_pool
from .folders import MISSING, list_folders, list_objects, version_of
from .protocol import (
    HIDDEN_FOLDER,
    Buffer,
    Conflict,
    IfMatch,
    ObjectInfo,
    ObjectMissing,
    Put,
    PutMode,
    StoredObject,
    Version,
    check_key,
    check_prefix,
)

T = TypeVar("T")

_THREADS = 8
_LOCKS = 64
_LOCK_TIMEOUT_S = 10.0
_ATTEMPTS = 100
_DURABLE_FOLDERS_MAX = 10_000
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_DRAFT_AGE_MAX_NS = 24 * 3600 * 1_000_000_000


class LocalStore:
    """Objects are the files under ``root``, which the first write makes.

    An acknowledged put survives a power failure; a delete may be undone. Threads, processes and machines may race to create on a shared POSIX file
    system with hard links. Replaces and deletes of one key take turns by ``flock`` in the hidden folder ``.penstock``.

    An object's version is its inode, size and modification time, which each replace moves forward. On file systems with coarser times than
    nanoseconds the inode alone distinguishes versions.

    A forked child may use the store, too.
    """

    def __init__(self, root: str | Path, *, runtime: Runtime | None = None) -> None:
        self._root = os.path.abspath(os.fspath(root))
        self._runtime = runtime or Runtime()
        self._drafts = f"{self._root}/{HIDDEN_FOLDER}/drafts"
        self._locks = f"{self._root}/{HIDDEN_FOLDER}/locks"
        self._durable: set[str] = set()
        self._swept = False
        self._closing = threading.Event()
        self._pool: ThreadPoolExecutor | None = None
        self._pool_pid = 0

    @property
    def url(self) -> str:
        return Path(self._root).as_uri()

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await self._run("put", key, lambda: self._put(key, data, mode))

    async def put_large(self, key: str, data: Buffer | Sequence[Buffer]) -> None:
        await self._run("put", key, lambda: self._put(key, data, Put.REPLACE))

    async def get(self, key: str) -> StoredObject:
        return await self._run("get", key, lambda: self._get(key))

    async def get_range(self, key: str, start: int, limit: int) -> bytes:
        return await self._run("get", key, lambda: self._get_range(key, start, limit))

    async def list(self, prefix: str, *, after: str | None = None, max_keys: int | None = None) -> list[ObjectInfo]:
        check_prefix(prefix)
        return await self._run("list", prefix, lambda: list_objects(self._root, prefix, after, max_keys))

    async def list_folders(self, prefix: str) -> Sequence[str]:
        check_prefix(prefix)
        return await self._run("list", prefix, lambda: list_folders(self._root, prefix))

    async def delete(self, key: str) -> None:
        await self._run("delete", key, lambda: self._delete(key))

    async def clock_ms(self) -> int:
        """The file system's clock, on a network share another machine's."""
        return await self._run("clock", "", self._clock_ms)

    async def close(self) -> None:
        self._closing.set()
        if self._pool is not None and self._pool_pid == os.getpid():
            self._pool.shutdown(wait=False)

    # ------------------------------------------------------------------------------------------------ threads and errors

    async def _run(self, operation: str, key: str, work: Callable[[], T]) -> T:
        if self._closing.is_set():
            raise ClosedError("the store is closed", operation=operation, object=key)
        # Threads do not survive a fork: a child that submitted to its parent's pool would wait for ever.
        if self._pool is None or self._pool_pid != os.getpid():
            self._pool, self._pool_pid = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-local"), os.getpid()

        def translated() -> T:
            try:
                return work()
            except OSError as error:
                _raise_translated(error, operation, key, self._root)

        return await run_in_pool(self._pool, translated, operation=operation, object=key)

    # ------------------------------------------------------------------------------------------------------------ writes

    def _put(self, key: str, data: Buffer | Sequence[Buffer], mode: PutMode) -> Version:
        target = self._path(key)
        _refuse_if_stale(key, target, mode)  # checked again below, where it counts; this check saves the flush
        draft, written = self._write_draft(data)
        try:
            if mode is Put.CREATE:
                try:
                    self._place(target, lambda: _link(draft, target, key))
                except FileExistsError:
                    _refuse_if_stale(key, target, mode)
                    # Deleted again: the link was refused all the same, and the caller reads back.
                    raise Conflict("the object existed", operation="create", object=key) from None
            else:
                with self._locked(key):
                    present = _refuse_if_stale(key, target, mode)
                    if present is not None and written.st_mtime_ns <= present.st_mtime_ns:
                        os.utime(draft, ns=(written.st_atime_ns, present.st_mtime_ns + 1))
                        written = os.stat(draft)
                    self._place(target, lambda: os.replace(draft, target))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)
        try:
            _flush_folder(os.path.dirname(target))
        except OSError as error:
            # It is visible, so no answer may say that nothing was written.
            raise StoreUnavailable("the folder could not be flushed", operation="put", object=key, observed=error) from error
        return version_of(written)

    def _write_draft(self, data: Buffer | Sequence[Buffer]) -> tuple[str, os.stat_result]:
        draft = f"{self._drafts}/{self._runtime.new_id()}"
        handle = self._open_hidden(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                for piece in [data] if isinstance(data, bytes | bytearray | memoryview) else data:
                    view = memoryview(piece).cast("B")
                    while view:
                        view = view[os.write(handle, view) :]
                # Kernel timestamps tick every few milliseconds, in which an inode can be freed and used again.
                now = os.fstat(handle)
                os.utime(handle, ns=(now.st_atime_ns, now.st_mtime_ns + self._runtime.random.randrange(1_000_000)))
                os.fsync(handle)
                written = os.fstat(handle)
            finally:
                os.close(handle)
        except BaseException:
            os.unlink(draft)
            raise
        if not self._swept:
            self._swept = True
            self._sweep_drafts(now.st_mtime_ns)
        return draft, written

    def _sweep_drafts(self, now_ns: int) -> None:
        for name in os.listdir(self._drafts):
            with suppress(OSError):
                if now_ns - os.stat(f"{self._drafts}/{name}").st_mtime_ns > _DRAFT_AGE_MAX_NS:
                    os.unlink(f"{self._drafts}/{name}")

    def _place(self, target: str, step: Callable[[], None]) -> None:
        """Do the visible step, in a folder made first: another process may delete an empty folder at any time."""
        for attempt in range(_ATTEMPTS):
            try:
                self._make_folder(os.path.dirname(target))
                step()
                return
            except FileNotFoundError:
                self._durable.clear()
                if attempt == _ATTEMPTS - 1:
                    raise

    def _make_folder(self, folder: str) -> None:
        """Make folders durably; an existing one may not be flushed yet."""
        if folder in self._durable:
            return
        parent = os.path.dirname(folder)
        if folder == self._root:
            os.makedirs(folder, exist_ok=True)
        else:
            self._make_folder(parent)
            with suppress(FileExistsError):
                os.mkdir(folder)
        _flush_folder(parent)
        if len(self._durable) >= _DURABLE_FOLDERS_MAX:
            self._durable.clear()
        self._durable.add(folder)

    def _open_hidden(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            self._durable.clear()
            self._make_folder(os.path.dirname(path))
            return os.open(path, flags, 0o666)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        handle = self._open_hidden(f"{self._locks}/{zlib.crc32(key.encode()) % _LOCKS:02}", os.O_RDWR | os.O_CREAT)
        deadline_s = self._runtime.clock.monotonic_s() + _LOCK_TIMEOUT_S
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    # Held for microseconds, unless its holder is paused.
                    if self._runtime.clock.monotonic_s() > deadline_s:
                        raise StoreUnavailable("another process holds the key's lock", operation="lock", object=key) from None
                    if self._closing.wait(0.001):
                        raise ClosedError("the store is closed", operation="lock", object=key) from None
            yield
        finally:
            os.close(handle)

    def _delete(self, key: str) -> None:
        path = self._path(key)
        if not os.path.isfile(path):
            return
        with self._locked(key), suppress(FileNotFoundError):
            os.unlink(path)
        folder = os.path.dirname(path)
        with suppress(OSError):  # until a folder is not empty
            while folder != self._root:
                os.rmdir(folder)
                self._durable.discard(folder)
                folder = os.path.dirname(folder)

    def _clock_ms(self) -> int:
        draft, written = self._write_draft(b"")
        os.unlink(draft)
        return written.st_mtime_ns // 1_000_000

    # ------------------------------------------------------------------------------------------------------------- reads

    def _get(self, key: str) -> StoredObject:
        with _opened(self._path(key), key) as handle:
            found = os.fstat(handle)
            data = _read(handle, 0, found.st_size)
            return StoredObject(data, version_of(found), found.st_mtime_ns // 1_000_000)

    def _get_range(self, key: str, start: int, limit: int) -> bytes:
        with _opened(self._path(key), key) as handle:
            size_bytes = os.fstat(handle).st_size
            if start < 0:
                start, limit = max(0, size_bytes + start), size_bytes
            return _read(handle, start, max(0, min(limit, size_bytes) - start))

    def _path(self, key: str) -> str:
        check_key(key)
        return f"{self._root}/{key}"


def _link(draft: str, target: str, key: str) -> None:
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UnsafeStoreError(
            "the file system made no hard link, by which a create is decided",
            operation="create",
            object=key,
            observed=error.strerror,
            hint="Use a file system with hard links; FAT and some network shares have none",
        ) from error


def _refuse_if_stale(key: str, target: str, mode: PutMode) -> os.stat_result | None:
    try:
        present = os.stat(target)
    except (FileNotFoundError, NotADirectoryError):
        present = None
    if present is not None and stat.S_ISDIR(present.st_mode):
        raise InvalidArgument("the key is the folder of other objects", operation="put", object=key)
    if mode is Put.CREATE and present is not None:
        raise Conflict("the object exists", operation="create", object=key)
    if isinstance(mode, IfMatch) and (present is None or version_of(present) != mode.version):
        raise Conflict(
            "the object has changed",
            operation="replace",
            object=key,
            expected=mode.version.token,
            observed=version_of(present).token if present else "absent",
        )
    return present


@contextmanager
def _opened(path: str, key: str) -> Iterator[int]:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in MISSING:
            raise ObjectMissing("there is no such object", operation="read", object=key) from None
        raise
    try:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise ObjectMissing("there is no such object", operation="read", object=key, observed="a folder")
        yield handle
    finally:
        os.close(handle)


def _read(handle: int, start: int, size_bytes: int) -> bytes:
    pieces = []
    while size_bytes > 0 and (piece := os.pread(handle, size_bytes, start)):
        pieces.append(piece)
        start += len(piece)
        size_bytes -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _flush_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _raise_translated(error: OSError, operation: str, key: str, root: str) -> NoReturn:
    where = f"{root}/{key}" if key else root
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            raise StorageFull(NO_ROOM, operation=operation, object=where, observed=error.strerror, hint=NO_ROOM_HINT) from error
        case errno.EACCES | errno.EPERM | errno.EROFS:
            raise PermissionDenied(
                "the file system refused",
                operation=operation,
                object=where,
                observed=error.strerror,
                hint="Check the folder's owner and mode",
            ) from error
        case errno.ENOTDIR | errno.EISDIR | errno.ENAMETOOLONG | errno.EEXIST:
            raise InvalidArgument("the key cannot be a file", operation=operation, object=where, observed=error.strerror) from error
        case _:
            raise StoreUnavailable("the file system failed", operation=operation, object=where, observed=error.strerror) from error
