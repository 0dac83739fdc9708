"""The pages of a lake, in the order of the menu. A new page is a module of this room and a line here."""

from __future__ import annotations

from typing import Any

from . import group, groups, overview, topic, topics
from .page import Page

PAGES: tuple[Page[Any], ...] = (
    overview.PAGE,
    topics.PAGE,
    topic.PAGE,
    groups.PAGE,
    group.PAGE,
)

BY_NAME = {page.name: page for page in PAGES}
