"""What to do about a column whose type does not hold a value. Pure."""

from __future__ import annotations

from shlex import join

from ..events.types import TEMPORAL
from ..events.wider import holds
from .options import Options

_NULL = "; or start the sync with --unfit-times null, which makes such times NULL"


def remedy(options: Options, table: str, column: str, *, has: str, calls_for: str | None) -> str:
    """The end of the sentence that names the value: why it does not fit, and the line to run.

    ``has``: the type of the target's column. ``calls_for``: that of the source's, where its catalogue tells it.
    """
    same = " (with the same --config)" if options.choices.by_name else ""
    line = ["penstock", "sync", options.topic, "--into", options.into, *_named(options), "--retype", "--table", table]
    if calls_for is not None and not holds(has, calls_for):
        return f". The source's column calls for {calls_for}, the target's has {has}{same}: {join(line)}"
    null = _NULL if has in TEMPORAL else ""
    if calls_for is None:
        return f". Give the column a type that holds it{same}: {join(line)} --column {join([f'{table}.{column}'])}=TYPE{null}"
    text = join([*line, "--column", f"{table}.{column}=string"])
    return f". The source's type has values that {has} has not{same}: {text}{null}"


def _named(options: Options) -> list[str]:
    return [] if options.name == options.topic.replace("%", "") else ["--name", options.name]
