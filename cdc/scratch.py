"""A folder of a process in the temporary folder, which the next process of its kind removes where this one was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = ".of-a-process"
"""The file that the process has locked for as long as it lives. The system lets go of it whatever becomes of the process."""


@contextmanager
def scratch_folder(prefix: str) -> Iterator[str]:
    """A new folder that is gone afterwards. Those of this prefix whose processes are gone are removed first."""
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
