"""`penstock consume`."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import click

from ....consumers import MemoryMetrics, PushOptions, QueueStatistics
from ....consumers.handlers.executor import is_coroutine_function
from ....consumers.handlers.results import Declined, judge
from ....log import MessageView, PenstockError
from ...console.log_options import log_options
from ...console.session import OutputFailed, Session, group_options
from ...console.values import Duration, Position
from ...metrics import LOOPBACK, served
from .gate import Gate
from .handlers import Commands, Printing, imported

if TYPE_CHECKING:
    from ....blocking.consumers import PushConsumer

log = logging.getLogger("penstock.cli")

_DEFAULTS = PushOptions()
_NO_TIME = timedelta(0)
_SHORT_S, _LOOK_S = 0.02, 0.25
_QUEUES_COME_S = 20.0
"""How long a consumer that owns no queue yet waits for those of one that died: the longest lease, and a quarter more."""


@click.command(
    epilog="A command gets the body on standard input and the rest in PENSTOCK_* variables; it acknowledges the message by exit code 0. 65 "
    "(EX_DATAERR) gives it up at once, 75 (EX_TEMPFAIL) and any other code fail it: the group's retry policy applies. With --batch it gets "
    "JSON lines, and a batch that fails is halved. A function is a listener as for lake.push_consumer."
)
@click.argument("topic")
@click.option("--group", required=True, help="The consumer group; made when there is none.")
@click.option("--exec", "command_line", metavar="COMMAND", help="Run a shell command for each message instead of printing it.")
@click.option(
    "--call", "function", metavar="MODULE:FUNCTION", help="Call a Python function, async ones too, for each message instead."
)
@click.option(
    "--order",
    "delivery_order",
    type=click.Choice(["ORDERLY", "CONCURRENT"], case_sensitive=False),
    help="The group's delivery order; a new group is ORDERLY by default.",
)
@click.option(
    "--filter", "tags", metavar="FILTER", help="What the group takes of the topic: 'paid || refunded' or 'SQL92: price > 10'."
)
@click.option(
    "--start", type=Position(), default="earliest", show_default=True, help="Where a group that is new to the topic begins."
)
@click.option("--threads", type=click.IntRange(min=1), help="Messages handled at once; 1 when printing, else 20 by default.")
@click.option(
    "--batch", type=click.Choice(["group", "queue"]), help="Take messages together: of one message group, or of one queue."
)
@click.option(
    "--batch-messages",
    type=click.IntRange(min=1),
    default=_DEFAULTS.batch_messages,
    show_default=True,
    help="At most this many together.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default=_DEFAULTS.consume_timeout,
    show_default="15m",
    help="What takes longer has failed; commands are killed.",
)
@click.option("--max", "most", type=click.IntRange(min=1), help="End once this many messages are done.")
@click.option("--until-idle", type=Duration(), metavar="DURATION", help="End once there was nothing to do for this long.")
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve /metrics for Prometheus on this port.")
@click.option(
    "--metrics-host",
    default=LOOPBACK,
    show_default=True,
    metavar="ADDRESS",
    help="The address to serve at; 0.0.0.0: all of the machine.",
)
@group_options
@click.pass_obj
@log_options
def command(
    session: Session,
    /,
    *,
    topic: str,
    group: str,
    command_line: str | None,
    function: str | None,
    delivery_order: str | None,
    tags: str | None,
    start: Any,  # noqa: ANN401 - as click parsed it
    threads: int | None,
    batch: Literal["group", "queue"] | None,
    batch_messages: int,
    timeout: timedelta,
    most: int | None,
    until_idle: timedelta | None,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Consume a topic as a member of a consumer group: print each message, run a command, or call a function.

    A message is acknowledged when it is printed and flushed, when the command exits with 0, when the function returns SUCCESS. Ends on Ctrl-C
    and SIGTERM: it takes nothing more, lets what runs end, acknowledges, and hands its queues over; a second signal does not wait.
    """
    if command_line is not None and function is not None:
        raise click.UsageError("Either --exec or --call.")
    if most is not None and batch is not None:
        raise click.UsageError("--max counts messages one by one: leave --batch out.")
    lake_url = session.lake_url
    commands = None
    handle: Callable[[Any], object]
    if function is not None:
        handle = imported(function)
    elif command_line is not None:
        handle = commands = Commands(
            command_line, group=group, lake=lake_url, timeout_s=timeout.total_seconds(), batch=batch is not None
        )
    else:
        handle = Printing(topic, as_json=session.as_json)
    work = _Work(handle, one_by_one=batch is None and function is None, most=most)
    metrics = MemoryMetrics()
    with served(metrics, metrics_port, metrics_host), session.connect() as lake:
        consumer = lake.push_consumer(
            topic,
            group=group,
            listener=work.listener,
            delivery_order=delivery_order,
            filter=tags,
            start=start,
            threads=_threads(threads or (1 if isinstance(handle, Printing) else _DEFAULTS.threads), most),
            batch=batch,
            batch_messages=batch_messages,
            consume_timeout=timeout,
            metrics=metrics,
        )
        with session.signals.held(work.wake):
            try:
                work.wait(consumer, lambda: session.signals.received is not None, until_idle)
                work.end(consumer)
            except BaseException:
                work.give_back()
                if commands is not None:
                    commands.kill()
                consumer.close(_NO_TIME)
                raise


