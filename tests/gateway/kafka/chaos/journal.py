"""A file of lines that outlasts who writes it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


class Journal:
    """Appends lines, each of them whole."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, lines: Iterable[str]) -> None:
        if data := "".join(f"{line}\n" for line in lines).encode():
            os.write(self._file, data)


class Following:
    """The lines that were added to a journal since it was asked for them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + len(newline)
        return whole.decode().splitlines()
