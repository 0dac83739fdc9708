"""Every cut of every world equals its sources, whoever dies, stands still or loses an answer; and worlds without a guard are found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from penstock.cdc.cuts import align, cut, log, places
from penstock.cdc.cuts.align import Alignment, Standing
from penstock.cdc.cuts.cut import Cut, Goal
from penstock.cdc.delta import merging
from penstock.cdc.postgres import outbox, positions
from penstock.cdc.postgres.outbox import Outbox
from penstock.cdc.targets import Progress
from penstock.consumers.ranges.offsets import TopicSnapshot
from tests.cdc.cuts import world as worlds
from tests.cdc.cuts.world import World

pytestmark = pytest.mark.simulation

STEPS = 1_200
SEEDS = 40
SEEDS_OF_MUTANTS = 80


@contextmanager
def small_numbers(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Transactions span batches, and run into the numbers of later ones."""
    patch.setattr(outbox, "BATCH_EVENTS_MAX", 4)
    patch.setattr(positions, "ORDER_BITS", 3)
    yield


def played(seed: int) -> World:
    made = World(seed, databases=1 + (seed % 3 == 0), poison=seed % 4 == 0)
    made.play(STEPS)
    return made


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_every_cut_equals_the_sources(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    with small_numbers(monkeypatch):
        cuts = 0
        for seed in range(first, first + 10):
            world = played(seed)
            world.check()
            cuts += len(world.cuts)
        assert cuts > 30


@pytest.mark.thorough
@pytest.mark.slow
def test_every_cut_equals_the_sources_in_many_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_numbers(monkeypatch):
        for seed in range(1_000, 3_000):
            played(seed).check()


def test_in_the_end_the_newest_cut_has_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    with small_numbers(monkeypatch):
        for seed in range(20):
            world = played(seed)
            if all(capture._heartbeat for capture in world.captures):
                world.check_end()


# --- Without a guard ----------------------------------------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def cut_before_the_last_merge(patch: Patch) -> None:
    patch.setattr(
        Goal, "is_reached", lambda self, position: any(position.get(queue, 0) >= end > 0 for queue, end in self.ends.items())
    )


def newest_versions(patch: Patch) -> None:
    """Also what a later driver has made, without a look at the lease behind."""
    patch.setattr(align, "is_beyond", lambda goal, progress: False)
    patch.setattr(World, "check_again", lambda *given: None)


def versions_that_others_changed(patch: Patch) -> None:
    """Or that a merge of the sync itself has made meanwhile."""

    def newest(commits: Any, owner: Any) -> tuple[int, Progress] | None:
        return next(one.version for one in commits), Progress()

    patch.setattr(merging, "newest_of", newest)
    patch.setattr(World, "check_again", lambda *given: None)


def progress_of_the_record(patch: Patch) -> None:
    """And not of the targets: what the simulation found first."""
    patch.setattr(World, "met", lambda *given: None)


def amid_a_transaction(patch: Patch) -> None:
    patch.setitem(places.KINDS, "postgres", lambda position: positions.lsn_text(positions.split(position)[0]))


def ends_of_a_later_look(patch: Patch) -> None:
    looked = Alignment.looked

    def later(self: Alignment, standing: TopicSnapshot, position: Any) -> None:
        before = self._goal
        looked(self, standing, position)
        if before is not None and self._goal is not None:
            self._goal = replace(self._goal, positions=before.positions)

    patch.setattr(Alignment, "looked", later)


def stopped_in_silence(patch: Patch) -> None:
    taken = Alignment.cut

    def silent(self: Alignment, tables: Any, *, now_ms: int) -> Cut | None:
        return taken(self, [Standing(one.name, one.commits) for one in tables], now_ms=now_ms)

    patch.setattr(Alignment, "cut", silent)


def before_the_tables_were_read(patch: Patch) -> None:
    through = Outbox._through

    def early(self: Outbox, end_lsn: int | None) -> int | None:
        self._whole_from = lambda: 0
        return through(self, end_lsn)

    patch.setattr(Outbox, "_through", early)


def events_between_transactions(patch: Patch) -> None:
    for module in (positions, worlds):
        patch.setattr(module, "after", lambda position: position + 1)


def backwards(patch: Patch) -> None:
    for module in (cut, log):
        patch.setattr(module, "follows", lambda before, cut: True)


def beyond_the_goal(patch: Patch) -> None:
    patch.setattr(Alignment, "limit", lambda self, queue, end: end)
    patch.setattr(Goal, "is_reached", lambda self, position: all(position.get(queue, 0) >= end for queue, end in self.ends.items()))
    patch.setattr(align, "any", lambda _: False, raising=False)


MUTANTS: list[Callable[[Patch], None]] = [
    cut_before_the_last_merge,
    newest_versions,
    versions_that_others_changed,
    progress_of_the_record,
    amid_a_transaction,
    ends_of_a_later_look,
    stopped_in_silence,
    before_the_tables_were_read,
    events_between_transactions,
    backwards,
    beyond_the_goal,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.__name__)
def test_a_world_without_a_guard_is_found_out(monkeypatch: pytest.MonkeyPatch, mutant: Callable[[Patch], None]) -> None:
    with small_numbers(monkeypatch):
        mutant(monkeypatch)
        for seed in range(SEEDS_OF_MUTANTS):
            try:
                played(seed).check()
            except AssertionError:
                return
    raise AssertionError("nobody noticed")
