"""Targets' names by the user's template."""

from __future__ import annotations

import string

from ...log.errors import InvalidArgument
from ..events.sources import TableId, named
from ..target import TargetRefused, folder_name

_PARTS = ("server", "database", "schema", "table")


def check_template(template: str) -> str:
    """The template. Raises `InvalidArgument` for unknown parts of a table's name."""
    try:
        fields = [(name, more or form) for _, name, form, more in string.Formatter().parse(template) if name is not None]
    except (ValueError, TypeError, AttributeError) as error:
        raise _bad(template) from error
    if not template or any(name not in _PARTS or rest for name, rest in fields):
        raise _bad(template)
    return template


def _bad(template: object) -> InvalidArgument:
    expected = f"text in which {', '.join(f'{{{part}}}' for part in _PARTS)} stand for the parts of the table's name"
    return InvalidArgument("this is no name of a target", operation="sync", expected=expected, observed=repr(template))


def target_folder_of(template: str, source: TableId) -> str:
    """The folder of a table's target. Raises `TargetRefused` where the table lacks a part."""
    parts = {"server": source.server, "database": source.database, "schema": source.schema, "table": source.table}
    empty = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None and not parts[name]]
    if empty:
        raise TargetRefused(
            f"the target's name has the table's {empty[0]}, and its events do not say it",
            operation="sync",
            object=named(source),
            observed=template,
        )
    return folder_name(template.format(**parts))
