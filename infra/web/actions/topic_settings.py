"""Topics made and altered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ....aio import Lake
from ....log import MessageType, Routing, TopicLimits, TopicSettings
from ....log.errors import InvalidArgument
from ....log.paths import AUDIT_TOPIC, DLQ_PREFIX, TopicPaths, check_topic_name
from ....log.schema.topic_schema import schema_of_source
from ....log.topic.growth import check_queues
from ....log.topic.records import not_found, read_record
from ....log.topic.settings import QUEUES_DEFAULT, RETENTION_DEFAULT, TopicRecord
from ....log.topic.timer_log import check_own
from ...operating.topics import TOPIC_SETTINGS, TopicLimitValues, change_lines, keeps_less, setting_value_text, topic_changes
from ..views.page import Breadcrumb, PageContext
from .action import Action, ActionCount, ActionForm, ActionPreview, ActionResult, AffectedRows, FormField, FormFieldKind
from .fields import YES_NO, choice, flag_of, names, settings_fields, value_of

_CREATE, _ALTER = "create_topic", "alter_topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettingTexts:
    """Changeable settings of a topic, as texts in the forms of `penstock topic`; None: as it is, or by default."""

    topic: str
    queues: int | None = None
    retention: str | None = None
    retention_bytes: str | None = None
    max_body_bytes: str | None = None
    max_properties_bytes: str | None = None
    max_properties: str | None = None
    max_headers_bytes: str | None = None
    max_headers: str | None = None
    max_message_group_bytes: str | None = None
    max_delay: str | None = None
    iceberg: str | None = None
    """``yes`` or ``no``."""

    def changes(self, limits: TopicLimits, *, operation: str) -> dict[str, Any]:
        """Raises `InvalidArgument`."""
        given = {name: value_of(kind, name, getattr(self, name), operation=operation) for name, (kind, _) in TOPIC_SETTINGS.items()}
        return topic_changes(limits, {**given, "iceberg": flag_of("iceberg", self.iceberg, operation=operation)})

    @property
    def words(self) -> list[str]:
        found = [] if self.queues is None else ["--queues", str(self.queues)]
        for name in TOPIC_SETTINGS:
            if (text := getattr(self, name)) is not None:
                found += [f"--{name.replace('_', '-')}", text]
        return found + ([] if self.iceberg is None else ["--iceberg" if self.iceberg == "yes" else "--no-iceberg"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation(TopicSettingTexts):
    """A topic to make."""

    message_type: str | None = None
    routing: str | None = None
    schema: str | None = None
    """Spark's SQL; no file is read."""
    message_group: str | None = None
    """A field of the schema."""
    tag: str | None = None
    keys: str | None = None
    """Fields, with commas between them."""
    bloom: str | None = None

    @property
    def settings(self) -> TopicSettings:
        """Raises `InvalidArgument`."""
        by_default = 1 if self.topic.startswith(DLQ_PREFIX) else QUEUES_DEFAULT
        return TopicSettings(
            message_type=self.message_type or MessageType.NORMAL,  # type: ignore[arg-type] # checked there
            queues=by_default if self.queues is None else self.queues,
            routing=self.routing or Routing.XXHASH64,  # type: ignore[arg-type] # checked there
            schema=None if self.schema is None else schema_of_source(self.schema),
            message_group=self.message_group,
            tag=self.tag,
            keys=names(self.keys),
            bloom=names(self.bloom),
            **self.changes(TopicLimits(), operation=_CREATE),
        )


async def _record(lake: Lake, name: str) -> TopicRecord | None:
    """The stored record; None: there is no such topic."""
    found = await read_record(lake.store, TopicPaths.of(name))
    return None if found is None or found[0].deleted else found[0]


def _check_name(name: str, operation: str) -> None:
    check_topic_name(name)
    check_own(name, operation=operation)
    if name == AUDIT_TOPIC and operation == _CREATE:
        raise InvalidArgument("the first action makes the audit topic", operation=operation, object=name)


