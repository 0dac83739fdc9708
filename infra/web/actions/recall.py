"""Recall of a delayed message."""

from __future__ import annotations

from dataclasses import dataclass

from ....aio import Lake
from ....coordinator.timers.cell.cell import timer_cells
from ....coordinator.timers.waiting_messages import waiting
from ....log import WaitingMessage
from ....log.produce.delays import RecallHandle, waiting_messages
from ...operating.timers import delayed_of
from ..texts import time_text
from ..views.page import Breadcrumb, PageContext
from ..views.timers import BODY_BYTES
from .action import Action, ActionCount, ActionPreview, ActionResult, AffectedRows

_COLUMNS = ("topic", "message id", "message group", "tag", "sent", "due", "bytes", "body")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecall:
    """A message that waits, by its recall handle."""

    handle: str


async def _found(lake: Lake, meant: RecallHandle) -> WaitingMessage | None:
    rows = await waiting(
        lake, timer_cells(lake), meant.topic, from_us=meant.due_us, until_us=meant.due_us + 1, message_id=meant.message_id
    )
    return next((one for one in waiting_messages(meant.topic, rows) if one.recall_handle == meant.encode()), None)


async def preview(context: PageContext, recall: MessageRecall) -> ActionPreview:
    meant = RecallHandle.decode(recall.handle)
    message = await context.using(lambda lake: _found(lake, meant))
    if message is None:
        return ActionPreview(
            summary=f"Message {meant.message_id} does not wait for {meant.topic} any more: it was delivered or recalled.",
            stamp="gone",
            is_nothing=True,
        )
    shown = delayed_of(message, context.now, body_bytes=BODY_BYTES)
    row = (
        message.topic,
        shown.message_id,
        shown.message_group,
        shown.tag,
        shown.sent,
        shown.due,
        shown.body.size_bytes,
        shown.body.text,
    )
    return ActionPreview(
        summary=f"Message {shown.message_id}, due {time_text(shown.due)}, will never be delivered to {message.topic}.",
        stamp=recall.handle,
        counts=(ActionCount(name="messages", value=1),),
        samples=(AffectedRows(title="The message", columns=_COLUMNS, rows=(row,)),),
        type_name=message.topic,
    )


async def do(context: PageContext, recall: MessageRecall, _: ActionPreview) -> ActionResult:
    message = await context.using(lambda lake: lake.recall(recall.handle))
    return ActionResult(
        summary=f"Recalled {message.message_id} of {message.topic}, due {time_text(message.delivery_timestamp)}.",
        counts=(ActionCount(name="messages", value=1),),
    )


RECALL = Action(
    name="recall",
    title="Recall the delayed message",
    about="Recalls a delayed message, so that it is never delivered.",
    arguments=MessageRecall,
    preview=preview,
    do=do,
    command=lambda recall: ["timer", "recall", recall.handle],
    back=lambda recall: Breadcrumb("Delayed messages", "timers"),
)
