"""`penstock group parked`, `release` and `skip`: message groups that stand still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...terminal import completion, output
from ...terminal.session import CommandSession, confirm, confirm_options, exit_code_option, group_options, options

if TYPE_CHECKING:
    from ....coordinator import ParkedGroup


parked_options = options(
    click.option("--topic", shell_complete=completion.topics, help="Only parked groups of this topic."),
    click.option("--queue", type=int, help="Only parked groups of this queue."),
    click.option("--message-group", help="Only this message group."),
)


@click.command()
@click.argument("group", shell_complete=completion.groups)
@parked_options
@group_options
@click.pass_obj
@exit_code_option
def parked(session: CommandSession, /, group: str, **which: Any) -> bool:  # noqa: ANN401 - as the library takes them
    """List the message groups that are parked, with the message that each stands at."""
    with session.connect(read_only=True) as lake:
        found = lake.parked(group, **which)
    if session.as_json:
        for one in found:
            output.emit({"group": group, **output.fields(one)})
    elif found:
        _table(found)
    else:
        output.note("Nothing is parked.")
    return bool(found)


@click.command()
@click.argument("group", shell_complete=completion.groups)
@parked_options
@click.option("--all", "everything", is_flag=True, help="All that are parked.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and do nothing.")
@group_options
@click.pass_obj
def release(session: CommandSession, /, group: str, everything: bool, dry_run: bool, **which: Any) -> None:  # noqa: ANN401 - as the library takes them
    """Try the messages that parked message groups stand at again, with no failure counted against them."""
    _check_chosen(everything, which)
    with session.connect(read_only=dry_run) as lake:
        found = lake.parked(group, **which) if dry_run else lake.release(group, **which)
    _tell(session, group, found, "release", "Would release" if dry_run else "Released", dry_run=dry_run)


@click.command()
@click.argument("group", shell_complete=completion.groups)
@parked_options
@click.option("--all", "everything", is_flag=True, help="All that are parked.")
@confirm_options
@group_options
@click.pass_obj
def skip(session: CommandSession, /, group: str, everything: bool, yes: bool, dry_run: bool, **which: Any) -> None:  # noqa: ANN401 - as the library takes them
    """Give up the messages that parked message groups stand at: each becomes a dead letter, and its message group goes on behind it."""
    _check_chosen(everything, which)
    with session.connect(read_only=True) as lake:
        found = lake.parked(group, **which)
    if found and not dry_run:
        confirm(f"Skip {len(found):,} messages of {group}, which become dead letters. Go on?", yes=yes)
    if not dry_run:
        with session.connect() as lake:
            found = lake.skip(group, **which)
    _tell(session, group, found, "skip", "Would skip" if dry_run else "Skipped", dry_run=dry_run)


def _check_chosen(everything: bool, which: dict[str, object]) -> None:
    if everything == any(value is not None for value in which.values()):
        raise click.UsageError("Which? Give --message-group, --queue or --topic, or --all.")


def _tell(session: CommandSession, group: str, found: Sequence[ParkedGroup], order: str, done: str, *, dry_run: bool) -> None:
    if session.as_json:
        for one in found:
            output.emit({"group": group, "order": order, **({"dry_run": True} if dry_run else {}), **output.fields(one)})
        return
    if not found:
        output.note("Nothing is parked.")
        return
    _table(found)
    when = "" if dry_run else "; the owners of the queues carry it out within seconds"
    output.note(f"{done} {len(found):,} message groups of {group}{when}.")


def _table(found: Sequence[ParkedGroup]) -> None:
    rows = [
        (
            one.topic,
            one.queue,
            one.offset,
            one.message_group,
            one.attempts,
            one.failed_attempts,
            one.stored,
            one.message_id,
            None if one.failure is None else one.failure.text,
        )
        for one in found
    ]
    output.table(("topic", "queue", "offset", "message group", "attempts", "failed attempts", "stored", "message id", "why"), rows)
