"""The signals that tests send to processes of theirs, which inherit what the starting shell ignores or blocks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType

SENT: dict[signal.Signals, Callable[[int, FrameType | None], object] | signal.Handlers] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGPIPE: signal.SIG_IGN,
}
"""What Python makes of the signals that tests send, where nothing was inherited."""


def take_own_dispositions() -> None:
    """Let this process, and so all that it starts, take signals as if a terminal had started it.

    A shell that is no terminal's ignores SIGINT for what it starts in the background, and so do `setsid`, and the runners of many CIs.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SENT)
    for number, handler in SENT.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
