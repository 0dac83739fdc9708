"""The handlers of `penstock consume`: printing, a command, or a user's function."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ....consumers import ConsumeResult
from ....log import CallError, MessageView
from ...terminal import output
from ...terminal.session import writing_output
from ..messages.rendering import JsonLineOutput, LineOutput, delivery

Handler: TypeAlias = Callable[[Sequence[MessageView]], object]

EX_DATAERR = 65
"""The exit code for a message that can never be processed."""


_NOT_RUN = {126: "it may not be executed", 127: "it was not found"}
"""A shell's exit codes for a command that has not run."""


class CommandNotRun(CallError):
    """The command of ``--exec`` cannot be run."""

    kind = "command_not_run"


class CommandFailed(Exception):
    """A command failed, or took too long."""


class MessagePrinter:
    """Prints messages, and returns after the flush."""

    def __init__(self, topic: str, *, as_json: bool) -> None:
        self._sink = JsonLineOutput(topic, spelt=delivery) if as_json else LineOutput(topic)
        self._lock = threading.Lock()

    def __call__(self, messages: Sequence[MessageView]) -> ConsumeResult:
        with self._lock, writing_output():
            self._sink.show(messages)
            sys.stdout.flush()
        return ConsumeResult.SUCCESS


class CommandRunner:
    """Runs a shell command for each message, or batch."""

    def __init__(self, command: str, *, group: str, lake: str, timeout_s: float, batch: bool) -> None:
        self._command = command
        self._timeout_s = timeout_s
        self._batch = batch
        self._given = {"PENSTOCK_CONSUMER_GROUP": group, "PENSTOCK_LAKE": lake}
        self._running: set[subprocess.Popen[bytes]] = set()

    def __call__(self, messages: Sequence[MessageView]) -> ConsumeResult:
        # The command gets a session of its own: Ctrl-C in a terminal is for us, and running commands come to their end.
        process = subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.PIPE,
            env={**os.environ, **self._given, **self._facts(messages)},
            start_new_session=True,
        )
        self._running.add(process)
        try:
            process.communicate(self._input(messages), timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            raise CommandFailed(f"killed after {self._timeout_s:g} s") from None
        finally:
            self._running.discard(process)
        if process.returncode == EX_DATAERR:
            return ConsumeResult.DEAD_LETTER
        if process.returncode in _NOT_RUN:
            raise CommandNotRun(
                "the command cannot be run",
                operation="consume",
                object=self._command,
                observed=f"{_NOT_RUN[process.returncode]}: exit code {process.returncode}",
                hint="the message goes back as it came; a command may end with any other code to say that a message failed",
            )
        if process.returncode:
            raise CommandFailed(f"exit code {process.returncode}")
        return ConsumeResult.SUCCESS

    def kill(self) -> None:
        for process in list(self._running):
            _kill(process)

    def _input(self, messages: Sequence[MessageView]) -> bytes:
        if self._batch:
            return "".join(output.json_line(delivery(message)) for message in messages).encode()
        return messages[0].content

    def _facts(self, messages: Sequence[MessageView]) -> dict[str, str]:
        first = messages[0]
        facts = {"TOPIC": first.topic, "QUEUE": str(first.queue), "OFFSET": str(first.offset), "EPOCH": str(first.epoch)}
        if self._batch:
            facts["MESSAGES"] = str(len(messages))
        else:
            facts |= {
                "MESSAGE_ID": first.message_id,
                "MESSAGE_GROUP": first.message_group or "",
                "TAG": first.tag or "",
                "KEYS": json.dumps(first.keys),
                "PROPERTIES": json.dumps(first.properties),
                "STORE_TIMESTAMP": output.time_text(first.store_timestamp),
                "DELIVERY_ATTEMPT": str(first.delivery_attempt),
            }
        return {f"PENSTOCK_{name}": value for name, value in facts.items()}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
