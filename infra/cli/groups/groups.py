"""`penstock group`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ....coordinator import (
    ATTEMPTS_DEFAULT,
    DeadLetterPolicy,
    DeliveryOrder,
    DeliveryOrderLike,
    GroupNotFound,
    GroupSettings,
    RetrySchedule,
)
from ....coordinator.groups.record import GroupProtocol
from ...json_values import json_value
from ...terminal import completion, output
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, confirm, confirm_options, exit_code_option, group_options, options
from ...terminal.values import AttemptsParam, DurationParam, PositionParam, TopicFilterParam
from .lag import SETTINGS, describe, lag
from .parked import parked, release, skip

if TYPE_CHECKING:
    from ....coordinator.groups.record import GroupRecord
    from ....log import Position as LogPosition
    from ...operating.groups import GroupConfiguration


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list, describe, alter, delete and reset consumer groups; their lag; their parked message groups."""


for _one in (describe, lag, parked, release, skip):
    command.add_command(_one)


changeable = options(
    click.option(
        "--retry",
        type=click.Choice([one.value for one in RetrySchedule]),
        help="The waits before retries; rocketmq: its table, 10s to 2h.",
    ),
    click.option("--retry-interval", type=DurationParam(), help="fixed: each wait; exponential: the first."),
    click.option("--retry-interval-max", type=DurationParam(), help="exponential: the longest."),
    click.option("--retry-jitter", type=click.FloatRange(0, 1), help="The part of a wait that is left to chance."),
    click.option(
        "--max-attempts",
        type=AttemptsParam(),
        help="Failed attempts until a message is given up; a death of its process counts where it ran alone.",
    ),
    click.option(
        "--dead-letter-policy",
        type=click.Choice([one.value for one in DeadLetterPolicy]),
        help="What becomes of it then: it goes to the dead-letter queue, or its message group is parked.",
    ),
    click.option(
        "--filter",
        "filters",
        type=TopicFilterParam(),
        multiple=True,
        help="What is taken of a topic: 'orders=paid || refunded' or 'orders=SQL92: price > 10'; more than once for more topics.",
    ),
)


