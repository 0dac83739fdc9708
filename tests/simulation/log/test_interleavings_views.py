"""Two tasks of one process share a view of the log: what one asked is answered when the other has moved the view on."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log.errors import DataDamaged, UnknownOutcome
from penstock.log.read.reader import Reader
from penstock.log.stores.protocol import Put
from penstock.log.tail.view import View
from tests.playing import played_on
from tests.simulation.log.stage import HOUR_S, Stage
from tests.simulation.log.world import TOPIC
from tests.simulation.patches import always, attribute

pytestmark = pytest.mark.simulation


def test_an_answer_about_a_place_that_the_view_has_left_is_not_believed() -> None:
    """A PUT lands late, on a key that was trimmed. A GET of that key is under way while another task reopens the view; what it brings
    must not reach a reader of the same process that still stands before it.
    """
    _play_an_answer_that_the_view_did_not_wait_for()


def test_without_that_guard_the_judge_notices() -> None:
    """No random world comes to this by itself often enough, so the mutant of this guard plays here."""
    with attribute(View, "is_ahead", lambda _: always(True))(), pytest.raises(AssertionError, match="I6 b'late' was read"):
        _play_an_answer_that_the_view_did_not_wait_for()


def _play_an_answer_that_the_view_did_not_wait_for() -> None:
    stage = Stage()

    async def script() -> None:
        await stage.fill(3)
        writer = await stage.producer("writer")
        process, v = writer.process, max(stage.entries())
        slow, quick = [await process.run(writer.lake.reader(TOPIC)) for _ in range(2)]
        source = slow.read(follow=True, columns=["queue", "offset", "body"])
        generation = writer.session.generation

        async def read_on(messages: int) -> None:
            while messages > 0:
                batch = await process.run(source.__anext__())
                messages -= batch.num_rows
                for queue, offset, body in zip(*(batch[name].to_pylist() for name in batch.schema.names), strict=True):
                    stage.world.history.read("slow", (generation, queue, offset), body)

        await read_on(3)  # its consumer is busy with the third from now on
        following = asyncio.ensure_future(process.run(_follow(quick)))
        await asyncio.sleep(1.0)
        put = stage.hold_entry("writer")
        send = writer.send("late")
        await put.reached()
        process.pause(4 * HOUR_S)
        await stage.fill(20)
        assert await stage.trim() > v
        get = stage.hold("writer", "get", stage.paths.entry(v + 1), "after")
        put.release()
        await get.reached()
        assert min(stage.entries()) == v + 1, "it has landed on the trimmed key"
        await asyncio.sleep(2.0)  # meanwhile the appender has noticed, and reopened the view
        get.release()
        await asyncio.sleep(1.0)  # and the answer has come
        assert isinstance(await writer.settle(send), UnknownOutcome)
        await read_on(20)
        await process.run(source.aclose())
        await process.run(quick.close())
        await following

    stage.play(script)


@played_on(Stage)
async def test_a_view_that_can_be_opened_nowhere_ends_the_send_at_once(stage: Stage) -> None:
    """The log was trimmed past the writer, and the checkpoints are damaged: waiting mends nothing, so nobody waits for the deadline."""
    await stage.fill(3)
    writer = await stage.producer("writer")
    gate = stage.hold_entry("writer")
    send = writer.send("late")
    await gate.reached()
    await stage.fill(20)
    assert await stage.trim() > 3
    checkpoints = [key for key in stage.archive._keys if key.startswith(stage.paths.checkpoints)]
    whole = {key: (await stage.archive.get(key)).data for key in checkpoints}
    for key in checkpoints:
        await stage.archive.put(key, b"damaged\n", mode=Put.REPLACE)
    started_s = asyncio.get_running_loop().time()
    gate.release()
    outcome = await writer.settle(send)
    assert isinstance(outcome, UnknownOutcome)
    assert isinstance(outcome.__cause__, DataDamaged)
    assert asyncio.get_running_loop().time() - started_s < 60.0
    for key in checkpoints:
        await stage.archive.put(key, whole[key], mode=Put.REPLACE)  # for the judge, who reads everything


async def _follow(reader: Reader) -> None:
    async for _ in reader.read(follow=True):
        pass
