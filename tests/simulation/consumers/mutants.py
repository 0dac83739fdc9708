"""The coordinator and its consumers with one guard removed, from the tests' side: runs without faults do not need it, the sweep does."""

from __future__ import annotations

import math

from penstock.consumers import membership
from penstock.consumers.dead_letters import writer
from penstock.consumers.dead_letters.copy_writer import CopyWriter
from penstock.consumers.queues import processor
from penstock.consumers.queues.dead_letter_task import DeadLetterTask
from penstock.consumers.queues.dispatcher import Dispatcher
from penstock.consumers.queues.processor import QueueProcessor
from penstock.consumers.queues.push_processor import PushProcessor
from penstock.consumers.schedule import blocked_groups
from penstock.consumers.schedule.blocked_groups import BlockedGroups
from penstock.consumers.schedule.open_lanes import OpenLanes
from penstock.consumers.schedule.push import PushSchedule
from penstock.consumers.schedule.step import Step
from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import QUEUES
from penstock.coordinator.queues import cell as cells
from penstock.coordinator.queues import keeper
from penstock.coordinator.queues.cell import DeadLetters, QueueCell
from penstock.coordinator.queues.keeper import QueueKeeper
from penstock.coordinator.rebalance.owned_queues import OwnedQueues
from penstock.coordinator.registry import groups
from penstock.coordinator.workers.session import Session, SessionMember
from penstock.coordinator.workers.watch import LeaseWatch
from penstock.coordinator.workers.worker import Worker
from penstock.log.stores.refusals import Refusals
from tests.simulation import cell_patches
from tests.simulation.consumers import patches
from tests.simulation.consumers.failover_mutants import FAILOVER_MUTANTS
from tests.simulation.consumers.growth_mutants import GROWTH_MUTANTS
from tests.simulation.consumers.spill_mutants import SPILL_MUTANTS
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, both, everywhere
from tests.simulation.table import SimTableClient

