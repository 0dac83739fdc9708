"""Topics that a test writes by hand, and one round of their upkeep."""

from __future__ import annotations

from penstock.log.stores.faults import Fault, FaultKind
from penstock.log.table.comparison.full import Comparer
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance
from penstock.log.table.publisher import Publisher
from penstock.log.table.trimmer import Trimmer, read_floor_object
from tests.log.table.readers import snapshot_of
from tests.log.topics import LogWriter


async def topic(entries: int, *, publish_every: int = 1) -> LogWriter:
    log = await LogWriter().create()
    publisher = Publisher(log.store, log.paths, log.record, log.runtime)
    for n in range(entries):
        await log.send({n % 4: 2, 0: 1}, staged=n % 7 == 3)
        if n % publish_every == 0:
            await publisher.publish_once()
    await publisher.publish_once()
    return log


def maintenance(log: LogWriter, store: object = None, *, iceberg: bool = False, **options: object) -> TopicMaintenance:
    return TopicMaintenance(
        store or log.store,  # type: ignore[arg-type]
        log.paths,
        log.record,
        log.runtime,
        log.append_actions,  # type: ignore[arg-type]
        MaintenanceOptions(**options),  # type: ignore[arg-type]
        iceberg=iceberg,
    )


def delta_of(log: LogWriter) -> DeltaLog:
    return DeltaLog(log.store, log.paths, log.record.table, log.runtime)


async def keys(log: LogWriter, under: str) -> list[str]:
    return [info.key for info in await log.store.list(log.paths.root + under)]


class RefusedCommits:
    """A plan of faults: nobody may write to the table's Delta log while it is on."""

    def __init__(self) -> None:
        self.on = True

    def __call__(self, number: int, verb: str, key: str) -> Fault | None:
        return Fault(FaultKind.PERMISSION) if self.on and verb == "put" and "/_delta_log/" in key else None


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
