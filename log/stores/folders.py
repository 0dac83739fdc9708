"""Lists a folder of files as an object store lists keys."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from .protocol import HIDDEN_FOLDER, ObjectInfo, Version

MISSING = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR)


def version_of(file: os.stat_result) -> Version:
    return Version(f"{file.st_ino:x}.{file.st_mtime_ns:x}.{file.st_size:x}")


def list_objects(root: str, prefix: str, after: str | None, max_keys: int | None) -> list[ObjectInfo]:
    folder, slash, name_prefix = prefix.rpartition("/")
    found: list[ObjectInfo] = []
    if max_keys is not None and max_keys <= 0:
        return found
    for key in _walk(root, folder + slash, name_prefix, after):
        try:
            file = os.stat(f"{root}/{key}")
        except FileNotFoundError:
            continue  # deleted since its folder was read
        found.append(ObjectInfo(key, file.st_size, file.st_mtime_ns // 1_000_000, version_of(file).tag))
        if max_keys is not None and len(found) >= max_keys:
            break
    return found


def list_folders(root: str, folder: str) -> list[str]:
    """The folders in ``folder`` (ending with ``/``) that hold a file at any depth."""
    inside = (entry.name for entry in _entries(root, folder) if entry.is_dir())
    return sorted(name for name in inside if _holds_any(root, f"{folder}{name}/"))


def _walk(root: str, folder: str, name_prefix: str, after: str | None) -> Iterator[str]:
    if after is not None and not after.startswith(folder):
        if after > folder:
            return
        after = None
    bound = after[len(folder) :] if after is not None else ""
    names = []
    for entry in _entries(root, folder):
        name = entry.name
        if not name.startswith(name_prefix) or (name < bound and not bound.startswith(name)):
            continue
        if entry.is_dir():
            name += "/"  # so it sorts as its keys do
            if name > bound or bound.startswith(name):
                names.append(name)
        elif name > bound:
            names.append(name)
    for name in sorted(names):
        if name.endswith("/"):
            yield from _walk(root, folder + name, "", after)
        else:
            yield folder + name


def _holds_any(root: str, folder: str) -> bool:
    return any(not entry.is_dir() or _holds_any(root, f"{folder}{entry.name}/") for entry in _entries(root, folder))


def _entries(root: str, folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(f"{root}/{folder}") as entries:
            if folder:
                yield from entries
            else:
                yield from (entry for entry in entries if entry.name != HIDDEN_FOLDER)
    except OSError as error:
        if error.errno not in MISSING:
            raise
