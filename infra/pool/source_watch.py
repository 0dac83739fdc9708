"""Python files that change as their author writes, found by looking again and again.

Looking needs no library and sees what notifications miss: folders that a container mounts, and files that editors replace. It takes a twentieth of
one core at most, as the pauses grow with the time of a look.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

Stamps: TypeAlias = dict[str, tuple[int, int]]
"""Time of change and size of each file."""

_PAUSE_S, _PAUSES_OF_A_LOOK = 0.25, 19
_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages"})
_OF_AN_ENVIRONMENT: Final = "pyvenv.cfg"


class SourceWatch:
    """The ``.py`` files below some folders, without hidden folders, environments, and ``passed_over``, such as the lake."""

    def __init__(self, folders: Sequence[Path], *, passed_over: Sequence[Path] = (), pause_s: float = _PAUSE_S) -> None:
        self._folders = folders
        self._pause_s = pause_s
        self._passed_over = {os.path.realpath(one) for one in passed_over}
        self._seen = self._look()

    def changed(self) -> list[str]:
        """The files that were written, added or removed since the last call."""
        before, self._seen = self._seen, self._look()
        return sorted(name for name in before.keys() | self._seen.keys() if before.get(name) != self._seen.get(name))

    async def follow(self, tell: Callable[[list[str]], object]) -> None:
        """Call ``tell`` with the changed files, each time that nothing more has changed for a look."""
        changed: set[str] = set()
        while True:
            began_s = time.monotonic()
            found = await asyncio.to_thread(self.changed)
            changed.update(found)
            if changed and not found:
                tell(sorted(changed))
                changed.clear()
            await asyncio.sleep(max(self._pause_s, _PAUSES_OF_A_LOOK * (time.monotonic() - began_s)))

    def _look(self) -> Stamps:
        return {name: stamp for folder in self._folders for name, stamp in self._files(str(folder))}

    def _files(self, folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            return  # it is gone, or not ours to read
        if any(entry.name == _OF_AN_ENVIRONMENT for entry in found):
            return
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if (
                    not entry.name.startswith(".")
                    and entry.name not in _PASSED_OVER
                    and os.path.realpath(entry) not in self._passed_over
                ):
                    yield from self._files(entry.path)
            elif entry.name.endswith(".py"):
                try:
                    stat = entry.stat()
                except OSError:
                    continue  # removed since
                yield os.path.relpath(entry.path), (stat.st_mtime_ns, stat.st_size)
