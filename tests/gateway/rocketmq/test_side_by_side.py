"""What RocketMQ's SDKs see of a gateway is what `docs/rocketmq-side-by-side.md` says, beside what they saw of RocketMQ itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import penstock
from tests.gateway.gateways import RunningGateway, gateway
from tests.gateway.sdk import sdk
from tests.gateway.side_by_side.played import PLAYS, play_all
from tests.gateway.side_by_side.scene import Play
from tests.gateway.side_by_side.stages import LakeStage
from tests.gateway.side_by_side.table import ROCKETMQ
from tests.thorough import thoroughly

LONG = ("ahead", "never-acked", "simple-gives-up", "asked-again", "reserved-group", "reset")
"""They wait for half a minute and longer; `test_consuming.py`, `test_sdk_consumers.py` and `test_sdk_producers.py` have the same in less."""
PLAYED = thoroughly(PLAYS, tuple(play for play in PLAYS if play.name not in LONG))


@pytest.fixture(scope="module")
def served(lake: penstock.Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with gateway(lake.url, tmp_path_factory.mktemp("gateway"), "--first-check", "2s", in_a_hurry=True) as running:
        yield running


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, lake: penstock.Lake, served: RunningGateway, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What one SDK saw in all plays, which are played at once."""
    with ExitStack() as stack:
        client = stack.enter_context(sdk(request.param, served.endpoints, tmp_path_factory.mktemp(request.param)))
        seen = play_all(PLAYED, [client], LakeStage(lake), "p", at_once=24)
    return {name: by_language[request.param] for name, by_language in seen.items()}


def languages() -> list[Any]:
    # The SDK for Python takes the processor for twice as long, and sees the same.
    marks = {"java": [], "python": [pytest.mark.thorough]}
    return [pytest.param(name, marks=[*more, getattr(pytest.mark, f"{name}_sdk")], id=name) for name, more in marks.items()]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.timeout(400)
@pytest.mark.parametrize("found", languages(), indirect=True)
@pytest.mark.parametrize("play", PLAYED, ids=lambda play: play.name)
def test_an_sdk_sees_what_the_page_says(play: Play, found: dict[str, Any], request: pytest.FixtureRequest) -> None:
    language = request.node.callspec.params["found"]
    kept = ROCKETMQ.outcomes()[play.name]["penstock"]
    assert isinstance(kept, dict)
    assert found[play.name] == kept[language]


def test_every_difference_has_its_reason() -> None:
    assert ROCKETMQ.differing() == ROCKETMQ.why.keys()


def test_the_page_is_what_was_seen() -> None:
    assert ROCKETMQ.page.read_text() == ROCKETMQ.written(), "python -m tests.gateway.side_by_side --page"
