"""Target tables: names, declarations, and the progress in every commit."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeAlias

import msgspec

from ..log.errors import CallError, InvalidArgument
from ..log.format.forms import converted
from ..log.format.stored_json import Number
from ..log.schema.fields import FieldType
from .changes import ALWAYS
from .events.connect import ColumnForm as Form
from .events.connect import declared_type
from .events.sources import TableId

POSITION = "__position"
VALID_FROM, VALID_TO, CURRENT, OP = "__valid_from", "__valid_to", "__current", "__op"
METADATA = "penstock_sync"
PROPERTY = "penstock.sync"
"""The table's property with its owner. It outlives commits that Delta's cleanup of the log removes."""
_NO_FOLDER = re.compile(r'^[._]|[/\\:*?"<>|#`]|%(?=[0-9A-Fa-f]{2})|~(?=[0-9A-Fa-f]{2})')
_NO_FOLDERS = re.compile(r"[#`?\\]|%[0-9A-Fa-f]{2}" if os.sep == "/" else r"[#`?]|%[0-9A-Fa-f]{2}")
_FOLDER_BYTES_MAX = 255
APP_ID = "penstock-sync"
"""The application id of Delta's ``txn``; its number counts the commits of all syncs to the table."""


class SourceWatermark(NamedTuple):
    """The progress of one queue's positions for one table, which shows events that lie behind.

    Some do after a connector's restart, for a while. All do if the source has moved to a server whose log begins anew: the
    guard then skips them where rows exist, which has to be noticed.
    """

    position: int
    """The highest position of its events."""
    behind: int = 0
    origins: tuple[str, ...] = ()


ByQueue: TypeAlias = Mapping[int, SourceWatermark]


class TargetRefused(CallError):
    """A target is not this sync's to write, or contradicts the events."""

    kind = "target_refused"
    columns: tuple[str, ...] = ()
    """Only events with these columns are refused; none: all of the table."""

    def of(self, *columns: str) -> Self:
        self.columns = columns
        return self


@dataclass(frozen=True, slots=True)
class TableDeclarations:
    """The user's declarations about tables."""

    columns: Mapping[str, Mapping[str, FieldType]] = field(default_factory=dict)
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    forms: Mapping[str, Mapping[str, Form]] = field(default_factory=dict)
    """The encoding of a column in events without a schema for it, by table and column."""

    @classmethod
    def of(cls, columns: Mapping[str, Mapping[str, str]] | None, keys: Mapping[str, Sequence[str]] | None) -> TableDeclarations:
        """The checked declarations. Raises `InvalidArgument`."""
        said = {table: {name: declared_type(kind) for name, kind in named.items()} for table, named in (columns or {}).items()}
        typed = {table: {name: kind for name, (kind, _) in named.items()} for table, named in said.items()}
        forms = {table: {name: form for name, (_, form) in named.items() if form is not None} for table, named in said.items()}
        for table, named in (keys or {}).items():
            if isinstance(named, str) or not named:
                raise InvalidArgument("a key is a list of columns", operation="sync", object=table, observed=repr(named))
        return cls(typed, {table: tuple(named) for table, named in (keys or {}).items()}, forms)


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target."""

    name: str
    type: FieldType


class _ProgressForm(msgspec.Struct, frozen=True):
    offsets: dict[Number, Number]
    truncated: int | None
    watermarks: dict[Number, tuple[int, Number]] = msgspec.field(default_factory=dict, name="told")
    origins: dict[Number, tuple[str, ...]] = {}
    commits: Number = 0


@dataclass(frozen=True, slots=True)
class TargetProgress:
    """A target's progress, in the metadata of its sync's commits."""

    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset by queue before which everything is applied."""
    truncated: int | None = None
    """The highest position of a truncate: later events below it are dropped."""
    watermarks: ByQueue = field(default_factory=dict)
    commits: int = 0
    """The number of the commit with this progress. A merge takes the next, so that Delta skips a repeated one."""

    def reached(self, ends: Mapping[int, int], truncated: int | None, watermarks: ByQueue | None = None) -> TargetProgress:
        """The progress at ``ends``. A truncate without a position (`ALWAYS`) leaves no trace: it has no bearing on later
        events.
        """
        offsets = {queue: max(self.offsets.get(queue, 0), ends.get(queue, 0)) for queue in {*self.offsets, *ends}}
        newest = max((position for position in (self.truncated, truncated) if position not in (None, ALWAYS)), default=None)
        return TargetProgress(offsets, newest, {**self.watermarks, **(watermarks or {})}, self.commits + 1)

    def document(self) -> dict[str, Any]:
        offsets = {str(queue): offset for queue, offset in sorted(self.offsets.items())}
        watermarks = {str(queue): [one.position, one.behind] for queue, one in sorted(self.watermarks.items())}
        origins = {str(queue): list(one.origins) for queue, one in sorted(self.watermarks.items()) if one.origins}
        document = {"offsets": offsets, "truncated": self.truncated, "told": watermarks, "commits": self.commits}
        return {**document, "origins": origins} if origins else document

    @classmethod
    def read(cls, document: object) -> TargetProgress:
        """The inverse of `document`. Raises `ValueError`."""
        try:
            form = converted(document, _ProgressForm, str_keys=True)
        except msgspec.ValidationError as error:  # no ValueError in older versions
            raise ValueError(str(error)) from error
        watermarks = {queue: SourceWatermark(*one, origins=form.origins.get(queue, ())) for queue, one in form.watermarks.items()}
        return cls(form.offsets, form.truncated, watermarks, form.commits)


