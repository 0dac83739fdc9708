"""Small stories of timed messages, for one fault at a time: together they meet every step of the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from tests.simulation.faults import Call, FaultPlan
from tests.simulation.plans import DAY_S, HOUR_S
from tests.simulation.singles import Story
from tests.simulation.sweeping import Played
from tests.simulation.timers.plot import SMALL, Plot
from tests.simulation.timers.world import STORE_NETWORK, Timing

_OPTIONS = replace(SMALL, claim_rows=2, flush_rows=100, settle=timedelta(seconds=1))


def _timing(seed: int, plot: Plot, *, late_s: tuple[float, float] = (0.5, 10.0), store: FaultPlan | None = None) -> Timing:
    """Cells in the store, so that there is one service; right clocks, and pauses during which another takes over."""
    network = replace(STORE_NETWORK, very_slow=0.0, pause_s=plot.pause_s, late_s=late_s)
    return Timing(seed, plot, store_plan=store, store_network=network)


def _plot(**stated: Any) -> Plot:
    calm: dict[str, Any] = {
        "queues": 2,
        "messages": 4,
        "burst": (2, 2),
        "send_for_s": 2.0,
        "ahead_s": (1.0, 4.0),
        "slots_s": 1.0,
        "players": 1,
        "options": _OPTIONS,
        "recalls_every_s": 0.0,
        "lists_every_s": 0.0,
        "pause_s": (7.0, 9.0),
        "offset_ms": 0,
        "drift": 0.0,
        "faults_end_s": 3.0,
        "weights": {"slot": 3.0, "any": 3.0},
    }
    return Plot(**{**calm, **stated})


def _to(pattern: str, *names: str) -> Callable[[Played, str, Call], bool]:
    """Only requests for such keys, of processes whose names begin so: those that a story adds to what others meet in full."""

    def befallen(world: Played, service: str, call: Call) -> bool:
        return re.match(pattern, call.key) is not None and call.process.startswith(names)

    return befallen


_CELL_AND_RUNS = "coordination/timers/|timers/"
_of_players = _to(_CELL_AND_RUNS, "m")
_of_others = _to("(?!.probe/)", "recaller", "lister")


def _recalls_and_lists(world: Played, service: str, call: Call) -> bool:
    """All that recalls and lists ask, and what players do about them."""
    return _of_players(world, service, call) or _of_others(world, service, call)


STORIES: Mapping[str, Story] = {
    "one player sends, claims, appends and settles": Story(make=partial(_timing, 1, _plot()), meets=("claim",)),
    "messages are recalled and listed": Story(
        make=partial(
            _timing,
            1,
            _plot(
                messages=5,
                ahead_s=(2.0, 6.0),
                recalls_every_s=0.8,
                lists_every_s=2.0,
                faults_end_s=5.0,
                options=replace(_OPTIONS, recalled_rows=1),
            ),
        ),
        meets=("claim", "recall: done", "recalls left the cell", "listed"),
        befallen=_recalls_and_lists,
    ),
    "what waits is gathered, merged and read from runs": Story(
        make=partial(
            _timing,
            1,
            _plot(
                messages=6,
                ahead_s=(5.0, 8.0),
                options=replace(_OPTIONS, flush_rows=2, merge_runs=2, ahead=timedelta(seconds=2), group_bytes=700),
            ),
        ),
        meets=("claim", "gathered", "run named", "merge"),
        befallen=_of_players,
    ),
    "two players at once, deployed anew": Story(
        make=partial(_timing, 8, _plot(players=2, deploys_every_s=2.0, faults_end_s=4.0)),
        meets=("claim", "deploy"),
        befallen=_to(f"{_CELL_AND_RUNS}|topics/orders/log/", "m"),
    ),
    "the topic is deleted and made anew": Story(
        make=partial(_timing, 1, _plot(messages=6, deletes=1, deletes_every_s=1.5)),
        meets=("claim", "topic created again"),
        befallen=_to(f"{_CELL_AND_RUNS}|topics/[^/]*/topic|topics/orders/log/0", "deleter", "sender", "m"),
    ),
    "maintenance spares what waits, and removes merged runs": Story(
        make=partial(
            _timing,
            1,
            _plot(
                send_for_s=8 * HOUR_S,
                ahead_s=(5 * DAY_S, 6 * DAY_S),
                slots_s=HOUR_S,
                options=replace(
                    _OPTIONS,
                    tick=timedelta(hours=4),
                    probe=timedelta(hours=8),
                    flush_rows=2,
                    merge_runs=2,
                    ahead=timedelta(hours=8),
                    settle=timedelta(hours=1),
                ),
                maintained_every_s=2.0 * DAY_S,
                pause_s=(DAY_S, 3 * DAY_S),
                faults_end_s=5 * DAY_S,
                quiet_s=10 * DAY_S,
            ),
            late_s=(HOUR_S, 2 * DAY_S),
        ),
        meets=("claim", "merge", "run deleted"),
        befallen=_to(f"{_CELL_AND_RUNS}|topics/timer.orders/topic", "upkeep"),
    ),
}

_KINDS = (
    (r"\.probe/", "probe of conditional writes"),
    (r"coordination/timers/", "the timer cell"),
    (r"timers/.*\.parquet$", "a run"),
    (r"timers/.*\.recalled$", "recalled messages"),
    (r"timers/", "runs"),
    (r"topics/timer\.[^/]*/log/\d", "an entry of the timer log"),
    (r"topics/timer\.[^/]*/topic\.json", "the timer log's record"),
    (r"topics/timer\.[^/]*/staged/", "the timer log's uploads"),
    (r"topics/timer\.[^/]*/table/", "the timer log's table"),
    (r"topics/timer\.[^/]*/", "the timer log's other objects"),
    (r"topics/[^/]*/log/\d", "an entry of the topic"),
    (r"topics/[^/]*/topic\.json", "the topic's record"),
    (r"topics/", "the topic's other objects"),
)


def step_of(service: str, call: Call) -> str:
    """What a request is for."""
    kind = next((kind for pattern, kind in _KINDS if re.match(pattern, call.key)), "the lake's other objects")
    return f"{call.verb.replace('_', ' ')}: {kind}" if call.verb != "clock" else "the store's time"