async def preview_creation(context: PageContext, meant: TopicCreation) -> ActionPreview:
    _check_name(meant.topic, _CREATE)
    settings = meant.settings
    record = await context.using(lambda lake: _record(lake, meant.topic))
    if record is not None:
        return ActionPreview(
            summary=f"There is a topic {meant.topic} already.", stamp=f"there: {record.incarnation}", is_nothing=True
        )
    rows = tuple((name, setting_value_text(value)) for name, value in _told(settings).items())
    return ActionPreview(
        summary=f"Topic {meant.topic} is made: {settings.message_type}, {settings.queues} queues. "
        "Its type, its routing and the fields of its labels are for good.",
        stamp="absent",
        counts=(ActionCount(name="queues", value=settings.queues),),
        samples=(AffectedRows(title="Its settings", columns=("setting", "value"), rows=rows),),
        meant=settings,
    )


def _told(settings: TopicSettings) -> dict[str, object]:
    return {
        "type": str(settings.message_type),
        "queues": settings.queues,
        "routing": str(settings.routing),
        "retention": "for ever" if settings.retention is None else settings.retention,
        "retention bytes": settings.retention_bytes,
        "iceberg": "yes" if settings.iceberg else "no",
        "schema": "none" if settings.schema is None else settings.schema.ddl,
        "labels by fields": ", ".join(settings.label_paths) or "none",
        "bloom filters": ", ".join(settings.bloom) or "none",
        "limits": settings.limits,
    }


async def create(context: PageContext, meant: TopicCreation, preview: ActionPreview) -> ActionResult:
    settings = cast("TopicSettings", preview.meant)
    record = await context.using(lambda lake: lake.create_topic(meant.topic, settings))
    return ActionResult(
        summary=f"Topic {meant.topic} is made, of type {record.settings.message_type}.",
        counts=(ActionCount(name="queues", value=record.settings.queues),),
    )


def _present(limits: TopicLimits, kept: Mapping[str, str]) -> dict[str, str]:
    """The texts of all changeable settings."""
    stated = TopicLimitValues.of(limits)
    return {name: kept.get(name) or setting_value_text(getattr(stated, name)) for name in TOPIC_SETTINGS}


