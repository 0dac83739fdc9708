"""What a gateway answers is what `docs/kafka-side-by-side.md` says, beside what Kafka itself answered."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.kafka.serving import served
from tests.gateway.kafka.side_by_side.played import PLAYS, play_all
from tests.gateway.kafka.side_by_side.scene import Play
from tests.gateway.kafka.side_by_side.table import KAFKA


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """What was seen in all plays, which are played at once."""

    async def play() -> dict[str, str]:
        async with served(create_topics=True) as gateway:
            return await play_all(PLAYS, f"127.0.0.1:{gateway.port}", "p")

    return asyncio.run(play())


@pytest.mark.slow
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.name)
def test_a_gateway_answers_what_the_page_says(play: Play, found: dict[str, str]) -> None:
    assert found[play.name] == KAFKA.outcomes()[play.name]["penstock"]


def test_every_difference_has_its_reason() -> None:
    assert KAFKA.differing() == KAFKA.why.keys()


def test_the_page_is_what_was_seen() -> None:
    assert KAFKA.page.read_text() == KAFKA.written(), "python -m tests.gateway.kafka.side_by_side --page"
