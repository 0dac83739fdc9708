"""The actions' routes: forms, previews with a confirmation, results, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ....log.errors import CallError, InvalidArgument
from ...json_values import json_value
from ..actions.action import Action, ActionPreview
from ..actions.action_runner import Changed, NotConfirmed, check_operator
from ..faults import ErrorReport
from ..views.page import PageContext, shell_line
from .site import ConsoleSite, action_of, json_response, status_of
from .urls import action_url

STAMP, TYPED, AGAIN = "stamp", "typed", "again"
OWN_FIELDS = frozenset({STAMP, TYPED, AGAIN})
"""The fields of a form that are no arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a request asks of an action: arguments by URL, so that a preview can be shared, or by form, as of long texts."""

    action: Action[Any]
    context: PageContext
    by_url: Mapping[str, str]
    by_form: Mapping[str, str]

    @property
    def given(self) -> dict[str, str]:
        if twice := self.by_url.keys() & self.by_form.keys():
            raise InvalidArgument("an argument is given twice", operation=self.action.name, observed=", ".join(sorted(twice)))
        return {**self.by_url, **self.by_form}


def routes(site: ConsoleSite) -> list[Route]:
    """The confirmation is always in a form."""

    def asked(request: Request, form: Mapping[str, str] | None = None) -> _Asked:
        query = request.query_params
        return _Asked(
            action=action_of(site, request),
            context=site.context(request),
            # A repeated argument, as of ticked boxes, is a list with commas.
            by_url={name: ",".join(query.getlist(name)) for name in query},
            by_form={name: value for name, value in (form or {}).items() if name not in OWN_FIELDS},
        )

    async def blank(request: Request) -> Response:
        found = asked(request)
        check_operator(found.action.name, site.actor(request))
        return await _form_page(site, request, found)

    async def filled(request: Request) -> Response:
        form = await site.form(request)
        found = asked(request, _of_browser(request, form))
        check_operator(found.action.name, site.actor(request))
        if AGAIN in form:
            return await _form_page(site, request, found)
        try:
            arguments = found.action.parse_arguments(found.given)
            preview = await site.runner.preview(found.action, found.context, arguments)
        except CallError as error:
            if found.action.form is None or status_of(error) != 400:
                raise
            return await _form_page(site, request, found, error)
        return _page(site, request, found, arguments, preview)

    async def shown(request: Request) -> Response:
        found = asked(request)
        check_operator(found.action.name, site.actor(request))
        arguments = found.action.parse_arguments(found.given)
        return _page(site, request, found, arguments, await site.runner.preview(found.action, found.context, arguments))

    async def done(request: Request) -> Response:
        action, actor = action_of(site, request), site.actor(request)
        form = await site.form(request)
        site.runner.check_allowed(action, actor)
        found = asked(request, _of_browser(request, form))
        arguments = action.parse_arguments(found.given)
        try:
            result = await site.runner.run(
                action, found.context, arguments, actor, stamp=form.get(STAMP, ""), typed=form.get(TYPED, "").strip()
            )
        except (Changed, NotConfirmed) as error:
            preview = await site.runner.preview(action, found.context, arguments)
            return _page(site, request, found, arguments, preview, error)
        return site.html(
            request,
            "done.html",
            title=f"{action.title}: done",
            source=found.context.source,
            done=result,
            back=action.back(arguments),
            command=shell_line(found.context.source, action.command(arguments)),
        )

    async def api_shown(request: Request) -> Response:
        form = await site.form(request) if request.method == "POST" else {}
        found = asked(request, form)
        check_operator(found.action.name, site.actor(request))
        arguments = found.action.parse_arguments(found.given)
        return json_response(json_value(await site.runner.preview(found.action, found.context, arguments)))

    async def api_done(request: Request) -> Response:
        actor = site.actor(request)
        form = await site.form(request)
        found = asked(request, form)
        site.runner.check_allowed(found.action, actor)
        arguments = found.action.parse_arguments(found.given)
        result = await site.runner.run(
            found.action, found.context, arguments, actor, stamp=form.get(STAMP, ""), typed=form.get(TYPED)
        )
        return json_response(json_value(result))

    path = "/l/{lake}/actions/{action}"
    return [
        Route(path, shown, methods=["GET"]),
        Route(path, done, methods=["POST"]),
        Route(f"{path}/form", blank, methods=["GET"]),
        Route(f"{path}/preview", filled, methods=["POST"]),
        Route(f"/api{path}", api_shown, methods=["GET"]),
        Route(f"/api{path}", api_done, methods=["POST"]),
        Route(f"/api{path}/preview", api_shown, methods=["POST"]),
    ]


def _of_browser(request: Request, form: Mapping[str, str]) -> dict[str, str]:
    """The fields that are filled in, with line ends as they were typed: browsers make CR LF of each."""
    if request.headers.get("content-type", "").startswith("application/json"):
        return dict(form)
    plain = {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in form.items()}
    return {name: value for name, value in plain.items() if value}


async def _form_page(site: ConsoleSite, request: Request, asked: _Asked, error: CallError | None = None) -> Response:
    action = asked.action
    if action.form is None:
        raise InvalidArgument("the action has no form: a link leads to its preview", operation=action.name)
    given = asked.given
    form = (await action.form(asked.context, given)).filled(given, is_sent=request.method == "POST")
    return site.html(
        request,
        "action_form.html",
        title=action.title,
        source=asked.context.source,
        status=200 if error is None else status_of(error),
        action=action,
        form=form,
        target=_target(asked, "/preview"),
        fault=None if error is None else ErrorReport.of(error),
    )


def _target(asked: _Asked, below: str) -> str:
    path, _, _ = action_url(asked.context.source.name, asked.action.name, {}).partition("?")
    return path + below


def _page(
    site: ConsoleSite,
    request: Request,
    asked: _Asked,
    arguments: object,
    preview: ActionPreview,
    error: Changed | NotConfirmed | None = None,
) -> Response:
    action, context = asked.action, asked.context
    back = action.back(arguments)
    by_form = bool(asked.by_form)
    return site.html(
        request,
        "action.html",
        title=action.title,
        source=context.source,
        status=200 if error is None else status_of(error),
        crumbs=[back],
        action=action,
        preview=preview,
        hidden=asked.given if by_form else {},
        target=_target(asked, "") if by_form else None,
        change=_target(asked, "/preview") if by_form and action.form is not None else None,
        again=AGAIN,
        back=back,
        fault=None if error is None else ErrorReport.of(error),
        command=shell_line(context.source, action.command(arguments)),
    )
