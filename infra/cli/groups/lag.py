"""The commands `penstock group describe` and `penstock group lag`: how far groups are, and what holds them up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

import click

from ....coordinator.groups.record import setting_text
from ...console import completion, output
from ...console.session import CommandSession, group_options
from ...console.values import DurationParam
from .owners import SUSPICIOUS, WATCHED, owner_text, verdicts

if TYPE_CHECKING:
    from rich.table import Table

    from ....coordinator import GroupDescription, GroupSettings, QueueProgress
    from ....lake import Lake

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")

_LAG_COLUMNS = ("group", "topic", "lag", "age", "parked")
_COLUMNS = (
    "queue",
    "owner",
    "epoch",
    "floor",
    "next",
    "lag",
    "age",
    "in flight",
    "waiting",
    "blocked",
    "parked",
    "suspects",
    "dead letters",
)


class _Lag(NamedTuple):
    """How far a group is behind in a topic."""

    group: str
    topic: str
    lag: int
    age: timedelta
    parked: int


def settings_facts(settings: GroupSettings) -> list[tuple[str, str]]:
    """A group's settings for people."""
    filters = "; ".join(f"{topic}: {tags}" for topic, tags in settings.filters.items())
    return [
        ("order", settings.delivery_order.value),
        ("retry", setting_text(settings.retry)),
        ("attempts", setting_text(settings.max_attempts)),
        ("dead letters", settings.dead_letter_policy.value),
        ("filters", filters or "none"),
    ]


def settings_document(settings: GroupSettings) -> dict[str, object]:
    """A group's settings as JSON values."""
    retry = {**output.fields(settings.retry)}
    for name in ("interval", "interval_max"):
        retry[f"{name}_s"] = retry.pop(name)
    return {**output.fields(settings), "retry": retry, "filters": dict(settings.filters)}


def _watch_options(command: F) -> F:
    interval = click.option(
        "--interval", type=DurationParam(), default="2s", show_default=True, help="With --watch: the time between two looks."
    )
    return click.option("--watch", is_flag=True, help="Go on and refresh, until Ctrl-C.")(interval(command))


@click.command()
@click.argument("group", shell_complete=completion.groups)
@_watch_options
@group_options
@click.pass_obj
def describe(session: CommandSession, group: str, watch: bool, interval: timedelta) -> None:
    """Show settings, and for every queue its owner, its progress, and the messages in flight, waiting, blocked or parked.

    The lag counts messages that are not settled; of a blocked or parked message group only the first. Its age is that of the oldest. Where
    that is 5s or more, the owners are watched until it is known whether they live: a queue keeps a dead owner until another worker takes it.
    """
    with session.connect(read_only=True) as lake:
        if watch:
            _watch(session, interval, lambda: lake.describe_group(group), lambda found: [_document(found)], _brief)
        elif session.as_json:
            output.emit(_document(lake.describe_group(group)))
        else:
            found = lake.describe_group(group)
            for part in _parts(found):
                output.draw(part)
            if found.lag_time >= SUSPICIOUS and any(one.owner for one in found.queues):
                output.note(f"\nIs {found.name} at work? Its owners are watched, for {output.format_value(WATCHED)} at most.")
                for line in verdicts(found, lake.workers(watch=WATCHED, group=group)):
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
            _watch(
                session,
                interval,
                lambda: _lags(lake, group),
                _lag_documents,
                lambda rows: [output.grid(_LAG_COLUMNS, _shown(rows))],
            )
        rows = _lags(lake, group)
    if session.as_json:
        for document in _lag_documents(rows):
            output.emit(document)
    else:
        output.table(_LAG_COLUMNS, _shown(rows))


