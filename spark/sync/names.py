"""Names of columns that only travel from tasks to a MERGE, and names as SQL takes them."""

from __future__ import annotations

NUMBER, KIND, TOLD, LAST, AGAIN, END = "__number", "__kind", "__told", "__last", "__again", "__end"


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"
