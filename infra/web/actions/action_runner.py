"""An action's way: previewed, confirmed, done once, and logged."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass, field, replace
from typing import Any

from ....log.errors import CallError, PenstockError, PermissionDenied, ReadOnlyError, StoreUnavailable, unforeseen
from ...operating.audit import AuditRecord, write
from ..views.page import PageContext, shell_line
from .action import Action, ActionPreview, ActionResult

log = logging.getLogger("penstock.console")

OPERATOR = "operator"
PREVIEW_S = 60.0
"""A redrive's preview may search 100,000 dead letters."""
BROKEN_OFF = "it was broken off while it ran; part of it may be done"


class Changed(CallError):
    """The action's objects have changed since the preview."""

    kind = "changed_since_preview"


class NotConfirmed(CallError):
    """The confirming name of a destructive action is missing."""

    kind = "not_confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The author of an action."""

    name: str
    role: str
    address: str


@dataclass(frozen=True, slots=True)
class ActionRunner:
    """Does actions; with ``read_only`` none."""

    read_only: bool
    actions: dict[str, Action[Any]] = field(default_factory=dict)

    def named(self, name: str) -> Action[Any]:
        """Raises `CallError` for an unknown name."""
        try:
            return self.actions[name]
        except KeyError:
            raise CallError("there is no such action", operation="act", object=name, expected=", ".join(self.actions)) from None

    async def preview(self, action: Action[Any], context: PageContext, arguments: object) -> ActionPreview:
        """Its stamp holds for these arguments and this lake alone. Raises `StoreUnavailable` on a timeout."""
        try:
            async with asyncio.timeout(PREVIEW_S):
                found = await action.preview(context, arguments)
        except TimeoutError:
            raise StoreUnavailable(
                "the preview did not come in time",
                operation=action.name,
                expected=f"within {PREVIEW_S:.0f} s",
                hint=f"try again, or choose less; in a shell nothing is cut off: {shell_line(context.source, action.command(arguments))}",
            ) from None
        about = (context.source.name, action.name, sorted(action.texts(arguments).items()), found.stamp)
        return replace(found, stamp=hashlib.sha256(repr(about).encode()).hexdigest()[:16])

    async def run(
        self, action: Action[Any], context: PageContext, arguments: object, actor: Actor, *, stamp: str, typed: str | None
    ) -> ActionResult:
        """Do an action whose preview had this ``stamp``. Its beginning is in the audit topic before anything is done. Raises `Changed`,
        `NotConfirmed`, `ReadOnlyError`, and errors of the action.
        """
        self.check_allowed(action, actor)
        preview = await self.preview(action, context, arguments)
        check(action, preview, stamp=stamp, typed=typed)
        began = self._record(action, context, arguments, actor, preview)
        await context.using(lambda lake: write(lake, began))
        try:
            done = await action.do(replace(context, who=actor.name), arguments, preview)
        except PenstockError as error:
            await self._log_end(context, began.ended(context.now, str(error), failed=True))
            raise
        except asyncio.CancelledError:
            # Who waits is gone, or has no patience left. What was done by then stands, so the audit topic must not be silent.
            await self._log_end(context, began.ended(context.now, BROKEN_OFF, failed=True))
            raise
        except Exception as error:
            await self._log_end(context, began.ended(context.now, str(unforeseen(error, operation=action.name)), failed=True))
            raise
        finally:
            context.source.changed()
        await self._log_end(context, began.ended(context.now, done.summary, failed=False))
        return done

    def check_allowed(self, action: Action[Any], actor: Actor) -> None:
        """Raise `ReadOnlyError` or `PermissionDenied` unless this actor may do it."""
        if self.read_only:
            raise ReadOnlyError("the console was started with --read-only", operation=action.name)
        check_operator(action.name, actor)

    def _record(
        self, action: Action[Any], context: PageContext, arguments: object, actor: Actor, preview: ActionPreview
    ) -> AuditRecord:
        return AuditRecord(
            id=context.source.runtime.new_id(),
            at=context.now,
            who=actor.name,
            role=actor.role,
            address=actor.address,
            action=action.name,
            arguments=action.logged(arguments),
            state="began",
            outcome=preview.summary,
        )

    async def _log_end(self, context: PageContext, record: AuditRecord) -> None:
        """Write an action's end to the audit topic, or else to the log. The viewer gets the outcome either way."""
        try:
            await context.using(lambda lake: write(lake, record))
        except Exception as error:  # noqa: BLE001 - whatever it is, what was done stands
            log.error("the end of an action is not in the audit topic (%s): %s", error, record)  # noqa: TRY400 - no traceback needed


def check_operator(what: str, actor: Actor) -> None:
    """Raise `PermissionDenied` for a viewer, for costly or changing work."""
    if actor.role != OPERATOR:
        raise PermissionDenied(
            "only operators may do that", operation=what, object=actor.name, expected=OPERATOR, observed=actor.role
        )


def check(action: Action[Any], preview: ActionPreview, *, stamp: str, typed: str | None) -> None:
    """Raise unless the preview is the confirmed one."""
    if preview.stamp != stamp or preview.is_nothing:
        raise Changed(
            "what this touches has changed since it was shown",
            operation=action.name,
            observed=preview.summary,
            hint="look at the preview again; another operator may have acted, or consumers went on",
        )
    if preview.type_name is not None and typed != preview.type_name:
        raise NotConfirmed(
            "the name that confirms this was not typed",
            operation=action.name,
            expected=preview.type_name,
            observed=typed or "nothing",
        )