MUTANTS: dict[str, Mutant] = {
    **SPILL_MUTANTS,
    **GROWTH_MUTANTS,
    **FAILOVER_MUTANTS,
    "conditional": Mutant(
        guard="a cell is written on the version that was read",
        rule="C9",
        patch=attribute(SimTableClient, "put", cell_patches.blind(QUEUES)),
        scenario="pauses",
        seeds=(3,),
        calm=False,
    ),
    "refusals": Mutant(
        guard="a refusal of what was allowed before is tried again for a while",
        rule="C10",
        patch=attribute(Refusals, "_meaning", lambda _: lambda _self, _right, error: error),
        scenario="heals",
        seeds=(1, 6),
    ),
    "read-back": Mutant(
        guard="a write without an answer is read back",
        rule="C7",
        patch=attribute(Cells, "write", cell_patches.believing(QUEUES)),
        scenario="orderly",
        seeds=(2,),
    ),
    "durable-attempts": Mutant(
        guard="attempts are durable before the handler starts",
        rule="C7",
        patch=attribute(PushProcessor, "_write", patches.started_first),
        scenario="orderly",
        seeds=(0,),
        calm=False,
    ),
    "deadline": Mutant(
        guard="an owner past its deadline starts nothing",
        rule="C9",
        patch=both(
            attribute(Session, "_check_deadline", lambda _: always(None)),
            attribute(SessionMember, "until_s", lambda _: property(lambda self: -math.inf if self._over else math.inf)),
            attribute(SessionMember, "may_start", lambda _: lambda self: not self._over),
        ),
        scenario="pauses",
        seeds=(1,),
    ),
    "fence": Mutant(
        guard="a dead worker's heartbeat is fenced before its queues are taken",
        rule="C9",
        patch=attribute(LeaseWatch, "fence", patches.unfenced),
        scenario="pauses",
        seeds=(0, 1),
    ),
    "before-every-handler": Mutant(
        guard="the lease is asked before every handler",
        rule="C9",
        patch=both(
            attribute(PushProcessor, "until_s", lambda _: property(lambda self: math.inf)),
            attribute(PushProcessor, "_abandon", lambda _: always(None)),
        ),
        scenario="sluggish",
        seeds=(3,),
    ),
    "owner": Mutant(
        guard="who finds another owner in its cell has lost it",
        rule="C9",
        patch=attribute(QueueKeeper, "_merged", patches.not_checked),
        scenario="pauses",
        seeds=(6,),
    ),
    "own-late": Mutant(
        guard="a write of its own that arrives late does not cost a member its queue",
        rule="C10",
        patch=everywhere(keeper.take, patches.giving_up_its_own),
        scenario="overtaken",
        seeds=(15, 23),
    ),
    "doubt-kept": Mutant(
        guard="a take without an answer is looked for as long as it may arrive",
        rule="C10",
        patch=attribute(OwnedQueues, "settle_doubts", patches.looked_at_once),
        scenario="overtaken",
        seeds=(21,),
    ),
    "suspects": Mutant(
        guard="what was in flight in the dead is suspect",
        rule="C7",
        patch=attribute(QueueCell, "taken_by", patches.forgetting),
        scenario="orderly",
        seeds=(1, 0),
    ),
    "strike-alone": Mutant(
        guard="a death is a strike only for who was alone",
        rule="C8",
        patch=everywhere(cells._suspected, patches.blaming(cells._suspected)),
        scenario="orderly",
        seeds=(0, 1),
    ),
    "halving": Mutant(
        guard="suspects run in smaller and smaller company",
        rule="C10",
        patch=everywhere(cells._suspected, patches.together(cells._suspected)),
        scenario="neighbours",
        seeds=(1, 2),
    ),
    "solo": Mutant(
        guard="who is to run alone runs alone in its process",
        rule="C8",
        patch=attribute(Worker, "alone", patches.beside_others),
        scenario="neighbours",
        seeds=(0, 1),
    ),
    "generation": Mutant(
        guard="a reset forgets what was in flight, and what was settled",
        rule="C6",
        patch=attribute(QueueCell, "reset_to", patches.same_generation),
        scenario="resets",
        seeds=(0, 1),
    ),
    "reset-in-memory": Mutant(
        guard="an owner forgets with the cell",
        rule="C1",
        patch=attribute(QueueProcessor, "_obey", patches.same_schedule),
        scenario="resets",
        seeds=(0, 1),
    ),
    "listed": Mutant(
        guard="messages of blocked groups that are passed over are listed",
        rule="C6",
        patch=attribute(Step, "apply", patches.dropping("listed", list)),
        scenario="orderly",
        seeds=(1, 3),
    ),
    "waiting": Mutant(
        guard="a failed message is in the waiting list",
        rule="C1",
        patch=attribute(Step, "apply", patches.dropping("tries", dict)),
        scenario="concurrent",
        seeds=(2, 1),
    ),
    "markers": Mutant(
        guard="a blocked group has a marker",
        rule="C4",
        patch=attribute(Step, "apply", patches.dropping("markers", dict)),
        scenario="orderly",
        seeds=(0, 1),
    ),
    "caught-up": Mutant(
        guard="a marker stays until its group has caught up",
        rule="C1",
        patch=everywhere(blocked_groups._has_caught_up, always(True)),
        scenario="narrow",
        seeds=(1, 2),
    ),
    "buried": Mutant(
        guard="a dead letter stays assigned until it is durable",
        rule="C8",
        patch=attribute(DeadLetterTask, "run", patches.buried_first),
        scenario="resets",
        seeds=(4, 7),
    ),
    "letter-sequences": Mutant(
        guard="a dead letter is written under the sequence that it was given, so that the next owner finds it",
        rule="C8",
        patch=both(
            attribute(CopyWriter, "last_sequence", patches.nameless), attribute(CopyWriter, "_rows", patches.without_sequences)
        ),
        scenario="resets",
        seeds=(3,),
    ),
    "letter-names": Mutant(
        guard="each queue's dead letters go under a name of its own",
        rule="C8",
        patch=attribute(writer, "name_of", patches.one_name),
        scenario="resets",
        seeds=(2, 3),
    ),
    "older-handlers": Mutant(
        guard="nothing of a group starts while an older handler of it runs",
        rule="C4",
        patch=attribute(Dispatcher, "start", patches.at_once),
        scenario="pauses",
        seeds=(1, 2),
    ),
    "one-by-one": Mutant(
        guard="a message group's messages run one by one",
        rule="C4",
        patch=attribute(OpenLanes, "start", patches.side_by_side),
        scenario="orderly",
        seeds=(0, 1),
        calm=False,
    ),
    "drain": Mutant(
        guard="a queue is released when nothing of it runs",
        rule="C7",
        patch=attribute(PushSchedule, "_drain", patches.unfinished),
        scenario="deploys",
        seeds=(0, 1),
    ),
    "filtered-anew": Mutant(
        guard="a blocked message group is read again when the group's filter changes",
        rule="C1",
        patch=attribute(BlockedGroups, "filtered_anew", lambda _: always(None)),
        scenario="alters",
        seeds=(28,),
    ),
    "restores-letters": Mutant(
        guard="a sequence counts as written only if its message stands there",
        rule="C8",
        patch=attribute(CopyWriter, "_check_not_taken", patches.not_looked_at),
        scenario="restores",
        seeds=(4,),
    ),
    "rewinds-log": Mutant(
        guard="an owner compares the log with what the cell was written for",
        rule="B1",
        patch=attribute(processor, "agrees", lambda _: always(True)),
        scenario="rewinds",
        seeds=(0, 1),
    ),
    "rewinds-entry": Mutant(
        guard="the cell says at which entry it was written, so that offsets that were used again are noticed",
        rule="B1",
        patch=attribute(QueueProcessor, "_seen", lambda _: always(None)),
        scenario="rewinds",
        seeds=(4,),
    ),
    "lives-letters": Mutant(
        guard="dead letters of a former life are not of the messages that have their offsets now",
        rule="L1",
        patch=attribute(DeadLetters, "without_own", patches.unchanged),
        scenario="lives",
        seeds=(2, 0),
    ),
    "lives-burial": Mutant(
        guard="nothing is read for dead letters before the cell has caught up with the life that is now",
        rule="L1",
        patch=attribute(QueueProcessor, "_since", patches.from_the_first),
        scenario="lives",
        seeds=(11,),
    ),
    "lives-view": Mutant(
        guard="a member whose view is a former topic's settles nothing of the next one",
        rule="L4",
        patch=attribute(membership, "check_life", patches.unasked),
        scenario="lives",
        seeds=(2, 7),
    ),
    "lives-queues": Mutant(
        guard="cells of queues that a topic has no more are voided",
        rule="C10",
        patch=attribute(groups, "removed_queue", patches.kept),
        scenario="lives",
        seeds=(6, 7),
    ),
}
