"""`penstock topic schema`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ....log import InvalidArgument, LimitExceeded
from ...operating.times import time_of
from ...terminal import completion, output
from ...terminal.exit_codes import OTHER, show
from ...terminal.listing import CommandGroup
from ...terminal.session import CommandSession, command_options, options

if TYPE_CHECKING:
    from ....lake import Lake
    from ....log.schema.sources import SchemaLike
    from ....log.schema.topic_schema import TopicSchema


@click.group("schema", cls=CommandGroup)
def command() -> None:
    """Show, evolve and check the schemas of typed topics."""


def schema_source(text: str) -> SchemaLike:
    """The schema of an option: SQL, or a file behind an ``@``."""
    return Path(text[1:]).expanduser() if text.startswith("@") else text


_changes_of_names = options(
    click.option("--rename", multiple=True, metavar="OLD=NEW", help="A field's path, and its new name; may be repeated."),
    click.option("--retire", multiple=True, metavar="FIELD", help="The path of a field to retire; may be repeated."),
)


@command.command("show")
@click.argument("topic", shell_complete=completion.topics)
@command_options
@click.pass_obj
def show_schema(session: CommandSession, topic: str) -> None:
    """Show the schema of a topic: as SQL that --schema takes, or with --json field by field."""
    with session.connect(read_only=True) as lake:
        schema = _schema(lake, topic)
    if session.as_json:
        output.emit({"topic": topic, "version": schema.version, "schema": schema.ddl, "fields": _fields(schema)})
    else:
        output.say(schema.ddl)


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@command_options
@click.pass_obj
def history(session: CommandSession, topic: str) -> None:
    """Show the versions of a topic's schema, oldest first: when each came, and what it changed. The last 100 are remembered."""
    with session.connect(read_only=True) as lake:
        _schema(lake, topic)
        versions = lake.schema_history(topic)
    rows = [(one.version, time_of(one.time_ms), one.entry, one.changes) for one in versions]
    if session.as_json:
        for version, time, entry, changed in rows:
            output.emit({"topic": topic, "version": version, "time": output.time_text(time), "entry": entry, "changes": changed})
    else:
        shown = [(version, time, "; ".join(changed) or "created") for version, time, _, changed in rows]
        output.table(("version", "since", "changes"), shown)


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@click.option("--schema", required=True, metavar="SQL|@FILE", help="The new schema: SQL, or a file of SQL, JSON Schema or Avro.")
@_changes_of_names
@click.option("--dry-run", is_flag=True, help="Say what would change, and do nothing.")
@command_options
@click.pass_obj
def evolve(
    session: CommandSession, topic: str, schema: str, rename: tuple[str, ...], retire: tuple[str, ...], dry_run: bool
) -> None:
    """Give a topic a new schema, while producers and consumers of the former one go on.

    New nullable fields, wider types (int to bigint, float to double, decimals with more digits before the point), relaxed NOT NULLs,
    renamed and retired fields are allowed. Fields are matched by name, so the new schema names all that stay.
    """
    renamed = _renames(rename)
    with session.connect(read_only=dry_run) as lake:
        before = _schema(lake, topic)
        after = lake.evolve_topic(topic, schema_source(schema), rename=renamed, retire=retire, dry_run=dry_run)
    _tell(session, topic, before, after, would=dry_run)


@command.command()
@click.argument("topic", shell_complete=completion.topics)
@click.argument("file", type=click.Path(path_type=Path))
@_changes_of_names
@command_options
@click.pass_obj
def check(session: CommandSession, topic: str, file: Path, rename: tuple[str, ...], retire: tuple[str, ...]) -> int:
    """Check whether a topic may get the schema of FILE next, and change nothing: exit code 1 if not. For CI, before a deployment.

    FILE holds SQL, JSON Schema or Avro.
    """
    from ....log.schema.sources import fields_of

    renamed = _renames(rename)
    fields_of(file)  # what is no schema at all is a wrong call, and no refusal
    with session.connect(read_only=True) as lake:
        before = _schema(lake, topic)
        try:
            after = lake.evolve_topic(topic, file, rename=renamed, retire=retire, dry_run=True)
        except (InvalidArgument, LimitExceeded) as error:
            show(error, as_json=session.as_json)
            return OTHER
    _tell(session, topic, before, after, would=True)
    return 0


def _schema(lake: Lake, topic: str) -> TopicSchema:
    found = lake.topic_schema(topic)
    if found is None:
        raise InvalidArgument(
            "the topic has no schema", operation="topic schema", object=topic, hint="a schema is given when a topic is created"
        )
    return found


def _renames(given: tuple[str, ...]) -> Mapping[str, str]:
    pairs = [text.partition("=") for text in given]
    wrong = next(("".join(parts) for parts in pairs if not all(parts)), None)
    if wrong is not None:
        raise click.UsageError(f"{wrong!r} renames nothing; write --rename OLD=NEW.")
    return {old: new for old, _, new in pairs}


def _tell(session: CommandSession, topic: str, before: TopicSchema, after: TopicSchema, *, would: bool) -> None:
    from ....log.schema.evolution import changes

    changed = [str(one) for one in changes(before, after)]
    if session.as_json:
        document = {"topic": topic, "version": after.version, "schema": after.ddl, "changes": changed}
        output.emit(document | ({"dry_run": True} if would else {}))
    elif after.version == before.version:
        output.say(f"Topic {topic} has this schema, as version {after.version}.")
    else:
        output.say(f"Topic {topic} {'would get' if would else 'has'} version {after.version} of its schema:")
        for one in changed:
            output.say(f"  {one}")


def _fields(schema: TopicSchema) -> list[dict[str, object]]:
    from ....log.schema.evolution import live

    return [
        {
            "id": field.id,
            "path": path,
            "stored_name": field.stored_name,
            "type": str(field.type),
            "nullable": field.nullable,
            "former_names": list(field.former_names),
            "comment": field.doc,
        }
        for path, field in live(schema)
    ]
