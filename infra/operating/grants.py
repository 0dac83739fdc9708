"""The rights of a gateway's clients, as rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...coordinator.access.record import AccessRecord

ROLE = "role:"
"""The beginning of a role among those who are granted something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRow:
    """What somebody may do."""

    who: str
    """A principal, or ``role:NAME``."""
    verb: str
    noun: str
    pattern: str
    role: str | None
    """The role that gives it."""


def grant_rows(record: AccessRecord) -> list[GrantRow]:
    """All that principals and roles may do, the principals first."""
    given = [(name, grant, None) for name, one in record.principals.items() for grant in one.grants]
    by_roles = [
        (name, grant, role) for name, one in record.principals.items() for role in one.roles for grant in record.roles.get(role, ())
    ]
    of_roles = [(ROLE + role, grant, None) for role, grants in record.roles.items() for grant in grants]
    rows = [
        *sorted([*given, *by_roles], key=lambda row: (row[0], row[2] or "", row[1])),
        *sorted(of_roles, key=lambda row: (row[0], row[1])),
    ]
    return [
        GrantRow(who=who, verb=str(grant.verb), noun=grant.verb.noun, pattern=grant.pattern, role=role) for who, grant, role in rows
    ]