def _lags(lake: Lake, group: str | None) -> list[_Lag]:
    from ....coordinator import GroupNotFound

    found: list[_Lag] = []
    for name in lake.groups() if group is None else [group]:
        try:
            described = lake.describe_group(name)
        except GroupNotFound:
            if group is not None:
                raise
            continue  # it was deleted since it was listed
        for topic, queues in _by_topic(described.queues).items():
            age = max(queue.lag_time for queue in queues)
            found.append(_Lag(name, topic, sum(queue.lag for queue in queues), age, sum(queue.parked for queue in queues)))
    return found


def _lag_documents(rows: Sequence[_Lag]) -> list[dict[str, object]]:
    return [{"group": one.group, "topic": one.topic, "lag": one.lag, "lag_time_s": one.age, "parked": one.parked} for one in rows]


def _shown(rows: Sequence[_Lag]) -> list[_Lag]:
    return [one._replace(age=_age(one.age)) for one in rows]


def _watch(
    session: CommandSession,
    interval: timedelta,
    look: Callable[[], T],
    documents: Callable[[T], list[dict[str, object]]],
    parts: Callable[[T], list[Table | str]],
) -> NoReturn:
    """Refresh until a signal. An error that may pass is shown, and the next look may succeed."""
    from ....log import RetryError

    found, trouble = look(), ""
    with nullcontext() if session.as_json else output.refreshed() as draw:
        while True:
            if draw is not None:
                draw([*parts(found), trouble])
            elif trouble:
                output.note(trouble)
            else:
                for document in documents(found):
                    output.emit(document)
            time.sleep(interval.total_seconds())
            try:
                found, trouble = look(), ""
            except RetryError as error:
                trouble = f"{error.message}; trying again"


def _parts(found: GroupDescription) -> list[Table | str]:
    """The parts shown to people."""
    facts = [*settings_facts(found.settings), ("members", len(found.members)), ("lag", found.lag), ("age", _age(found.lag_time))]
    if found.lost_letters:
        facts.append(("lost letters", found.lost_letters))
    return [output.grid((found.name, ""), [(name, output.format_value(value)) for name, value in facts]), *_queues(found)]


def _brief(found: GroupDescription) -> list[Table | str]:
    """The parts in short form, so that 16 queues fit on a terminal."""
    facts = (("members", len(found.members)), ("lag", found.lag), ("age", _age(found.lag_time)))
    line = "   ".join(f"{name} {output.format_value(value)}" for name, value in facts)
    return [f"{found.name}   {found.settings.delivery_order}   {line}", *_queues(found)]


def _queues(found: GroupDescription) -> list[Table | str]:
    parts: list[Table | str] = []
    for topic, queues in _by_topic(found.queues).items():
        parts += [f"\n{topic}", output.grid(_COLUMNS, map(_row, queues))]
    return parts or ["\nIt has not begun on any topic."]


def _age(age: timedelta) -> timedelta:
    """An age to the second; nobody reads more of it."""
    return timedelta(seconds=age // timedelta(seconds=1)) if age >= timedelta(seconds=1) else age


def _row(one: QueueProgress) -> tuple[object, ...]:
    return (
        one.queue,
        owner_text(one.owner) or "-",
        one.epoch,
        one.floor,
        one.next_offset,
        one.lag,
        _age(one.lag_time),
        one.in_flight,
        one.waiting,
        one.blocked,
        one.parked,
        one.suspects,
        one.dead_letters,
    )


def _by_topic(queues: Sequence[QueueProgress]) -> dict[str, list[QueueProgress]]:
    found: dict[str, list[QueueProgress]] = {}
    for one in queues:
        found.setdefault(one.topic, []).append(one)
    return found


def _document(found: GroupDescription) -> dict[str, object]:
    queues = []
    for one in found.queues:
        document = output.fields(one)
        document["lag_time_s"] = document.pop("lag_time")
        queues.append(document)
    return {
        "group": found.name,
        **settings_document(found.settings),
        "members": list(found.members),
        "lag": found.lag,
        "lag_time_s": found.lag_time,
        "lost_letters": found.lost_letters,
        "queues": queues,
    }
