"""Names of columns that only travel from tasks to a MERGE, and names as SQL takes them."""

from __future__ import annotations

NUMBER, KIND, TOLD = "__number", "__kind", "__told"


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return "`" + name.replace("`", "``") + "`"
