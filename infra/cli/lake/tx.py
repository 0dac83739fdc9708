"""`penstock tx`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ...json_values import json_value
from ...operating.times import now_of
from ...operating.transactions import (
    Found,
    GroupTransaction,
    missing_topics_sentence,
    rows_of,
    sentence,
    transaction_of,
    transaction_with_messages,
)
from ...terminal import output
from ...terminal.exit_codes import OTHER
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, confirm, confirm_options, exit_code_option, group_options
from ..messages.rendering import BODY_BYTES, BODY_CHARS
from .stored_topics import run_async

if TYPE_CHECKING:
    from ....aio import Lake
    from ....coordinator.transactions.members.state import Decision, TransactionRow


_COLUMNS: output.Columns = {
    "transaction": "transaction",
    "group": "producer_group",
    "state": "state_text",
    "messages": "messages",
    "topics": "topic_names",
    "begun": "begun",
    "checks": "checks",
    "next check": "next_check",
}
_FACTS: output.Columns = {
    "group": "producer_group",
    "state": "state_text",
    "decided by": "decider_text",
    "begun": "begun",
    "finished": "finished",
    "checks": "checks",
    "next check": "next_check",
    "settles": "settles",
}
_TOPICS: output.Columns = {
    "topic": "topic",
    "messages": "messages",
    "entry": "entry",
    "": lambda one: "gone" if one.gone else None,
}
_HALF_MESSAGES: output.Columns = {
    "topic": "topic",
    "queue": "queue",
    "message id": "message_id",
    "tag": "tag",
    "body": lambda one: one.body.text[:BODY_CHARS],
}


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

    async def look(lake: Lake) -> list[GroupTransaction]:
        now = now_of(lake)
        return [transaction_of(group, row, now) for group, row in await rows_of(lake, groups) if everything or not row.is_finished]

    return output.records(session, run_async(session, look, read_only=True), _COLUMNS, nothing="No transaction is open.")


@command.command()
@click.argument("transaction")
@click.option("--messages", "shows_messages", is_flag=True, help="Also show the messages, as far as they are not visible yet.")
@group_options
@click.pass_obj
def describe(session: CommandSession, transaction: str, shows_messages: bool) -> None:
    """Show a transaction: who decided it, what it sends where, how often its checker was asked."""
    most = None if shows_messages else 0
    body_bytes = None if session.as_json else BODY_BYTES
    found = run_async(
        session, lambda lake: transaction_with_messages(lake, transaction, messages=most, body_bytes=body_bytes), read_only=True
    )
    if session.as_json:
        output.emit(found)
        return
    output.facts(("transaction", found.transaction), found, _FACTS)
    output.rows(found.topics, _TOPICS)
    if found.half_messages:
        output.rows(found.half_messages, _HALF_MESSAGES)


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
            confirm(f"{what} {missing_topics_sentence(row, gone)}Go on?", yes=yes)
        row, gone = run_async(session, work)
    seen = transaction_of(group, row, datetime.now(UTC), gone)
    if session.as_json:
        output.emit({**json_value(seen), **({"dry_run": True} if dry_run else {})})
    elif dry_run and not row.is_open:
        output.say(f"Transaction {row.id} is {seen.state_text}.")
    else:
        output.say(sentence(done, group, row, gone))
    if gone and not session.as_json:
        output.note(missing_topics_sentence(row, gone).rstrip())
    return OTHER if gone else 0
