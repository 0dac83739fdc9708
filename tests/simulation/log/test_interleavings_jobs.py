"""Staged rows that outlive their job: the collector has closed, deleted and forgotten it before their link leaves the process."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log.errors import NotWritten, UnknownOutcome
from penstock.log.produce.receipts import SendResult
from tests.playing import played_on
from tests.simulation.log.stage import HOUR_S, Stage

pytestmark = pytest.mark.simulation

LARGE = "x" * 60_000


@pytest.mark.parametrize("name", [None, "name"], ids=["unnamed", "named"])
@played_on(Stage)
async def test_a_patient_writer_links_no_job_that_was_given_up_and_forgotten(stage: Stage, name: str | None) -> None:
    """It may wait for a month, and comes by a jump to a state that knows nothing of its job any more.

    The unnamed one's batch never left the process, as its upload was so slow; the named one's did, and its row proves that it is not
    written yet. Both would go on.
    """
    writer = await stage.producer("writer", name)
    await writer.sent("small", sequence=1 if name else None)
    gate = stage.hold_entry("writer") if name else stage.hold("writer", "put_large", "staged/jobs", "after")
    send = writer.send(LARGE, sequence=2 if name else None)
    await gate.reached()
    await asyncio.sleep(60 * HOUR_S)
    process, upkeep = await stage.maintenance()
    assert (await process.run(upkeep.collect())).closed == 1
    await stage.fill(10)
    assert (await process.run(upkeep.collect())).job_objects == 2
    assert (await process.run(upkeep.collect())).forgotten == 1
    await stage.fill(12)
    assert await stage.trim() >= 16
    gate.release()
    # When its day is over, the one waits at home, and a request of the other's is still under way.
    assert isinstance(await writer.settle(send), UnknownOutcome if name else NotWritten)
    again = await stage.producer("writer", name)
    assert isinstance(await again.sent(LARGE, sequence=2 if name else None), SendResult)
