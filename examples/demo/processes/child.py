"""The demo's processes from both sides: a parent that starts, hears and ends them, and their own part.

They speak in lines: a task and words to the child, reports to the parent. A child has a process group of its own, so that Ctrl-C reaches
only the parent, which ends the group. A child ends when its standard input does, that is when the parent does.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from penstock.infra.terminal.parent_input import ParentInput

from ..outcome import DemoFailed
from .reports import Failed, Report, decode_report, encode_report

_ROOT = Path(__file__).parents[3]
"""The repository, of which examples are modules."""


class Child:
    """A process, as its parent sees it."""

    def __init__(self, process: Process, name: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._name = name
        self._to = process.stdin
        self._from = process.stdout

    @classmethod
    async def start(cls, module: str, task: Mapping[str, Any], *, name: str, stderr: IO[bytes] | None = None) -> Self:
        """Run a module of this package; ``name`` is for people."""
        program = sys.executable, "-P", "-m", f"{__package__}.{module}"
        found = os.pathsep.join((str(_ROOT), *filter(None, (os.environ.get("PYTHONPATH"),))))
        process = await create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=stderr, env={**os.environ, "PYTHONPATH": found}, start_new_session=True
        )
        child = cls(process, name)
        child.say(json.dumps(task))
        return child

    def say(self, line: str) -> None:
        self._to.write(line.encode() + b"\n")

    async def hear(self) -> Report:
        """The child's next report. Raises `DemoFailed` when it failed, or ended without one."""
        line = await self._from.readline()
        if not line:
            code = await self._process.wait()
            raise DemoFailed(f"{self._name} ended before its work", observed=f"exit code {code}")
        report = decode_report(line)
        if isinstance(report, Failed):
            raise DemoFailed(f"{self._name} failed: {report.message}")
        return report

    async def ended(self) -> None:
        """Return when the child has ended by itself."""
        await self._process.wait()

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the child and all that it started, if it still runs. Returns when it no longer does."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, how)
        self._to.close()
        await self._process.communicate()


class Parent:
    """The parent, as its child sees it. All other output of the child goes to standard error."""

    def __init__(self) -> None:
        self._reports = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._lock = threading.Lock()
        self._words = ParentInput()

    def task(self) -> dict[str, Any]:
        """The child's task."""
        return dict(json.loads(self.word()))

    def word(self) -> str:
        """The next line."""
        return self._words.next()

    def tell(self, report: Report) -> None:
        """Send a report to the parent. Callable from any thread."""
        with self._lock:
            try:
                self._reports.write(encode_report(report) + "\n")
                self._reports.flush()
            except BrokenPipeError:
                os._exit(1)  # the parent is gone

    def hear(self, word: Callable[[str], None] = lambda word: None) -> None:
        """Hear words in a thread from now on. The end of standard input ends this process, whatever it does."""

        def listen() -> None:
            while True:
                word(self.word())

        threading.Thread(target=listen, daemon=True).start()
