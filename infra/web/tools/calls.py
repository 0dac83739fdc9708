"""The tools' calls: pages' JSON, and actions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ....aio import Lake
from ....log.errors import DataDamaged, InvalidArgument, NewerFormatError
from ....log.paths import TopicPaths
from ....log.topic.records import not_found, read_record
from ....log.verify import verify
from ...json_values import json_value
from ..actions.action_runner import ActionRunner, Actor
from ..actions.registry import ACTIONS
from ..faults import ErrorReport, timeout_error
from ..json_schemas import Json
from ..lakes.source import LakeSource
from ..views.page import PageContext
from ..views.pages import PAGES
from .tool import PREVIEW, STAMP, TYPED, VERIFY, Tool, tools_of

AT_ONCE = 4
"""The most calls at the same time; others wait."""
CALL_S, VERIFY_S = 60.0, 600.0


class ToolCalls:
    """The tools of one lake, with ``writes`` also those that change it."""

    def __init__(self, source: LakeSource, *, writes: bool) -> None:
        self._source = source
        self._runner = ActionRunner(read_only=not writes, actions=ACTIONS)
        self._limit = asyncio.Semaphore(AT_ONCE)
        self.described = tools_of(PAGES, ACTIONS.values(), writes=writes)

    async def call(self, name: str, given: Mapping[str, object], actor: Actor) -> Json:
        """The answer of a tool. Raises `PenstockError`."""
        tool = self.described.get(name)
        if tool is None:
            raise InvalidArgument(
                "there is no such tool",
                operation="call a tool",
                object=name[:200],
                expected=", ".join(self.described),
                hint="tools that act are there with --allow-writes",
            )
        texts = tool.texts(given)
        patience_s = VERIFY_S if name == VERIFY else CALL_S
        async with self._limit:
            try:
                async with asyncio.timeout(patience_s):
                    return await self._answer(tool, texts, actor)
            except TimeoutError:
                raise timeout_error(patience_s) from None

    async def _answer(self, tool: Tool, texts: dict[str, str], actor: Actor) -> Json:
        context = PageContext(self._source)
        if tool.page is not None:
            path = {name: texts.pop(name) for name in tool.page.names}
            return _object(json_value(await tool.page.answer_for_programs(context, tool.page.parse_request(path, texts))))
        if tool.action is None:
            return await self._source.using(lambda lake: _verified(lake, texts["topic"]))
        if tool.name.startswith(PREVIEW):
            return _object(json_value(await self._runner.preview(tool.action, context, tool.action.parse_arguments(texts))))
        stamp, typed = texts.pop(STAMP), texts.pop(TYPED, None)
        done = await self._runner.run(tool.action, context, tool.action.parse_arguments(texts), actor, stamp=stamp, typed=typed)
        return _object(json_value(done))


async def _verified(lake: Lake, name: str) -> Json:
    """A topic's findings. Damage that ends the check is an answer too."""
    paths = TopicPaths.of(name)
    found = await read_record(lake.store, paths)  # not by opening the topic: a damaged log cannot be opened
    if found is None or found[0].deleted:
        raise not_found(name)
    try:
        report = await verify(lake.store, paths, found[0], lake.runtime)
    except (DataDamaged, NewerFormatError) as error:
        return {"topic": name, "ok": False, "fault": json_value(ErrorReport.of(error))}
    return {**json_value(report), "ok": report.ok}


def _object(value: Any) -> Json:  # noqa: ANN401 - JSON
    assert isinstance(value, dict), "pages and actions give dataclasses"
    return value
