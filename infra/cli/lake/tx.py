"""`penstock tx`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...console import output
from ...console.exit_codes import OTHER
from ...console.listing import CommandGroup
from ...console.session import CommandSession, confirm_options, confirmed, exit_code_option, group_options
from ...operating.messages import body_fields
from ...operating.transactions import WHO, Found, entry_of, missing_topics_sentence, rows_of, sentence, state_of, time_of
from ..messages.rendering import body_start
from .stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....coordinator.transactions.members.state import Decision, TransactionRow
    from ....log import MessageView


@click.group(cls=CommandGroup)
def command() -> None:
    """Transactions of producer groups: list, describe, commit, roll back."""


@command.command("list")
@click.argument("groups", nargs=-1, metavar="[PRODUCER_GROUP]...")
@click.option("--all", "everything", is_flag=True, help="Also those that other processes than their senders finished within a day.")
@group_options
@click.pass_obj
@exit_code_option
def list_transactions(session: CommandSession, groups: tuple[str, ...], everything: bool) -> bool:
    """List the transactions that are not done with, of these producer groups or of all, the oldest first.

    A producer group is known from its first transaction on, for good; one that never had any is an error.
    """
    found = [
        one
        for one in run_async(session, lambda lake: rows_of(lake, groups), read_only=True)
        if everything or not one[1].is_finished
    ]
    if session.as_json:
        for group, row in found:
            output.emit(_document(group, row))
    elif found:
        columns = ("transaction", "group", "state", "messages", "topics", "begun", "checks", "next check")
        output.table(columns, (_columns(*one) for one in found))
    else:
        output.note("No transaction is open.")
    return bool(found)


@command.command()
@click.argument("transaction")
@click.option("--messages", "shows_messages", is_flag=True, help="Also show the messages, as far as they are not visible yet.")
@group_options
@click.pass_obj
def describe(session: CommandSession, transaction: str, shows_messages: bool) -> None:
    """Show a transaction: who decided it, what it sends where, how often its checker was asked."""

    async def look(lake: Lake) -> tuple[Found, frozenset[str], Sequence[MessageView]]:
        found = await lake.transactions.find(transaction)
        gone = await lake.transactions.gone(found[1])
        shown = shows_messages and not found[1].is_finished
        return found, gone, await lake.transactions.messages(transaction) if shown else ()

    (group, row), gone, messages = run_async(session, look, read_only=True)
    if session.as_json:
        sent = {"messages_sent": [_message(one) for one in messages]} if shows_messages else {}
        output.emit({**_document(group, row, gone), **sent})
        return
    for name, value in _facts(group, row):
        output.say(f"{name + ':':<13}{output.format_value(value)}")
    rows = [(one.topic, one.messages, entry_of(one), "gone" if one.topic in gone else None) for one in row.destinations]
    output.table(("topic", "messages", "entry", ""), rows)
    if messages:
        output.table(
            ("topic", "queue", "message id", "tag", "body"),
            [(one.topic, one.queue, one.message_id, one.tag, body_start(one.body)) for one in messages],
        )


@command.command()
@click.argument("transaction")
@confirm_options
@group_options
@click.pass_obj
def commit(session: CommandSession, transaction: str, yes: bool, dry_run: bool) -> int:
    """Commit an open transaction, as its checker would: its messages become visible.

    Do so when its local work is known to be done, and its checkers cannot say so. Messages to a topic that was deleted since are gone with
    it; the others become visible, and the exit code is 1.
    """
    from ....coordinator.transactions.members.state import Decision

    return _decide(session, transaction, Decision.COMMITTED, yes=yes, dry_run=dry_run)


@command.command()
@click.argument("transaction")
@confirm_options
@group_options
@click.pass_obj
def rollback(session: CommandSession, transaction: str, yes: bool, dry_run: bool) -> int:
    """Roll an open transaction back, as its checker would: none of its messages ever becomes visible.

    If its commit has begun to settle messages of a consumer group, it is rolled back by ending their deliveries: they are handed out again.
    Before its commit it is not known which messages these are, and they stay with their consumer.
    """
    from ....coordinator.transactions.members.state import Decision

    return _decide(session, transaction, Decision.ROLLED_BACK, yes=yes, dry_run=dry_run)


def _decide(session: CommandSession, transaction: str, decision: Decision, *, yes: bool, dry_run: bool) -> int:
    from ....coordinator.transactions.members.state import Decider, Decision

    commits = decision is Decision.COMMITTED

    async def gone_of(lake: Lake, row: TransactionRow) -> frozenset[str]:
        return await lake.transactions.gone(row) if commits else frozenset()

    async def look(lake: Lake) -> tuple[Found, frozenset[str]]:
        group, row = await lake.transactions.find(transaction)
        row = await lake.transactions.check(transaction, decision, Decider.OPERATOR) if dry_run else row
        return (group, row), await gone_of(lake, row)

    async def work(lake: Lake) -> tuple[TransactionRow, frozenset[str]]:
        await lake.transactions.decide(transaction, decision, Decider.OPERATOR)
        row = await lake.transactions.finish(transaction)
        return row, await gone_of(lake, row)

    (group, row), gone = run_async(session, look, read_only=True)
    done = ("Would commit" if commits else "Would roll back") if dry_run else ("Committed" if commits else "Rolled back")
    if not dry_run:
        if row.is_open:
            what = sentence("Commit" if commits else "Roll back", group, row, gone)
            confirmed(f"{what} {missing_topics_sentence(row, gone)}Go on?", yes=yes)
        row, gone = run_async(session, work)
    if session.as_json:
        output.emit({**_document(group, row, gone), **({"dry_run": True} if dry_run else {})})
    elif dry_run and not row.is_open:
        output.say(f"Transaction {row.id} is {state_of(row)}.")
    else:
        output.say(sentence(done, group, row, gone))
    if gone and not session.as_json:
        output.note(missing_topics_sentence(row, gone).rstrip())
    return OTHER if gone else 0


def _columns(group: str, row: TransactionRow) -> tuple[object, ...]:
    next_check = time_of(row.next_check_ms) if row.is_open else None
    return row.id, group, state_of(row), row.messages, _topics(row), time_of(row.created_ms), row.checks, next_check


def _facts(group: str, row: TransactionRow) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("transaction", row.id),
        ("group", group),
        ("state", state_of(row)),
        ("decided by", WHO[row.by.name]),
        ("begun", time_of(row.created_ms)),
        ("finished", time_of(row.finished_ms or None)),
        ("checks", row.checks),
        ("next check", time_of(row.next_check_ms) if row.is_open else None),
    ]
    if row.acks is not None:
        acks = row.acks
        facts.append(("settles", f"{len(acks.acked):,} messages of {acks.topic}, queue {acks.queue}, for group {acks.group}"))
    return facts


def _document(group: str, row: TransactionRow, gone: frozenset[str] = frozenset()) -> dict[str, object]:
    return {
        "transaction": row.id,
        "producer_group": group,
        "state": row.decision.name.lower(),
        "finished": time_of(row.finished_ms or None),
        "decided_by": row.by.name.lower() if row.by else None,
        "begun": time_of(row.created_ms),
        "checks": row.checks,
        "next_check": time_of(row.next_check_ms) if row.is_open else None,
        "messages": row.messages,
        "topics": [
            {
                "topic": one.topic,
                "messages": one.messages,
                "entry": entry_of(one),
                "gone": one.topic in gone or bool(one.linked and one.linked.gone),
            }
            for one in row.destinations
        ],
        "settles": None
        if row.acks is None
        else {
            "group": row.acks.group,
            "topic": row.acks.topic,
            "queue": row.acks.queue,
            "offsets": [one.offset for one in row.acks.acked],
        },
    }


def _message(message: MessageView) -> dict[str, object]:
    return {
        "topic": message.topic,
        "queue": message.queue,
        "message_id": message.message_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        **body_fields(message.body),
    }


def _topics(row: TransactionRow) -> str:
    return ", ".join(one.topic for one in row.destinations)
