"""What principals and roles of gateways' clients may do: granted and revoked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ....coordinator.access.grants import Grant, Verb
from ....coordinator.access.record import BY_CHARS_MAX, AccessRecord
from ....log.errors import InvalidArgument
from ...operating.grants import ROLE
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionForm, ActionPreview, ActionResult, AffectedRows, FormField, FormFieldKind
from .fields import lines, names

Order = Literal["grant", "revoke"]
_ABOUT = {
    Verb.SEND: "Topics to send to, also in transactions, and to recall from.",
    Verb.RECEIVE: "Topics to receive from, in a group that it may join.",
    Verb.JOIN: "Consumer groups to work in.",
    Verb.MANAGE: "Topics that it may make, delete and change, by Kafka's clients.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RightsChange:
    """Grants or roles of a principal, or grants of a role."""

    who: str
    """A principal, or ``role:NAME``."""
    send: str | None = None
    """Topics, one a line: a name, the beginning of names and ``*``, or ``*``."""
    receive: str | None = None
    join: str | None = None
    """Groups in the same forms."""
    manage: str | None = None
    roles: str | None = None
    """Names with commas between them."""

    @property
    def grants(self) -> frozenset[Grant]:
        """Raises `InvalidArgument`."""
        return frozenset(Grant(verb, one.strip()) for verb in Verb for one in lines(getattr(self, verb.value)))

    @property
    def of_roles(self) -> frozenset[str]:
        return frozenset(names(self.roles))


def _has(record: AccessRecord, who: str) -> tuple[str, frozenset[Grant], frozenset[str]]:
    """The id of a principal, and what is granted. Raises `PrincipalNotFound`."""
    if who.startswith(ROLE):
        return "", record.roles.get(who.removeprefix(ROLE), frozenset()), frozenset()
    found = record.principal(who)
    return found.id, found.grants, found.roles


def _texts(grants: frozenset[Grant], roles: frozenset[str]) -> list[str]:
    return [*(f"{one.verb} {one.verb.noun} {one.pattern}" for one in sorted(grants)), *(f"role {one}" for one in sorted(roles))]


def rights_preview(order: Order) -> Callable[[PageContext, RightsChange], Awaitable[ActionPreview]]:
    async def preview(context: PageContext, meant: RightsChange) -> ActionPreview:
        grants, roles = meant.grants, meant.of_roles
        if not grants and not roles:
            raise InvalidArgument("nothing is named", operation=order, object=meant.who, expected="a topic, a group or a role")
        record = await context.using(lambda lake: lake.coordination.access.read())
        if order == "revoke":
            record.check_granted(meant.who, grants, roles)
            after = record.without_granted(meant.who, grants, roles)
        else:
            after = record.with_granted(meant.who, grants, roles)
        before = _has(record, meant.who)
        then = _has(after, meant.who)[1:]
        had, has = set(_texts(*before[1:])), set(_texts(*then))
        rows = tuple((one, "may now" if one in has else "may not any more") for one in sorted(had ^ has))
        role = meant.who.removeprefix(ROLE) if meant.who.startswith(ROLE) else None
        shared = 1 if role is None else sum(role in one.roles for one in record.principals.values())
        return ActionPreview(
            summary=f"{meant.who}: {len(rows)} rights {'come' if order == 'grant' else 'go'}, for {shared} principals."
            if rows
            else f"{meant.who} has these already.",
            stamp=repr((before[0], sorted(before[1]), sorted(before[2]))),
            counts=(ActionCount(name="rights", value=len(rows)), ActionCount(name="principals", value=shared)),
            samples=(AffectedRows(title="What changes", columns=("right", "then"), rows=rows),) if rows else (),
            is_nothing=not rows,
            type_name=meant.who,
        )

    return preview


def rights_action(order: Order) -> Callable[[PageContext, RightsChange, ActionPreview], Awaitable[ActionResult]]:
    async def do(context: PageContext, meant: RightsChange, _: ActionPreview) -> ActionResult:
        by = "".join(char if char.isprintable() else "·" for char in f"console: {context.who}")[:BY_CHARS_MAX]

        grants, roles = meant.grants, meant.of_roles
        if order == "grant":
            await context.using(lambda lake: lake.coordination.access.acting(by).grant(meant.who, grants, roles))
        else:
            await context.using(lambda lake: lake.coordination.access.acting(by).revoke(meant.who, grants, roles))
        done = "Granted to" if order == "grant" else "Revoked from"
        return ActionResult(
            summary=f"{done} {meant.who}: {', '.join(_texts(grants, roles))}. Gateways heed it within seconds.",
            counts=(ActionCount(name="rights", value=len(grants) + len(roles)),),
        )

    return do


def rights_form(order: Order) -> Callable[[PageContext, Mapping[str, str]], Awaitable[ActionForm]]:
    async def form(context: PageContext, given: Mapping[str, str]) -> ActionForm:
        who = given.get("who", "")
        record = await context.using(lambda lake: lake.coordination.access.read())
        has: list[str] = []
        if who in record.principals or who.startswith(ROLE):
            has = _texts(*_has(record, who)[1:])
        return ActionForm(
            about=f"It has: {', '.join(has)}." if has else "It has nothing yet. A role, role:NAME, is made by its first grant.",
            fields=(
                FormField(
                    name="who",
                    label="Principal, or role:NAME",
                    kind=FormFieldKind.FIXED if has else FormFieldKind.LINE,
                    value=who,
                    is_required=True,
                ),
                *(
                    FormField(
                        name=verb.value,
                        label=verb.value.capitalize(),
                        kind=FormFieldKind.TEXT,
                        about=f"{_ABOUT[verb]} One a line: a name, its beginning and *, or *.",
                    )
                    for verb in Verb
                ),
                FormField(name="roles", label="Roles", about="For principals; with commas between them."),
            ),
        )

    return form


def rights_words(order: Order, meant: RightsChange) -> list[str]:
    found = ["access", order, meant.who]
    for verb in Verb:
        for one in lines(getattr(meant, verb.value)):
            found += [f"--{verb.value}", one.strip()]
    for role in names(meant.roles):
        found += ["--role", role]
    return found


def _action(order: Order, *, title: str, about: str) -> Action[RightsChange]:
    return Action(
        name=order,
        title=title,
        about=about,
        arguments=RightsChange,
        preview=rights_preview(order),
        do=rights_action(order),
        command=lambda meant: rights_words(order, meant),
        back=lambda _: Breadcrumb("Rights of clients", "access"),
        form=rights_form(order),
        is_for_tools=False,
    )


GRANT = _action("grant", title="Grant rights", about="Grants rights at gateways to a principal or to a role.")
REVOKE = _action("revoke", title="Revoke rights", about="Revokes rights at gateways from a principal or from a role.")
