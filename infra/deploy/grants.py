"""The rights of `access` in PostgreSQL. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ...coordinator.tables.open import table_place
from ...coordinator.tables.postgres.place import InPostgres
from ...coordinator.tables.postgres.statements import CellStatements
from ...log.errors import InvalidArgument
from .access import ProcessRole, cell_access

_EXPECTED = "postgresql://user@host/database?table=…"


def grants(roles: Sequence[ProcessRole], coordination: str | None) -> list[str]:
    """The statements that make the table of cells and let the URL's user be all these roles, for the table's owner to run.

    PostgreSQL grants by table, not by key: a role that writes cells may write all of them. Raises `InvalidArgument` for another table, and for a URL
    without a user.
    """
    place = table_place(coordination, "")
    if not isinstance(place, InPostgres):
        raise InvalidArgument(
            "only a table in PostgreSQL has GRANTs", operation="grants", object=coordination or "store", expected=_EXPECTED
        )
    if place.user is None:
        raise InvalidArgument("the URL names no user to grant to", operation="grants", object=place.url, expected=_EXPECTED)
    rights: dict[str, None] = {}
    for role in roles:
        access = cell_access(role)
        if access.get or access.list or access.put or access.delete:
            rights["SELECT"] = None  # who writes compares versions
        if access.put:
            rights |= {"INSERT": None, "UPDATE": None}
        if access.delete:
            rights["DELETE"] = None
    if not rights:
        return []
    user = '"' + place.user.replace('"', '""') + '"'
    return [
        *CellStatements(place).by_hand,
        f'GRANT USAGE ON SCHEMA "{place.schema}" TO {user};',
        f"GRANT {', '.join(rights)} ON {place.quoted} TO {user};",
    ]
