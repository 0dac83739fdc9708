"""The meaning of SQLite's errors for a table of cells."""

from __future__ import annotations

import os
import sqlite3

from ...log.errors import (
    NO_ROOM,
    NO_ROOM_HINT,
    DataDamaged,
    ForeignObject,
    InternalError,
    InvalidArgument,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
)

_PRIMARY = 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether another connection holds the lock, or recovers the file. Nothing was written."""
    return _kind(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL}


def translate(error: sqlite3.Error | OSError, *, operation: str, path: str) -> PenstockError:
    kind, message, hint = _file_meaning(error, path) if _is_of_the_file(error) else _meaning(error)
    name = getattr(error, "sqlite_errorname", None)
    return kind(message, operation=operation, object=path, observed=f"{error} ({name})" if name else str(error), hint=hint)


def _kind(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def _meaning(error: BaseException) -> tuple[type[PenstockError], str, str | None]:
    match _kind(error):
        case sqlite3.SQLITE_FULL:
            return StorageFull, NO_ROOM, NO_ROOM_HINT
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return (
                PermissionDenied,
                "the coordination database may not be written",
                "Check owner and mode of the file, of its folder and of the -wal and -shm files beside it",
            )
        case sqlite3.SQLITE_NOTADB:
            return ForeignObject, "the file is not a coordination database", "Move it away, or name another file"
        case sqlite3.SQLITE_CORRUPT:
            return DataDamaged, "the coordination database is damaged", "Stop its users and restore it, or move it away"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_PROTOCOL | sqlite3.SQLITE_LOCKED:
            return (
                StoreUnavailable,
                "another process holds the database's lock",
                "Is one stopped in the middle of a write, or a shell or backup at it? fuser names those that have the file open",
            )
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_NOMEM:
            return StoreUnavailable, "the file system failed under the coordination database", None
        case _:
            return InternalError, "SQLite refused the statement", None


def _is_of_the_file(error: BaseException) -> bool:
    return isinstance(error, OSError) or _kind(error) in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}


def _file_meaning(error: BaseException, path: str) -> tuple[type[PenstockError], str, str | None]:
    folder = _nearest_folder(path)
    if os.path.isdir(path):
        return InvalidArgument, "the coordination database is a folder", "Name a file"
    if not os.path.isdir(folder):
        return InvalidArgument, "the coordination database lies below something that is no folder", f"{folder} is a file"
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        return PermissionDenied, "the coordination database may not be written", "Check owner and mode of the file and its folder"
    room = os.statvfs(folder)
    if room.f_bavail == 0 or (room.f_files and room.f_favail == 0):
        return StorageFull, NO_ROOM, NO_ROOM_HINT
    if isinstance(error, OSError) or _kind(error) == sqlite3.SQLITE_CANTOPEN:
        return StoreUnavailable, "the coordination database cannot be opened", None
    return _meaning(error)


def _nearest_folder(path: str) -> str:
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder) and not os.path.exists(folder):
        folder = os.path.dirname(folder)
    return folder
