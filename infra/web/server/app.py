"""The console as an ASGI application, assembled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ....log.runtime.runtime import Runtime
from ..actions.action_runner import ActionRunner
from ..actions.registry import ACTIONS
from ..lakes.lakes import ServedLakes
from . import action_routes, pages
from .forwarded import ForwardedMiddleware
from .jinja import STATIC
from .login import Login
from .middleware import ErrorMiddleware, LoginMiddleware, login_routes
from .options import ConsoleOptions
from .security import SecurityMiddleware, SessionSigner
from .site import ConsoleSite

KEY_BYTES = 32


def site_of(options: ConsoleOptions, lakes: ServedLakes, runtime: Runtime, *, key: bytes) -> ConsoleSite:
    """The console's parts. ``key`` signs its sessions; a new key ends them."""
    runner = ActionRunner(read_only=options.read_only, actions=ACTIONS)
    return ConsoleSite(options, lakes, Login(options, SessionSigner(key), runtime), runner, runtime)


def app_of(site: ConsoleSite) -> ASGIApp:
    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response: Response = site.html(request, "nothing.html", title="There is no such page", status=404)
        await response(scope, receive, send)

    files, names = StaticFiles(directory=STATIC), frozenset(path.name for path in STATIC.iterdir())

    async def static(scope: Scope, receive: Receive, send: Send) -> None:
        known = scope["method"] != "POST" and scope["path"].removeprefix("/static/") in names
        await (files if known else nothing)(scope, receive, send)

    routes: list[Route | Mount] = [
        *action_routes.routes(site),
        *pages.routes(site),
        *login_routes(site),
        Mount("/static", static),
    ]

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        yield
        site.ending.set()
        await site.lakes.close()

    router = Router(routes, default=nothing, lifespan=life)
    app: ASGIApp = SecurityMiddleware(
        ErrorMiddleware(LoginMiddleware(router, site), site), known_hosts=site.options.known_hosts, is_tls=site.options.is_tls
    )
    proxies = site.options.trusted_proxies
    return ForwardedMiddleware(app, proxies) if proxies else app
