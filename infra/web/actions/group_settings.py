"""Consumer groups made and altered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import click

from ....aio import Lake
from ....coordinator import ATTEMPTS_DEFAULT, DeadLetterPolicy, DeliveryOrder, GroupSettings, RetrySchedule
from ....coordinator.groups.record import GroupProtocol, GroupRecord, check_protocol
from ....log.paths import check_group_name
from ...operating.group_changes import group_changes
from ...operating.groups import GroupConfiguration
from ...terminal.values import AttemptsParam, DurationParam, TopicFilterParam
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionForm, ActionPreview, ActionResult, AffectedRows, FormField, FormFieldKind
from .fields import choice, lines, value_of

_CREATE, _ALTER = "create_group", "alter_group"
_KINDS: dict[str, click.ParamType[Any]] = {
    "retry": click.Choice([one.value for one in RetrySchedule]),
    "retry_interval": DurationParam(),
    "retry_interval_max": DurationParam(),
    "retry_jitter": click.FloatRange(0, 1),
    "max_attempts": AttemptsParam(),
    "dead_letter_policy": click.Choice([one.value for one in DeadLetterPolicy]),
}
_TEXTS = {
    "delivery order": "delivery_order",
    "retry": "retry_text",
    "attempts": "attempts_text",
    "dead letters": "dead_letter_policy",
    "filters": "filters_text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettingTexts:
    """Changeable settings of a group, as texts in the forms of `penstock group`; None: as it is, or by default."""

    group: str
    retry: str | None = None
    """fixed, exponential or rocketmq."""
    retry_interval: str | None = None
    retry_interval_max: str | None = None
    retry_jitter: str | None = None
    max_attempts: str | None = None
    dead_letter_policy: str | None = None
    filters: str | None = None
    """``TOPIC=TAGS``, one a line."""

    def changes(self, before: GroupSettings, *, operation: str) -> dict[str, Any]:
        """Raises `InvalidArgument`."""
        given = {name: value_of(kind, name, getattr(self, name), operation=operation) for name, kind in _KINDS.items()}
        filters = tuple(value_of(TopicFilterParam(), "filters", one, operation=operation) for one in lines(self.filters))
        return group_changes(before, {**given, "filters": filters})

    @property
    def words(self) -> list[str]:
        found: list[str] = []
        for name in _KINDS:
            if (text := getattr(self, name)) is not None:
                found += [f"--{name.replace('_', '-')}", text]
        for one in lines(self.filters):
            found += ["--filter", one]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCreation(GroupSettingTexts):
    """A group to make."""

    delivery_order: str | None = None
    """ORDERLY or CONCURRENT."""

    @property
    def order(self) -> str:
        return self.delivery_order or DeliveryOrder.ORDERLY.value

    @property
    def stated(self) -> dict[str, Any]:
        """The settings that `Lake.create_group` takes. Raises `InvalidArgument`."""
        changes = self.changes(GroupSettings.of(self.order), operation=_CREATE)  # type: ignore[arg-type] # checked there
        return {"delivery_order": self.order, "max_attempts": ATTEMPTS_DEFAULT, **changes}


async def _record(lake: Lake, group: str) -> GroupRecord | None:
    """None: there is no such group."""
    return (await lake.coordination.groups.read_these([group]))[group]


async def _existing(lake: Lake, group: str) -> GroupRecord:
    found = await lake.coordination.groups.get(group)
    check_protocol(found, GroupProtocol.PENSTOCK, group)
    return found


def _told(settings: GroupSettings) -> dict[str, object]:
    configuration = GroupConfiguration.of(settings)
    return {name: getattr(configuration, field) for name, field in _TEXTS.items()}


async def preview_creation(context: PageContext, meant: GroupCreation) -> ActionPreview:
    check_group_name(meant.group)
    settings = GroupSettings.stating(meant.stated)
    known = await context.using(lambda lake: _record(lake, meant.group))
    if known is not None:
        return ActionPreview(summary=f"There is a group {meant.group} already.", stamp=f"there: {known.lives}", is_nothing=True)
    rows = tuple(_told(settings).items())
    return ActionPreview(
        summary=f"Consumer group {meant.group} is made, {settings.delivery_order.value} for good.",
        stamp="absent",
        counts=(ActionCount(name="groups", value=1),),
        samples=(AffectedRows(title="Its settings", columns=("setting", "value"), rows=rows),),
    )


async def create(context: PageContext, meant: GroupCreation, _: ActionPreview) -> ActionResult:
    made = await context.using(lambda lake: lake.create_group(meant.group, **meant.stated))
    return ActionResult(
        summary=f"Consumer group {meant.group} is made, {made.delivery_order.value}.", counts=(ActionCount(name="groups", value=1),)
    )


async def preview_change(context: PageContext, meant: GroupSettingTexts) -> ActionPreview:
    record = await context.using(lambda lake: _existing(lake, meant.group))
    before = record.settings
    changes = meant.changes(before, operation=_ALTER)
    names = before.__dataclass_fields__
    after = GroupSettings.stating({**{name: getattr(before, name) for name in names}, **changes})
    was, becomes = _told(before), _told(after)
    rows = tuple((name, was[name], becomes[name]) for name in was if was[name] != becomes[name])
    return ActionPreview(
        summary=f"Consumer group {meant.group} changes; its members see it within seconds."
        if rows
        else f"Nothing of group {meant.group} would change.",
        stamp=repr((record.lives, before)),
        counts=(ActionCount(name="settings", value=len(rows)),),
        samples=(AffectedRows(title="What changes", columns=("setting", "now", "then"), rows=rows),) if rows else (),
        is_nothing=not rows,
        meant=changes,
    )


async def change(context: PageContext, meant: GroupSettingTexts, preview: ActionPreview) -> ActionResult:
    changes = cast("dict[str, Any]", preview.meant)
    await context.using(lambda lake: lake.alter_group(meant.group, **changes))
    return ActionResult(
        summary=f"Consumer group {meant.group} is changed: {', '.join(changes)}.",
        counts=(ActionCount(name="settings", value=len(changes)),),
    )


def _fields(present: Mapping[str, object], empty: str) -> tuple[FormField, ...]:
    return (
        choice(
            "retry", "Retry", tuple(RetrySchedule), empty=empty, about=f"Now {present['retry']}. rocketmq: 10s to 2h, by its table."
        ),
        FormField(name="retry_interval", label="Retry interval", about="fixed: each wait; exponential: the first. Such as 5s."),
        FormField(name="retry_interval_max", label="Longest retry interval", about="exponential: the longest wait."),
        FormField(name="retry_jitter", label="Retry jitter", about="The part of a wait that is left to chance, 0 to 1."),
        FormField(
            name="max_attempts",
            label="Attempts",
            placeholder=str(present["attempts"]),
            about="Failed attempts until a message is given up: a number, or unlimited.",
        ),
        choice(
            "dead_letter_policy",
            "Then",
            tuple(DeadLetterPolicy),
            empty=empty,
            about="continue: the message becomes a dead letter; park: its message group stands still. park is for ORDERLY groups.",
        ),
        FormField(
            name="filters",
            label="Filters",
            kind=FormFieldKind.TEXT,
            about="TOPIC=TAGS or TOPIC=SQL92: condition, one a line; 'orders=*' removes that of orders.",
        ),
    )


async def form_of_creation(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    name = FormField(name="group", label="Name", is_required=True)
    order = choice(
        "delivery_order",
        "Order",
        tuple(DeliveryOrder),
        about="ORDERLY: a message group's messages one after the other; CONCURRENT: all side by side. It is for good.",
    )
    by_default = _told(GroupSettings())
    return ActionForm(
        about="A consumer makes its group by itself, too. Empty fields mean the default.",
        fields=(name, order, *_fields(by_default, "by default")),
    )


async def form_of_change(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    group = given.get("group", "")
    record = await context.using(lambda lake: _existing(lake, group))
    told = _told(record.settings)
    return ActionForm(
        about=f"Empty fields stay as they are. Filters now: {told['filters']}.",
        fields=(
            FormField(name="group", label="Consumer group", kind=FormFieldKind.FIXED, value=group),
            *_fields(told, "as it is"),
        ),
    )


CREATE_GROUP = Action(
    name=_CREATE,
    title="Create a consumer group",
    about="Creates a consumer group.",
    arguments=GroupCreation,
    preview=preview_creation,
    do=create,
    command=lambda meant: ["group", "create", meant.group, "--order", meant.order, *meant.words],
    back=lambda _: Breadcrumb("Consumer groups", "groups"),
    form=form_of_creation,
)
ALTER_GROUP = Action(
    name=_ALTER,
    title="Alter the consumer group",
    about="Changes settings of a consumer group; its members see it within seconds.",
    arguments=GroupSettingTexts,
    preview=preview_change,
    do=change,
    command=lambda meant: ["group", "alter", meant.group, *meant.words],
    back=lambda meant: Breadcrumb(f"Consumer group {meant.group}", "group", {"group": meant.group}),
    form=form_of_change,
)
