"""The audit trail: who did what by consoles and tools, the newest first, a bounded number at a time."""

from __future__ import annotations

from dataclasses import dataclass

from ....aio import Lake
from ....log import MessageView, TopicNotFound, views
from ....log.paths import AUDIT_TOPIC
from ....log.read.reader import Reader
from ...operating.audit import STATES, AuditedAction, audited_actions
from ...operating.sending import present_topic
from ..faults import PagePart
from .page import PageContext, PageDefinition, PageRequest, QueryParameter

LOOKED = 500
SHOWN = 40
AHEAD = 200
"""The lines behind the chosen ones in which their ends are looked for."""
LINE_BYTES_MAX = 256 * 1024
"""A longer line is of no console."""
QUEUE = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTrail:
    """The actions that match."""

    kept: int
    """The lines that the topic keeps."""
    looked: int
    strange: int
    """Lines that no console wrote, or that are damaged."""
    matching: int
    rows: tuple[AuditedAction, ...]
    older: int | None
    """The offset before which the next page begins; None: the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """The content of the page."""

    found: PagePart[AuditTrail]


NOTHING = AuditTrail(kept=0, looked=0, strange=0, matching=0, rows=(), older=None)


async def gather(context: PageContext, request: PageRequest) -> AuditPage:
    return AuditPage(found=await context.part(lambda lake: _trail(lake, request)))


async def _trail(lake: Lake, request: PageRequest) -> AuditTrail:
    try:
        topic = await present_topic(lake, AUDIT_TOPIC)
    except TopicNotFound:
        return NOTHING
    reader = Reader(topic)
    earliest, following = (await reader.offsets())[QUEUE]
    end = min(request.number("before") or following, following)
    start = max(earliest, end - LOOKED)
    messages: list[MessageView] = []
    if start < end:
        async for batch in reader.read(queue=QUEUE, start=start, end=min(end + AHEAD, following), damaged="skip"):
            messages += (
                one if len(one.body or b"") <= LINE_BYTES_MAX else one._replace(body=None) for one in views(AUDIT_TOPIC, batch)
            )
    unreadable = sum(one.messages for one in reader.left_out)
    return trail_of(messages, request, start=start, end=end, kept=(earliest, following), unreadable=unreadable)


def trail_of(
    messages: list[MessageView], request: PageRequest, *, start: int, end: int, kept: tuple[int, int], unreadable: int = 0
) -> AuditTrail:
    """One page of messages between ``start`` and ``end``, and some behind it. Pure."""
    earliest, following = kept
    found, strange = audited_actions(messages)
    # What ended behind the page is on the page before.
    rows = [one for one in found if one.offset < end and _is_meant(one, request)]
    shown = rows[:SHOWN]
    older = shown[-1].offset if len(shown) < len(rows) else start if start > earliest else None
    return AuditTrail(
        kept=following - earliest,
        looked=max(0, end - start),
        strange=strange + unreadable,
        matching=len(rows),
        rows=tuple(shown),
        older=older,
    )


def _is_meant(one: AuditedAction, request: PageRequest) -> bool:
    last, text = one.last, (request.text("text") or "").lower()
    for name, value in (("who", last.who), ("action", last.action), ("state", last.state)):
        if (wanted := request.text(name)) is not None and wanted != value:
            return False
    return not text or any(text in value.lower() for value in (*last.arguments.values(), last.outcome, one.meant or ""))


PAGE = PageDefinition(
    name="audit",
    path="/audit",
    title="Who did what",
    about="The actions of operators by consoles and tools, the newest first: who, when, with which arguments, and how each ended.",
    shows=AuditPage,
    gather=gather,
    command=lambda request: ["tail", AUDIT_TOPIC, "--start", "earliest"],
    parameters=(
        QueryParameter(name="who", help="Only actions of this name."),
        QueryParameter(name="action", help="Only this action.", example="release"),
        QueryParameter(name="state", help="Only actions in this state.", choices=STATES),
        QueryParameter(name="text", help="Only actions whose arguments or outcome hold this text."),
        QueryParameter(name="before", help="Only actions before this offset; 0: from the newest on.", kind=int, default=0, least=0),
    ),
    menu="Audit",
    answer=lambda shown: shown.found,
)