def behind(progress: Mapping[str, TargetProgress]) -> dict[str, int]:
    """The number of each target's last events behind earlier ones of their queues, without zeros."""
    found = {name: sum(watermark.behind for watermark in one.watermarks.values()) for name, one in progress.items()}
    return {name: events for name, events in found.items() if events}


@dataclass(frozen=True, slots=True)
class TargetOwner:
    """The owner of a target."""

    topic: str
    life: int
    """The entry that created the topic: a topic of the same name made anew has another."""
    name: str


@dataclass(frozen=True, slots=True)
class Target:
    """A target table for the fold and the apply; small, as every task gets it."""

    source: TableId
    name: str
    columns: tuple[TargetColumn, ...]
    key: tuple[str, ...]
    progress: TargetProgress = field(default_factory=TargetProgress)
    history: bool = False
    stopped: bool = False
    """Whether nothing more is applied in this run."""

    @property
    def key_places(self) -> tuple[int, ...]:
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in self.key)

    def type_of(self, name: str) -> FieldType | None:
        return next((column.type for column in self.columns if column.name == name), None)

    def having(self, columns: Iterable[TargetColumn]) -> Target:
        """The target with these columns, by name, in place of its own."""
        others = {column.name: column for column in columns}
        return replace(self, columns=tuple(others.get(column.name, column) for column in self.columns))

    def reached(self, ends: Mapping[int, int], truncated: int | None, watermarks: ByQueue | None = None) -> Target:
        return replace(self, progress=self.progress.reached(ends, truncated, watermarks))


def encode_metadata(owner: TargetOwner, target: Target) -> str:
    return json.dumps(
        {
            METADATA: {
                "topic": owner.topic,
                "life": owner.life,
                "name": owner.name,
                "source": list(target.source),
                "key": list(target.key),
                "history": target.history,
                **target.progress.document(),
            }
        }
    )


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """A commit's metadata, or the content of the table's property."""

    owner: TargetOwner
    source: TableId
    key: tuple[str, ...]
    history: bool
    progress: TargetProgress
    forgotten: bool = False
    """Whether only the table's property is left, as the commit with the progress was removed by age."""
    changed: str | None = None
    """A later change of the rows by something else."""


@dataclass(frozen=True, slots=True)
class ExistingTarget:
    """An existing Delta table."""

    columns: tuple[TargetColumn, ...]
    others: frozenset[str]
    """Columns of other types, and those that begin with ``__``."""
    written: CommitMetadata | None


class _WrittenForm(msgspec.Struct, frozen=True):
    topic: str
    life: Number
    name: str
    source: TableId
    key: tuple[str, ...]
    history: bool = False


def decode_metadata(text: str | None) -> CommitMetadata | None:
    """The metadata of a sync's commit; None for others."""
    try:
        found = msgspec.json.decode(text or "null")
        found = found.get(METADATA) if isinstance(found, dict) else None
        form = converted(found, _WrittenForm)
        return CommitMetadata(
            TargetOwner(form.topic, form.life, form.name), form.source, form.key, form.history, TargetProgress.read(found)
        )
    except (msgspec.MsgspecError, ValueError, RecursionError):  # older versions' errors are no ValueErrors
        return None


