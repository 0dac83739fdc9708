"""The life of a message, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ....consumers.trace.status import DeliveryState
from ....consumers.trace.trace import DeadLetterTrace, GroupTrace, MemberTrace, StoredTrace, Trace
from ....coordinator.transactions.tracing import TransactionTrace
from ...console import output
from ...operating.life import DELAYS, delivery_state_text, redrive_text, times_text
from ...operating.messages import message_document

if TYPE_CHECKING:
    from rich.table import Table

# --- For programs -----------------------------------------------------------------------------------------------------------------


def as_json_values(found: Trace) -> dict[str, object]:
    """A trace as JSON values, without bodies."""
    return {
        "message_id": found.message_id,
        "places": [_place(one) for one in found.places],
        "transaction": _transaction(found.transaction),
        "gathered": None if found.gathered is None else output.fields(found.gathered),
        "topics": list(found.topics),
        "unread": list(found.unread),
    }


def _place(one: StoredTrace) -> dict[str, object]:
    facts = message_document(one.message)
    del facts["body"], facts["body_base64"]
    return {
        **facts,
        "body_bytes": len(one.message.content),
        "entry": one.entry,
        "published": None if one.published is None else output.fields(one.published),
        "groups": [output.fields(group) for group in one.groups],
        "members": [output.fields(member) for member in one.members],
        "dead_letter": None if one.dead_letter is None else _dead_letter(one.dead_letter),
        "delay": None if one.delay is None else output.fields(one.delay),
        "transaction": _transaction(one.transaction),
        "redriven_from": one.redriven_from,
    }


def _dead_letter(one: DeadLetterTrace) -> dict[str, object]:
    return {"group": one.group, **one.origin._asdict(), "redrive": one.redrive}


def _transaction(one: TransactionTrace | None) -> dict[str, object] | None:
    if one is None:
        return None
    half = one.half
    place = None if half is None else {"topic": half.topic, "queue": half.queue, "body_bytes": len(half.content)}
    return {**output.fields(one), "half": place}


# --- For people -------------------------------------------------------------------------------------------------------------------


def pictured(found: Trace) -> Iterator[Table | str]:
    """The parts shown to people: each place, with its facts, then the groups."""
    if found.transaction is not None:
        yield click.style("\nIn a transaction", bold=True)
        yield from (f"  {name:<14} {output.printable(value)}" for name, value in _transacted(found.transaction))
    if found.gathered is not None:
        yield f"It waits for topic {output.printable(found.gathered.topic)}: due {output.time_text(found.gathered.due)}."
    for one in found.places:
        message = one.message
        yield click.style(f"\n{output.printable(message.topic)}, queue {message.queue}, offset {message.offset:,}", bold=True)
        for name, value in _facts(one):
            yield f"  {name:<14} {output.printable(value)}"
        if one.groups:
            yield output.grid(("group", "stands", "when", "deliveries", "failures", "owner", "epoch"), map(_group, one.groups))
        if one.members:
            yield output.grid(("group", "member", "stands", "next offset"), map(_member, one.members))
        if not one.groups and not one.members and one.delay is None and one.dead_letter is None:
            yield "  No consumer group has begun on this topic."


def _facts(one: StoredTrace) -> Iterator[tuple[str, str]]:
    message = one.message
    for name, value in (("message group", message.message_group), ("tag", message.tag), ("keys", ", ".join(message.keys))):
        if value:
            yield name, value
    yield "body", f"{len(message.content):,} bytes"
    yield "sent", output.time_text(message.born_timestamp)
    yield "producer", message.producer
    entry = "an entry that is trimmed by now" if one.entry is None else f"entry {one.entry:,}"
    yield "stored", f"{output.time_text(message.store_timestamp)} by {entry}"
    if one.published is None:
        yield "published", "not yet: it is in the log only"
    else:
        yield "published", f"in {one.published.path}, of table version {one.published.version:,}"
    if (letter := one.dead_letter) is not None:
        origin = letter.origin
        yield "dead letter", f"of group {letter.group}, from {origin.topic}, queue {origin.queue}, offset {origin.offset:,}"
        yield "why", f"{origin.reason} (redelivered {times_text(origin.reconsume_times)})"
        yield "redrive", redrive_text(letter.redrive)
    if one.delay is not None:
        yield "due", f"{output.time_text(one.delay.due)} in {one.delay.topic}"
        yield "delay", DELAYS[one.delay.delay]
    if one.transaction is not None:
        yield from _transacted(one.transaction)
    if one.redriven_from is not None:
        yield "redriven", f"from the dead letter at offset {one.redriven_from:,}"


def _transacted(one: TransactionTrace) -> Iterator[tuple[str, str]]:
    group = "" if one.producer_group is None else f" of producer group {one.producer_group}"
    yield "transaction", f"{one.id}{group}, {one.decision}{'' if one.by is None else f' by {one.by}'}"
    if one.begun is not None:
        yield "begun", output.time_text(one.begun)
    if one.half is not None:
        yield "half message", f"for {one.half.topic}, {len(one.half.content):,} bytes, visible to nobody"
    if one.next_check is not None:
        yield "next check", f"{output.time_text(one.next_check)}, after {one.checks} before"


def _group(one: GroupTrace) -> tuple[object, ...]:
    return one.group, delivery_state_text(one), _until(one.fate, one.due), one.attempts, one.strikes, one.owner or None, one.epoch


def _until(fate: DeliveryState, due: datetime | None) -> str:
    return "-" if due is None else f"{'invisible until' if fate is DeliveryState.RECEIVED else 'due'} {output.time_text(due)}"


def _member(one: MemberTrace) -> tuple[object, ...]:
    return one.group, one.member, "had it" if one.delivered else "not yet", one.next_offset
