"""The protocol with one guard removed, by replacing one function from the tests' side.

Every mutant passes runs without faults and is caught by the simulation: so the guard is needed, and the simulation would notice if it
broke. A ``rule`` is an invariant of note 0001.
"""

from __future__ import annotations

from penstock.log.append import in_flight, pending_hand_overs
from penstock.log.append.appender import Appender
from penstock.log.append.in_flight import InFlightAppends
from penstock.log.format import fold, idempotence
from penstock.log.format.fold import Judge
from penstock.log.format.idempotence import Standing
from penstock.log.format.schema_form import schema_of
from penstock.log.linker import Linker
from penstock.log.message.batch_rows import BatchRows
from penstock.log.produce.idempotent_appender import IdempotentAppender
from penstock.log.produce.producer import Producer
from penstock.log.stage import jobs
from penstock.log.table.collector import Collector
from penstock.log.table.delta import segments
from penstock.log.table.publisher import Publisher
from penstock.log.table.trimmer import Trimmer
from penstock.log.tail.view import View
from tests.simulation import patches
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, both, everywhere
from tests.simulation.process import SimClock
from tests.simulation.store import SimClient

MUTANTS: dict[str, Mutant] = {
    "create-if-absent": Mutant(
        guard="an entry is put only where there is none",
        rule="I1",
        patch=attribute(SimClient, "put", patches.replacing),
        scenario="crowd",
        seeds=(0,),
    ),
    "write-id": Mutant(
        guard="what stands under the key is ours only by its write id",
        rule="I3",
        patch=attribute(Appender, "_write", patches.own_by_place),
        scenario="crowd",
        seeds=(0,),
    ),
    "opening-id": Mutant(
        guard="an opener knows its opening by the write id",
        rule="I7",
        patch=everywhere(in_flight.is_own, lambda accepted, own: accepted.producer == own.producer),
        scenario="names",
        seeds=(24,),
    ),
    "previous": Mutant(
        guard="a batch follows the producer's last one",
        rule="I3",
        patch=everywhere(fold.follows, always(True)),
        scenario="crowd",
        seeds=(0,),
    ),
    "epoch": Mutant(
        guard="a batch is of the name's current epoch",
        rule="I7",
        patch=everywhere(fold.is_of_epoch, always(True)),
        scenario="names",
        seeds=(1,),
    ),
    "validity": Mutant(
        guard="a batch is brought within its validity",
        rule="I3",
        patch=both(
            everywhere(fold.is_expired, always(False)),
            attribute(pending_hand_overs, "VALIDITY_ENTRIES", always(10_000)),
            attribute(pending_hand_overs, "LIST_TAILS", always(10_000)),
        ),
        scenario="crowd",
        seeds=(0,),
    ),
    "generation": Mutant(
        guard="a batch is of this life of the topic",
        rule="I8",
        patch=everywhere(fold.is_of_generation, always(True)),
        scenario="relives",
        seeds=(0,),
    ),
    "growth-generation": Mutant(
        guard="a growth begins a routing generation",
        rule="I14",
        patch=attribute(Judge, "_grow", patches.unnumbered_growth),
        scenario="growing",
        seeds=(0,),
        calm=False,
    ),
    "growth-rows": Mutant(
        guard="rows that a growth voided are routed anew",
        rule="I14",
        patch=attribute(BatchRows, "routed_anew", lambda original: lambda self, router: self),
        scenario="growing",
        seeds=(0,),
        calm=False,
    ),
    "one-outstanding": Mutant(
        guard="a producer has one batch on its way",
        rule="I5",
        patch=attribute(Producer, "_append_all", patches.overlapping),
        scenario="hasty",
        seeds=(7,),
    ),
    "nothing-overtakes": Mutant(
        guard="what is queued behind a failed batch fails too",
        rule="I5",
        patch=attribute(Producer, "_append_all", patches.overtaking),
        scenario="hasty",
        seeds=(7,),
    ),
    "row-kept": Mutant(
        guard="an unnamed producer's row outlives its batches' validity",
        rule="I3",
        patch=attribute(fold, "UNNAMED_ROW_ENTRIES", always(1)),
        scenario="crowd",
        seeds=(1,),
    ),
    "row-of-epoch": Mutant(
        guard="only a row of the same epoch proves anything",
        rule="I3",
        patch=everywhere(in_flight.proves, always(True)),
        scenario="trims",
        seeds=(14,),
    ),
    "jump-proof": Mutant(
        guard="after a jump a send without a row is unknown",
        rule="I4",
        patch=everywhere(in_flight.after_jump, patches.jump_is_no_proof(in_flight.after_jump)),
        scenario="trims",
        seeds=(2,),
    ),
    "exposure": Mutant(
        guard="not written only when no request can still bring it",
        rule="I4",
        patch=everywhere(in_flight.at_deadline, patches.never_unknown(None)),
        scenario="hasty",
        seeds=(0,),
    ),
    "repeated-opening": Mutant(
        guard="an opening counts once",
        rule="I7",
        patch=everywhere(fold.was_accepted, always(False)),
        scenario="names",
        seeds=(0,),
    ),
    "known-name": Mutant(
        guard="an opener says where to go on only for a name that nobody knows",
        rule="I5",
        patch=everywhere(fold.goes_on_from, lambda _, opening: opening.last_sequence),
        scenario="names",
        seeds=(0,),
    ),
    "store-time": Mutant(
        guard="the store time never goes back",
        rule="I6",
        patch=everywhere(fold.store_time, lambda before, now: now),
        scenario="crowd",
        seeds=(1,),
    ),
    "late-answers": Mutant(
        guard="late answers are checked against the floor",
        rule="I1",
        patch=attribute(View, "confirm", patches.unasked),
        scenario="trims",
        seeds=(0,),
    ),
    "view-age": Mutant(
        guard="what is known of the tail is believed for five minutes",
        rule="I1",
        patch=attribute(View, "is_aged", lambda _: property(always(False))),
        scenario="trims",
        seeds=(0,),
    ),
    "late-201": Mutant(
        guard="a late 201 is checked against the floor",
        rule="I3",
        patch=attribute(View, "confirm", patches.believed_when("_write")),
        scenario="trims",
        seeds=(0,),
    ),
    "suspend-counts": Mutant(
        guard="views age while the machine is suspended",
        rule="I1",
        patch=attribute(SimClock, "monotonic_s", patches.asleep),
        scenario="trims",
        seeds=(0,),
    ),
    "floor-stands": Mutant(
        guard="a floor stands for an hour before anything is deleted",
        rule="I1",
        patch=attribute(Trimmer, "has_stood", lambda _: always(True)),
        scenario="rush",
        seeds=(0,),
    ),
    "floor-first": Mutant(
        guard="the floor is raised before anything is deleted",
        rule="I9",
        patch=attribute(Trimmer, "_raise", patches.delete_first),
        scenario="rush",
        seeds=(0,),
    ),
    "anchor": Mutant(
        guard="the floor is a checkpoint that was read",
        rule="I9",
        patch=attribute(Trimmer, "_candidate", patches.between_checkpoints),
        scenario="trims",
        seeds=(0,),
    ),
    "compared-first": Mutant(
        guard="only what is published, and equal in log and table, is trimmed",
        rule="I10",
        patch=both(attribute(Trimmer, "bound", lambda _: always(2**62)), attribute(Trimmer, "is_anchor", lambda _: always(True))),
        scenario="days",
        seeds=(0,),
    ),
    "txn": Mutant(
        guard="a publisher commits only where the table still ends there",
        rule="I10",
        patch=attribute(Publisher, "may_commit", lambda _: always(True)),
        scenario="days",
        seeds=(33, 11),
    ),
    "links-outlive": Mutant(
        guard="handed batches stay as long as their entries",
        rule="I11",
        patch=attribute(Collector, "is_past", lambda _: always(True)),
        scenario="days",
        seeds=(0,),
    ),
    "links-margin": Mutant(
        guard="handed batches stay while a later entry may bring them",
        rule="I11",
        patch=attribute(Collector, "is_past", patches.without_margin),
        scenario="uploads",
        seeds=(7,),
    ),
    "job-links-outlive": Mutant(
        guard="linked jobs stay as long as their entries",
        rule="I11",
        patch=attribute(Collector, "may_delete", lambda _: patches.async_true),
        scenario="days",
        seeds=(0,),
    ),
    "job-closed": Mutant(
        guard="a closed job is not linked any more",
        rule="I11",
        patch=both(attribute(Judge, "_is_closed", lambda _: always(False)), everywhere(in_flight._closed, always(None))),
        scenario="strays",
        seeds=(1, 2),
    ),
    "link-in-time": Mutant(
        guard="what links a job leaves a process within a day",
        rule="I11",
        patch=attribute(jobs, "JOB_LINK_MAX_S", always(1e12)),
        scenario="jobs",
        seeds=(44, 81),
    ),
    "link-read-back": Mutant(
        guard="a link of which no answer came counts only once the reopened name says so",
        rule="I3",
        patch=attribute(Linker, "_reopened_behind", lambda _: patches.async_true),
        scenario="linking",
        seeds=(2,),
    ),
    "fresh-names": Mutant(
        guard="a data file's name is used once",
        rule="I10",
        patch=everywhere(segments.new_path, patches.name_of_rows(segments.new_path)),
        scenario="expiry",
        seeds=(4,),
    ),
    "fresh-snapshot": Mutant(
        guard="the collector lists first and then asks the table anew",
        rule="I10",
        patch=attribute(Collector, "list_then_snapshot", patches.old_snapshot),
        scenario="files",
        seeds=(17,),
    ),
    "evolution-follows": Mutant(
        guard="an evolution may follow the schema that the log has by then",
        rule="E1",
        patch=everywhere(fold.judged, lambda form, _: schema_of(form)),
        scenario="evolves",
        seeds=(12, 45),
    ),
    "numbers-follow": Mutant(
        guard="an idempotent producer's batch follows what the log has of it",
        rule="P1",
        patch=everywhere(idempotence.standing, always(Standing.FOLLOWS)),
        scenario="idempotent",
        seeds=(0,),
    ),
    "begins-row": Mutant(
        guard="a batch behind another that is on its way is not the first that the log knows of its producer",
        rule="I5",
        patch=everywhere(idempotence.may_begin_row, always(True)),
        scenario="idempotent",
        seeds=(16, 22, 39),
    ),
    "missing-before": Mutant(
        guard="a process that failed to write a producer's first batch takes none behind it for the first",
        rule="I5",
        patch=attribute(IdempotentAppender, "_missing", lambda _: always(None)),
        scenario="idempotent",
        unmet=True,
    ),
    "numbered-row-kept": Mutant(
        guard="an idempotent producer's row outlives its client's retries",
        rule="P1",
        patch=everywhere(idempotence.may_leave, patches.leaves_by_entries),
        scenario="idempotent",
        seeds=(0,),
    ),
    "has-all": Mutant(
        guard="only what was accepted without a gap is a duplicate",
        rule="I3",
        patch=everywhere(idempotence.has_all, lambda row, batch: batch.last <= row.last),
        scenario="idempotent",
        unmet=True,
    ),
    "may-be-filled": Mutant(
        guard="a batch that a request may still bring is not out of order",
        rule="I4",
        patch=everywhere(in_flight.may_be_filled, always(False)),
        scenario="idempotent",
        unmet=True,
    ),
    "looks-for-gaps": Mutant(
        guard="a batch is out of order only by a look at the log's end",
        rule="P4",
        patch=attribute(InFlightAppends, "folded", patches.unlooked),
        scenario="idempotent",
        seeds=(6, 9, 12),
    ),
    "round": Mutant(
        guard="a batch is numbered anew once the round of its sequences is known",
        rule="P4",
        patch=everywhere(idempotence.in_round_of, lambda _, batch: batch),
        scenario="idempotent",
        seeds=(6, 31),
    ),
    "turns": Mutant(
        guard="turns are taken until nothing is pending, also behind one that failed",
        rule="I13",
        patch=attribute(Appender, "_run", patches.tiring),
        scenario="crowd",
    ),
    "looks-first": Mutant(
        guard="a producer looks what has gathered before it waits for more",
        rule="I13",
        patch=attribute(Producer, "_next", patches.asleep_first),
        scenario="crowd",
    ),
}
