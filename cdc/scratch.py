"""Temporary folders of processes: one left by a killed process is removed by the next of its kind."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = ".of-a-process"
"""The file locked by the process; any death releases it."""


@contextmanager
def scratch_folder(prefix: str) -> Iterator[str]:
    """A new folder, removed at the end. Folders of dead processes with this prefix are removed first."""
    base = Path(tempfile.gettempdir())
    for left in base.glob(f"{prefix}*"):
        with suppress(OSError):  # somebody else's, or another process was quicker
            _remove_if_left(left)
    # It gets its name once it is locked: nobody finds it before.
    made = Path(tempfile.mkdtemp(prefix=f".{prefix}"))
    folder = base / made.name[1:]
    try:
        with (made / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made.rename(folder)
            yield str(folder)
    finally:
        shutil.rmtree(folder if folder.exists() else made, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    if folder.stat().st_uid != os.getuid():
        return
    with (folder / _LOCK).open("rb") as lock:  # a folder without one is of no such process
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(folder)
