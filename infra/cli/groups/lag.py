"""The commands `penstock group describe` and `penstock group lag`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, TypeVar

import click

from ...terminal import completion, output
from ...terminal.session import CommandSession, group_options, options
from ...terminal.values import DurationParam
from .owners import SUSPICIOUS, WATCHED, owner_text, verdicts

if TYPE_CHECKING:
    from rich.table import Table

    from ....lake import Lake
    from ...operating.groups import GroupLag, GroupProgress

T = TypeVar("T")

SETTINGS: output.Columns = {
    "order": "delivery_order",
    "retry": "retry_text",
    "attempts": "attempts_text",
    "dead letters": "dead_letter_policy",
    "filters": "filters_text",
}
_PROGRESS: output.Columns = {
    "members": "members_total",
    "lag": "lag",
    "lag time": lambda found: _in_seconds(found.lag_time),
}
_FACTS: output.Columns = {
    **{name: f"settings.{field}" for name, field in SETTINGS.items()},
    **_PROGRESS,
    "lost letters": lambda found: found.lost_letters or None,
}
_KAFKA_FACTS: output.Columns = {
    "protocol": lambda found: f"kafka, {found.kafka.protocol_type or 'no type yet'}",
    "state": "kafka.state",
    "assignor": lambda found: found.kafka.assignor or None,
    "generation": "kafka.generation",
    "coordinator": lambda found: found.kafka.coordinator or None,
    **_PROGRESS,
}
_KAFKA_MEMBERS: output.Columns = {
    "member": "member_id",
    "client": "client_id",
    "host": "host",
    "principal": lambda one: one.principal or "-",
    "instance": lambda one: one.instance_id or "-",
    "queues": "queues_text",
}
_LAGS: output.Columns = {
    "group": "group",
    "topic": "topic",
    "lag": "lag",
    "lag time": lambda one: _in_seconds(one.lag_time),
    "parked": "parked",
}
_QUEUES: output.Columns = {
    "queue": "queue",
    "owner": lambda one: owner_text(one.owner) or "-",
    "epoch": "epoch",
    "committed": "committed_offset",
    "next": "next_offset",
    "lag": "lag",
    "lag time": lambda one: _in_seconds(one.lag_time),
    "in flight": "in_flight",
    "waiting": "waiting",
    "blocked": "blocked",
    "parked": "parked",
    "interrupted": "interrupted",
    "dead letters": "dead_letters",
}
FAILURES: output.Columns = {
    "topic": "topic",
    "queue": "queue",
    "offset": "offset",
    "attempt": "attempt",
    "failed": "time",
    "in": lambda one: one.process or owner_text(one.worker),
    "why": "text",
}
_FAILURES_SHOWN = 10
_KAFKA_QUEUES: output.Columns = {
    "queue": "queue",
    "owner": lambda one: one.owner or "-",
    **{name: _QUEUES[name] for name in ("committed", "next", "lag", "lag time")},
}


_watch_options = options(
    click.option("--watch", is_flag=True, help="Go on and refresh, until Ctrl-C."),
    click.option(
        "--interval", type=DurationParam(), default="2s", show_default=True, help="With --watch: the time between two looks."
    ),
)


@click.command()
@click.argument("group", shell_complete=completion.groups)
@_watch_options
@group_options
@click.pass_obj
def describe(session: CommandSession, group: str, watch: bool, interval: timedelta) -> None:
    """Show settings, and for every queue its owner, its progress, and the messages in flight, waiting, blocked or parked.

    The lag counts messages that are not settled; of a blocked or parked message group only the first. The lag time is the age of the oldest. Where
    that is 5s or more, the owners are watched until it is known whether they live: a queue keeps a dead owner until another worker takes it.

    Of messages that failed and are not done, the newest ten last failures follow: the attempt, its process, and the first line of its reason.

    A group of Kafka's clients has none of these settings. It shows its state, its members with their queues, and its committed offsets.
    """
    from ...operating.groups import progress_of, work_facts

    with session.connect(read_only=True) as lake:
        if watch:
            _watch(session, interval, lambda: [progress_of(lake.describe_group(group))], lambda found: _brief(*found))
        described = lake.describe_group(group)
        found = progress_of(described)
        if session.as_json:
            output.emit(found)
            return
        if found.kafka is not None:
            output.facts((group, ""), found, _KAFKA_FACTS)
            if found.kafka.members:
                output.rows(found.kafka.members, _KAFKA_MEMBERS, title="Members")
        else:
            output.facts((group, ""), found, _FACTS)
            for fact in work_facts(found.work) if found.work is not None else ():
                output.say(f"{fact.name + ':':<14} {fact.value}")
        for part in _queues(found):
            output.draw(part)
        for one in found.queues:
            if one.waits_text:
                output.say(f"{one.topic} queue {one.queue}: {one.waits_text}.")
        if found.failures:
            output.rows(found.failures[:_FAILURES_SHOWN], FAILURES, title="Last failures of messages that are not done")
        if found.kafka is None and found.lag_time >= SUSPICIOUS and any(one.owner for one in found.queues):
            output.note(f"\nIs {group} at work? Its owners are watched, for {output.format_value(WATCHED)} at most.")
            for line in verdicts(described, lake.workers(watch=WATCHED, group=group)):
                output.say(line)


@click.command()
@click.argument("group", required=False, shell_complete=completion.groups)
@_watch_options
@group_options
@click.pass_obj
def lag(session: CommandSession, group: str | None, watch: bool, interval: timedelta) -> None:
    """Show how far a group, or each, is behind: in messages that are not settled, and by the age of the oldest of them."""
    with session.connect(read_only=True) as lake:
        if watch:
            _watch(session, interval, lambda: _lags(lake, group), lambda rows: [output.record_grid(rows, _LAGS)])
        output.records(session, _lags(lake, group), _LAGS)


def _lags(lake: Lake, group: str | None) -> list[GroupLag]:
    from ....coordinator import GroupNotFound
    from ...operating.groups import lags_of

    found: list[GroupLag] = []
    for name in lake.groups() if group is None else [group]:
        try:
            found += lags_of(lake.describe_group(name))
        except GroupNotFound:
            if group is not None:
                raise
            # It was deleted since it was listed.
    return found


def _watch(
    session: CommandSession,
    interval: timedelta,
    look: Callable[[], list[T]],
    parts: Callable[[list[T]], list[Table | str]],
) -> NoReturn:
    from ....log import RetryError

    found, trouble = look(), ""
    with nullcontext() if session.as_json else output.live_display() as draw:
        while True:
            if draw is not None:
                draw([*parts(found), trouble])
            elif trouble:
                output.note(trouble)
            else:
                for one in found:
                    output.emit(one)
            time.sleep(interval.total_seconds())
            try:
                found, trouble = look(), ""
            except RetryError as error:
                trouble = f"{error.message}; trying again"


def _brief(found: GroupProgress) -> list[Table | str]:
    """Short forms of the parts, so that 16 queues fit on a terminal."""
    facts = zip(_PROGRESS, output.cells(found, _PROGRESS), strict=True)
    line = "   ".join(f"{name} {output.format_value(value)}" for name, value in facts)
    kind = found.settings.delivery_order if found.settings is not None else found.kafka.state if found.kafka is not None else ""
    from ...operating.groups import work_facts

    holds = [] if found.work is None else [f"{one.name}: {one.value}" for one in work_facts(found.work)[:1]]
    return [f"{found.group}   {kind}   {line}", *holds, *_queues(found)]


def _queues(found: GroupProgress) -> list[Table | str]:
    parts: list[Table | str] = []
    for topic in found.topics:
        parts += [f"\n{topic}", output.record_grid(found.of_topic(topic), _QUEUES if found.kafka is None else _KAFKA_QUEUES)]
    return parts or ["\nIt has not begun on any topic."]


def _in_seconds(lag_time: timedelta) -> timedelta:
    return timedelta(seconds=lag_time // timedelta(seconds=1)) if lag_time >= timedelta(seconds=1) else lag_time
