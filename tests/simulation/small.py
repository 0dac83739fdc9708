"""The log's constants made small, from the tests' side, so that a run of a hundred entries passes many checkpoints and validities.

Ratios are kept: what the proofs need (a row outlives a validity, a listing covers it) holds of the small numbers as of the real ones.
Times are not touched; virtual time costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import penstock.log.lake
import penstock.log.table.maintenance
from penstock.consumers.limits import QueueLimits
from penstock.coordinator.queues.commands import caught_up, with_commands_applied
from penstock.coordinator.queues.invisibility import expired
from penstock.log.limits import KIB
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.protocol import ObjectStore

SMALL: Mapping[str, int] = {
    "VALIDITY_ENTRIES": 8,
    "UNNAMED_ROW_ENTRIES": 8,
    "IDEMPOTENT_ROW_ENTRIES": 8,
    "CHECKPOINT_ENTRIES": 8,
    "LIST_WHOLE_WINDOW_EVERY": 4,
    "LIST_TAILS": 4,
    "LIST_UNASKED_EVERY": 4,
    "ENTRY_INLINE_BYTES_MAX": 16 * KIB,
    "HANDED_BYTES_MAX": 48 * KIB,
    "PART_BYTES": 24 * KIB,
    "QUIET_ENTRIES": 8,
    "ALONE_INLINE_TIMES": 1,
}


async def _no_probe(store: ObjectStore, runtime: Runtime) -> None:
    """The store of the simulation is known to keep its promises, and the probe's 15 requests would be most of a short life."""


@contextmanager
def small_log(constants: Mapping[str, int] = SMALL, *, probed: bool = False) -> Iterator[None]:
    """Set the constants in every module of the log that has them, and put them back. ``probed``: stores are probed nevertheless."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("penstock.log.")]
    replaced = [(module, name, getattr(module, name)) for module in modules for name in constants if hasattr(module, name)]
    probe = penstock.log.lake.probe_conditional_writes  # type: ignore[attr-defined]
    for module, name, _ in replaced:
        setattr(module, name, constants[name])
    penstock.log.lake.probe_conditional_writes = probe if probed else _no_probe  # type: ignore[attr-defined]
    try:
        yield
    finally:
        penstock.log.lake.probe_conditional_writes = probe  # type: ignore[attr-defined]
        for module, name, value in replaced:
            setattr(module, name, value)


@contextmanager
def few_letters(most: int) -> Iterator[None]:
    """Let a queue have so many dead letters that are not known to be written."""
    functions: list[Any] = [QueueLimits.__init__, caught_up, with_commands_applied, expired]
    places: list[dict[str, Any]] = [function.__kwdefaults__ for function in functions]
    before = [(place, name, place[name]) for place in places for name in ("letters", "letters_max") if name in place]
    for place, name, _ in before:
        place[name] = most
    try:
        yield
    finally:
        for place, name, value in before:
            place[name] = value
