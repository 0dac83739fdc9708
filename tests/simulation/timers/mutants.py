"""The timers with one guard removed, from the tests' side: runs without faults do not need it, the sweep does."""

from __future__ import annotations

import math

from penstock.coordinator.cells.document import Document
from penstock.coordinator.timers import claim_appender, orphans
from penstock.coordinator.timers.cell import preconditions
from penstock.coordinator.timers.cell.cell import TimerCell
from penstock.coordinator.timers.cell.selection import WaitingIndex
from penstock.coordinator.timers.cell.state import TimerState
from penstock.coordinator.timers.claim_appender import ClaimAppender
from penstock.coordinator.timers.player import TimerPlayer
from penstock.coordinator.timers.runs import run_merges
from penstock.coordinator.timers.runs.run_merges import Gatherer
from penstock.coordinator.timers.timer_log_follower import TimerLogFollower
from penstock.log.lake import LogLake
from penstock.log.stores.refusals import Refusals
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, both, everywhere
from tests.simulation.timers import patches

MUTANTS: dict[str, Mutant] = {
    "refusals": Mutant(
        guard="a refusal of what was allowed before is tried again for a while",
        rule="T11",
        patch=attribute(Refusals, "_meaning", lambda _: lambda _self, _right, error: error),
        scenario="expiring",
        seeds=(1, 2),
    ),
    "claim-first": Mutant(
        guard="a claim is in the cell before anything of it is appended",
        rule="T1",
        patch=both(
            attribute(TimerPlayer, "_claim", patches.appended_first), attribute(preconditions, "still_open", lambda _: always(True))
        ),
        scenario="rivals",
        calm=False,
    ),
    "settled-when-durable": Mutant(
        guard="a claim is settled only when it is in the topic",
        rule="T5",
        patch=attribute(ClaimAppender, "append", patches.believing),
        scenario="rivals",
        seeds=(3,),
    ),
    "conditional": Mutant(
        guard="the cell is written on what was read",
        rule="T6",
        patch=attribute(Document, "write", patches.blind),
        scenario="rivals",
    ),
    "sequences": Mutant(
        guard="a claim goes under its sequences, so that whoever repeats it finds it",
        rule="T1",
        patch=everywhere(claim_appender.numbered, patches.without_sequences(None)),
        scenario="rivals",
    ),
    "reach": Mutant(
        guard="a claim is repeated when all that it knew was read",
        rule="T1",
        patch=attribute(TimerLogFollower, "reach", patches.never_reached),
        scenario="rivals",
    ),
    "order": Mutant(
        guard="a claim goes by delivery time",
        rule="T2",
        patch=attribute(WaitingIndex, "within", patches.as_sent),
        scenario="rivals",
        calm=False,
    ),
    "store-time": Mutant(
        guard="what is due is decided by what the store's clock has reached",
        rule="T3",
        patch=attribute(preconditions, "due_until_us", patches.by_this_machine),
        scenario="clocks",
    ),
    "recall": Mutant(
        guard="what was let go cannot be recalled",
        rule="T4",
        patch=attribute(TimerState, "with_recalled", patches.recalled_anyway),
        scenario="recalls",
        calm=False,
    ),
    "recalled": Mutant(
        guard="what was recalled stays listed until its time has passed",
        rule="T4",
        patch=attribute(TimerState, "with_arrived", patches.forgetting_recalls),
        scenario="recalls",
        calm=False,
    ),
    "gathered": Mutant(
        guard="what another has gathered is not gathered again",
        rule="T6",
        patch=everywhere(run_merges.may_name, patches.gathered_again(run_merges.may_name)),
        scenario="runs",
        seeds=(1,),
    ),
    "merged": Mutant(
        guard="runs that another has merged are not merged again",
        rule="T1",
        patch=everywhere(run_merges.may_name, patches.merged_again(run_merges.may_name)),
        scenario="runs",
        seeds=(3, 0),
    ),
    "run-first": Mutant(
        guard="a run is there before the cell names it",
        rule="T7",
        patch=attribute(Gatherer, "_put", patches.named_first),
        scenario="runs",
    ),
    "needed": Mutant(
        guard="nothing of the timer log expires that waits nowhere else",
        rule="T1",
        patch=everywhere(orphans.still_needed, patches.all_of_it(None)),
        scenario="weeks",
        seeds=(1,),
        steps=90_000,
        calm=False,
    ),
    "of": Mutant(
        guard="what waited for one life of a topic is let go into no other",
        rule="T9",
        patch=both(
            attribute(LogLake, "timer_log", patches.any_log),
            attribute(preconditions, "belongs", lambda _: always(True)),
            attribute(ClaimAppender, "_open", patches.any_life),
        ),
        scenario="lives",
        seeds=(2,),
    ),
    "probe": Mutant(
        guard="a player never pauses for long: its machine may sleep meanwhile, and its clock of sleeps with it",
        rule="T12",
        patch=attribute(TimerPlayer, "_pause", patches.sound_asleep),
        scenario="weeks",
    ),
}

MUTANTS_BY_HAND: dict[str, Mutant] = {
    "touch": Mutant(
        guard="the cell is written before orphans are removed",
        rule="T7",
        patch=attribute(TimerCell, "touch", patches.untouched),
        scenario="strays",
        steps=250_000,
    ),
    "named-soon": Mutant(
        guard="a run that could not be named within an hour is given up",
        rule="T7",
        patch=attribute(run_merges, "_NAMED_WITHIN_S", lambda _: math.inf),
        scenario="strays",
        steps=250_000,
    ),
    "forgotten": Mutant(
        guard="the messages of a claim are looked for by their ids where the name may be forgotten",
        rule="T1",
        patch=attribute(preconditions, "may_be_forgotten", lambda _: always(False)),
        scenario="idle",
    ),
    "still-open": Mutant(
        guard="a claim is compared with the cell again when the name is open",
        rule="T1",
        patch=attribute(preconditions, "still_open", lambda _: always(True)),
        scenario="idle",
    ),
    "too-soon": Mutant(
        guard="an open claim waits for its time on its successor's clock too",
        rule="T3",
        patch=attribute(preconditions, "too_soon_us", lambda _: always(0)),
        scenario="clocks",
    ),
}
"""Those that sweeps are not sure to meet: `test_by_hand` has the interleavings that notice them."""
