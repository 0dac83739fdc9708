"""The server's shared parts and answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from ....log.errors import (
    CallError,
    InvalidArgument,
    PenstockError,
    PermissionDenied,
    ReadOnlyError,
    RetryError,
)
from ....log.escapes import escaped_json
from ....log.runtime.runtime import Runtime
from ...json_values import json_value
from ..actions.action import Action
from ..actions.action_runner import ActionRunner, Actor, Changed
from ..faults import ErrorReport, problem_of
from ..lakes.lakes import ServedLakes
from ..lakes.source import LakeSource
from ..views.page import Breadcrumb, PageContext, PageDefinition, PageRequest
from ..views.pages import PAGES
from .forwarded import PEER
from .jinja import environment, live_tag
from .login import Login, TooManyFailures, Viewer
from .options import ConsoleOptions, ConsoleRole
from .security import port_of
from .urls import action_url, page_url, static_url

FORM_BYTES_MAX = 64 * 1024
FORM_S = 20.0
COOKIE = "penstock_session"
FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
TOKEN_HEADER = "x-form-token"  # noqa: S105 - the name of a header

_NOT_THERE = {
    *("topic_not_found", "topic_deleted", "group_not_found"),
    *("message_not_found", "transaction_not_found", "lake_not_served"),
}


class FormRefused(CallError):
    """A form from outside of this session."""

    kind = "form_refused"


@dataclass
class ConsoleSite:
    """One console."""

    options: ConsoleOptions
    lakes: ServedLakes
    login: Login
    runner: ActionRunner
    runtime: Runtime
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the console ends: streams end then."""
    templates: Environment = field(default_factory=environment)
    streams: Counter[str] = field(default_factory=Counter)
    """The open streams, by watcher."""

    def cookie(self, request: Request) -> str:
        """Its prefix limits it to TLS. Its port parts consoles of one host."""
        port = port_of(request.headers.get("host", ""))
        return ("__Host-" if self.options.is_tls else "") + COOKIE + (f"_{port}" if port else "")

    def mark(self, request: Request) -> str:
        return f"{self.cookie(request)}_mark"

    def context(self, request: Request) -> PageContext:
        """Raises `LakeNotServed`."""
        return PageContext(self.lakes[request.path_params["lake"]])

    def may_act(self, viewer: Viewer | None) -> bool:
        return viewer is not None and viewer.role is ConsoleRole.OPERATOR and not self.options.read_only

    def may_begin(self, viewer: Viewer | None) -> bool:
        """Whether a caller may begin costly work without changes."""
        return viewer is not None and viewer.role is ConsoleRole.OPERATOR

    def actor(self, request: Request) -> Actor:
        viewer = viewer_of(request)
        return Actor(name=viewer.name, role=str(viewer.role), address=address_of(request))

    def watcher(self, request: Request) -> str:
        """The viewer of a stream, over all sessions; without a log-in, the browser."""
        viewer = viewer_of(request)
        return viewer.name if self.options.asks_who else viewer.session.id

    def is_known(self, request: Request) -> bool:
        """Whether the caller of a long request is still logged in."""
        try:
            return self.login.viewer(request.cookies.get(self.cookie(request)), request.headers, peer_of(request)) is not None
        except PenstockError:
            return False

    def html(
        self,
        request: Request,
        template: str,
        *,
        title: str,
        source: LakeSource | None = None,
        status: int = 200,
        live: Mapping[str, object] | None = None,
        crumbs: Sequence[Breadcrumb] = (),
        **values: Any,  # noqa: ANN401 - what the template takes
    ) -> Response:
        viewer = request.scope.get("viewer")
        name = None if source is None else source.name
        context = {
            "title": title,
            "lake": name,
            "lakes": self.lakes.names,
            "menu": [page for page in PAGES if page.menu is not None] if name is not None else [],
            "page": None,
            "crumbs": crumbs,
            "command": None,
            "viewer": viewer,
            "may_act": self.may_act(viewer),
            "may_begin": self.may_begin(viewer),
            "read_only": self.options.read_only,
            "by_password": self.login.by_password,
            "form_token": "" if viewer is None else self.login.signer.form_token(viewer.session),
            **_links(name),
            "live": partial(live_tag, live or {}),
            "is_live": bool(live),
        }
        return HTMLResponse(self.templates.get_template(template).render(context | values), status_code=status)

    async def form(self, request: Request) -> dict[str, str]:
        """The fields of a form, or of a JSON object of texts. Raises `FormRefused` without the token of its session."""
        fields = await read_form(request)
        token = request.headers.get(TOKEN_HEADER) or fields.pop(FORM_TOKEN, "")
        if not self.login.signer.is_form_token(viewer_of(request).session, token):
            raise FormRefused(
                "the form is not from a page of this session",
                operation=request.url.path,
                hint="reload the page and try again; programs send the token of /api/session in the header X-Form-Token",
            )
        return fields

    def failed(self, request: Request, error: PenstockError) -> Response:
        """A page, or JSON below ``/api``."""
        status = status_of(error)
        if request.url.path.startswith(("/api/", "/live/")):
            return json_response(json_value(problem_of(error)), status=status)
        name = str(request.scope.get("path_params", {}).get("lake", ""))
        source = self.lakes[name] if name in self.lakes.names else None
        return self.html(request, "failed.html", title="It did not work", source=source, status=status, fault=ErrorReport.of(error))