def check_owner(path: str, written: CommitMetadata | None, owner: TargetOwner, *, adopt: bool) -> CommitMetadata | None:
    """The metadata of an existing Delta table that may be written to. Raises `TargetRefused`."""
    if written is not None and written.owner == owner:
        if written.changed is not None and not adopt:
            raise TargetRefused(
                "somebody else has changed the target's rows since the sync wrote it last",
                operation="sync",
                object=path,
                observed=written.changed,
                hint="remove it, then it is made again from the events that are kept, or go on with the rows it has by adopt=True (--adopt)",
            )
        return written
    if adopt:
        return None
    if written is None:
        observed = "a Delta table that no sync has written"
    elif (written.owner.topic, written.owner.name) == (owner.topic, owner.name):
        observed = "written from an earlier topic of that name"
    else:
        observed = f"written by sync {written.owner.name} of topic {written.owner.topic}"
    raise TargetRefused(
        "the target was written by someone else",
        operation="sync",
        object=path,
        expected=f"no table, or one that sync {owner.name} of topic {owner.topic} has written",
        observed=observed,
        hint="choose another folder, or take it over with adopt=True (--adopt): events are then merged into what it has",
    )


def progress_unknown(path: str) -> TargetRefused:
    return TargetRefused(
        "nothing tells any more how far the target is: Delta's cleanup has removed the commit that did, and the sync's record does not",
        operation="sync",
        object=path,
        hint="remove it, then it is made again from the events that are kept, or go on with the rows it has by adopt=True (--adopt)",
    )


def target_names(source: TableId, taken: Mapping[str, TableId]) -> list[str]:
    """The folders that a table may have (`folder_names`), without those that others have ``taken`` or could take. Raises
    `TargetRefused` when none is left.
    """
    others = {name for other in taken.values() if other != source for name in folder_names(other)}
    free = [name for name in folder_names(source) if taken.get(name) == source or (name not in taken and name not in others)]
    if not free:
        name = folder_names(source)[0]
        raise name_taken(source, name, taken.get(name))
    return free


def folder_names(source: TableId) -> list[str]:
    """A table's name, then with its schema, database and server before it, without names too long for a folder. Raises
    `TargetRefused` if all are.
    """
    found = [folder_name(source.names[0])]
    for name in source.names[1:]:
        try:
            found.append(folder_name(name))
        except TargetRefused:
            break
    return found


def folder_name(table: str) -> str:
    """The folder's name for a table: ``~`` and two digits for each byte of characters that folders cannot have, or that Spark
    or deltalake reads otherwise, and for a ``~`` that looks like an escape.

    Raises `TargetRefused` for a name that is empty or too long.
    """
    name = _NO_FOLDER.sub(lambda found: _escaped(found[0]), table)
    name = "".join(one if one.isprintable() else _escaped(one) for one in name)
    if not 0 < len(name.encode("utf-8", "surrogatepass")) <= _FOLDER_BYTES_MAX:
        raise TargetRefused(
            "the table's name cannot be a folder's",
            operation="sync",
            object=table[:_FOLDER_BYTES_MAX],
            expected=f"1 to {_FOLDER_BYTES_MAX} bytes",
            observed=f"{len(name.encode('utf-8', 'surrogatepass'))} bytes, as a folder {name[:40]!r}",
        )
    return name


def check_into(into: str) -> None:
    """Raise `InvalidArgument` for a folder of targets that Spark or deltalake would misread."""
    if found := _NO_FOLDERS.search(into):
        raise InvalidArgument(
            "not every engine can write tables into a folder of this name",
            operation="sync",
            object=into,
            expected="no #, `, ? or \\, and no % before two hexadecimal digits",
            observed=found[0],
        )


def _escaped(text: str) -> str:
    return "".join(f"~{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def name_taken(source: TableId, folder: str, other: TableId | None) -> TargetRefused:
    return TargetRefused(
        "the table's folder is that of another table",
        operation="sync",
        object=source.names[-1],
        expected="a folder that no other table has, or could have",
        observed=folder if other is None else f"{folder}, which is {other.names[-1]}'s",
        hint="name its target apart: rename={'TABLE': '{schema}_{table}'} (--rename)",
    )