async def form_of_creation(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    limits = TopicLimits()
    by_default = _present(limits, {"retention": setting_value_text(RETENTION_DEFAULT), "retention_bytes": "any"})
    return ActionForm(
        about="Empty fields mean what stands in them.",
        fields=(
            FormField(name="topic", label="Name", is_required=True, about="Letters, digits, '.', '_' and '-'; 249 at most."),
            choice(
                "message_type",
                "Type",
                tuple(MessageType),
                about="FIFO messages have a message group, DELAY ones a delivery time. It is for good.",
            ),
            FormField(name="queues", label="Queues", placeholder=str(QUEUES_DEFAULT), about="1 gives a global order."),
            choice("routing", "Routing", tuple(Routing), about="How message groups find their queues. It is for good."),
            FormField(
                name="schema",
                label="Schema",
                kind=FormFieldKind.TEXT,
                about="Spark's SQL, such as: id bigint not null, at timestamp. Without one, bodies are any bytes.",
            ),
            *(
                FormField(name=name, label=label, about=f"{what}, of a topic with a schema.")
                for name, label, what in (
                    ("message_group", "Message group by", "The field whose text is a row's message group"),
                    ("tag", "Tag by", "The field whose text is a row's tag"),
                    ("keys", "Keys by", "The fields whose texts are a row's keys, with commas between them"),
                    ("bloom", "Bloom filters of", "The fields that are looked up, with commas between them"),
                )
            ),
            *settings_fields(TOPIC_SETTINGS, by_default),
            choice("iceberg", "Iceberg", YES_NO, empty="no", about="Whether the table is listed in Iceberg's metadata too."),
        ),
    )


def _words_of_creation(meant: TopicCreation) -> list[str]:
    found = ["topic", "create", meant.topic]
    options = (
        ("type", meant.message_type),
        ("routing", meant.routing),
        ("schema", meant.schema),
        ("message-group", meant.message_group),
        ("tag", meant.tag),
        ("keys", meant.keys),
        ("bloom", meant.bloom),
    )
    for name, value in options:
        found += [] if value is None else [f"--{name}", value]
    return found + meant.words


async def preview_change(context: PageContext, meant: TopicSettingTexts) -> ActionPreview:
    _check_name(meant.topic, _ALTER)
    record = await context.using(lambda lake: _existing(lake, meant.topic))
    before = record.settings
    changes = meant.changes(before.limits, operation=_ALTER)
    if meant.queues is not None:
        check_queues(meant.topic, before.queues, meant.queues)
        changes["queues"] = meant.queues
    told = change_lines(before, changes)
    gives_up = keeps_less(before, changes)
    dropped = " Messages beyond what is kept then are dropped for good." if gives_up else ""
    grows = " Queues are never taken away again." if changes.get("queues", before.queues) != before.queues else ""
    return ActionPreview(
        summary=f"Topic {meant.topic} changes.{dropped}{grows}" if told else f"Nothing of topic {meant.topic} would change.",
        stamp=repr((record.incarnation, before)),
        counts=(ActionCount(name="settings", value=len(told)),),
        samples=(AffectedRows(title="What changes", columns=("setting",), rows=tuple((one,) for one in told)),) if told else (),
        is_nothing=not told,
        type_name=meant.topic if gives_up else None,
        meant=changes,
    )


async def _existing(lake: Lake, name: str) -> TopicRecord:
    record = await _record(lake, name)
    if record is None:
        raise not_found(name)
    return record


async def change(context: PageContext, meant: TopicSettingTexts, preview: ActionPreview) -> ActionResult:
    changes = cast("dict[str, Any]", preview.meant)
    await context.using(lambda lake: lake.alter_topic(meant.topic, **changes))
    return ActionResult(
        summary=f"Topic {meant.topic} is changed: {', '.join(changes)}.", counts=(ActionCount(name="settings", value=len(changes)),)
    )


async def form_of_change(context: PageContext, given: Mapping[str, str]) -> ActionForm:
    name = given.get("topic", "")
    _check_name(name, _ALTER)
    before = (await context.using(lambda lake: _existing(lake, name))).settings
    kept = {
        "retention": "forever" if before.retention is None else setting_value_text(before.retention),
        "retention_bytes": setting_value_text(before.retention_bytes),
    }
    present = _present(before.limits, kept)
    return ActionForm(
        about="Empty fields stay as they are.",
        fields=(
            FormField(name="topic", label="Topic", kind=FormFieldKind.FIXED, value=name),
            FormField(
                name="queues",
                label="Queues",
                placeholder=str(before.queues),
                about="More queues: a multiple of the present ones. They are never taken away again.",
            ),
            *settings_fields(TOPIC_SETTINGS, present),
            choice("iceberg", "Iceberg", YES_NO, empty="as it is", about="Whether the table is listed in Iceberg's metadata too."),
        ),
    )


CREATE_TOPIC = Action(
    name=_CREATE,
    title="Create a topic",
    about="Creates a topic.",
    arguments=TopicCreation,
    preview=preview_creation,
    do=create,
    command=_words_of_creation,
    back=lambda _: Breadcrumb("Topics", "topics"),
    form=form_of_creation,
)
ALTER_TOPIC = Action(
    name=_ALTER,
    title="Alter the topic",
    about="Changes settings of a topic while it is used. Who keeps less types its name, as messages are dropped then.",
    arguments=TopicSettingTexts,
    preview=preview_change,
    do=change,
    command=lambda meant: ["topic", "alter", meant.topic, *meant.words],
    back=lambda meant: Breadcrumb(f"Topic {meant.topic}", "topic", {"topic": meant.topic}),
    form=form_of_change,
)
