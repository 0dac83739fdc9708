"""`penstock topic`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ....log import ForeignObject, MessageType, MessageTypeLike, Routing, RoutingLike, TopicLimits
from ....log.paths import DLQ_PREFIX, timer_log_name
from ....log.topic.settings import QUEUES_DEFAULT, RETENTION_DEFAULT
from ...json_values import json_value
from ...operating.topics import (
    TOPIC_SETTINGS,
    HotMessageGroup,
    StoredQueue,
    StoredTopic,
    TopicConfiguration,
    change_lines,
    keeps_less,
    setting_value_text,
    topic_changes,
    topic_of,
)
from ...terminal import completion, output
from ...terminal.exit_codes import show
from ...terminal.listing import CommandGroup
from ...terminal.session import (
    CommandSession,
    F,
    command_options,
    confirm,
    confirm_options,
    exit_code_option,
    group_options,
    options,
)
from ...terminal.sparkline import sparkline
from .schema import command as schema_command
from .schema import schema_source
from .stored_topics import run_async, run_on_store, stored_topic, stored_topics

if TYPE_CHECKING:
    from ....log import TopicSettings

_QUEUES_SHOWN = 32
_TYPE = click.Choice([kind.value for kind in MessageType], case_sensitive=False)
_ROUTING = click.Choice([one.value for one in Routing], case_sensitive=False)


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list, describe, alter and delete topics, and show and evolve their schemas."""


command.add_command(schema_command)


def _defaults() -> dict[str, str]:
    limits = TopicLimits()
    sizes = {
        name: output.size_text(getattr(limits, name))
        for name in ("max_body_bytes", "max_properties_bytes", "max_message_group_bytes")
    }
    durations = {"retention": RETENTION_DEFAULT, "max_delay": limits.max_delay}
    texts = {name: output.duration_text(duration) for name, duration in durations.items()}
    others = {"max_headers_bytes": "as --max-properties-bytes", "max_headers": "as --max-properties"}
    return {**sizes, **texts, **others, "retention_bytes": "0", "max_properties": str(limits.max_properties)}


def changeable(*, new: bool) -> Callable[[F], F]:
    """The options for changeable settings; of a ``new`` topic with defaults."""
    told = {name: f"  [default: {text}]" for name, text in _defaults().items()} if new else {}
    return options(
        *(
            click.option(f"--{name.replace('_', '-')}", type=kind, help=f"{text}{told.get(name, '')}")
            for name, (kind, text) in TOPIC_SETTINGS.items()
        ),
        click.option("--iceberg/--no-iceberg", default=None, help="Whether the table is listed in Iceberg's metadata too."),
    )


