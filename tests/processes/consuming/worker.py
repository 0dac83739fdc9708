"""One process of the run: members of consumer groups that write down what they are given and what they answer, until told to end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

import penstock
import penstock.aio
from penstock.consumers import BatchResult, ConsumeResult, RetryAfter
from penstock.log.runtime.runtime import Runtime, SystemClock
from tests.processes.consuming.fates import Fate, Fates
from tests.processes.consuming.records import Journal, What
from tests.processes.worker import TOPIC

ORDERED = "ordered"
MIRRORED = "mirrored"
"""The consumer groups: an ORDERLY and a CONCURRENT one."""
THREADS, TASKS, BATCHES = "threads", "tasks", "batches"
"""How a member runs its listener: one message at a time, in threads or on the event loop, or lists of one message group."""
BROADCAST = "broadcast"
"""Every member gets every message, in the order of its queue."""
TOLD = "told"
"""The broadcasting group."""
SIMPLE = "simple"
"""It receives, and acknowledges by handle: what it does not comes back by itself."""
REFUSED = "an acknowledgement was refused"
STEP_MS = 90_000
"""So far a wall clock may be set ahead or back at once."""
TRY_AGAIN = 75
"""A process ends so that could not join, or had to give up, for a reason that may pass."""
_AT_ONCE = 8
_LOOK_S = 0.1
_INVISIBLE = timedelta(seconds=10)
"""The least there is."""
_WAIT = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a process is to do, as its only argument in JSON."""

    url: str
    options: dict[str, str]
    coordination: str | None
    lease_s: float
    journal: str
    groups: tuple[str, ...]
    how: str
    cache_messages: int
    fates: Fates = field(default_factory=Fates)
    member: str = ""
    """Its name in a broadcasting group."""

    @staticmethod
    def parse(text: str) -> Job:
        values = json.loads(text)
        fates = values.pop("fates")
        fates["killers"], values["groups"] = tuple(fates["killers"]), tuple(values["groups"])
        return Job(**values, fates=Fates(**fates))

    def argument(self) -> str:
        return json.dumps(asdict(self))

    def open(self) -> penstock.aio.Lake:
        """The lake, with leases shorter than a user can set."""
        runtime = Runtime(clock=_CLOCK)
        lake = penstock.aio.connect(self.url, options=self.options, coordination=self.coordination, runtime=runtime)
        lake.coordination.worker.lease_s = self.lease_s
        return lake


class SteppingClock(SystemClock):
    """The machine's, set ahead or back whenever the process is told to."""

    def __init__(self) -> None:
        self._offset_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self._offset_ms

    def step(self, *_: object) -> None:
        self._offset_ms = random.SystemRandom().randint(-STEP_MS, STEP_MS)


_CLOCK = SteppingClock()


class Listener:
    """Handles messages of one group as their bodies say."""

    def __init__(self, group: str, journal: Journal, fates: Fates) -> None:
        self._group = group
        self._journal = journal
        self._fates = fates
        self._clock = threading.Event()

    def one(self, message: penstock.MessageView) -> ConsumeResult | RetryAfter:
        seconds = self._begin(message)
        if seconds:
            self._clock.wait(seconds)
        return self._end(message)

    async def one_async(self, message: penstock.MessageView) -> ConsumeResult | RetryAfter:
        seconds = self._begin(message)
        if seconds:
            await asyncio.sleep(seconds)
        return self._end(message)

    def batch(self, messages: list[penstock.MessageView]) -> BatchResult:
        for succeeded, message in enumerate(messages):
            result = self.one(message)
            if result is not ConsumeResult.SUCCESS:
                return BatchResult(succeeded, result)
        return BatchResult(len(messages))

    def _begin(self, message: penstock.MessageView) -> float:
        self._journal.handled(What.START, self._group, message)
        body = message.body.decode()
        if self._fates.of(body) is Fate.KILLER:
            os.kill(os.getpid(), signal.SIGKILL)
        return self._fates.seconds(body)

    def _end(self, message: penstock.MessageView) -> ConsumeResult | RetryAfter:
        body, attempt = message.body.decode(), message.delivery_attempt
        fate = self._fates.of(body)
        if fate is Fate.REJECTED:
            self._journal.handled(What.REJECT, self._group, message)
            return ConsumeResult.DEAD_LETTER
        if not fate.is_poison and self._fates.succeeds(body, attempt):
            self._journal.handled(What.OK, self._group, message)
            return ConsumeResult.SUCCESS
        self._journal.handled(What.FAIL, self._group, message)
        return RetryAfter(timedelta(milliseconds=50)) if attempt % 2 else ConsumeResult.FAILURE


