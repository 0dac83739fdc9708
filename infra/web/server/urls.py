"""The URLs of the console, percent-encoded. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from ....log.errors import ForeignObject, InternalError, InvalidArgument
from ....log.paths import group_folder, group_name
from ..views.page import Download
from ..views.pages import BY_NAME

_NAME = re.compile(r"\{(\w+)(?::path)?\}")
GROUP = "group"
"""A consumer group's name may be ``..`` or hold ``/``, which proxies and browsers resolve. So a path has its part of the keys."""
GROUP_IN_PATH = (
    "The consumer group's name: letters, digits, '.', '_' and '-', and each byte of other characters, or of a '.' at its beginning, "
    "as '!' and two hexadecimal digits"
)


def page_url(lake: str, page: str, values: Mapping[str, object], *, below: str = "") -> str:
    """Values outside of the path are the query, without None and empty texts. ``below`` is ``/api`` for JSON, and ``/live`` for live values."""
    found = BY_NAME.get(page)
    if found is None:
        raise InternalError("a link names no page; please report it", operation="url", object=page)
    below = "/files" if isinstance(found, Download) else below
    left = {name: value for name, value in values.items() if name not in found.names and value is not None and value != ""}
    path = _NAME.sub(lambda match: quote(_in_path(match[1], str(values[match[1]])), safe=""), found.path)
    return f"{below}/l/{quote(lake, safe='')}{path}{_query(left)}"


def _in_path(name: str, value: str) -> str:
    return group_folder(value) if name == GROUP else value


def path_values(found: Mapping[str, str]) -> dict[str, str]:
    """The values in a path, decoded. Raises `InvalidArgument`."""
    try:
        return {name: group_name(value) if name == GROUP else value for name, value in found.items()}
    except ForeignObject as error:
        raise InvalidArgument("no consumer group's name in a path", object=error.object, expected=GROUP_IN_PATH) from error


def action_url(lake: str, action: str, values: Mapping[str, object], *, below: str = "", form: bool = False) -> str:
    """The preview of an action; with ``form`` the page to fill in."""
    given = {name: value for name, value in values.items() if value is not None}
    return f"{below}/l/{quote(lake, safe='')}/actions/{quote(action, safe='')}{'/form' if form else ''}{_query(given)}"


def static_url(name: str) -> str:
    return f"/static/{name}"


def _query(values: Mapping[str, object]) -> str:
    return f"?{urlencode({name: str(value) for name, value in values.items()}, quote_via=quote)}" if values else ""
