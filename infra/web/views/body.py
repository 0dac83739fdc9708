"""The body of one message as a file: a page shows only its beginning."""

from __future__ import annotations

from ....aio import Lake
from ....log.errors import InvalidArgument, MessageNotFound
from .page import Download, DownloadContent, PageContext, PageRequest

_NUMBER_DIGITS_MAX = 18


async def gather(context: PageContext, request: PageRequest) -> DownloadContent:
    topic, queue, offset = request["topic"], _number(request, "queue"), _number(request, "offset")

    async def read(lake: Lake) -> bytes:
        reader = await lake.reader(topic)
        async for message in reader.messages(queue=queue, start=offset, end=offset + 1):
            return message.content
        raise MessageNotFound("there is no such message", operation="read", object=f"{topic}, queue {queue}, offset {offset}")

    return DownloadContent(f"{topic}-{queue}-{offset}.bin", await context.using(read))


def _number(request: PageRequest, name: str) -> int:
    text = request[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX):
        raise InvalidArgument("this is no number", operation="read", object=name, expected="a whole number", observed=text[:200])
    return int(text)


DOWNLOAD = Download(
    name="body",
    path="/topics/{topic}/queues/{queue}/messages/{offset}/body",
    about="The body of one message as it was sent, or its row as JSON.",
    gather=gather,
)
