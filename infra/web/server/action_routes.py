"""The actions' routes: previews with a confirmation, results, and JSON."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...json_values import json_value
from ..actions.action import Action, ActionPreview
from ..actions.action_runner import Changed, NotConfirmed, check_operator
from ..faults import ErrorReport
from ..views.page import PageContext, shell_line
from .site import ConsoleSite, action_of, json_response, status_of


def routes(site: ConsoleSite) -> list[Route]:
    """Arguments are in the URL, so a preview can be shared; the confirmation is in the form."""

    async def shown(request: Request) -> Response:
        action, context = action_of(site, request), site.context(request)
        check_operator(action.name, site.actor(request))
        arguments = action.parse_arguments(_given(request))
        return _page(site, request, action, context, arguments, await site.runner.preview(action, context, arguments))

    async def done(request: Request) -> Response:
        action, context, actor = action_of(site, request), site.context(request), site.actor(request)
        form = await site.form(request)
        site.runner.check_allowed(action, actor)
        arguments = action.parse_arguments(_given(request))
        try:
            result = await site.runner.run(
                action, context, arguments, actor, stamp=form.get("stamp", ""), typed=form.get("typed", "").strip()
            )
        except (Changed, NotConfirmed) as error:
            return _page(site, request, action, context, arguments, await site.runner.preview(action, context, arguments), error)
        return site.html(
            request,
            "done.html",
            title=f"{action.title}: done",
            source=context.source,
            done=result,
            back=action.back(arguments),
            command=shell_line(context.source, action.command(arguments)),
        )

    async def api_shown(request: Request) -> Response:
        action, context = action_of(site, request), site.context(request)
        check_operator(action.name, site.actor(request))
        return json_response(json_value(await site.runner.preview(action, context, action.parse_arguments(_given(request)))))

    async def api_done(request: Request) -> Response:
        action, context, actor = action_of(site, request), site.context(request), site.actor(request)
        form = await site.form(request)
        arguments = action.parse_arguments(_given(request))
        result = await site.runner.run(action, context, arguments, actor, stamp=form.get("stamp", ""), typed=form.get("typed"))
        return json_response(json_value(result))

    path = "/l/{lake}/actions/{action}"
    return [
        Route(path, shown, methods=["GET"]),
        Route(path, done, methods=["POST"]),
        Route(f"/api{path}", api_shown, methods=["GET"]),
        Route(f"/api{path}", api_done, methods=["POST"]),
    ]


def _given(request: Request) -> dict[str, str]:
    """A repeated argument, as of ticked boxes, is a list with commas."""
    query = request.query_params
    return {name: ",".join(query.getlist(name)) for name in query}


def _page(
    site: ConsoleSite,
    request: Request,
    action: Action[Any],
    context: PageContext,
    arguments: object,
    preview: ActionPreview,
    error: Changed | NotConfirmed | None = None,
) -> Response:
    back = action.back(arguments)
    return site.html(
        request,
        "action.html",
        title=action.title,
        source=context.source,
        status=200 if error is None else status_of(error),
        crumbs=[back],
        action=action,
        preview=preview,
        arguments=action.texts(arguments),
        back=back,
        fault=None if error is None else ErrorReport.of(error),
        command=shell_line(context.source, action.command(arguments)),
    )
