"""Existing targets: whether this sync may write to them, and where it goes on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from ....log.errors import InvalidArgument
from ...events.sources import TableId, named
from ...fold.shape import TableShape, check_key, key_of
from ...target import (
    CommitMetadata,
    ExistingTarget,
    Target,
    TargetColumn,
    TargetOwner,
    TargetProgress,
    TargetRefused,
    check_owner,
    folder_names,
    name_taken,
    progress_unknown,
)

GONE = (
    "the target has gone, and retention has removed events that it needs: let the source send a new snapshot, and start with "
    "adopt=True (--adopt), which makes it from the events that are left"
)


def folder_of(
    source: TableId, names: Sequence[str], find: Callable[[str], ExistingTarget | None]
) -> tuple[str, ExistingTarget | None]:
    """The table's own folder, or the first that cannot be another table's, and its content. Raises `TargetRefused`."""
    free, taken = list[tuple[str, ExistingTarget | None]](), dict[str, TableId]()
    for name in names:
        found = find(name)
        if found is not None and found.written is not None:
            if found.written.source == source:
                return name, found
            taken |= dict.fromkeys((name, *folder_names(found.written.source)), found.written.source)
        else:
            free.append((name, found))
    for name, found in free:
        if name not in taken:
            return name, found
    raise name_taken(source, names[0], taken[names[0]])


def new_target(source: TableId, name: str, shape: TableShape, *, truncated: int | None, history: bool) -> Target:
    if missing := [key for key in shape.key if key not in {column.name for column in shape.columns}]:
        raise TargetRefused(
            "the events have no value in columns of the key", operation="sync", object=named(source), observed=", ".join(missing)
        )
    return Target(source, name, key_of(shape), shape.key, TargetProgress({}, truncated), history=history)


def known_target(
    source: TableId,
    name: str,
    found: ExistingTarget,
    shape: TableShape,
    *,
    path: str,
    owner: TargetOwner,
    adopted: TargetProgress | None,
    kept: TargetProgress | None,
    cut: Mapping[int, int] | None,
    declared: Sequence[str] | None = None,
) -> Target:
    """An existing target, as this sync goes on with it. Raises `TargetRefused`.

    ``adopted``: a foreign target's progress, if it may be adopted. ``kept``: the progress in the sync's record. ``cut``: the
    beginning of its events by queue, where only the target's vector has its progress. ``declared``: the declared key.
    """
    adopt = adopted is not None
    written = check_owner(path, found.written, owner, adopt=adopt)
    if written is not None and written.source != source:
        raise name_taken(source, name, written.source)
    if written is not None and written.forgotten:
        written = _remembered(written, kept, path=path, adopted=adopted)
    if written is not None and cut is not None and not adopt and _lacks(written.progress, cut):
        raise TargetRefused(
            "retention has removed events that the target lacks, or may lack",
            operation="sync",
            object=path,
            expected=f"all before {dict(cut)} applied: nothing else tells how far it is",
            observed=dict(written.progress.offsets),
            hint="let the source send a new snapshot, or go on from what is left with adopt=True (--adopt)",
        )
    key = written.key if written is not None else shape.key
    if declared and {*declared} != {*key}:  # rows would become one, or two
        raise TargetRefused(
            "the target's key is not the one that is declared",
            operation="sync",
            object=path,
            expected=", ".join(declared),
            observed=", ".join(key),
            hint="declare the target's, or remove the target: it is made again, with the declared key, from the events that are kept",
        )
    missing = [column for column in key if column not in {one.name for one in found.columns}]
    if not key or missing:
        raise TargetRefused(
            "the target lacks columns of the key",
            operation="sync",
            object=path,
            expected=", ".join(key) or "a key",
            observed=f"columns {', '.join(column.name for column in found.columns)}",
        )
    target = Target(source, name, found.columns, key)
    for place in target.key_places:
        check_key(source, target.columns[place])
    if written is None:
        return replace(target, progress=adopted or TargetProgress())
    return replace(target, progress=written.progress, history=written.history)


def _remembered(
    written: CommitMetadata, kept: TargetProgress | None, *, path: str, adopted: TargetProgress | None
) -> CommitMetadata:
    """The metadata of a target whose commit with the progress is gone, with the progress of the sync's record."""
    if kept is None and adopted is None:
        raise progress_unknown(path)
    progress = kept or TargetProgress()
    return replace(written, progress=progress if adopted is None else replace(progress, commits=adopted.commits))


def target_gone(path: str) -> InvalidArgument:
    return InvalidArgument("the target has gone", operation="sync", object=path, hint="start the sync again")


def target_named_otherwise(path: str, name: str) -> InvalidArgument:
    return InvalidArgument(
        "the table has a target of another name",
        operation="sync",
        object=path,
        expected=name,
        observed=path.rpartition("/")[2],
        hint="rename its folder, which the sync follows, or keep the name, or sync into another folder under a name of its own",
    )


def check_history(target: Target, *, path: str, wanted: bool, kept: bool) -> None:
    """Raise `TargetRefused` for a target without ``wanted`` history, or with history that the engine does not keep."""
    if wanted and not target.history:
        raise TargetRefused(
            "the target was made without history",
            operation="sync",
            object=path,
            hint="choose another folder, and a name of its own",
        )
    if target.history and not kept:
        raise TargetRefused(
            "the target keeps history, and this engine does not", operation="sync", object=path, hint="engine='spark' does"
        )


def check_writable(columns: Collection[TargetColumn], others: frozenset[str], *, path: str) -> None:
    """Raise `TargetRefused` for events' columns whose type a sync cannot write."""
    if taken := sorted({column.name for column in columns} & others):
        raise TargetRefused(
            "the target has columns of types that a sync cannot write",
            operation="sync",
            object=path,
            observed=", ".join(taken),
            hint="maps and structs are written as JSON text: string",
        ).of(*taken)


def _lacks(progress: TargetProgress, cut: Mapping[int, int]) -> bool:
    """Whether the target lacks events before ``cut``: without a vector it has none."""
    return bool(progress.offsets) and any(progress.offsets.get(queue, 0) < first for queue, first in cut.items())
