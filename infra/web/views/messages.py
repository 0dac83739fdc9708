"""The messages of a topic, a page at a time: by place, time, label or condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....aio import Lake
from ..faults import PagePart
from .message_rows import LISTED_BODY_BYTES, LISTED_BODY_BYTES_MAX, MessageRow
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest, QueryParameter
from .positions import cursor_of, cursor_text, position_of
from .scan import ROWS, MessageConditions, ScanResult, TopicExtent, TopicScan, extent, fields_of, resolve_position

_OPERATION = "show messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageList:
    """A page of messages."""

    rows: tuple[MessageRow, ...]
    fields: tuple[str, ...]
    """The fields of a typed topic."""
    looked: int
    """Searched messages."""
    older: str | None
    """The parameter ``before``. None: none are kept."""
    newer: str
    """The parameter ``after``."""
    newer_messages: int
    queues: int
    queues_looked: int
    """Searched queues, the fullest of very many."""
    left_out: int
    """Unreadable messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesPage:
    """The content of the page."""

    topic: str
    found: PagePart[MessageList]


def conditions_of(request: PageRequest) -> MessageConditions:
    queue = request.query.get("queue")
    return MessageConditions(
        queue=queue if isinstance(queue, int) else None,
        key=request.text("key"),
        message_id=request.text("id"),
        message_group=request.text("message_group"),
        tag=request.text("tag"),
        where=request.text("where"),
    )


async def gather(context: PageContext, request: PageRequest) -> MessagesPage:
    name, start = request["topic"], request.text("start")
    before, after = (None if text is None else cursor_of(text) for text in (request.text("before"), request.text("after")))
    await context.using(lambda lake: lake.topic(name))

    async def found(lake: Lake) -> MessageList:
        reader = await lake.reader(name)
        conditions = conditions_of(request)
        schema = await lake.topic_schema(name)
        seen = await extent(reader, conditions.queue)
        scan = TopicScan(
            reader,
            schema,
            conditions,
            seen,
            context.source.runtime,
            rows_max=request.number("rows"),
            body_bytes=request.number("body_bytes"),
        )
        if after is not None:
            look = await scan.after(after)
        elif start is not None and start != "latest":
            look = await scan.after(await resolve_position(reader, seen, position_of(start, operation=_OPERATION)))
        else:
            look = await scan.before(before or {})
        return found_of(look, seen, fields_of(schema), left_out=sum(one.messages for one in reader.left_out))

    return MessagesPage(topic=name, found=await context.part(found))


def found_of(look: ScanResult, seen: TopicExtent, fields: tuple[str, ...], *, left_out: int) -> MessageList:
    return MessageList(
        rows=look.rows,
        fields=fields,
        looked=look.looked,
        older=cursor_text(look.older) if any(at > seen.earliest[queue] for queue, at in look.older.items()) else None,
        newer=cursor_text(look.newer),
        newer_messages=lag_of(look.newer, seen.next),
        queues=seen.queues,
        queues_looked=len(seen.kept),
        left_out=left_out,
    )


def lag_of(offsets: Mapping[int, int], following: Mapping[int, int]) -> int:
    """The number of messages behind these offsets."""
    return sum(max(0, following.get(queue, at) - at) for queue, at in offsets.items())


def live(shown: MessagesPage) -> dict[str, object]:
    """The counter of arrivals: the list itself stays."""
    return {} if shown.found.value is None else {"newer": shown.found.value.newer_messages}


def _command(request: PageRequest) -> Sequence[str]:
    options = {"queue": "--queue", "key": "--key", "id": "--id", "message_group": "--group", "tag": "--tag", "where": "--where"}
    words = ["read", request["topic"]]
    for name, option in options.items():
        value: Any = request.query.get(name)
        words += [] if value is None else [f"{option}={value}"]
    after, before = (cursor_of(text) if (text := request.text(name)) else {} for name in ("after", "before"))
    start = str(next(iter(after.values()))) if len(after) == 1 else request.text("start")
    queue = (
        [f"--queue={one}" for one in (*after, *before)]
        if len(after) + len(before) == 1 and request.query.get("queue") is None
        else []
    )
    end = [f"--end={offset}" for offset in before.values()] if len(before) == 1 else []
    return [*words, *queue, *([] if start is None or start == "latest" else [f"--start={start}"]), *end]


