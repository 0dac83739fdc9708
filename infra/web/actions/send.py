"""A message sent by hand, as for a test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from ....aio import Lake
from ....log.errors import InvalidArgument
from ....log.limits import KIB
from ....log.message.message_type import MessageType
from ...operating.bodies import body_of
from ...operating.sending import CheckedMessage, MessageDraft, checked, send
from ...terminal.values import parse_duration
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionForm, ActionPreview, ActionResult, AffectedRows, FormField, FormFieldKind
from .fields import lines

BODY_BYTES_MAX = 16 * KIB
"""The largest body that is written by hand."""
_SHOWN_BYTES = 2000
SAID_CHARS = 1000
"""A longer body is no word of a command, but its standard input."""
_COLUMNS = ("topic", "message group", "tag", "keys", "properties", "delay", "bytes", "body")
_GROUPS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSend:
    """A message to send."""

    topic: str
    body: str = ""
    """A text; in a topic with a schema a row as JSON."""
    message_group: str | None = None
    tag: str | None = None
    keys: str | None = None
    """One a line."""
    properties: str | None = None
    """``NAME=VALUE``, one a line."""
    delay: str | None = None
    """Such as ``30m``, for topics of type DELAY."""

    @property
    def draft(self) -> MessageDraft:
        """Raises `InvalidArgument`."""
        check_body(self.body, operation="send", object=self.topic)
        return MessageDraft(
            topic=self.topic,
            body=self.body,
            message_group=self.message_group,
            tag=self.tag,
            keys=tuple(lines(self.keys)),
            properties=dict(property_of(one, operation="send") for one in lines(self.properties)),
            delay=None if self.delay is None else _duration(self.delay),
        )


def check_body(body: str, *, operation: str, object: str) -> None:
    """Raise `InvalidArgument` for a body that is too long for a form."""
    size_bytes = len(body.encode("utf-8", "replace"))
    if size_bytes > BODY_BYTES_MAX:
        raise InvalidArgument(
            "the body is too long to be written by hand",
            operation=operation,
            object=object,
            expected=f"at most {BODY_BYTES_MAX:,} bytes",
            observed=f"{size_bytes:,}",
            hint="`penstock produce` sends files",
        )


def property_of(line: str, *, operation: str) -> tuple[str, str]:
    """The name and value of a line. Raises `InvalidArgument`."""
    name, equals, value = line.partition("=")
    if not (name and equals):
        raise InvalidArgument("a line is no property", operation=operation, expected="NAME=VALUE", observed=line[:200])
    return name, value


def _duration(text: str) -> timedelta:
    found = parse_duration(text.strip())
    if found is None:
        raise InvalidArgument("this is no duration", operation="send", expected="3d, 12h, 1h30m, 45s or 500ms", observed=text[:200])
    return found


async def preview(context: PageContext, meant: MessageSend) -> ActionPreview:
    found = await context.using(lambda lake: checked(lake, meant.draft))
    readers = sorted({one.group for one in (await context.source.look()).topic(meant.topic)})
    content = None if found.message.body is None else bytes(found.message.body)
    size_bytes = len(meant.body.encode()) if content is None else len(content)
    row = (
        meant.topic,
        meant.message_group,
        meant.tag,
        ", ".join(found.message.keys) or None,
        ", ".join(f"{name}={value}" for name, value in found.message.properties.items()) or None,
        meant.draft.delay,
        size_bytes,
        body_of(meant.body.encode("utf-8", "replace") if content is None else content, most=_SHOWN_BYTES).text,
    )
    return ActionPreview(
        summary=f"One message of {size_bytes:,} bytes is sent to {meant.topic}. {_told(readers)}",
        stamp=repr(found.place),
        counts=(ActionCount(name="messages", value=1), ActionCount(name="groups that read the topic", value=len(readers))),
        samples=(AffectedRows(title="The message", columns=_COLUMNS, rows=(row,)),),
        meant=found,
    )


def _told(readers: list[str]) -> str:
    if not readers:
        return "No consumer group reads the topic yet."
    more = f" and {len(readers) - _GROUPS_SHOWN} more" if len(readers) > _GROUPS_SHOWN else ""
    return f"Every group that reads the topic gets it: {', '.join(readers[:_GROUPS_SHOWN])}{more}."


async def do(context: PageContext, meant: MessageSend, preview: ActionPreview) -> ActionResult:
    found = cast("CheckedMessage", preview.meant)
    sent = await context.using(lambda lake: send(lake, found.message, meant.topic, place=found.place))
    place = "it waits until it is due" if sent.queue is None else f"queue {sent.queue}, offset {sent.offset}"
    return ActionResult(
        summary=f"Sent {sent.message_id} to {meant.topic}: {place}.", counts=(ActionCount(name="messages", value=1),)
    )


async def form(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    name = given.get("topic", "")

    async def look(lake: Lake) -> tuple[MessageType, bool, str | None]:
        topic = await lake.topic(name)
        return topic.settings.message_type, topic.settings.message_group is not None, str(await lake.topic_schema(name) or "")

    kind, derives, schema = await context.using(look)
    needs_group = kind is MessageType.FIFO and not derives
    fields = [
        FormField(name="topic", label="Topic", kind=FormFieldKind.FIXED, value=name),
        FormField(
            name="body",
            label="Row, as JSON" if schema else "Body",
            kind=FormFieldKind.TEXT,
            about=f"Fields: {schema}" if schema else "A text, such as JSON.",
        ),
        FormField(name="message_group", label="Message group", about="Order is kept within it.", is_required=needs_group),
        FormField(name="tag", label="Tag"),
        FormField(name="keys", label="Keys", kind=FormFieldKind.TEXT, about="One a line."),
        FormField(name="properties", label="Properties", kind=FormFieldKind.TEXT, about="NAME=VALUE, one a line."),
    ]
    if kind is MessageType.DELAY:
        fields.append(FormField(name="delay", label="Delay", placeholder="30m", is_required=True))
    return ActionForm(about=f"Topic {name} takes {kind} messages.", fields=tuple(fields))


def words(meant: MessageSend) -> list[str]:
    found = ["send", meant.topic, meant.body if len(meant.body) <= SAID_CHARS else "-"]
    for name, value in (("message-group", meant.message_group), ("tag", meant.tag), ("delay", meant.delay)):
        found += [] if value is None else [f"--{name}", value]
    for name, values in (("key", lines(meant.keys)), ("property", lines(meant.properties))):
        for value in values:
            found += [f"--{name}", value]
    return found


SEND = Action(
    name="send",
    title="Send a message",
    about="Sends one message to a topic, as for a test: once, however often it is confirmed.",
    arguments=MessageSend,
    preview=preview,
    do=do,
    command=words,
    back=lambda meant: Breadcrumb(f"Topic {meant.topic}", "topic", {"topic": meant.topic}),
    form=form,
    unlogged=frozenset({"body"}),
)
