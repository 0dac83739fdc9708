"""What a viewer takes away as a file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ....aio import Lake
from ....consumers.dead_letters.writer import QUEUE, no_dead_letters
from ....log import MessageView
from ....log.read.reader import Reader
from ...operating.letters import condition, letter_document
from ..documents import document
from ..views import letters
from ..views.page import Scene
from .site import Site, attachment

EXPORTED_MAX = 100_000
"""The letters of one file."""


def routes(site: Site) -> list[Route]:
    """The routes of all files."""

    async def dead_letters(request: Request) -> Response:
        asked = letters.PAGE.asked(request.path_params, dict(request.query_params))
        source = await _source(site.scene(request), asked["group"])
        wanted = condition(**{one.name: asked.text(one.name) for one in letters.FILTERS})  # type: ignore[arg-type] # by name

        async def lines() -> AsyncIterator[str]:
            count = 0
            async for letter in source:
                if wanted is None or wanted(letter):
                    yield json.dumps(document(letter_document(letter)), ensure_ascii=True) + "\n"
                    count += 1
                    if count == EXPORTED_MAX:
                        return

        headers = attachment(f"dead-letters-of-{asked['group']}.jsonl")
        return StreamingResponse(lines(), media_type="application/octet-stream", headers=headers)

    return [Route(f"/l/{{lake}}{letters.PAGE.path}/export", dead_letters, methods=["GET"])]


async def _source(scene: Scene, group: str) -> AsyncIterator[MessageView]:
    """The dead letters of a group, oldest first. Raises `TopicNotFound` before any is sent to the viewer."""

    async def open_it(lake: Lake) -> Reader:
        topic = await letters.letters_topic(lake, group)
        if topic is None:
            raise no_dead_letters(group)
        return Reader(topic)

    reader = await scene.using(open_it)
    return reader.messages(queue=QUEUE, damaged="skip")