@command.command()
@click.argument("group")
@click.option(
    "--order",
    "delivery_order",
    type=click.Choice([one.value for one in DeliveryOrder], case_sensitive=False),
    default="ORDERLY",
    show_default=True,
    help="ORDERLY: a message group's messages one after the other; CONCURRENT: all side by side. It can never be changed.",
)
@changeable
@group_options
@click.pass_obj
def create(session: CommandSession, /, group: str, delivery_order: DeliveryOrderLike, **settings: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Create a consumer group. Fine when it exists with the same settings; a consumer creates its group by itself, too.

    A message that fails is retried after a wait (ORDERLY: 1s, and its message group waits with it; CONCURRENT: RocketMQ's table), and given
    up after 17 deliveries.
    """
    from ...operating.group_changes import group_changes

    changes = group_changes(GroupSettings.of(delivery_order), settings)
    with session.connect() as lake:
        made = lake.create_group(group, delivery_order=delivery_order, **{"max_attempts": ATTEMPTS_DEFAULT, **changes})
    _show(session, group, made)


@command.command("list")
@group_options
@click.pass_obj
@exit_code_option
def list_groups(session: CommandSession) -> bool:
    """List the consumer groups of the lake."""
    from ..lake.stored_topics import run_async

    records = run_async(session, lambda lake: lake.coordination.groups.all(), read_only=True)
    if session.as_json:
        for name, record in records.items():
            output.emit({"group": name, "protocol": record.protocol.value, **_configured(record)})
    else:
        is_mixed = any(record.protocol is not GroupProtocol.PENSTOCK for record in records.values())
        rows = [(name, *([record.protocol.value] if is_mixed else []), *_cells(record)) for name, record in records.items()]
        output.table(("group", *(["protocol"] if is_mixed else []), *SETTINGS), rows)
    return bool(records)


def _configured(record: GroupRecord) -> dict[str, object]:
    """The settings for programs: null in groups of Kafka's clients, which have none of them."""
    found = json_value(_configuration(record.settings))
    return found if record.protocol is GroupProtocol.PENSTOCK else dict.fromkeys(found)


def _cells(record: GroupRecord) -> list[object]:
    is_native = record.protocol is GroupProtocol.PENSTOCK
    return output.cells(_configuration(record.settings), SETTINGS) if is_native else ["-"] * len(SETTINGS)


@command.command()
@click.argument("group", shell_complete=completion.groups)
@changeable
@click.option("--dry-run", is_flag=True, help="Say what would change, and do nothing.")
@group_options
@click.pass_obj
def alter(session: CommandSession, /, group: str, dry_run: bool, **settings: Any) -> None:  # noqa: ANN401 - as click parsed them
    """Change settings that may be changed; consumers see it within seconds. A --filter changes that of its topic, 'orders=*' removes it."""
    if not any(value not in (None, ()) for value in settings.values()):
        raise click.UsageError("Change what? See penstock group alter --help.")
    from ...operating.group_changes import group_changes

    with session.connect(read_only=dry_run) as lake:
        before = _settings_of(lake.groups(), group)
        changes = group_changes(before, settings)
        after = GroupSettings.stating({**output.fields(before), **changes}) if dry_run else lake.alter_group(group, **changes)
    if session.as_json:
        output.emit({"group": group, **({"dry_run": True} if dry_run else {}), **json_value(_configuration(after))})
        return
    old, new = (output.cells(_configuration(one), SETTINGS) for one in (before, after))
    lines = [f"{name}: {was} -> {now}" for name, was, now in zip(SETTINGS, old, new, strict=True) if was != now]
    output.say("\n".join(lines) or ("Nothing would change." if dry_run else "Nothing to change."))


@command.command()
@click.argument("group", shell_complete=completion.groups)
@click.option("--force", is_flag=True, help="Also while members live; they end with an error.")
@confirm_options
@group_options
@click.pass_obj
def delete(session: CommandSession, group: str, force: bool, yes: bool, dry_run: bool) -> None:
    """Delete a consumer group. A later group of its name begins anew: the former progress is forgotten.

    Refused while members live. A member that seems dead is watched for its lease and a quarter more: some seconds, or 75 when it was idle.
    """
    with session.connect(read_only=True) as lake:
        found = lake.describe_group(group)
    facts = f"{len(found.queues)} queues and a lag of {found.lag:,} messages"
    if dry_run:
        if session.as_json:
            output.emit({"group": group, "dry_run": True, "deleted": False, "lag": found.lag})
        else:
            output.say(f"Would delete group {group} with {facts}.")
        return
    confirm(f"Delete group {group} with {facts}, for good?", yes=yes)
    with session.connect() as lake:
        lake.delete_group(group, force=force)
    if session.as_json:
        output.emit({"group": group, "deleted": True, "lag": found.lag})
    else:
        output.say(f"Group {group} is deleted.")


@command.command(epilog="A position is earliest, latest, an offset, a time (2026-01-31T12:00) or a time ago (-10m).")
@click.argument("group", shell_complete=completion.groups)
@click.argument("topic", shell_complete=completion.topics)
@click.option("--to", type=PositionParam(), required=True, help="Where to go on.")
@click.option("--queue", "queues", type=int, multiple=True, help="Only this queue; more than once for more.")
@confirm_options
@group_options
@click.pass_obj
def reset(
    session: CommandSession, group: str, topic: str, to: LogPosition, queues: tuple[int, ...], yes: bool, dry_run: bool
) -> None:
    """Let a group go on from another place on a topic, while its consumers run: backtrack, or skip.

    Messages in flight are fenced, nothing before the new place is handed out again, and nothing after it is lost.
    """
    with session.connect(read_only=True) as lake:
        try:
            found = lake.describe_group(group)
        except GroupNotFound as error:
            if topic in lake.groups():
                error.hint = f"the group is named before the topic, and {topic} is a group"
            raise
        with lake.reader(topic) as reader:
            offsets = reader.resolve(to, queues=queues or None)
    committed = {one.queue: one.committed_offset for one in found.queues if one.topic == topic}
    rows = [(queue, committed.get(queue), offset) for queue, offset in offsets.items()]
    if not dry_run:
        again, skipped = (_distance(rows, sign) for sign in (1, -1))
        confirm(f"Reset group {group} on {topic}: {again:,} messages again, {skipped:,} skipped. Go on?", yes=yes)
        with session.connect() as lake:
            offsets = lake.reset_offsets(group, topic, to, queues=queues or None)
            rows = [(queue, committed.get(queue), offset) for queue, offset in offsets.items()]
    if session.as_json:
        document: dict[str, object] = {"group": group, "topic": topic, "offsets": offsets}
        output.emit({**document, "dry_run": True} if dry_run else document)
        return
    output.table(("queue", "committed", "would be" if dry_run else "now"), rows)


def _distance(rows: Sequence[tuple[int, int | None, int]], sign: int) -> int:
    """The number of messages between the former and the new places of queues: behind them (1), or ahead (-1)."""
    return sum(max(0, sign * (committed_offset - offset)) for _, committed_offset, offset in rows if committed_offset is not None)


def _settings_of(groups: Mapping[str, GroupSettings], group: str) -> GroupSettings:
    if group not in groups:
        raise GroupNotFound(
            "there is no such consumer group", object=group, hint="`penstock group list` names those that are there"
        )
    return groups[group]


def _configuration(settings: GroupSettings) -> GroupConfiguration:
    from ...operating.groups import GroupConfiguration

    return GroupConfiguration.of(settings)


def _show(session: CommandSession, group: str, settings: GroupSettings) -> None:
    if session.as_json:
        output.emit({"group": group, **json_value(_configuration(settings))})
    else:
        facts = [f"{name} {value}" for name, value in zip(SETTINGS, output.cells(_configuration(settings), SETTINGS), strict=True)]
        output.say(f"Group {group}: {', '.join(facts)}.")
