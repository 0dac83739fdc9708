"""Release and skip of parked message groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from ....aio import Lake
from ....coordinator import ParkedGroup
from ....coordinator.operators.operators import Operators
from ....log.errors import InvalidArgument
from ..views.page import Crumb, Scene
from .action import Action, Count, Done, Preview, Sample

SAMPLE = 20
_COLUMNS = ("topic", "queue", "offset", "message group", "deliveries", "stored", "message id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenGroups:
    """Parked message groups of a consumer group: all, or those of a topic, a queue or a name."""

    group: str
    topic: str | None = None
    queue: int | None = None
    message_group: str | None = None


async def _parked(scene: Scene, chosen: ChosenGroups) -> list[ParkedGroup]:
    which = {"topic": chosen.topic, "queue": chosen.queue, "message_group": chosen.message_group}
    return await scene.using(lambda lake: lake.parked(chosen.group, **which))  # type: ignore[arg-type] # by name


def _preview_of(found: Sequence[ParkedGroup], sentence: str, *, type_name: str | None) -> Preview:
    rows = tuple(
        (one.topic, one.queue, one.offset, one.message_group, one.attempts, one.stored, one.message_id) for one in found[:SAMPLE]
    )
    title = "The message that each stands at" if len(found) <= SAMPLE else f"The first {SAMPLE} of {len(found):,}"
    stood = sorted((one.topic, one.queue, one.offset) for one in found)
    return Preview(
        summary=sentence if found else "Nothing of these is parked any more.",
        stamp=repr(stood),
        counts=(Count(name="message groups", value=len(found)),),
        samples=(Sample(title=title, columns=_COLUMNS, rows=rows),) if found else (),
        is_nothing=not found,
        type_name=type_name,
        meant=frozenset(stood),
    )


async def preview_release(scene: Scene, chosen: ChosenGroups) -> Preview:
    found = await _parked(scene, chosen)
    sentence = f"{_groups(found)} of {chosen.group} will be tried again, with no failure counted against them."
    return _preview_of(found, sentence, type_name=None)


async def preview_skip(scene: Scene, chosen: ChosenGroups) -> Preview:
    found = await _parked(scene, chosen)
    sentence = f"{_groups(found)} of {chosen.group} will go on behind the message that stopped each, which becomes a dead letter."
    return _preview_of(found, sentence, type_name=chosen.group)


async def release(scene: Scene, chosen: ChosenGroups, preview: Preview) -> Done:
    return await _order(scene, chosen, preview, "release")


async def skip(scene: Scene, chosen: ChosenGroups, preview: Preview) -> Done:
    return await _order(scene, chosen, preview, "skip")


async def _order(scene: Scene, chosen: ChosenGroups, preview: Preview, order: Literal["release", "skip"]) -> Done:
    meant = cast("frozenset[tuple[str, int, int]]", preview.meant)

    async def ordered(lake: Lake) -> list[ParkedGroup]:
        command = getattr(Operators(lake, lake.coordination), order)
        found: list[ParkedGroup] = await command(
            chosen.group, topic=chosen.topic, queue=chosen.queue, message_group=chosen.message_group, only=meant
        )
        return found

    found = await scene.using(ordered)
    if not found:
        raise InvalidArgument(
            "nothing of these is parked any more",
            operation=order,
            object=chosen.group,
            hint="somebody else released or skipped them; reload the group's page",
        )
    done = "released" if order == "release" else "skipped"
    return Done(
        summary=f"{_groups(found)} {done}; the owners of the queues carry it out within seconds.",
        counts=(Count(name="message groups", value=len(found)),),
    )


def _groups(found: Sequence[ParkedGroup]) -> str:
    return "1 message group" if len(found) == 1 else f"{len(found):,} message groups"


def _words(order: str, chosen: ChosenGroups) -> list[str]:
    words = ["group", order, chosen.group]
    if all(value is None for value in (chosen.topic, chosen.queue, chosen.message_group)):
        return [*words, "--all"]
    for name, value in (("topic", chosen.topic), ("queue", chosen.queue), ("message-group", chosen.message_group)):
        words += [] if value is None else [f"--{name}", str(value)]
    return words


def _back(chosen: ChosenGroups) -> Crumb:
    return Crumb(f"Consumer group {chosen.group}", "group", {"group": chosen.group})


RELEASE = Action(
    name="release",
    title="Release parked message groups",
    about="Tries the messages that parked message groups stand at again, with no failure counted against them.",
    arguments=ChosenGroups,
    preview=preview_release,
    do=release,
    command=lambda chosen: _words("release", chosen),
    back=_back,
)

SKIP = Action(
    name="skip",
    title="Skip parked messages",
    about="Gives up the messages that parked message groups stand at: each becomes a dead letter, and its message group goes on.",
    arguments=ChosenGroups,
    preview=preview_skip,
    do=skip,
    command=lambda chosen: _words("skip", chosen),
    back=_back,
)