class Saying(logging.Handler):
    """Writes warnings of the library into the journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        self._journal.note(What.SAID, f"{record.levelname} {record.getMessage()}")


def main() -> None:
    job = Job.parse(sys.argv[1])
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGUSR1, _CLOCK.step)
    journal = Journal(job.journal)
    penstock_log = logging.getLogger("penstock")
    penstock_log.addHandler(Saying(journal))
    penstock_log.propagate = False
    try:
        if job.how == TASKS:
            asyncio.run(work_async(job, journal, stop))
        elif job.how == SIMPLE:
            work_simply(job, journal, stop)
        elif job.how == BROADCAST:
            work_for_all(job, journal, stop)
        else:
            work(job, journal, stop)
    except (penstock.RetryError, penstock.ReopenError) as error:
        journal.note(What.ENDED, str(error))
        sys.exit(TRY_AGAIN)
    journal.note(What.DOWN)


def work(job: Job, journal: Journal, stop: threading.Event) -> None:
    with penstock.Lake(job.open()) as lake, ExitStack() as stack:
        consumers = [stack.enter_context(lake.push_consumer(TOPIC, **options)) for options in members(job, journal)]
        journal.note(What.UP)
        while not stop.wait(_LOOK_S):
            for consumer in consumers:
                consumer.wait(timedelta(0))
        journal.note(What.DRAIN)


async def work_async(job: Job, journal: Journal, stop: threading.Event) -> None:
    async with job.open() as lake, AsyncExitStack() as stack:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        consumers = [await stack.enter_async_context(lake.push_consumer(TOPIC, **options)) for options in members(job, journal)]
        journal.note(What.UP)
        ends = [asyncio.ensure_future(one.ended()) for one in consumers]
        waiting = asyncio.ensure_future(told.wait())
        if not stop.is_set():
            await asyncio.wait([waiting, *ends], return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            if end.done():
                end.result()
            end.cancel()
        waiting.cancel()
        journal.note(What.DRAIN)


def work_simply(job: Job, journal: Journal, stop: threading.Event) -> None:
    [group] = job.groups
    listener = Listener(group, journal, job.fates)
    with penstock.Lake(job.open()) as lake, lake.simple_consumer(TOPIC, group=group) as consumer:
        journal.note(What.UP)
        while not stop.is_set():
            # What is behind a message that was not acknowledged, in its message group and receive, is not to be handled: here it is on us.
            held: set[str | None] = set()
            for message in consumer.receive(_AT_ONCE, invisible_duration=_INVISIBLE, await_duration=_WAIT):
                if group == ORDERED and message.message_group in held:
                    continue
                held.add(message.message_group)
                if job.fates.of(message.body.decode()) is Fate.KILLER:
                    # All that was received with what ends the process expires with it, and that is an attempt of each.
                    journal.handled(What.START, group, message)
                    journal.handled(What.FAIL, group, message)
                elif listener.one(message) is ConsumeResult.SUCCESS:
                    try:
                        consumer.ack(message)
                        held.discard(message.message_group)
                    except penstock.CallError as error:
                        journal.note(What.SAID, f"{REFUSED}: {error}")
                        journal.handled(What.LATE, group, message)
        journal.note(What.DRAIN)


def work_for_all(job: Job, journal: Journal, stop: threading.Event) -> None:
    [group] = job.groups
    listener = Listener(group, journal, job.fates)
    with (
        penstock.Lake(job.open()) as lake,
        lake.broadcast_consumer(TOPIC, group=group, member=job.member, listener=listener.one) as consumer,
    ):
        journal.note(What.UP)
        while not stop.wait(_LOOK_S):
            consumer.wait(timedelta(0))
        journal.note(What.DRAIN)


def members(job: Job, journal: Journal) -> list[dict[str, Any]]:
    """The arguments of each consumer of this process."""
    made = []
    for group in job.groups:
        listener = Listener(group, journal, job.fates)
        call: Callable[..., Any] = listener.one
        if job.how == TASKS:
            call = listener.one_async
        elif job.how == BATCHES:
            call = listener.batch
        options = {"group": group, "listener": call, "threads": _AT_ONCE, "cache_messages": job.cache_messages}
        made.append(options | ({"batch": "group"} if job.how == BATCHES else {}))
    return made


if __name__ == "__main__":
    main()
