"""The pages of a lake, in the order of the menu. A new page is a module of this room and a line here."""

from __future__ import annotations

from typing import Any

from . import (
    access,
    audit,
    body,
    changes,
    check,
    dead_letters,
    find,
    gateways,
    group,
    groups,
    letter,
    letters,
    lines,
    message,
    message_group,
    messages,
    overview,
    timers,
    topic,
    topics,
    transactions,
    upkeep,
    workers,
)
from .page import Download, LakeResource, PageDefinition

PAGES: tuple[PageDefinition[Any], ...] = (
    overview.PAGE,
    topics.PAGE,
    topic.PAGE,
    messages.ARRIVALS,
    messages.PAGE,
    message_group.PAGE,
    message.PAGE,
    groups.PAGE,
    group.PAGE,
    dead_letters.PAGE,
    letters.PAGE,
    letter.PAGE,
    transactions.PAGE,
    timers.PAGE,
    workers.PAGE,
    changes.PAGE,
    upkeep.PAGE,
    check.PAGE,
    gateways.PAGE,
    access.PAGE,
    audit.PAGE,
    find.PAGE,
)

DOWNLOADS: tuple[Download, ...] = (body.DOWNLOAD, lines.DOWNLOAD, letters.EXPORT)

BY_NAME: dict[str, LakeResource] = {place.name: place for place in (*PAGES, *DOWNLOADS)}