class _Work:
    """The listener, and the events that the main thread waits for meanwhile."""

    def __init__(self, handle: Callable[[Any], object], *, one_by_one: bool, most: int | None) -> None:
        self._handle = handle
        self._one_by_one = one_by_one
        self.gate = Gate(most)
        self._error: BaseException | None = None
        self._events: queue.SimpleQueue[None] = queue.SimpleQueue()
        """One item whenever something may have ended. Its ``put`` may be called by a signal handler."""
        self._started_s = self._active_s = time.monotonic()
        self._ended = threading.Event()
        self.listener: Callable[..., object] = self._listen_async if is_coroutine_function(handle) else self._listen

    def wake(self) -> None:
        """Look again whether to end."""
        self._events.put(None)

    # --- In handlers' threads and tasks -------------------------------------------------------------------------------------------

    def _listen(self, given: Any) -> object:  # noqa: ANN401 - a message, or a list
        with self._turn(given, self.gate.enter().result()) as say:
            try:
                return say(self._handle([given] if self._one_by_one else given))
            except (BrokenPipeError, OutputFailed) as error:
                self._fail(error)
                self._ended.wait()  # the message has not failed, so it goes back as it came
                raise Declined from error

    async def _listen_async(self, given: Any) -> object:  # noqa: ANN401 - a message, or a list
        with self._turn(given, await asyncio.wrap_future(self.gate.enter())) as say:
            result: Any = self._handle(given)
            return say(await result)

    @contextmanager
    def _turn(self, given: MessageView | list[MessageView], may_go_on: bool) -> Iterator[Callable[[object], object]]:
        if not may_go_on:
            raise Declined
        done = False

        def say(result: object) -> object:
            nonlocal done
            done = judge(result, len(given) if isinstance(given, list) else 1).failure is None
            return result

        try:
            yield say
        finally:
            self._active_s = time.monotonic()
            self.gate.leave(done=done)
            if self.gate.finished:
                self.wake()

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self.wake()

    # --- In the main thread -------------------------------------------------------------------------------------------------------

    def wait(self, consumer: PushConsumer, stopped: Callable[[], bool], until_idle: timedelta | None) -> None:
        """Wait until the command is to end: stopped, finished, failed or idle."""
        threading.Thread(target=self._watch, args=(consumer,), name="penstock-consume", daemon=True).start()
        idle_s = None if until_idle is None else until_idle.total_seconds()
        while not (stopped() or self.gate.finished or self._error is not None):
            if idle_s is not None and self._is_idle(consumer, idle_s):
                return
            try:
                self._events.get(timeout=None if idle_s is None else min(_LOOK_S, max(_SHORT_S, idle_s / 4)))
            except queue.Empty:
                continue

    def end(self, consumer: PushConsumer) -> None:
        """Let running handlers end. Raises the error that ended the command."""
        if consumer.error is None and (self.gate.limited or self._error is not None):
            consumer.drain()
            self.give_back()
        consumer.close()
        if self._error is not None:
            raise self._error

    def give_back(self) -> None:
        """Release messages that wait to be let in, or that could not be printed: the consumer gives them back."""
        self.gate.close()
        self._ended.set()

    def _watch(self, consumer: PushConsumer) -> None:
        try:
            consumer.wait()
        except PenstockError as error:
            self._fail(error)

    def _is_idle(self, consumer: PushConsumer, idle_s: float) -> bool:
        now_s = time.monotonic()
        queues = consumer.statistics().queues
        if self.gate.inside or any(map(_has_work, queues)):
            self._active_s = now_s
            return False  # also if idle_s is 0
        if not queues and now_s < self._started_s + _QUEUES_COME_S:
            return False
        return now_s >= self._active_s + idle_s


def _has_work(one: QueueStatistics) -> bool:
    """Whether anything is to be done now. Messages that were fetched and are about to be granted are neither ready nor in flight."""
    return one.ready_messages > 0 or one.inflight_messages > 0 or one.lag_messages > one.waiting_messages + one.parked_groups


def _threads(threads: int, most: int | None) -> int:
    """The number of threads: more threads than messages would wait in vain."""
    return threads if most is None else min(threads, most)
