"""Release and skip of parked message groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ....aio import Lake
from ....coordinator import ParkedGroup
from ....coordinator.operators.operators import Operators
from ....log.errors import InvalidArgument
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionPreview, ActionResult, AffectedRows

SAMPLE = 20
_COLUMNS = ("topic", "queue", "offset", "message group", "deliveries", "why", "stored", "message id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedGroupSelection:
    """Parked message groups: all, or those of a topic, a queue or a name."""

    group: str
    topic: str | None = None
    queue: int | None = None
    message_group: str | None = None


async def _parked(context: PageContext, chosen: ParkedGroupSelection) -> list[ParkedGroup]:
    which = {"topic": chosen.topic, "queue": chosen.queue, "message_group": chosen.message_group}
    return await context.using(lambda lake: lake.parked(chosen.group, **which))  # type: ignore[arg-type] # by name


def _preview_of(found: Sequence[ParkedGroup], sentence: str, *, type_name: str | None) -> ActionPreview:
    rows = tuple(
        (
            one.topic,
            one.queue,
            one.offset,
            one.message_group,
            one.attempts,
            None if one.failure is None else one.failure.text,
            one.stored,
            one.message_id,
        )
        for one in found[:SAMPLE]
    )
    title = "The message that each stands at" if len(found) <= SAMPLE else f"The first {SAMPLE} of {len(found):,}"
    stood = sorted((one.topic, one.queue, one.offset) for one in found)
    return ActionPreview(
        summary=sentence if found else "Nothing of these is parked any more.",
        stamp=repr(stood),
        counts=(ActionCount(name="message groups", value=len(found)),),
        samples=(AffectedRows(title=title, columns=_COLUMNS, rows=rows),) if found else (),
        is_nothing=not found,
        type_name=type_name,
        meant=frozenset(stood),
    )


def _groups(found: Sequence[ParkedGroup]) -> str:
    return "1 message group" if len(found) == 1 else f"{len(found):,} message groups"


def _words(order: str, chosen: ParkedGroupSelection) -> list[str]:
    words = ["group", order, chosen.group]
    if all(value is None for value in (chosen.topic, chosen.queue, chosen.message_group)):
        return [*words, "--all"]
    for name, value in (("topic", chosen.topic), ("queue", chosen.queue), ("message-group", chosen.message_group)):
        words += [] if value is None else [f"--{name}", str(value)]
    return words


def parked_groups_action(
    order: Literal["release", "skip"], *, title: str, about: str, will: str, done: str, gives_up: bool
) -> Action[ParkedGroupSelection]:
    """An action on parked message groups. One that gives messages up requires the typed name of the consumer group."""

    async def preview(context: PageContext, chosen: ParkedGroupSelection) -> ActionPreview:
        found = await _parked(context, chosen)
        sentence = f"{_groups(found)} of {chosen.group} will {will}"
        return _preview_of(found, sentence, type_name=chosen.group if gives_up else None)

    async def do(context: PageContext, chosen: ParkedGroupSelection, preview: ActionPreview) -> ActionResult:
        meant = cast("frozenset[tuple[str, int, int]]", preview.meant)

        async def ordered(lake: Lake) -> list[ParkedGroup]:
            operators = Operators(lake, lake.coordination)
            give = operators.release if order == "release" else operators.skip
            return await give(chosen.group, topic=chosen.topic, queue=chosen.queue, message_group=chosen.message_group, only=meant)

        found = await context.using(ordered)
        if not found:
            raise InvalidArgument(
                "nothing of these is parked any more",
                operation=order,
                object=chosen.group,
                hint="somebody else released or skipped them; reload the group's page",
            )
        return ActionResult(
            summary=f"{_groups(found)} {done}; the owners of the queues carry it out within seconds.",
            counts=(ActionCount(name="message groups", value=len(found)),),
        )

    return Action(
        name=order,
        title=title,
        about=about,
        arguments=ParkedGroupSelection,
        preview=preview,
        do=do,
        command=lambda chosen: _words(order, chosen),
        back=lambda chosen: Breadcrumb(f"Consumer group {chosen.group}", "group", {"group": chosen.group}),
    )


RELEASE = parked_groups_action(
    "release",
    title="Release parked message groups",
    about="Tries the messages that parked message groups stand at again, with no failure counted against them.",
    will="be tried again, with no failure counted against them.",
    done="released",
    gives_up=False,
)
SKIP = parked_groups_action(
    "skip",
    title="Skip parked messages",
    about="Gives up the messages that parked message groups stand at: each becomes a dead letter, and its message group goes on.",
    will="go on behind the message that stopped each, which becomes a dead letter.",
    done="skipped",
    gives_up=True,
)
