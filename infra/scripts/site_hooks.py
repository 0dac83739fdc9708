"""MkDocs' hooks: the site nests lists as the repository's own view of a page does."""

from __future__ import annotations

from typing import Any

from markdown import Extension, Markdown
from markdown.blockprocessors import ListIndentProcessor, OListProcessor, UListProcessor

NESTED_BY = 2
"""The spaces by which a nested list is indented; Python-Markdown takes four."""


class NestedLists(Extension):
    """Lists nested by two spaces."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Python-Markdown's name
        """Remake the readers of lists: four spaces before code stay four."""
        md.tab_length, width = NESTED_BY, md.tab_length
        processors = md.parser.blockprocessors
        for name, reader, priority in (
            ("indent", ListIndentProcessor, 90),
            ("olist", OListProcessor, 40),
            ("ulist", UListProcessor, 30),
        ):
            processors.register(reader(md.parser), name, priority)
        md.tab_length = width


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs' configuration, which is untyped
    """Add the extension."""
    config.markdown_extensions.append(NestedLists())
    return config
