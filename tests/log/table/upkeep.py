"""One round of upkeep of a topic that a test writes by hand."""

from __future__ import annotations

from penstock.log.table.compare import Comparer
from penstock.log.table.publisher import Publisher
from penstock.log.table.trimmer import Trimmer, read_floor_object
from tests.log.table.readers import snapshot_of
from tests.log.topics import LogWriter


async def publish(log: LogWriter) -> None:
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()


async def compared(log: LogWriter) -> Comparer:
    comparer = Comparer(log.store, log.paths, log.runtime)
    floor = await read_floor_object(log.store, log.paths)
    while await comparer.compare_once(await snapshot_of(log), floor.number):
        pass
    return comparer


async def trim(log: LogWriter, *, published: int | None = None) -> tuple[int, int]:
    """(floor, entries deleted) after one round."""
    comparer = await compared(log)
    snapshot = await snapshot_of(log)
    done = await Trimmer(log.store, log.paths, log.runtime).trim_once(
        published=snapshot.published if published is None else published,
        compared=comparer.compared,
        states=comparer.checkpoint_states,
        whole=comparer.whole,
    )
    return done.floor, done.entries


async def trimmed(log: LogWriter) -> None:
    """Publish, raise the floor, and delete what is below it."""
    await publish(log)
    await trim(log)
    log.clock.advance(hours=2)
    await trim(log)
