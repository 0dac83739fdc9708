"""One dead letter beside its original message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ....aio import Lake
from ....consumers.dead_letters.writer import QUEUE, origin_of, original_properties
from ....log import MessageView, TopicNotFound
from ....log.errors import InvalidArgument, MessageNotFound
from ....log.message.message import views
from ....log.paths import dead_letter_topic
from ....log.read.reader import Reader
from ...operating.letters import DeadLetterReader, StoredLetter, letter_of
from ..faults import PagePart
from ..texts import BODY_SHOWN_BYTES
from .page import Breadcrumb, PageContext, PageDefinition, PageRequest, QueryParameter

DIFFERENCE_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """A part that differs."""

    name: str
    letter: str
    original: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalMessage:
    """A letter's original message."""

    state: Literal["same", "differs", "another", "gone", "unknown"]
    """same: as in the letter; another: its place has another message; gone: its place is empty; unknown: no origin."""
    stored: datetime | None = None
    differences: tuple[PartDifference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterDetails:
    """A letter in full."""

    row: StoredLetter
    properties: Mapping[str, str]
    sent: datetime
    producer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterPage:
    """The content of the page."""

    group: str
    offset: int
    letter: PagePart[LetterDetails]
    original: PagePart[OriginalMessage]


async def gather(context: PageContext, request: PageRequest) -> LetterPage:
    group, offset = request["group"], request.number("offset")
    held: list[MessageView] = []

    async def letter(lake: Lake) -> LetterDetails:
        reader = await DeadLetterReader.open(lake, group)
        found = await message_at(Reader(reader.topic), QUEUE, offset)
        if found is None:
            raise MessageNotFound(
                "there is no dead letter at this offset",
                operation="show a dead letter",
                object=dead_letter_topic(group),
                observed=offset,
            )
        held.append(found)
        return letter_details(found, letter_of(found, reader.redrives, body_bytes=BODY_SHOWN_BYTES))

    part = await context.part(letter)
    original: PagePart[OriginalMessage] = PagePart(value=OriginalMessage(state="unknown"))
    if held:
        original = await context.part(lambda lake: _original(lake, held[0]))
    return LetterPage(group=group, offset=offset, letter=part, original=original)


def letter_details(letter: MessageView, row: StoredLetter) -> LetterDetails:
    return LetterDetails(
        row=row,
        properties=original_properties(letter.properties),
        sent=letter.born_timestamp,
        producer=letter.producer,
    )


async def message_at(reader: Reader, queue: int, offset: int) -> MessageView | None:
    """None: not kept, or unreadable."""
    earliest, following = (await reader.offsets()).get(queue, (0, 0))
    if not earliest <= offset < following:
        return None
    async for batch in reader.read(queue=queue, start=offset, end=offset + 1, damaged="skip"):
        return next(iter(views(reader.topic, batch)))
    return None


async def _original(lake: Lake, letter: MessageView) -> OriginalMessage:
    origin = origin_of(letter.properties)
    if origin is None:
        return OriginalMessage(state="unknown")
    try:
        reader = await lake.reader(origin.topic)
    except (TopicNotFound, InvalidArgument):
        return OriginalMessage(state="gone")
    return original_message(letter, await message_at(reader, origin.queue, origin.offset))


def original_message(letter: MessageView, original: MessageView | None) -> OriginalMessage:
    """A letter beside the message at its place. Pure."""
    if original is None:
        return OriginalMessage(state="gone")
    if original.message_id != letter.message_id:
        return OriginalMessage(state="another", stored=original.store_timestamp)
    mine, its = _parts(letter, original_properties(letter.properties)), _parts(original, original.properties)
    differences = [
        PartDifference(name=name, letter=mine.get(name, "-"), original=its.get(name, "-"))
        for name in dict.fromkeys((*mine, *its))
        if mine.get(name) != its.get(name)
    ]
    if not _is_same_body(letter, original):
        differences.insert(0, PartDifference(name="body", letter=_start(letter.content), original=_start(original.content)))
    return OriginalMessage(
        state="differs" if differences else "same", stored=original.store_timestamp, differences=tuple(differences)
    )


def _parts(message: MessageView, properties: Mapping[str, str]) -> dict[str, str]:
    found = {
        "message group": message.message_group,
        "tag": message.tag,
        "keys": ", ".join(message.keys),
        "key": None if message.key is None else repr(message.key),
        **{f"property {name}": value for name, value in properties.items()},
    }
    return {name: value for name, value in found.items() if value is not None}


def _is_same_body(letter: MessageView, original: MessageView) -> bool:
    """A row of a typed topic is JSON in its letter."""
    if original.value is None:
        return letter.body == original.body
    try:
        return bool(letter.json() == original.json())
    except InvalidArgument:
        return False


def _start(body: bytes) -> str:
    more = f" … and {len(body) - DIFFERENCE_BYTES:,} bytes" if len(body) > DIFFERENCE_BYTES else ""
    return body[:DIFFERENCE_BYTES].decode(errors="replace") + more


def _words(request: PageRequest) -> list[str]:
    place = ["--start", str(request.number("offset")), "--queue", str(QUEUE), "--limit", "1", "--json"]
    return ["read", dead_letter_topic(request["group"]), *place]


PAGE = PageDefinition(
    name="letter",
    path="/dead-letters/{group}/letter",
    title="A dead letter of {group}",
    about="One dead letter with its reason, origin and body, and where it differs from the message that is still stored.",
    shows=LetterPage,
    gather=gather,
    answer=lambda shown: shown.letter,
    command=_words,
    parameters=(QueryParameter(name="offset", help="The offset of the letter.", kind=int, default=0, least=0),),
    crumbs=lambda request: [
        Breadcrumb("Dead letters", "dead_letters"),
        Breadcrumb(f"Dead letters of {request['group']}", "letters", {"group": request["group"]}),
    ],
    is_kept=False,
)
