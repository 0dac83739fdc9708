"""A topic's settings: the object ``topic.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from msgspec import Meta, to_builtins
from msgspec import field as form_field

from ..errors import InvalidArgument, LimitExceeded
from ..format.digest import digest
from ..format.stored_json import Name, Number, StoredForm, TimeMs, check_stored, damaged, parse_stored
from ..format.stored_json import plain as plain_form
from ..limits import (
    DELAY_MAX,
    FORMAT_BASIC,
    FORMAT_CONFIGS,
    FORMAT_EXTENDED,
    FORMAT_SETTINGS,
    FORMATS_OF_SETTINGS,
    QUEUES_MAX,
    ChoiceField,
    Duration,
    OptionalDurationField,
    TopicLimits,
    check_count,
    check_flag,
    field_default,
    is_positive,
    named,
    optional_duration,
    plain,
)
from ..message.message_type import MessageType, MessageTypeLike
from ..message.routing_type import Routing, RoutingLike

if TYPE_CHECKING:
    from ..schema.topic_schema import TopicSchema  # most topics have no schema, and a list of topics is to be quick

_OF_SCHEMA = ("schema", "message_group", "tag", "keys", "bloom")
_WHAT = "a topic's settings"
_OPERATION = "read the settings"
_HINT = (
    "put an earlier version of it back, from a backup or the store's versions; log and table are untouched, and any Delta reader still reads "
    "the table"
)
QUEUES_DEFAULT = 16
RETENTION_DEFAULT = timedelta(days=3)
RETENTION_MAX = timedelta(days=36_500)
RETENTION_BYTES_MAX = 2**60
CONFIGS_MAX = 100
CONFIG_CHARS_MAX = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicSettings:
    """A topic's settings. Only retention, limits, ``iceberg`` and ``configs`` can be changed; the schema evolves, and queues grow."""

    message_type: ChoiceField[MessageType, MessageTypeLike] = field_default(MessageType.NORMAL)
    queues: int = QUEUES_DEFAULT
    """One queue gives a global order. A topic can get more, a multiple of these (``alter_topic``), and never fewer."""
    routing: ChoiceField[Routing, RoutingLike] = field_default(Routing.XXHASH64)
    """How message groups find their queues: ``xxhash64``, or as Kafka's clients do, ``murmur2`` or ``crc32``. Fixed at creation."""
    retention: OptionalDurationField = field_default(RETENTION_DEFAULT)
    """The time for which messages are kept; None: for ever."""
    retention_bytes: int | None = None
    """The most bytes of table files of a queue; None: any number."""
    limits: TopicLimits = field(default_factory=TopicLimits)
    iceberg: bool = False
    """Whether maintenance lists the table in Iceberg's metadata too; needs the extra `iceberg`."""
    configs: tuple[tuple[str, str], ...] = ()
    """The configs that Kafka's clients gave the topic, as pairs of name and value: kept for them, and without effect in Penstock."""
    schema: TopicSchema | None = None
    """The first version of a typed topic's schema, by ``schema_of_source(…)``."""
    message_group: str | None = None
    """The field, by its path in the first version, that is the message group. None: the sender gives it."""
    tag: str | None = None
    """The same for the tag."""
    keys: tuple[str, ...] = ()
    """The same for the keys."""
    bloom: tuple[str, ...] = ()
    """The fields, by their paths in the first version, with a Bloom filter in each table file, for queries of few of many values."""

    def __post_init__(self) -> None:
        check_flag("iceberg", self.iceberg, operation="topic settings")
        object.__setattr__(self, "configs", _checked_configs(self.configs))
        if self.label_paths or self.bloom:
            self._check_paths()
        try:
            object.__setattr__(self, "message_type", named(MessageType, self.message_type))
        except ValueError as error:
            raise InvalidArgument("no such message type", expected=", ".join(MessageType), observed=self.message_type) from error
        try:
            object.__setattr__(self, "routing", named(Routing, self.routing))
        except ValueError as error:
            raise InvalidArgument("no such routing", expected=", ".join(Routing), observed=plain(self.routing)) from error
        if not is_positive(self.queues):
            raise InvalidArgument("queues must be a positive whole number", observed=repr(self.queues))
        if self.queues > QUEUES_MAX:
            raise LimitExceeded("too many queues", expected=f"at most {QUEUES_MAX}", observed=self.queues)
        retention = optional_duration(
            "retention", self.retention, most=RETENTION_MAX, operation="topic settings", above_zero=True, hint="None keeps for ever"
        )
        object.__setattr__(self, "retention", retention)
        limits: object = self.limits
        if not isinstance(limits, TopicLimits):
            raise InvalidArgument("limits must be TopicLimits", observed=type(limits).__name__)
        if self.retention_bytes is not None and not is_positive(self.retention_bytes):
            raise InvalidArgument("retention_bytes must be a positive whole number, or None", observed=plain(self.retention_bytes))
        if self.retention_bytes is not None:
            check_count("retention_bytes", self.retention_bytes, most=RETENTION_BYTES_MAX, operation="topic settings")

    def _check_paths(self) -> None:
        from ..schema.labels import check_bloom_path, check_label_path

        for path in self.label_paths:
            check_label_path(path, self.schema)
        for path in self.bloom:
            check_bloom_path(path, self.schema)

    @property
    def label_paths(self) -> tuple[str, ...]:
        return tuple(path for path in (self.message_group, self.tag, *self.keys) if path is not None)

    @property
    def bloom_columns(self) -> tuple[str, ...]:
        """Paths inside the stored column ``value``."""
        if self.schema is None:
            return ()
        from ..schema.labels import stored_path

        return tuple(stored_path(path, self.schema) for path in self.bloom)


