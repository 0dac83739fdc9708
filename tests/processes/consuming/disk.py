"""A disk of its own for a lake, small enough to be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIZE = "384m"


class CannotMount(RuntimeError):
    """This user, or this machine, mounts nothing."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system in memory at the folder, until the block ends. Raises `CannotMount` where none can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotMount("no disk can be mounted here: it takes root, and Linux") from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Filler:
    """A file that takes all the room there is."""

    def __init__(self, disk: Path) -> None:
        self._path = disk / "filler"

    def fill(self) -> None:
        """Until nothing can be written any more."""
        with self._path.open("ab", buffering=0) as file, suppress(OSError):
            for size in (1 << 20, 4096, 1):
                with suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self) -> None:
        """Give it all back."""
        self._path.unlink(missing_ok=True)