def crumbs_of(request: PageRequest) -> Sequence[Breadcrumb]:
    return [Breadcrumb("Topics", "topics"), Breadcrumb(f"Topic {request['topic']}", "topic", {"topic": request["topic"]})]


def crumbs_below(request: PageRequest) -> Sequence[Breadcrumb]:
    """The way to a page below the topic's messages."""
    return [*crumbs_of(request), Breadcrumb("Messages", "messages", {"topic": request["topic"]})]


CONDITIONS = (
    QueryParameter(name="queue", help="Only messages of this queue.", kind=int, least=0, most=4095),
    QueryParameter(name="key", help="Only messages with this key."),
    QueryParameter(name="id", help="Only the message with this id."),
    QueryParameter(name="message_group", help="Only messages of this message group."),
    QueryParameter(name="tag", help="Only messages with one of these tags: paid || refunded.", example="paid || refunded"),
    QueryParameter(
        name="where",
        help="Only messages for which this holds: price > 10 AND region = 'north'; body.customer.id = 7 for JSON bodies.",
        example="price > 10 AND region = 'north'",
    ),
)
START = QueryParameter(
    name="start",
    help="Messages from here on: earliest, latest, an offset of a queue, 2026-01-31T12:00Z, or a time ago such as -10m.",
    example="-10m",
)
BODY_BYTES = QueryParameter(
    name="body_bytes",
    help="The most bytes of each body; a body that is cut says so (is_whole).",
    kind=int,
    default=LISTED_BODY_BYTES,
    least=0,
    most=LISTED_BODY_BYTES_MAX,
)
AFTER = QueryParameter(name="after", help="Messages from this place on, as `newer` of a page says.")

PAGE = PageDefinition(
    name="messages",
    path="/topics/{topic}/messages",
    title="Messages of {topic}",
    about="A page of messages, at most 50, the newest first; by place, time, key, id, message group, tag or condition.",
    shows=MessagesPage,
    gather=gather,
    answer=lambda shown: shown.found,
    command=_command,
    parameters=(
        *CONDITIONS,
        START,
        QueryParameter(name="before", help="Messages before this place, as `older` of a page says."),
        AFTER,
        QueryParameter(name="rows", help="The most messages of a page.", kind=int, default=ROWS, least=1, most=ROWS),
        BODY_BYTES,
    ),
    crumbs=crumbs_of,
    live=live,
    is_kept=False,
)


# --- Arrivals ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalsPage:
    """The number of newer messages."""

    topic: str
    messages: int
    end: str


async def gather_arrivals(context: PageContext, request: PageRequest) -> ArrivalsPage:
    name, text = request["topic"], request.text("after")

    async def offsets() -> dict[int, tuple[int, int]]:
        async def of(lake: Lake) -> dict[int, tuple[int, int]]:
            return await (await lake.reader(name)).offsets()

        return await context.using(of)

    after = None if text is None else cursor_of(text)
    found = await context.source.cached(("offsets", name), offsets)  # one request for all who watch the topic
    kept = {queue: end for queue, (_, end) in found.items() if after is None or queue in after}
    end = dict(sorted(kept.items())[:64])
    return ArrivalsPage(topic=name, messages=lag_of(end if after is None else after, end), end=cursor_text(end))


ARRIVALS = PageDefinition(
    name="arrivals",
    path="/topics/{topic}/messages/arrivals",
    title="Arrivals in {topic}",
    about="How many messages came since a place in the topic.",
    shows=ArrivalsPage,
    gather=gather_arrivals,
    command=lambda request: ["tail", request["topic"]],
    parameters=(AFTER,),
    crumbs=crumbs_below,
    live=lambda shown: {"newer": shown.messages},
)
