"""`penstock produce`."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from ....log import DELAY_LEVELS, InvalidArgument, delay_level
from ....log.paths import AUDIT_TOPIC
from ...files import plain_name
from ...formats import DEBEZIUM_LABELS, FileFormat
from ...labels import MessageLabels
from ...terminal import completion, output
from ...terminal.exit_codes import WRONG_CALL
from ...terminal.session import CommandSession, command_options
from ...terminal.values import DurationParam, parse_instant

if TYPE_CHECKING:
    from .file_import import ImportSummary

_SUFFIXES = {
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".json": FileFormat.JSONL,
    ".csv": FileFormat.CSV,
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
}


@click.command(
    epilog="A SPEC is a field's name (customer.id inside another), or a format string such as '{table}-{id}'. Debezium events also have "
    "the fields table, schema, op, key and position; every record has record_number."
)
@click.argument("topic", shell_complete=completion.topics)
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--format", "form", type=click.Choice([form.value for form in FileFormat]), help="Guessed from the name; standard input: jsonl."
)
@click.option("--group", metavar="SPEC", help="The message group, within which order is kept.")
@click.option("--key", "keys", multiple=True, metavar="SPEC", help="A key for lookup; may be repeated.")
@click.option("--tag", metavar="SPEC", help="The tag.")
@click.option("--property", "properties", multiple=True, metavar="NAME=SPEC", help="A property; may be repeated.")
@click.option(
    "--body", metavar="FIELD", default="*", show_default=True, help="The field that is the body; *: the whole record as JSON."
)
@click.option("--name", metavar="NAME", help="The producer's name; it fences an earlier one of this name.")
@click.option(
    "--sequence", metavar="SPEC", help="With --name: an increasing number, or 'line'; run again, it goes on where it had ended."
)
@click.option(
    "--delay", type=DurationParam(), help="Deliver each this long after it was sent: 30m, 1h30m, 500ms (topics of type DELAY)."
)
@click.option(
    "--level", type=click.IntRange(1, len(DELAY_LEVELS)), help="The same by RocketMQ's levels: 1 is 1 s, 3 is 10 s, 18 is 2 h."
)
@click.option(
    "--deliver-at",
    metavar="TIME|SPEC",
    help="Deliver at a time (2026-01-31T12:00, +10m), or at each record's own: an ISO time with a zone.",
)
@click.option(
    "--on-error", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="What to do about a bad record."
)
@command_options
@click.pass_obj
def command(session: CommandSession, /, topic: str, files: tuple[str, ...], form: str | None, on_error: str, **given: Any) -> int:  # noqa: ANN401
    """Send the records of FILEs (paths, any URL fsspec opens, - for standard input) to a topic, plain or gzip.

    In a topic with a schema each record is a row: its JSON (times are texts there), a line of CSV, or a row of Parquet. The rows of a file
    that `penstock read` has written are taken by --body value.

    Without --group, --key, --tag and --property, Debezium events get the group and key '{table}-{key}', the tag table and the property op.
    """
    from .file_import import FileImport, ImportFile

    if topic == AUDIT_TOPIC:
        raise click.UsageError(f"{AUDIT_TOPIC} says who did what by the console, which alone writes it. Send to another topic.")
    given["delay"] = _delay(given["delay"], given.pop("level"), given["deliver_at"])
    sources = [ImportFile(file, _format(file, form)) for file in files or ["-"]]
    labels = {source.format: _labels(source.format, given) for source in sources}
    if given["sequence"] and not given["name"]:
        raise click.UsageError("--sequence needs --name: sequences are kept under the producer's name.")
    if given["sequence"] == "line" and len(sources) > 1:
        raise click.UsageError("--sequence line takes one file: line numbers start again in the next.")
    with session.connect() as lake:
        producer = lake.producer(topic, name=given["name"])
        importing = FileImport(producer, labels, skip=on_error == "skip", signals=session.signals, schema=lake.topic_schema(topic))
        summary = importing.run(sources, report=lambda it: _report(session, topic, it))
    return WRONG_CALL if summary.skipped and not summary.sent and not summary.duplicates else 0


def _format(file: str, form: str | None) -> FileFormat:
    if form is not None:
        return FileFormat(form)
    if file == "-":
        return FileFormat.JSONL
    name = plain_name(file)
    if "debezium" in os.path.basename(name):
        return FileFormat.DEBEZIUM
    suffix = os.path.splitext(name)[1]
    if suffix not in _SUFFIXES:
        raise InvalidArgument(
            "the name does not tell the format",
            object=file,
            expected=", ".join([*_SUFFIXES, "and .gz behind"]),
            hint="give --format",
        )
    return _SUFFIXES[suffix]


def _labels(form: FileFormat, given: dict[str, Any]) -> MessageLabels:
    plain = not (given["group"] or given["keys"] or given["tag"] or given["properties"])
    base = DEBEZIUM_LABELS if form is FileFormat.DEBEZIUM and plain else MessageLabels()
    sequence = given["sequence"]
    return MessageLabels(
        message_group=given["group"] or base.message_group,
        tag=given["tag"] or base.tag,
        keys=given["keys"] or base.keys,
        properties=dict(map(_property, given["properties"])) or base.properties,
        body=None if given["body"] == "*" else given["body"],
        sequence="record_number" if sequence == "line" else sequence,
        deliver_at=None if given["deliver_at"] is None else parse_instant(given["deliver_at"]) or given["deliver_at"],
        delay=given["delay"],
    )


def _delay(delay: timedelta | None, level: int | None, deliver_at: str | None) -> timedelta | None:
    if sum(one is not None for one in (delay, level, deliver_at)) > 1:
        raise click.UsageError("Give one of --delay, --level and --deliver-at: each says when to deliver.")
    return delay if level is None else delay_level(level)


def _property(text: str) -> tuple[str, str]:
    name, equals, spec = text.partition("=")
    if not (name and equals and spec):
        raise click.UsageError(f"{text!r} is no property; write NAME=SPEC.")
    return name, spec


def _report(session: CommandSession, topic: str, summary: ImportSummary) -> None:
    if session.as_json:
        output.emit({"topic": topic, **output.fields(summary), "messages_per_s": round(summary.messages_per_s)})
        return
    parts = [f"{summary.sent:,} messages to {topic} in {summary.seconds:.2f} s ({summary.messages_per_s:,.0f} messages/s)"]
    if summary.duplicates:
        parts.append(f"{summary.duplicates:,} were there already")
    if summary.skipped:
        parts.append(f"{summary.skipped:,} bad records skipped")
    if summary.unknown:
        parts.append(f"{summary.unknown:,} not confirmed: they may or may not be stored")
    if summary.not_written:
        parts.append(f"{summary.not_written:,} not written")
    output.say("; ".join(parts) + ".")
