"""An operator's decision of an open transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ....aio import Lake
from ....coordinator.transactions.members.state import Decider, Decision, TransactionRow
from ...operating.transactions import GroupTransaction, HalfMessage, missing_topics_sentence, sentence, transaction_of
from ..views.page import Breadcrumb, PageContext
from ..views.transactions import first_messages
from .action import Action, ActionCount, ActionPreview, ActionResult, AffectedRows

_COLUMNS = ("topic", "queue", "message id", "message group", "tag", "bytes", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionKey:
    """A transaction, by its id."""

    transaction: str


async def _gone(lake: Lake, row: TransactionRow, decision: Decision) -> frozenset[str]:
    """The topics whose messages would be lost by a commit."""
    return await lake.transactions.gone(row) if decision is Decision.COMMITTED else frozenset()


def decision_preview(decision: Decision) -> Callable[[PageContext, TransactionKey], Awaitable[ActionPreview]]:
    async def preview(context: PageContext, chosen: TransactionKey) -> ActionPreview:
        async def look(lake: Lake) -> ActionPreview:
            group, _ = await lake.transactions.find(chosen.transaction)
            row = await lake.transactions.check(chosen.transaction, decision, Decider.OPERATOR)
            gone = await _gone(lake, row, decision)
            return _preview_of(
                decision,
                transaction_of(group, row, context.now, gone),
                row,
                gone,
                tuple(map(_sample, await first_messages(lake, row))),
            )

        return await context.using(look)

    return preview


def _sample(half: HalfMessage) -> tuple[object, ...]:
    return half.topic, half.queue, half.message_id, half.message_group, half.tag, half.body.size_bytes, half.body.text


def _preview_of(
    decision: Decision, seen: GroupTransaction, row: TransactionRow, gone: frozenset[str], samples: tuple[tuple[object, ...], ...]
) -> ActionPreview:
    commits = decision is Decision.COMMITTED
    if row.is_open:
        done = "Would commit" if commits else "Would roll back"
        summary = f"{sentence(done, seen.producer_group, row, gone)} {missing_topics_sentence(row, gone)}".rstrip()
    else:
        summary = f"Transaction {row.id} is {seen.state_text}."
    state = (row.id, row.decision, row.is_finished, sorted(gone), [(one.topic, one.messages) for one in row.destinations])
    title = "What it would send" if commits else "What nobody will ever see"
    topics = tuple((one.topic, one.messages, "gone" if one.topic in gone else "is there") for one in row.destinations)
    return ActionPreview(
        summary=summary,
        stamp=repr(state),
        counts=(ActionCount(name="messages", value=row.messages), ActionCount(name="questions to its checker", value=row.checks)),
        samples=tuple(
            one
            for one in (
                AffectedRows(title="Topics", columns=("topic", "messages", "state"), rows=topics),
                AffectedRows(title=f"{title}: the first messages", columns=_COLUMNS, rows=samples),
            )
            if one.rows
        ),
        is_nothing=row.is_finished,
        type_name=seen.producer_group,
    )


def decision_action(decision: Decision) -> Callable[[PageContext, TransactionKey, ActionPreview], Awaitable[ActionResult]]:
    async def do(context: PageContext, chosen: TransactionKey, _: ActionPreview) -> ActionResult:
        async def work(lake: Lake) -> ActionResult:
            group, _ = await lake.transactions.find(chosen.transaction)
            await lake.transactions.decide(chosen.transaction, decision, Decider.OPERATOR)
            row = await lake.transactions.finish(chosen.transaction)
            gone = await _gone(lake, row, decision)
            done = "Committed" if decision is Decision.COMMITTED else "Rolled back"
            summary = f"{sentence(done, group, row, gone)} {missing_topics_sentence(row, gone)}".rstrip()
            return ActionResult(summary=summary, counts=(ActionCount(name="messages", value=row.messages),))

        return await context.using(work)

    return do


def _back(chosen: TransactionKey) -> Breadcrumb:
    return Breadcrumb("Transactions", "transactions")


COMMIT = Action(
    name="commit",
    title="Commit the transaction",
    about="Commits an open transaction, as its checker would: its messages become visible.",
    arguments=TransactionKey,
    preview=decision_preview(Decision.COMMITTED),
    do=decision_action(Decision.COMMITTED),
    command=lambda chosen: ["tx", "commit", chosen.transaction],
    back=_back,
)

ROLL_BACK = Action(
    name="rollback",
    title="Roll the transaction back",
    about="Rolls an open transaction back, as its checker would: none of its messages ever becomes visible.",
    arguments=TransactionKey,
    preview=decision_preview(Decision.ROLLED_BACK),
    do=decision_action(Decision.ROLLED_BACK),
    command=lambda chosen: ["tx", "rollback", chosen.transaction],
    back=_back,
)
