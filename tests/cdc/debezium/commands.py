"""`penstock` commands in a child process that stays, so that Java starts once, and never in the process of the tests.

A process that has started Java keeps it to its end. Deep recursion and forks of later tests end such a process, or hold it up.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from click.testing import CliRunner

from penstock.cdc import debezium
from penstock.cdc.debezium.engine import EmbeddedEngine
from penstock.cdc.debezium.errors import load_jpype
from penstock.infra.cli import main
from tests.cdc.capture.resources import observed
from tests.mariadb_server import PASSWORD
from tests.servers import die_with_parent

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -Xlog:disable"
"""A capture's process lives for seconds, or a minute, in tests: compiling much is not worth it."""


@dataclass(frozen=True)
class Said:
    """What a command ended with."""

    exit_code: int
    output: str


class Commands:
    """Runs commands one after the other in the child."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def __call__(self, arguments: Sequence[str], at: Mapping[str, Callable[[], None]] | None = None) -> Said:
        """``at``: what is done when a capture by the engine has come to a point between its steps for the first time, before it goes on."""
        left = dict(at or {})
        told = self._asked([list(arguments), [*left]])
        while isinstance(told, str):
            left.pop(told)()
            told = self._asked("go on")
        assert not left, (left, told)
        return Said(*told)

    def left_behind(self) -> tuple[int, int]:
        """The Java threads and the engines that live in the child."""
        threads, engines = self._asked(None)
        return threads, engines

    def _asked(self, question: object) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps(question), file=self._child.stdin, flush=True)
        line = self._child.stdout.readline()
        assert line, f"the process of the commands has ended with {self._child.wait()}"
        return json.loads(line)


@contextmanager
def command_process() -> Iterator[Commands]:
    """The child, which ends with the block."""
    program = [*die_with_parent(), sys.executable, "-m", __name__]
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            yield Commands(child)
        finally:
            child.kill()


def _serve() -> None:
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(question: tuple[list[str], list[str]] | None) -> list[object]:
    if question is None:
        jpype = load_jpype()
        jpype.java.lang.System.gc()
        gc.collect()
        engines = sum(isinstance(thing, EmbeddedEngine) for thing in gc.get_objects())
        return [int(jpype.java.lang.management.ManagementFactory.getThreadMXBean().getThreadCount()), engines]
    arguments, points = question

    def reached(point: str) -> None:
        if point in points:
            points.remove(point)
            print(json.dumps(point), file=sys.__stdout__, flush=True)
            assert sys.__stdin__ is not None
            sys.__stdin__.readline()

    with mock.patch.object(debezium, "EngineCapture", observed(debezium.EngineCapture, reached)):
        result = CliRunner().invoke(main, arguments, env={"PENSTOCK_DATABASE_PASSWORD": PASSWORD})
    return [result.exit_code, result.output]


if __name__ == "__main__":
    _serve()