def _links(lake: str | None) -> dict[str, Any]:
    def url(page: str, /, **names: object) -> str:
        return page_url(lake if lake is not None else str(names.pop("lake")), page, names)

    def act(action: str, /, **names: object) -> str:
        assert lake is not None, "actions are linked from pages of a lake"
        return action_url(lake, action, names)

    def form(action: str, /, **names: object) -> str:
        assert lake is not None, "actions are linked from pages of a lake"
        return action_url(lake, action, names, form=True)

    def paged(page: PageDefinition[Any], page_request: PageRequest, number: int) -> str:
        return url(page.name, **{**page_request.path, **page_request.query, "page": number})

    return {"url": url, "action_url": act, "form_url": form, "paged": paged, "static": static_url}


def viewer_of(request: Request) -> Viewer:
    viewer = request.scope.get("viewer")
    if not isinstance(viewer, Viewer):
        raise PermissionDenied("log in first", operation=request.url.path)
    return viewer


def address_of(request: Request) -> str:
    """The caller's address, behind trusted proxies."""
    return "" if request.client is None else request.client.host


def peer_of(request: Request) -> str:
    """The address at the other end of the connection."""
    peer: str = request.scope.get(PEER, "")
    return peer or address_of(request)


def action_of(site: ConsoleSite, request: Request) -> Action[Any]:
    return site.runner.named(request.path_params["action"])


def status_of(error: PenstockError) -> int:
    match error:
        case TooManyFailures():
            return 429
        case PermissionDenied() | ReadOnlyError() | FormRefused():
            return 403
        case Changed():
            return 409
        case _ if error.kind in _NOT_THERE:
            return 404
        case CallError():
            return 400
        case RetryError():
            return 503
    return 500


def json_response(content: object, *, status: int = 200) -> Response:
    """A JSON answer without characters that steer a terminal."""
    text = escaped_json(json.dumps(content, ensure_ascii=False))
    return Response(text.encode("utf-8", "backslashreplace"), status_code=status, media_type="application/json")


def download(data: bytes | AsyncIterator[bytes], name: str) -> Response:
    """Any bytes as a file, which no browser shows as a page."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in name)[:100] or "download"
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    if isinstance(data, bytes):
        return Response(data, media_type="application/octet-stream", headers=headers)
    return StreamingResponse(data, media_type="application/octet-stream", headers=headers)


async def read_form(request: Request) -> dict[str, str]:
    """Raises `InvalidArgument`."""
    try:
        async with asyncio.timeout(FORM_S):
            data = await _small_body(request)
    except TimeoutError:
        raise InvalidArgument(
            "the form did not come in time", operation=request.url.path, expected=f"all of it within {FORM_S:.0f} s"
        ) from None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            fields = json.loads(data or b"{}")
            if isinstance(fields, dict) and all(isinstance(value, str) for value in fields.values()):
                "".join((*fields, *fields.values())).encode()  # JSON can spell what is no text
                return fields
        elif kind == "application/x-www-form-urlencoded":
            return dict(parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=100))
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("the form cannot be read", operation=request.url.path, observed=str(error)) from error
    raise InvalidArgument(
        "the form is of another kind",
        operation=request.url.path,
        expected="application/x-www-form-urlencoded, or a JSON object of texts",
        observed=kind or "none",
    )


async def _small_body(request: Request) -> bytes:
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > FORM_BYTES_MAX:
            raise InvalidArgument("the form is too large", operation=request.url.path, expected=f"at most {FORM_BYTES_MAX} bytes")
    return data
