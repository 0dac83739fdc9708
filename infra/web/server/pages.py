"""The pages' routes: HTML, JSON, and live values."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ....log.errors import InvalidArgument
from ...json_values import json_value
from ..actions.action_runner import check_operator
from ..faults import PATIENCE_S, timeout_error
from ..views.page import Download, LakeResource, PageDefinition, PageRequest, shell_line
from ..views.pages import DOWNLOADS, PAGES
from .events import stream
from .openapi import openapi
from .site import ConsoleSite, download, json_response, viewer_of
from .urls import page_url, path_values

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]


def routes(site: ConsoleSite) -> list[Route]:
    found = [Route("/", root(site)), Route("/api/openapi.json", openapi_document), Route("/api/session", session(site))]
    for page in PAGES:
        found.append(Route(f"/l/{{lake}}{page.path}", html(site, page), name=page.name))
        found.append(Route(f"/api/l/{{lake}}{page.path}", api(site, page)))
        if page.begin is not None:
            found.append(Route(f"/l/{{lake}}{page.path}", begin(site, page), methods=["POST"]))
            found.append(Route(f"/api/l/{{lake}}{page.path}", begin(site, page), methods=["POST"]))
        found.append(Route(f"/live/l/{{lake}}{page.path}", live(site, page)))
    return found + [Route(f"/files/l/{{lake}}{one.path}", file(site, one)) for one in DOWNLOADS]


def page_request_of(page: LakeResource, request: Request) -> PageRequest:
    """Raises `InvalidArgument`."""
    names = list(dict(request.query_params))
    if len(request.query_params.multi_items()) != len(names):
        raise InvalidArgument("a parameter is given twice", operation="show a page", object=page.name)
    return page.parse_request(path_values({name: request.path_params[name] for name in page.names}), dict(request.query_params))


async def in_time(work: Awaitable[T]) -> T:
    """The result of a page's work. Raises `StoreUnavailable` on a timeout."""
    try:
        async with asyncio.timeout(1.5 * PATIENCE_S):  # its parts give up before, and say which they are
            return await work
    except TimeoutError:
        raise timeout_error(1.5 * PATIENCE_S) from None


def html(site: ConsoleSite, page: PageDefinition[Any]) -> Endpoint:
    async def answer(request: Request) -> Response:
        context, page_request = site.context(request), page_request_of(page, request)
        shown = await in_time(page.shown(context, page_request))
        names = {**page_request.path, **page_request.query}
        return site.html(
            request,
            f"{page.name}.html",
            title=page.title_of(page_request),
            source=context.source,
            live=page.live(shown),
            crumbs=page.crumbs(page_request),
            page=page,
            shown=shown,
            page_request=page_request,
            now=context.now,
            command=shell_line(context.source, page.command(page_request)),
            api=page_url(context.source.name, page.name, names, below="/api"),
            live_url=page_url(context.source.name, page.name, names, below="/live"),
        )

    return answer


def api(site: ConsoleSite, page: PageDefinition[Any]) -> Endpoint:
    async def answer(request: Request) -> Response:
        return json_response(
            json_value(await in_time(page.answer_for_programs(site.context(request), page_request_of(page, request))))
        )

    return answer


def begin(site: ConsoleSite, page: PageDefinition[Any]) -> Endpoint:
    """Begins a page's work. The answer leads back to the page."""

    async def answer(request: Request) -> Response:
        await site.form(request)
        check_operator(page.name, site.actor(request))
        assert page.begin is not None, "its route is there for that"
        await in_time(page.begin(site.context(request), page_request_of(page, request)))
        return RedirectResponse(request.url.path, status_code=303)

    return answer


def live(site: ConsoleSite, page: PageDefinition[Any]) -> Endpoint:
    async def answer(request: Request) -> Response:
        context, page_request = site.context(request), page_request_of(page, request)
        key = (page.name, page_request.key)

        async def values() -> dict[str, object]:
            return dict(page.live(await context.source.polled(key, lambda: in_time(page.shown(context, page_request)))))

        return stream(site, request, values, every=lambda: context.source.poll_interval(key))

    return answer


def file(site: ConsoleSite, one: Download) -> Endpoint:
    async def answer(request: Request) -> Response:
        context, page_request = site.context(request), page_request_of(one, request)
        try:
            async with asyncio.timeout(PATIENCE_S):
                content = await one.gather(context, page_request)
        except TimeoutError:
            raise timeout_error(PATIENCE_S) from None
        return download(content.data, content.name)

    return answer


def root(site: ConsoleSite) -> Endpoint:
    async def answer(request: Request) -> Response:
        if len(site.lakes.names) == 1:
            return RedirectResponse(page_url(site.lakes.names[0], "overview", {}), status_code=302)
        sources = [site.lakes[name] for name in site.lakes.names]
        return site.html(request, "lakes.html", title="Lakes", sources=sources)

    return answer


async def openapi_document(request: Request) -> Response:
    return json_response(openapi())


def session(site: ConsoleSite) -> Endpoint:
    async def answer(request: Request) -> Response:
        viewer = viewer_of(request)
        token = site.login.signer.form_token(viewer.session)
        facts = {"name": viewer.name, "role": viewer.role, "may_act": site.may_act(viewer), "form_token": token}
        return json_response(json_value({**facts, "lakes": site.lakes.names}))

    return answer
