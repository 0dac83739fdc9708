"""Principals of gateways' clients, what they may do, and who changed that. No secrets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ....coordinator.access.record import AccessRecord
from ...operating.grants import ROLE, GrantRow, grant_rows
from ...operating.times import time_of
from ..faults import PagePart
from .page import FILTER, NUMBER, PageContext, PageDefinition, PageRequest, Pagination

CHANGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderRow:
    """A principal or a role."""

    who: str
    """The name that actions take: ``role:NAME`` for a role."""
    roles: tuple[str, ...]
    grants: tuple[GrantRow, ...]
    """Own grants and those by roles."""
    secret_since: datetime | None
    """None: a role."""
    former_until: datetime | None
    """The end of the former secret, if it is valid still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChangeRow:
    """A change of the rights."""

    at: datetime
    by: str
    what: str
    who: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessList:
    """The holders, and the last changes."""

    span: Pagination
    principals: int
    rows: tuple[HolderRow, ...]
    changes: tuple[AccessChangeRow, ...]
    """The newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPage:
    """The content of the page."""

    found: PagePart[AccessList]


async def gather(context: PageContext, request: PageRequest) -> AccessPage:
    now_ms = round(context.now.timestamp() * 1000)

    async def look() -> AccessList:
        record = await context.using(lambda lake: lake.coordination.access.read())
        return access_list(record, now_ms, wanted=(request.text("filter") or "").lower(), page=request.number("page"))

    return AccessPage(found=await context.part(lambda _: look()))


def access_list(record: AccessRecord, now_ms: int, *, wanted: str = "", page: int = 1) -> AccessList:
    """One page of principals and roles whose names hold this. Pure."""
    by_holder: dict[str, list[GrantRow]] = {}
    for one in grant_rows(record):
        by_holder.setdefault(one.who, []).append(one)
    names = [*sorted(record.principals), *(ROLE + role for role in sorted(record.roles))]
    names = [name for name in names if wanted in name.lower()]
    span = Pagination.of(len(names), page)
    return AccessList(
        span=span,
        principals=len(record.principals),
        rows=tuple(_holder(record, name, tuple(by_holder.get(name, ())), now_ms) for name in names[span.slice]),
        changes=tuple(
            AccessChangeRow(at=time_of(one.at_ms), by=one.by, what=one.what, who=one.who, detail=one.detail)
            for one in reversed(record.history[-CHANGES:])
        ),
    )


def _holder(record: AccessRecord, name: str, grants: tuple[GrantRow, ...], now_ms: int) -> HolderRow:
    found = record.principals.get(name)
    if found is None:
        return HolderRow(who=name, roles=(), grants=grants, secret_since=None, former_until=None)
    ends = [one.until_ms for one in found.secrets[1:] if one.until_ms is not None and one.valid_at(now_ms)]
    return HolderRow(
        who=name,
        roles=tuple(sorted(found.roles)),
        grants=grants,
        secret_since=time_of(found.secrets[0].since_ms),
        former_until=time_of(max(ends)) if ends else None,
    )


PAGE = PageDefinition(
    name="access",
    path="/access",
    title="Rights of clients",
    about="The principals of gateways' clients and their roles, what each may do, and the last changes; no secrets.",
    shows=AccessPage,
    gather=gather,
    command=lambda request: ["access", "list"],
    parameters=(FILTER, NUMBER),
    menu="Rights",
    answer=lambda shown: shown.found,
)
