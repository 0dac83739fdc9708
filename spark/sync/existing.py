"""Targets that are there already: whether this sync may write to one, and goes on with it where its vector says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ...cdc.shape import Shape
from ...cdc.targets import Column, Found, Owner, Progress, Source, Target, TargetRefused, check_owner

GONE = (
    "the target has gone, and retention has removed events that it needs: let the source send a new snapshot, and start with "
    "adopt=True (--adopt), which makes it from the events that are left"
)


def known_target(
    source: Source, name: str, found: Found, shape: Shape, *, path: str, owner: Owner, adopt: bool, cut: Mapping[int, int] | None
) -> Target:
    """What is there, as this sync goes on with it. Raises `TargetRefused`.

    ``cut``: by queue, where its events begin, if nothing but the target's vector tells how far it is.
    """
    written = check_owner(path, found.written, owner, adopt=adopt)
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
    lacking = [column for column in key if column not in {one.name for one in found.columns}]
    if not key or lacking:
        raise TargetRefused(
            "the target lacks columns of the key",
            operation="sync",
            object=path,
            expected=", ".join(key) or "a key",
            observed=f"columns {', '.join(column.name for column in found.columns)}",
        )
    target = Target(source, name, found.columns, key)
    return target if written is None else replace(target, progress=written.progress, history=written.history)


def check_writable(columns: Collection[Column], others: frozenset[str], *, path: str) -> None:
    """Raise `TargetRefused` for events' columns that the target has of a type that a sync cannot write."""
    if taken := sorted({column.name for column in columns} & others):
        raise TargetRefused(
            "the target has columns of types that a sync cannot write",
            operation="sync",
            object=path,
            observed=", ".join(taken),
            hint="arrays, maps and structs are written as JSON text: string",
        ).of(*taken)


def _lacks(progress: Progress, cut: Mapping[int, int]) -> bool:
    """A target without any vector has nothing yet, as a new one."""
    return bool(progress.offsets) and any(progress.offsets.get(queue, 0) < first for queue, first in cut.items())
