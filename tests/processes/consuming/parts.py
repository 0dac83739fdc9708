"""Rows, journals and records of a run on disk, by the hash of their message group: so many parts that each fits into memory.

All that is checked is checked of one message group at a time, but for a few sums. A producer's body names its message group, so all that is
written of a message meets in one part, also where it is wrong.
"""

from __future__ import annotations

import pickle
import shutil
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.processes.worker import message_group_of

MESSAGES_MAX = 50_000
"""Of a part, but where a single message group has more."""
PARTS_MAX = 256
_BUFFERED = 500


class Parts:
    """Values of several kinds. Written first, then read."""

    def __init__(self, folder: Path, messages: int) -> None:
        self.count = max(1, min(PARTS_MAX, messages // MESSAGES_MAX))
        self._folder = folder
        self._buffers: dict[tuple[str, int], list[Any]] = defaultdict(list)
        if folder.exists():  # of a judge that was ended
            shutil.rmtree(folder)
        folder.mkdir()

    def add(self, kind: str, body: str, value: tuple[Any, ...]) -> None:
        """Keep a value of the message with this body."""
        part = zlib.crc32(message_group_of(body).encode()) % self.count
        buffer = self._buffers[kind, part]
        buffer.append(value)
        if len(buffer) >= _BUFFERED:
            self._write(kind, part, buffer)

    def take(self, kind: str, part: int) -> Iterator[tuple[Any, ...]]:
        """All values of one kind in one part, in the order in which they were added. They are gone from the disk then."""
        self._write(kind, part, self._buffers[kind, part])
        path = self._path(kind, part)
        with path.open("rb") as file:
            while file.peek(1):
                yield from pickle.load(file)
        path.unlink()

    def remove(self) -> None:
        """What nobody took, too."""
        shutil.rmtree(self._folder)

    def _write(self, kind: str, part: int, buffer: list[Any]) -> None:
        with self._path(kind, part).open("ab") as file:
            pickle.dump(buffer, file, pickle.HIGHEST_PROTOCOL)
        buffer.clear()

    def _path(self, kind: str, part: int) -> Path:
        return self._folder / f"{kind}.{part}"