class TopicChanges(TypedDict, total=False):
    """The settings of a topic that can be changed."""

    queues: int
    """More than now, a multiple."""
    retention: Duration | None
    retention_bytes: int | None
    limits: TopicLimits
    iceberg: bool
    configs: Mapping[str, str | None] | tuple[tuple[str, str], ...]
    """All of them, or a mapping of some with None for one that goes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicRecord:
    """The content of ``topic.json``: settings and the topic's life."""

    settings: TopicSettings
    incarnation: str = field(repr=False)
    """A fresh id for every creation."""
    replaces: str = field(default="", repr=False)
    """The incarnation before; empty: the name was not used before."""
    table: str = "table"
    """The folder of the Delta table: ``table``, or ``table-<entry>`` when the name was used before."""
    created_ms: int = 0
    deleted: bool = False
    of: str = field(default="", repr=False)
    """The incarnation of a timer log's topic."""
    write_id: str = field(default="", repr=False)
    """Fresh for every write, as equal bytes have equal versions."""


_LIMITS = {
    "body_bytes": "max_body_bytes",
    "properties_bytes": "max_properties_bytes",
    "properties": "max_properties",
    "group_bytes": "max_message_group_bytes",
    "delay": "max_delay",
    "headers_bytes": "max_headers_bytes",
    "headers": "max_headers",
}
"""The stored names of a topic's limits, and their names in `TopicLimits`."""


class _LimitsForm(StoredForm, frozen=True, omit_defaults=True):
    body_bytes: Number | None = None
    properties_bytes: Number | None = None
    properties: Number | None = None
    group_bytes: Number | None = None
    delay: Annotated[float, Meta(ge=0, le=DELAY_MAX.total_seconds())] | None = None
    headers_bytes: Number | None = None
    headers: Number | None = None


class _SettingsForm(StoredForm, frozen=True):
    message_type: str
    queues: Number
    retention: Annotated[float, Meta(ge=0, le=RETENTION_MAX.total_seconds())] | None
    retention_bytes: Number | None
    limits: _LimitsForm
    iceberg: bool = False
    configs: Annotated[dict[Name, str], Meta(max_length=CONFIGS_MAX)] = form_field(default_factory=dict)
    schema: dict[str, Any] | None = None
    message_group: Name | None = None
    tag: Name | None = None
    keys: tuple[Name, ...] = ()
    bloom: tuple[Name, ...] = ()
    routing: str = Routing.XXHASH64


class _RecordForm(StoredForm, frozen=True):
    format: int
    settings: _SettingsForm
    incarnation: Name
    digest: str
    replaces: Name = ""
    table: Annotated[str, Meta(pattern=r"\Atable(-[0-9]{1,20})?\Z")] = "table"
    created_ms: TimeMs = 0
    deleted: bool = False
    of: Name = ""
    write_id: Name = ""


