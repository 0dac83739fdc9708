"""What a run met, by name, for the sweep's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.log.format.fold import FoldedEntry, VoidReason
from penstock.log.limits import ENTRY_INLINE_BYTES_MAX
from penstock.log.paths import TopicPaths
from tests.simulation.log.world import World
from tests.simulation.small import SMALL
from tests.simulation.trace import Event


class Write(NamedTuple):
    """The last write of an object: which event it was, and whose."""

    position: int
    process: str


def count(world: World, entries: Sequence[FoldedEntry], floor: int) -> None:
    """Add to the world's counts what its trace, its objects and its log tell; ``entries`` are all that ever were."""
    paths, trace = world.paths, world.store.trace.events
    writes = _writes(trace)
    makers = [writes.get(paths.entry(folded.number)) for folded in entries]
    world.counts.update(what for folded in entries for what in _met(folded, paths, writes, makers))
    world.counts.update("lost race" for event in trace if event.outcome == "conflict" and paths.entry_number(event.key) is not None)
    prefixes = {paths.handed: "collected hand-over", paths.jobs: "collected job object"}
    for key in world.archive.deleted:
        if paths.entry_number(key) is not None:
            world.counts["trimmed entry"] += 1
        world.counts.update(what for prefix, what in prefixes.items() if key.startswith(prefix))
    world.counts["trim"] += bool(floor)
    world.counts["expired row"] += sum(world.history.starts.values())
    for session in world.history.sessions:
        outcomes = (send.outcome for send in session.sends)
        world.counts.update("ack" if isinstance(one, tuple) else f"send: {getattr(one, 'kind', 'died')}" for one in outcomes)


def _writes(trace: Sequence[Event]) -> dict[str, Write]:
    return {
        event.key: Write(position, event.process)
        for position, event in enumerate(trace)
        if event.verb in {"put", "put_large"} and " bytes " in event.outcome
    }


def _met(folded: FoldedEntry, paths: TopicPaths, writes: Mapping[str, Write], makers: Sequence[Write | None]) -> Iterator[str]:
    yield "entry"
    for epoch in folded.epochs:
        yield "void opening" if isinstance(epoch, VoidReason) else "opening"
    for batch, verdict in zip(folded.header.batches, folded.verdicts, strict=True):
        if isinstance(verdict, VoidReason):
            yield "void batch"
            yield f"void: {verdict.name.lower()}"
            continue
        if batch.job is not None:
            yield "job linked"
        for part in batch.parts:
            key = paths.root + part.key
            handed, maker = writes.get(key), makers[folded.number - 1]
            if not key.startswith(paths.handed) or handed is None or maker is None:
                continue
            if handed.process != maker.process:
                yield "hand-over"
            elif is_step_in(handed, folded.number, part.size_bytes, makers):
                yield "step-in"
            else:
                yield "large batch beside its entry"


def is_step_in(handed: Write, number: int, size_bytes: int, makers: Sequence[Write | None]) -> bool:
    """Whether a process that linked its own hand-over in entry ``number`` had waited for others to do so.

    Others' entries passed it over; or none came, which a batch that fits an entry shows, as it is handed over for nothing else: a larger
    one is uploaded beside its own entry even where nobody waits for anybody.
    """
    passed = any(maker and handed.position < maker.position and maker.process != handed.process for maker in makers[: number - 1])
    return passed or size_bytes <= SMALL.get("ENTRY_INLINE_BYTES_MAX", ENTRY_INLINE_BYTES_MAX)
