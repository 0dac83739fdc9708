"""Server-sent events: a page's changed values, at the pace of the lake's looks."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from ....log.errors import BackPressureError, PenstockError
from ....log.escapes import escaped_json
from ...json_values import json_value
from ..faults import ErrorReport
from .jinja import live_document
from .site import ConsoleSite

STREAMS_MAX, STREAMS_OF_ONE_MAX = 500, 50
"""The most streams of all viewers, and of one."""
LOOKS_MAX, STREAM_S = 300, 3600.0
"""The end of a stream. Then the browser connects anew, and a proxy authenticates the viewer again."""
RETRY_S_MAX = 60.0
PULSE_S = 15.0
"""The longest silence: a proxy may cut silent connections."""
Values = Callable[[], Awaitable[Mapping[str, object]]]


def stream(site: ConsoleSite, request: Request, values: Values, *, every: Callable[[], timedelta]) -> Response:
    """An answer until the viewer leaves or the console ends. Raises `BackPressureError`."""
    watcher = site.watcher(request)
    if site.streams[watcher] >= STREAMS_OF_ONE_MAX:
        raise BackPressureError(
            "you watch too many pages", operation="live", expected=f"at most {STREAMS_OF_ONE_MAX}", hint="close some"
        )
    if site.streams.total() >= STREAMS_MAX:
        raise BackPressureError("too many pages are watched", operation="live", expected=f"at most {STREAMS_MAX}")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers=headers)
    events = _events(site, partial(site.is_known, request), values, every)
    return _Stream(site.streams, watcher, events, headers)


class _Stream(StreamingResponse):
    """A response counted from its first moment, against bursts."""

    def __init__(self, streams: Counter[str], watcher: str, events: AsyncIterator[str], headers: Mapping[str, str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._streams = streams
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._streams[self._watcher] += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._watcher] -= 1
            if not self._streams[self._watcher]:
                del self._streams[self._watcher]


async def _events(
    site: ConsoleSite, is_known: Callable[[], bool], values: Values, every: Callable[[], timedelta]
) -> AsyncIterator[str]:
    before: dict[str, object] = {}
    yield f"retry: {int(1000 * min(max(1.0, every().total_seconds()), RETRY_S_MAX))}\n\n"
    stream_s = STREAM_S
    for _ in range(LOOKS_MAX):
        try:
            now = live_document(await values())
        except PenstockError as error:
            yield event("trouble", json_value(ErrorReport.of(error)))
        else:
            if changed := {key: value for key, value in now.items() if before.get(key) != value}:
                yield event("values", changed)
            before = now
        left_s = min(every().total_seconds(), stream_s)
        stream_s -= left_s
        while left_s > 0:
            if await _ended(site.ending, min(left_s, PULSE_S)):
                return
            left_s -= PULSE_S
            if not is_known():
                return
            if left_s > 0:
                yield ":\n\n"
        if stream_s <= 0:
            return


def event(name: str, content: object) -> str:
    """One event, in one line of data."""
    return f"event: {name}\ndata: {escaped_json(json.dumps(content, ensure_ascii=False))}\n\n"


async def _ended(ending: asyncio.Event, within_s: float) -> bool:
    try:
        await asyncio.wait_for(ending.wait(), within_s)
    except TimeoutError:
        return False
    return True
