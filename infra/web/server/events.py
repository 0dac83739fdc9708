"""Server-sent events: the values of a page that changed, again and again, at the pace of the looks at the lake."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta

from starlette.responses import Response, StreamingResponse

from ....log.errors import BackPressureError, PenstockError
from ....log.escapes import escaped_json
from ..documents import document
from ..faults import Fault
from .render import live_document
from .site import Site

STREAMS_MAX = 500
LOOKS_MAX = 300
"""The looks of one stream: then the browser connects anew, and it is checked again who it is."""
PULSE_S = 15.0
"""The longest silence: a proxy in front may cut a silent connection."""


def stream(site: Site, values: Callable[[], Awaitable[Mapping[str, object]]], *, every: timedelta) -> Response:
    """An answer that goes on until the viewer leaves or the console ends. Raises `BackPressureError` for one too many."""
    if site.streams >= STREAMS_MAX:
        raise BackPressureError("too many pages are watched", operation="live", expected=f"at most {STREAMS_MAX}")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(site, values, every.total_seconds()), media_type="text/event-stream", headers=headers)


async def _events(site: Site, values: Callable[[], Awaitable[Mapping[str, object]]], every_s: float) -> AsyncIterator[str]:
    site.streams += 1
    try:
        before: dict[str, object] = {}
        yield f"retry: {max(1000, int(1000 * every_s))}\n\n"
        for _ in range(LOOKS_MAX):
            try:
                now = live_document(await values())
            except PenstockError as error:
                yield event("trouble", document(Fault.of(error)))
            else:
                if changed := {key: value for key, value in now.items() if before.get(key) != value}:
                    yield event("values", changed)
                before = now
            left_s = every_s
            while left_s > 0:
                if await _ended(site.ending, min(left_s, PULSE_S)):
                    return
                left_s -= PULSE_S
                if left_s > 0:
                    yield ":\n\n"
    finally:
        site.streams -= 1


def event(name: str, content: object) -> str:
    """One event. Its data is one line, as JSON has no line ends of its own."""
    return f"event: {name}\ndata: {escaped_json(json.dumps(content, ensure_ascii=False))}\n\n"


async def _ended(ending: asyncio.Event, within_s: float) -> bool:
    try:
        await asyncio.wait_for(ending.wait(), within_s)
    except TimeoutError:
        return False
    return True