def encode_record(record: TopicRecord) -> bytes:
    schema = record.settings.schema
    settings = asdict(replace(record.settings, schema=None, message_group=None, tag=None, keys=(), bloom=()))
    for name in _OF_SCHEMA:
        del settings[name]
    if not record.settings.iceberg:
        del settings["iceberg"]
    if configs := settings.pop("configs"):
        settings["configs"] = dict(configs)
    if record.settings.routing is Routing.XXHASH64:
        del settings["routing"]
    if schema is not None:
        labels = {name: given for name in _OF_SCHEMA[1:] if (given := getattr(record.settings, name))}
        from ..format.schema_form import schema_form

        settings |= {"schema": plain_form(schema_form(schema)), **labels}
    retention = record.settings.retention
    settings["retention"] = None if retention is None else retention.total_seconds()
    limits = record.settings.limits
    given = {stored: value for stored, name in _LIMITS.items() if (value := getattr(limits, name)) is not None}
    settings["limits"] = given | {"delay": limits.max_delay.total_seconds()}
    document = {
        "format": _format(record.settings),
        **{f.name: getattr(record, f.name) for f in fields(record)},
        "settings": settings,
    }
    return json.dumps({**document, "digest": _digest(document)}, indent=2).encode()


def _format(settings: TopicSettings) -> int:
    """The lowest format whose readers know all of these settings."""
    if settings.configs:
        return FORMAT_CONFIGS
    limits = settings.limits
    has_header_limits = limits.max_headers_bytes is not None or limits.max_headers is not None
    is_routed = settings.message_type is MessageType.MIXED or settings.routing is not Routing.XXHASH64
    if is_routed or has_header_limits:
        return FORMAT_SETTINGS
    return FORMAT_BASIC if settings.schema is None and not settings.iceberg else FORMAT_EXTENDED


def decode_record(data: bytes, *, where: str) -> TopicRecord:
    """Raises `DataDamaged` or `NewerFormatError`."""
    form = parse_stored(data, _RecordForm, what=_WHAT, where=where, operation=_OPERATION, hint=_HINT, formats=FORMATS_OF_SETTINGS)
    document: dict[str, Any] = json.loads(data)
    if document.pop("digest") != _digest(document):
        raise damaged(_WHAT, "another digest", where=where, operation=_OPERATION, hint=_HINT)
    values = form.settings
    limits = {_LIMITS[name]: value for name, value in to_builtins(values.limits).items() if value is not None}
    if values.limits.delay is not None:
        limits["max_delay"] = timedelta(seconds=values.limits.delay)
    try:
        settings = TopicSettings(
            message_type=MessageType(values.message_type),
            queues=values.queues,
            routing=Routing(values.routing),
            retention=None if values.retention is None else timedelta(seconds=values.retention),
            retention_bytes=values.retention_bytes,
            limits=TopicLimits(**limits),
            iceberg=values.iceberg,
            configs=tuple(values.configs.items()),
            schema=None if values.schema is None else _schema_of(values.schema, where=where),
            message_group=values.message_group,
            tag=values.tag,
            keys=values.keys,
            bloom=values.bloom,
        )
    except ValueError as error:
        raise damaged(_WHAT, error, where=where, operation=_OPERATION, hint=_HINT) from error
    return TopicRecord(
        settings=settings,
        incarnation=form.incarnation,
        replaces=form.replaces,
        table=form.table,
        created_ms=form.created_ms,
        deleted=form.deleted,
        of=form.of,
        write_id=form.write_id,
    )


def _schema_of(found: dict[str, Any], *, where: str) -> TopicSchema:
    """Raises `DataDamaged`, and `ValueError` for a type that does not exist."""
    from ..format.schema_form import SchemaForm, schema_of

    return schema_of(check_stored(found, SchemaForm, what=_WHAT, where=where, operation=_OPERATION, hint=_HINT))


def _checked_configs(given: object) -> tuple[tuple[str, str], ...]:
    """The configs by name. Raises `InvalidArgument` or `LimitExceeded`."""
    pairs = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair) for pair in pairs):
        raise InvalidArgument("configs must be a tuple of pairs of name and value, as text", observed=plain(given))
    if len({name for name, _ in pairs}) < len(pairs):
        raise InvalidArgument("configs name one twice", observed=plain(given))
    if len(pairs) > CONFIGS_MAX or any(len(part) > CONFIG_CHARS_MAX for pair in pairs for part in pair):
        expected = f"at most {CONFIGS_MAX}, each name and value of at most {CONFIG_CHARS_MAX} characters"
        raise LimitExceeded("too many configs, or too long ones", expected=expected, observed=plain(given))
    return tuple(sorted(pairs))


def _digest(document: dict[str, Any]) -> str:
    return digest(json.dumps(document, sort_keys=True).encode())
