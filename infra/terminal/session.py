"""The common part of all commands: their lake, their signals, and shared options."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ...aio import Lake as AsyncLake
    from ...lake import Lake
    from ...log.stores.protocol import ObjectStore

_ENDING = (signal.SIGINT, signal.SIGTERM)
_NUDGE = signal.SIGURG
"""A signal without other meaning; ignored unless handled."""
_NUDGES, _NUDGE_S = 6, 0.05

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


class Interrupted(BaseException):
    """Ctrl-C, SIGTERM, or the end of the output's reader."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class OutputFailed(Exception):
    """Standard output is closed or full."""


@contextmanager
def writing_output() -> Iterator[None]:
    """A block that writes to standard output. Raises `OutputFailed`, or `BrokenPipeError` when its reader is gone."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"Standard output cannot be written: {error.strerror}.") from error


class Signals:
    """Ctrl-C and SIGTERM while a command runs. Each raises `Interrupted`; inside `held` only the second one does.

    A command that must end in order holds the signals, and looks at ``received`` between two steps. `interruptible` marks its waits that may never
    end.

    A worker of a pool gets SIGTERM as often as its parent, the system and a supervisor tell it to end; only SIGINT, which its parent sends for the
    second signal, ends it at once.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.of_worker = False
        self._handled = 0
        self._held = False
        self._tell: Callable[[], None] | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():  # the thread that started this one handles them
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in _ENDING}
        before[_NUDGE] = signal.signal(_NUDGE, lambda number, frame: None)
        heard, told = os.pipe()
        os.set_blocking(told, False)
        before_told = signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        nudging = threading.Thread(target=self._nudge, args=(heard,), name="penstock-signals", daemon=True)
        nudging.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before_told)
            os.close(told)
            nudging.join()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _nudge(self, heard: int) -> None:
        """Wake the main thread out of a blocking call until it has run the handler. The pauses grow, so that a wait that a nudge begins anew comes to
        its end.
        """
        main = threading.main_thread().ident
        assert main is not None, "it runs"
        count = 0
        while number := os.read(heard, 1):
            if number[0] not in _ENDING:  # a nudge is heard here, too
                continue
            count += 1
            for nudges in range(_NUDGES):
                if self._handled >= count:
                    break
                signal.pthread_kill(main, _NUDGE)
                time.sleep(_NUDGE_S * 2**nudges)
        os.close(heard)

    @contextmanager
    def held(self, tell: Callable[[], None] | None = None) -> Iterator[None]:
        """Inside, the first signal only sets ``received`` and calls ``tell``; at the end of the block it is raised.

        One that came before is told at once: where it was raised, Python may have passed it over, as in a callback of an import.
        """
        self._held, self._tell = True, tell
        try:
            if self.received is not None and tell is not None:
                tell()
            yield
        finally:
            self._held, self._tell = False, None
        if self.received is not None:
            raise Interrupted(self.received)

    def interruptible(self, wait: Callable[[], T]) -> T:
        """The result of ``wait()``, which the first signal ends, also inside `held`."""
        held, self._held = self._held, False
        try:
            if self.received is not None:
                raise Interrupted(self.received)
            return wait()
        finally:
            self._held = held

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._handled += 1
        first = self.received is None
        if self.of_worker and number == signal.SIGTERM and not first:
            return
        self.received = number
        if not (first and self._held) or (self.of_worker and number == signal.SIGINT):
            raise Interrupted(number)
        if self._tell is not None:
            self._tell()


@dataclass(slots=True)
class CommandSession:
    """One call of `penstock`."""

    signals: Signals
    url: str | None = None
    url_is_default: bool = False
    coordination: str | None = None
    """None: the lake's default."""
    refusal_timeout: timedelta = timedelta(minutes=5)
    debug: bool = False
    as_json: bool = False
    abandoned: bool = False
    """Whether a thread that may never end was left behind: the process does not wait for it."""

    @property
    def lake_url(self) -> str:
        """Raises a usage error without a lake."""
        if not self.url:
            raise click.UsageError("Which lake? Give --lake URL, or set PENSTOCK_LAKE.")
        return self.url

    @property
    def lake_shown(self) -> str:
        """The lake for people, a folder by its whole path."""
        url = self.lake_url
        return url if "://" in url else os.path.abspath(os.path.expanduser(url))

    def connect(self, *, read_only: bool = False) -> Lake:
        from ...lake import connect

        return connect(
            self.lake_url,
            read_only=read_only,
            coordination=self.coordination,
            maintenance=False,
            refusal_timeout=self.refusal_timeout,
        )

    def open_store(self) -> ObjectStore:
        """Open the store alone, for commands that only list it."""
        from ...log.stores.open import open_store

        return open_store(self.lake_url)

    def open_async(self, *, read_only: bool = False) -> AsyncLake:
        from ...aio import connect

        return connect(
            self.lake_url,
            read_only=read_only,
            coordination=self.coordination,
            maintenance=False,
            refusal_timeout=self.refusal_timeout,
        )


def _set_lake(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        session = ctx.find_object(CommandSession)
        assert session is not None, "main made it"
        session.url, session.url_is_default = value, False


def _set_coordination(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.find_object(CommandSession).coordination = value  # type: ignore[union-attr]


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_object(CommandSession).as_json = True  # type: ignore[union-attr]


def options(*given: Callable[[Any], Any]) -> Callable[[F], F]:
    """Several options, or other decorators, as one; help shows them in this order."""

    def add(command: F) -> F:
        for option in reversed(given):
            command = option(command)
        return command

    return add


json_option = click.option("--json", is_flag=True, expose_value=False, callback=_set_json, help="One JSON object a line.")
"""``--json``, before a command or behind it."""

command_options = options(
    json_option,
    click.option("--lake", metavar="URL", expose_value=False, callback=_set_lake, help="The lake, if not given before."),
)
"""``--lake`` and ``--json``, which every command takes; pass the session with ``click.pass_obj``."""

group_options = options(
    command_options,
    click.option(
        "--coordination",
        metavar="URL",
        expose_value=False,
        callback=_set_coordination,
        help="The table of consumer groups, if not given before.",
    ),
)
"""The common options and ``--coordination``, for commands about consumer groups."""

confirm_options = options(
    click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    click.option("--dry-run", is_flag=True, help="Say what would happen, and do nothing."),
)
"""``--yes`` and ``--dry-run``, for a command that destroys."""


def exit_code_option(command: Callable[..., bool]) -> Callable[..., int]:
    """Give a command ``--exit-code``. It returns whether it found anything. Stands right above the function."""

    @functools.wraps(command)
    def run(*args: object, exit_code: bool, **options: object) -> int:
        return int(not command(*args, **options) and exit_code)

    return click.option("--exit-code", is_flag=True, help="Exit with 1 when nothing is found.")(run)


def confirm(question: str, *, yes: bool) -> None:
    """Return when the user agrees; otherwise the command ends."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def stderr_is_terminal() -> bool:
    return sys.stderr.isatty()
