"""The life of a message, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ....consumers.trace.status import DeliveryState
from ...operating.life import DELAYS, failure_text, redrive_text, times_text
from ...terminal import output

if TYPE_CHECKING:
    from rich.table import Table

    from ...operating.life import GroupDelivery, MessageCopy, MessageLife, MessageTransaction


def _until(one: GroupDelivery) -> str:
    return (
        "-"
        if one.due is None
        else f"{'invisible until' if one.fate is DeliveryState.RECEIVED else 'due'} {output.time_text(one.due)}"
    )


_GROUPS: output.Columns = {
    "group": "group",
    "stands": "what",
    "when": _until,
    "deliveries": "attempts",
    "failed attempts": "failed_attempts",
    "owner": lambda one: one.owner or None,
    "epoch": "epoch",
}
_MEMBERS: output.Columns = {
    "group": "group",
    "member": "member",
    "stands": lambda one: "had it" if one.delivered else "not yet",
    "next offset": "next_offset",
}


def life_tables(found: MessageLife) -> Iterator[Table | str]:
    """Each place with its facts, then the groups."""
    if found.transaction is not None:
        yield click.style("\nIn a transaction", bold=True)
        yield from (f"  {name:<14} {output.printable(value)}" for name, value in _transacted(found.transaction))
    if found.gathered is not None:
        yield f"It waits for topic {output.printable(found.gathered.topic)}: due {output.time_text(found.gathered.due)}."
    for one in found.places:
        yield click.style(f"\n{output.printable(one.topic)}, queue {one.queue}, offset {one.offset:,}", bold=True)
        for name, value in _facts(one):
            yield f"  {name:<14} {output.printable(value)}"
        if one.groups:
            yield output.record_grid(one.groups, _GROUPS)
        for group in one.groups:
            if group.failure is not None:
                yield f"  {output.printable(group.group)}: {output.printable(failure_text(group.failure, one.offset))}"
        if one.members:
            yield output.record_grid(one.members, _MEMBERS)
        if not one.groups and not one.members and one.delay is None and one.dead_letter is None:
            yield "  No consumer group has begun on this topic."


def _facts(one: MessageCopy) -> Iterator[tuple[str, str]]:
    for name, value in (("message group", one.message_group), ("tag", one.tag), ("keys", ", ".join(one.keys))):
        if value:
            yield name, value
    yield "body", f"{one.body.size_bytes:,} bytes"
    yield "sent", output.time_text(one.sent)
    yield "producer", one.producer
    entry = "an entry that is trimmed by now" if one.entry is None else f"entry {one.entry:,}"
    yield "stored", f"{output.time_text(one.stored)} by {entry}"
    if one.published is None:
        yield "published", "not yet: it is in the log only"
    else:
        yield "published", f"in {one.published.path}, of table version {one.published.version:,}"
    if (letter := one.dead_letter) is not None:
        yield "dead letter", f"of group {letter.group}, from {letter.topic}, queue {letter.queue}, offset {letter.offset:,}"
        yield "why", f"{letter.reason} (redelivered {times_text(letter.reconsume_times)})"
        yield "redrive", redrive_text(letter.redrive)
    if one.delay is not None:
        yield "due", f"{output.time_text(one.delay.due)} in {one.delay.topic}"
        yield "delay", DELAYS[one.delay.delay]
    if one.transaction is not None:
        yield from _transacted(one.transaction)
    if one.redriven_from is not None:
        yield "redriven", f"from the dead letter at offset {one.redriven_from:,}"


def _transacted(one: MessageTransaction) -> Iterator[tuple[str, str]]:
    yield "transaction", str(one)
    if one.begun is not None:
        yield "begun", output.time_text(one.begun)
    if one.half is not None:
        yield "half message", f"for {one.half.topic}, {one.half.body_bytes:,} bytes, visible to nobody"
    if one.next_check is not None:
        yield "next check", f"{output.time_text(one.next_check)}, after {one.checks} before"
