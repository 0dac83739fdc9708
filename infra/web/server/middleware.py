"""The gate of all requests: every caller has a name, and no error passes as a traceback."""

from __future__ import annotations

import logging
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....log.errors import PenstockError, PermissionDenied, unforeseen
from ...json_values import json_value
from ..faults import problem_of
from .login import Viewer
from .security import MARK_S, SESSION_S, is_from_within_another_site, is_same_origin
from .site import ConsoleSite, FormRefused, address_of, json_response, peer_of, read_form, status_of

log = logging.getLogger("penstock.console")

_OPEN = ("/static/", "/login")


class LoginMiddleware:
    """Names the viewer of each request, or redirects to the log-in."""

    def __init__(self, app: ASGIApp, site: ConsoleSite) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            await Response("405\n", status_code=405, media_type="text/plain")(scope, receive, send)
            return
        if scope["method"] == "POST" and not is_same_origin(request.headers):
            raise FormRefused("the form is from another site", operation=scope["path"], observed=request.headers.get("origin"))
        if is_from_within_another_site(request.headers):
            raise FormRefused("a page of another site asks for this behind its viewer's back", operation=scope["path"])
        if scope["path"].startswith(_OPEN):
            await self._app(scope, receive, send)
            return
        cookie = request.cookies.get(self._site.cookie(request))
        viewer = self._site.login.viewer(cookie, request.headers, peer_of(request))
        if viewer is None:
            await self._refused(request)(scope, receive, send)
            return
        scope["viewer"] = viewer
        known = self._site.login.signer.cookie(viewer.session)

        async def with_session(message: Message) -> None:
            if message["type"] == "http.response.start" and cookie != known:
                set_cookie(self._site, request, message, known)
            await send(message)

        await self._app(scope, receive, with_session)

    def _refused(self, request: Request) -> Response:
        if request.url.path.startswith(("/api/", "/live/")):
            refused = PermissionDenied("log in first", operation=request.url.path)
            return json_response(json_value(problem_of(refused)), status=401)
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?back={quote(back, safe='')}", status_code=303)


def set_cookie(site: ConsoleSite, request: Request, message: Message, value: str, *, seconds: int = SESSION_S) -> None:
    secure = "; Secure" if site.options.is_tls else ""
    attributes = f"Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    MutableHeaders(scope=message).append("set-cookie", f"{site.cookie(request)}={value}; {attributes}")


class ErrorMiddleware:
    """Answers every error; an answer that has begun is cut."""

    def __init__(self, app: ASGIApp, site: ConsoleSite) -> None:
        self._app = app
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except PenstockError as error:
            if begun:
                raise
            if status_of(error) >= 500:
                log.warning("%s %s: %s", scope["method"], scope["path"], error)
            await self._site.failed(Request(scope, receive), error)(scope, receive, send)
        except Exception as error:
            log.exception("%s %s failed in an unforeseen way", scope["method"], scope["path"])
            if begun:
                raise
            bug = unforeseen(error, operation=scope["path"])
            bug.observed, bug.hint = type(error).__name__, "the console's log has the rest"
            await self._site.failed(Request(scope, receive), bug)(scope, receive, send)


def login_routes(site: ConsoleSite) -> list[Route]:
    async def page(request: Request) -> Response:
        if not site.login.by_password:
            return RedirectResponse("/", status_code=303)
        return _login_page(site, request, request.query_params.get("back", "/"))

    async def log_in(request: Request) -> Response:
        if not site.login.by_password:
            return RedirectResponse("/", status_code=303)
        form = await read_form(request)
        back = form.get("back", "/")
        viewer = await site.login.log_in(
            form.get("name", ""), form.get("password", ""), address_of(request), request.cookies.get(site.mark(request), "")
        )
        if viewer is None:
            log.warning("a log-in failed: name %r, from %s", form.get("name", "")[:100], address_of(request))
            return _login_page(site, request, back, failed=True)
        log.info("%s logged in as %s, from %s", viewer.name, viewer.role, address_of(request))
        response = _with_cookie(site, request, RedirectResponse(safe_path(back), status_code=303), viewer)
        return _cookie(site, response, site.mark(request), site.login.mark(viewer), MARK_S)

    async def log_out(request: Request) -> Response:
        await site.form(request)
        site.login.log_out(request.scope["viewer"].session)
        return _with_cookie(site, request, RedirectResponse("/login" if site.login.by_password else "/", status_code=303), None)

    return [
        Route("/login", page, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


def _login_page(site: ConsoleSite, request: Request, back: str, *, failed: bool = False) -> Response:
    return site.html(request, "login.html", title="Log in", status=403 if failed else 200, back=safe_path(back), failed=failed)


def _with_cookie(site: ConsoleSite, request: Request, response: Response, viewer: Viewer | None) -> Response:
    value, seconds = ("", 0) if viewer is None else (site.login.signer.cookie(viewer.session), SESSION_S)
    return _cookie(site, response, site.cookie(request), value, seconds)


def _cookie(site: ConsoleSite, response: Response, name: str, value: str, seconds: int) -> Response:
    response.set_cookie(name, value, max_age=seconds, path="/", secure=site.options.is_tls, httponly=True, samesite="strict")
    return response


def safe_path(path: str) -> str:
    """A path of this console; its start in place of any other."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() else "/"