def _refuse_fixed(_: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None:
        why = {
            "routing": "A topic's routing is fixed at creation, as with another one a message group's messages would lie in two queues, and lose "
            "their order.",
            "type": "A topic's type is fixed at creation: consumers and producers rely on what its messages have.",
        }
        assert param.name is not None, "it is one of these"
        raise click.UsageError(f"{why[param.name]} Create another topic, and send what is to be in it there.")


fixed = options(
    *(click.option(name, hidden=True, expose_value=False, callback=_refuse_fixed) for name in ("--type", "--routing")),
)


def _listed(fields: str | None) -> list[str]:
    return [] if fields is None else [name.strip() for name in fields.split(",")]


@command.command()
@click.argument("topic")
@click.option(
    "--type",
    "message_type",
    type=_TYPE,
    default="NORMAL",
    show_default=True,
    help="FIFO messages have a message group, DELAY ones a delivery time, NORMAL ones neither; TRANSACTION ones are sent in transactions. "
    "MIXED topics take all but DELAY messages.",
)
@click.option(
    "--queues",
    type=int,
    help="1 gives a global order. A topic can get more later, and never fewer.  [default: 16; 1 for a dead-letter queue, %DLQ%GROUP]",
)
@click.option(
    "--routing",
    type=_ROUTING,
    default="xxhash64",
    show_default=True,
    help="How message groups find their queues, fixed at creation: as Kafka's Java client does (murmur2), librdkafka (crc32), or Spark's SQL.",
)
@click.option(
    "--schema",
    metavar="SQL|@FILE",
    help="The topic's messages are rows of these fields: Spark's SQL ('id bigint not null, at timestamp'), or a file of SQL, JSON Schema "
    "or Avro behind an @.",
)
@click.option("--message-group", metavar="FIELD", help="The field whose text is the message group of each row.")
@click.option("--tag", metavar="FIELD", help="The field whose text is the tag of each row.")
@click.option("--keys", metavar="FIELD,...", help="The fields whose texts are the keys of each row.")
@click.option(
    "--bloom", metavar="FIELD,...", help="The fields that are looked up: the files of the table have Bloom filters of them."
)
@changeable(new=True)
@command_options
@click.pass_obj
def create(
    session: CommandSession,
    /,
    topic: str,
    message_type: MessageTypeLike,
    queues: int | None,
    routing: RoutingLike,
    schema: str | None,
    message_group: str | None,
    tag: str | None,
    keys: str | None,
    bloom: str | None,
    **settings: Any,  # noqa: ANN401 - as click parsed them
) -> None:
    """Create a topic. Fine when it exists with the same settings.

    FIFO topics keep the order within a message group, and every message needs one; NORMAL topics take messages without a group. Messages of
    DELAY topics have a delivery time, and wait for it in the topic's timer log, %TIMER%TOPIC. TRANSACTION topics take only messages that
    programs send in transactions, which are visible once their transaction is committed (see penstock tx). MIXED topics take messages with
    and without a group, and those of transactions.

    With --schema messages are rows, checked when they are sent and stored as columns. `penstock topic schema` shows and evolves it.
    """
    changes = topic_changes(TopicLimits(), settings)
    if queues is None:
        queues = 1 if topic.startswith(DLQ_PREFIX) else QUEUES_DEFAULT
    with session.connect() as lake:
        record = lake.create_topic(
            topic,
            message_type=message_type,
            queues=queues,
            routing=routing,
            schema=None if schema is None else schema_source(schema),
            message_group=message_group,
            tag=tag,
            keys=_listed(keys),
            bloom=_listed(bloom),
            **changes,
        )
    if session.as_json:
        output.emit({"topic": topic, **_document(record.settings)})
    else:
        settings_now = TopicConfiguration.of(record.settings)
        output.say(f"Topic {topic}: {settings_now.type_text}, {queues} queues, kept {_kept(settings_now)}.")


@command.command("list")
@command_options
@click.pass_obj
@exit_code_option
def list_topics(session: CommandSession) -> bool:
    """List the topics of the lake. When the settings of one are damaged, the others are listed all the same."""
    found = run_on_store(session, stored_topics)
    topics = [(name, TopicConfiguration.of(record.settings)) for name, record in sorted(found.records.items())]
    if session.as_json:
        for name, settings in topics:
            output.emit({"topic": name, **json_value(settings)})
    else:
        output.table(("topic", "type", "queues", "kept"), [(name, one.type_text, one.queues, _kept(one)) for name, one in topics])
        if not found.records and not found.unreadable:
            output.note(f"No topics in {session.lake_shown}.")
    damaged = [error for error in found.unreadable.values() if not isinstance(error, ForeignObject)]
    for error in damaged[:-1]:
        show(error, as_json=session.as_json)
    if damaged:
        raise damaged[-1]
    return bool(topics)


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@click.option("--all-queues", is_flag=True, help=f"Show every queue, also where there are more than {_QUEUES_SHOWN}.")
@group_options
@click.pass_obj
def describe(session: CommandSession, topic: str, all_queues: bool) -> None:
    """Show settings, offsets of every queue, and the hottest queues and message groups of the messages stored last. A topic of type DELAY
    also shows its waiting messages, one of type TRANSACTION or MIXED its messages that are not visible yet.
    """
    most = None if all_queues or session.as_json else _QUEUES_SHOWN
    found = run_async(session, lambda lake: topic_of(lake, topic, queues=most, pending=True), read_only=True)
    if session.as_json:
        output.emit(found)
    else:
        _show(found)


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@click.option(
    "--queues",
    type=int,
    help="More queues: a multiple of the present ones. Producers route anew by themselves, and ORDERLY groups keep the order of every message group.",
)
@changeable(new=False)
@fixed
@confirm_options
@command_options
@click.pass_obj
def alter(
    session: CommandSession,
    /,
    topic: str,
    queues: int | None,
    yes: bool,
    dry_run: bool,
    **settings: Any,  # noqa: ANN401 - as click parsed them
) -> None:
    """Change settings that may be changed, while the topic is used. Keeping less asks first, as maintenance then drops older or further messages."""
    before = run_on_store(session, lambda store: stored_topic(store, topic)).settings
    changes = topic_changes(before.limits, settings) | ({} if queues is None else {"queues": queues})
    if not changes:
        raise click.UsageError("Change what? See penstock topic alter --help.")
    lines = change_lines(before, changes)
    if dry_run:
        if queues is not None:
            from ....log.topic.growth import check_queues  # needs Arrow

            check_queues(topic, before.queues, queues)
        if session.as_json:
            output.emit({"topic": topic, "dry_run": True, **_document(replace(before, **changes))})
        else:
            output.say("\n".join(lines) or "Nothing would change.")
        return
    if keeps_less(before, changes):
        confirm(f"{topic}: {'; '.join(lines)}. Messages beyond that will be dropped for good. Go on?", yes=yes)
    with session.connect() as lake:
        record = lake.alter_topic(topic, **changes)
    if session.as_json:
        output.emit({"topic": topic, **_document(record.settings)})
    else:
        output.say("\n".join(lines) or "Nothing to change.")


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@confirm_options
@command_options
@click.pass_obj
def delete(session: CommandSession, topic: str, yes: bool, dry_run: bool) -> None:
    """Delete a topic with all its messages. A new topic of the name may follow at once."""
    with session.connect(read_only=True) as lake, lake.reader(topic) as reader:
        kept = sum(end - start for start, end in reader.offsets().values())
    if dry_run:
        if session.as_json:
            output.emit({"topic": topic, "dry_run": True, "deleted": False, "messages": kept})
        else:
            output.say(f"Would delete topic {topic} with {kept:,} messages.")
        return
    confirm(f"Delete topic {topic} with {kept:,} messages, for good?", yes=yes)
    with session.connect() as lake:
        lake.delete_topic(topic)
    if session.as_json:
        output.emit({"topic": topic, "deleted": True, "messages": kept})
    else:
        output.say(f"Topic {topic} is deleted; `penstock maintain` frees its space.")


def _document(settings: TopicSettings) -> dict[str, object]:
    found: dict[str, object] = json_value(TopicConfiguration.of(settings))
    return found


def _kept(settings: TopicConfiguration) -> str:
    kept = "for ever" if settings.retention is None else output.duration_text(settings.retention)
    return kept if settings.retention_bytes is None else f"{kept}, {output.size_text(settings.retention_bytes)} a queue"


def _waiting_text(found: StoredTopic) -> str | None:
    if (waiting := found.waiting) is None:
        return None
    due = "" if waiting.next_due is None else f"; the next is due {output.time_text(waiting.next_due)}"
    return f"{waiting.count_text}{due}"


def _transactions_text(found: StoredTopic) -> str | None:
    if (open_ones := found.transactions) is None:
        return None
    begun = "" if open_ones.oldest is None else f", the oldest begun {output.time_text(open_ones.oldest)}"
    return f"{open_ones.open:,} with {open_ones.messages:,} messages{begun}"


def _share_text(one: StoredQueue | HotMessageGroup) -> str | None:
    return None if one.share is None else f"{100 * one.share:.1f} %"


_FACTS: output.Columns = {
    "type": "settings.type_text",
    "schema": "schema",
    "schema version": "schema_version",
    "message group from": "settings.message_group",
    "tag from": "settings.tag",
    "keys from": lambda found: ", ".join(found.settings.keys) or None,
    "Bloom filters of": lambda found: ", ".join(found.settings.bloom) or None,
    "queues": "settings.queues",
    "routing": "settings.routing",
    "kept": lambda found: _kept(found.settings),
    "listed for": lambda found: "Delta, Iceberg" if found.settings.iceberg else None,
    "limits": lambda found: setting_value_text(found.settings.limits),
    "created": "created",
    "messages": "messages",
    "log entries": "entries",
    "last stored": "last_stored",
    "waiting": _waiting_text,
    "timer log": lambda found: (
        f"{timer_log_name(found.topic)}; penstock timer list {found.topic} shows what waits" if found.waiting else None
    ),
    "open transactions": _transactions_text,
    "not finished": lambda found: found.transactions.not_finished if found.transactions else None,
}
_QUEUES: output.Columns = {
    "queue": "queue",
    "earliest": "earliest",
    "next": "next",
    "messages": "messages",
    "in the table": lambda one: output.size_text(one.table_bytes),
    "of the last": _share_text,
}
_GROUPS: output.Columns = {"message group": "message_group", "messages": "messages", "share": _share_text}


def _show(found: StoredTopic) -> None:
    output.facts((found.topic, ""), found, _FACTS)
    if (stored_lately := found.over_time) is not None:
        slot = (stored_lately.end - stored_lately.start) / len(stored_lately.counts)
        output.say(click.style(f"\nStored, {sum(stored_lately.counts):,} messages", bold=True))
        output.say(f"{sparkline(stored_lately.counts)}  at most {max(stored_lately.counts):,} in {output.duration_text(slot)}")
        output.say(f"{output.time_text(stored_lately.start)} to {output.time_text(stored_lately.end)}")
    total = found.settings.queues
    title = "Queues" if len(found.queues) == total else f"Hottest of {total} queues (--all-queues shows all)"
    output.rows(found.queues, _QUEUES, title=title)
    for one in found.growth:
        output.note(f"More queues would help {one.group}: {one.reason}. {one.way(found.topic)}.")
    if found.hottest_groups:
        output.rows(found.hottest_groups, _GROUPS, title=f"Hottest groups of the last {found.sampled:,} messages")
    if found.named_producers:
        output.table(("producer", "last sequence"), found.named_producers.items(), title="Named producers, seen within 30 days")
