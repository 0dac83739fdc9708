"""The common part of captures' commands: database, topic, and printed lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

import click

from ...terminal import output
from ...terminal.session import CommandSession, command_options, options
from ...terminal.values import DurationParam

if TYPE_CHECKING:
    from ....aio import Lake
    from ....cdc.capture.options import CaptureOptions
    from ....cdc.capture.progress import CaptureProgress
    from ....log.runtime.portal import Portal
    from ....log.schema.topic_schema import TopicSchema
    from ....log.topic.settings import TopicRecord

T = TypeVar("T")
P = TypeVar("P", bound="CaptureProgress")

BODY_BYTES = 16 * 1024 * 1024
"""The limit of a capture's new topic."""
_LINE_EVERY_S = 10.0


capture_options = options(
    click.option("--topic", required=True, help="A FIFO topic; made when there is none."),
    click.option(
        "--snapshot",
        type=click.Choice(["initial", "never", "again"]),
        default="initial",
        show_default=True,
        help="Send the rows that tables have when they are captured first; never; or of all once more, as after the source's log was lost.",
    ),
    click.option(
        "--heartbeat",
        is_flag=True,
        help="Send a message of its own, for cuts of a sync, where no change tells that the topic equals the source: behind a snapshot "
        "or a restart.",
    ),
    click.option("--once", is_flag=True, help="End once all is in the topic that was committed when it began to follow."),
    click.option(
        "--patience",
        type=DurationParam(),
        default="5m",
        show_default=True,
        help="How long a database that does not answer is waited for, at the start too; 0s: not at all.",
    ),
    command_options,
    click.pass_obj,
)
"""The options of all captures."""


def refuse_password(argument: str, has_password: bool, remedy: str) -> None:
    """Refuse a password on the command line, which is visible to all of the machine."""
    if has_password and click.get_current_context().get_parameter_source(argument) is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError(f"No password on the command line: {remedy}.")


def answer(session: CommandSession, ask: Callable[[], T], options: CaptureOptions) -> T:
    """The first answer of a database, which may just be starting. A signal ends the wait at once."""
    from ....cdc.capture.retry_loop import first_answer

    return session.signals.interruptible(lambda: first_answer(ask, options.patience_s, now_s=time.monotonic, pause=time.sleep))


@contextmanager
def opened_lake(session: CommandSession) -> Iterator[tuple[Portal, Lake]]:
    from ....log.runtime.portal import Portal

    async def opened() -> Lake:
        return session.open_async()

    portal = Portal()
    try:
        lake = portal.run(opened)
        try:
            yield portal, lake
        finally:
            portal.run(lake.close)
    finally:
        portal.stop()


async def made_topic(lake: Lake, topic: str, *, body_bytes: int, schema: TopicSchema | None = None) -> TopicRecord:
    """The topic's record, made if missing."""
    from ....log import MessageType, TopicLimits, TopicNotFound, TopicSettings

    try:
        return (await lake.topic(topic)).record
    except TopicNotFound:
        settings = TopicSettings(message_type=MessageType.FIFO, limits=TopicLimits(max_body_bytes=body_bytes), schema=schema)
        return await lake.create_topic(topic, settings, table=False)  # a capture may not write to tables


class CaptureOutput(Generic[P]):
    """The lines printed during a capture."""

    def __init__(self, session: CommandSession, topic: str, place: Callable[[P], str]) -> None:
        """``place``: a capture's place, for the end of a line."""
        self._session, self._topic, self._place = session, topic, place
        self._started_s = self._line_s = time.monotonic()
        self._before = 0

    def update(self, progress: P) -> None:
        now_s = time.monotonic()
        if now_s - self._line_s >= _LINE_EVERY_S:
            self._line(progress, now_s)

    def during(self, run: Callable[..., P]) -> None:
        """Run a capture until a signal."""
        self.end(run(stopped=lambda: self._session.signals.received is not None, on_progress=self.update))

    def end(self, progress: P) -> None:
        self._line_s, self._before = self._started_s, 0
        self._line(progress, time.monotonic())

    def _line(self, progress: P, now_s: float) -> None:
        events = progress.events + progress.snapshot_rows
        rate = (events - self._before) / max(now_s - self._line_s, 1e-3)
        self._line_s, self._before = now_s, events
        if self._session.as_json:
            output.emit({"topic": self._topic, **output.fields(progress), "events_per_s": round(rate)})
            return
        rows = f"{progress.snapshot_rows:,} rows read, " if progress.snapshot_rows else ""
        output.say(f"{rows}{progress.events:,} changes to {self._topic} ({rate:,.0f} events/s){self._place(progress)}")
