"""The demo's processes end: by themselves, by their parent, with it, and never unnoticed."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from examples.demo.outcome import DemoFailed
from examples.demo.processes.child import Child
from examples.demo.processes.reports import Ready, Share
from tests.demo.shop import lines, write_capture
from tests.lakes import TIMEOUT_S

pytestmark = pytest.mark.processes


def share(folder: Path, events: str) -> Share:
    return Share(lake=str(folder / "lake"), topic="shop", events=events, producers=1, producer=0)


async def test_one_that_ends_without_a_word_is_noticed() -> None:
    with TemporaryFile() as said:
        child = await Child.start("no_such_module", {}, name="the test", stderr=said)
        with pytest.raises(DemoFailed, match=r"the test ended before its work.*exit code 1"):
            await child.hear()
        await child.end()


async def test_one_that_fails_says_why_without_a_traceback(tmp_path: Path) -> None:
    with TemporaryFile() as said:
        child = await Child.start("producer", asdict(share(tmp_path, "nowhere.jsonl")), name="producer-1", stderr=said)
        with pytest.raises(DemoFailed, match="producer-1 failed: there is no such file"):
            await child.hear()
        await child.ended()
        await child.end()
        assert said.tell() == 0


async def test_one_that_waits_for_a_word_ends_when_its_parent_does(tmp_path: Path) -> None:
    events = write_capture(tmp_path, lines()[:5])
    child = await Child.start("producer", asdict(share(tmp_path, str(events))), name="producer-1")
    assert await child.hear() == Ready(5)
    child._to.close()
    await asyncio.wait_for(child.ended(), TIMEOUT_S)
    await child.end()
