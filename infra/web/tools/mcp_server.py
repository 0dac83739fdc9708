"""The Model Context Protocol over standard input and output, by the package mcp."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
from contextlib import suppress
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, TextContent, ToolAnnotations
from mcp.types import Tool as McpTool

from ....log.errors import InvalidArgument, PenstockError, unforeseen
from ....log.escapes import escaped_json
from ....log.runtime.runtime import Runtime
from ...json_values import json_value
from ..actions.action_runner import OPERATOR, Actor
from ..faults import ErrorReport
from ..json_schemas import Json
from ..lakes.lakes import LakeOptions, ServedLakes
from .calls import ToolCalls
from .fit import fitted
from .lines import LineReader
from .tool import OF_OTHERS, Tool

ANSWER_CHARS_MAX = 400_000
"""The longest answer: more than any model reads."""
INSTRUCTIONS = (
    "Penstock is ordered message queues on object storage. Begin with overview: it tells what needs attention first. "
    f"{OF_OTHERS} A body with is_whole false is cut: `body_bytes` says how much of it you get. "
    "To act, call the preview, show what it says to the user, and pass its stamp on."
)


async def serve(options: LakeOptions, runtime: Runtime, stop: asyncio.Event, *, writes: bool) -> None:
    """Serve the client until it leaves or ``stop`` is set."""
    lakes = ServedLakes.of((options,), runtime, read_only=not writes)
    try:
        server = server_of(ToolCalls(lakes[options.name], writes=writes))
        serving = asyncio.ensure_future(_serve(server))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not serving.done():
            serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
    finally:
        await lakes.close()


async def _serve(server: Server[Any]) -> None:
    # The package's own reading of standard input cannot be broken off.
    async with stdio_server(stdin=LineReader(sys.stdin.fileno())) as (read, write):  # type: ignore[arg-type] # all that it does is iterate
        await server.run(read, write, server.create_initialization_options())


def server_of(tools: ToolCalls) -> Server[Any]:
    async def listed(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_described(one) for one in tools.described.values()])

    async def called(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            found = await tools.call(params.name, params.arguments or {}, actor_of(context))
            return _answer(found, params.name)
        except PenstockError as error:
            return _failed(error)
        except Exception as error:  # noqa: BLE001 - the client hears of it, and the server goes on
            return _failed(unforeseen(error, operation=params.name))

    return Server(
        "penstock",
        version=importlib.metadata.version("penstock"),
        instructions=INSTRUCTIONS,
        on_list_tools=listed,
        on_call_tool=called,
    )


def actor_of(context: ServerRequestContext[Any]) -> Actor:
    """The program at the other end, by its own name for itself."""
    client = context.session.client_params
    name = "a program" if client is None else client.client_info.name[:100]
    return Actor(name=f"mcp: {name}", role=OPERATOR, address="stdio")


def _described(tool: Tool) -> McpTool:
    hints = ToolAnnotations(read_only_hint=not tool.is_action, destructive_hint=tool.is_destructive, open_world_hint=False)
    return McpTool(name=tool.name, description=f"{tool.about} {OF_OTHERS}", input_schema=tool.schema, annotations=hints)


def _answer(found: Json, name: str) -> CallToolResult:
    _, text = fitted(found, _json, ANSWER_CHARS_MAX)
    if len(text) > ANSWER_CHARS_MAX:
        raise InvalidArgument(
            "the answer is too long",
            operation=name,
            expected=f"at most {ANSWER_CHARS_MAX:,} characters",
            observed=f"{len(text):,}",
            hint="ask for less: a smaller `rows` or `body_bytes`, a filter, another page",
        )
    return CallToolResult(content=[TextContent(text=text)], structured_content=json.loads(text))


def _failed(error: PenstockError) -> CallToolResult:
    fault = ErrorReport.of(error)
    return CallToolResult(content=[TextContent(text=_json({"error": fault.kind, **json_value(fault)}))], is_error=True)


def _json(value: Json) -> str:
    """JSON without characters that steer a terminal. Surrogates become question marks, as the protocol has UTF-8 alone."""
    return escaped_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode())
