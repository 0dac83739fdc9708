"""Transactions with one guard removed, from the tests' side: runs without faults do not need it, the sweep does."""

from __future__ import annotations

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.cells.keys import TRANSACTIONS
from penstock.coordinator.transactions import held_uploads, service, transaction_linker
from penstock.coordinator.transactions.finisher import Finisher
from penstock.coordinator.transactions.members import acks, own_members, state
from penstock.coordinator.transactions.members.own_members import OwnMembers
from penstock.coordinator.transactions.members.producer_groups import ProducerGroups
from penstock.coordinator.transactions.sending import transaction
from penstock.coordinator.transactions.sending.half_message_sender import HalfMessageSender
from penstock.coordinator.transactions.sending.settlement import Settlement
from penstock.coordinator.transactions.sending.transaction import Transaction
from penstock.log.append import in_flight
from penstock.log.format import fold
from penstock.log.format.fold import Judge
from penstock.log.lake import LogLake
from penstock.log.stores.refusals import Refusals
from tests.simulation import cell_patches
from tests.simulation.mutant import Mutant
from tests.simulation.patches import always, attribute, both, everywhere
from tests.simulation.table import SimTableClient
from tests.simulation.transactions import patches

MUTANTS: dict[str, Mutant] = {
    "refusals": Mutant(
        guard="a refusal of what was allowed before is tried again for a while",
        rule="T10",
        patch=attribute(Refusals, "_meaning", lambda _: lambda _self, _right, error: error),
        scenario="expiring",
        seeds=(1, 2),
    ),
    "conditional": Mutant(
        guard="a member's cell is written on the version that was read",
        rule="T5",
        patch=attribute(SimTableClient, "put", cell_patches.blind(TRANSACTIONS)),
        scenario="rivals",
        calm=False,
    ),
    "read-back": Mutant(
        guard="a write without an answer is read back",
        rule="T5",
        patch=attribute(Cells, "write", cell_patches.believing(TRANSACTIONS)),
        scenario="answers",
    ),
    "decided-once": Mutant(
        guard="what is decided is not decided again",
        rule="T5",
        patch=everywhere(state.check_open, always(None)),
        scenario="rivals",
        calm=False,
    ),
    "decided-first": Mutant(
        guard="nothing is linked before the decision is durable",
        rule="T2",
        patch=attribute(Transaction, "_decide", patches.linked_first),
        scenario="orders",
        calm=False,
    ),
    "linked-once": Mutant(
        guard="an upload that is linked is not linked again",
        rule="T1",
        patch=both(
            attribute(Judge, "_is_closed", lambda _: always(False)),
            everywhere(in_flight._closed, always(None)),
            everywhere(fold.follows, always(True)),
        ),
        scenario="linked twice",
    ),
    "parts-there": Mutant(
        guard="others than the sender commit only what is all there",
        rule="T6",
        patch=everywhere(service.parts_missing, always([])),
        scenario="half a send",
    ),
    "sent-meanwhile": Mutant(
        guard="what was sent since it was looked at what is there is not committed unseen",
        rule="T6",
        patch=everywhere(service.check_same, always(None)),
        scenario="sent meanwhile",
    ),
    "failed-send": Mutant(
        guard="a transaction of which a send failed is not committed",
        rule="T7",
        patch=attribute(Transaction, "_commit", patches.unforgiving),
        scenario="failed send",
    ),
    "listed-first": Mutant(
        guard="a member is on its group's list before its first row",
        rule="T10",
        patch=attribute(OwnMembers, "joined", patches.at_once),
        scenario="unlisted",
    ),
    "named-anew": Mutant(
        guard="who joins a group without members writes the list of groups, also where it is on it",
        rule="T10",
        patch=attribute(ProducerGroups, "_name", patches.known),
        scenario="named amid",
    ),
    "empty-anew": Mutant(
        guard="who forgets a group writes its empty list of members first",
        rule="T10",
        patch=attribute(ProducerGroups, "forget", patches.unmet),
        scenario="forgotten amid",
    ),
    "idle-member": Mutant(
        guard="a process that was idle for long begins in a fresh member's cell",
        rule="T10",
        patch=everywhere(own_members.is_usable, always(True)),
        scenario="idle",
    ),
    "withdrawn": Mutant(
        guard="a first send in doubt is withdrawn by a write",
        rule="T5",
        patch=attribute(Transaction, "_withdraw", patches.unwritten),
        scenario="doubts",
    ),
    "sends-ended": Mutant(
        guard="a rollback refuses what is not begun of a send, and waits for what is",
        rule="T5",
        patch=both(
            attribute(HalfMessageSender, "_check_wanted", lambda _: always(None)),
            attribute(Transaction, "_sends_ended", patches.impatient),
        ),
        scenario="rolled back amid",
    ),
    "remembered": Mutant(
        guard="what others finished stays known for its sender",
        rule="T5",
        patch=everywhere(state.may_leave_at_once, always(True)),
        scenario="rivals",
        calm=False,
    ),
    "kept": Mutant(
        guard="what others finished stays known for a day",
        rule="T5",
        patch=everywhere(state.may_be_forgotten, lambda row, now_ms: row.is_finished),
        scenario="rivals",
        calm=False,
    ),
    "held": Mutant(
        guard="the collector leaves uploads of committed transactions alone",
        rule="T4",
        patch=everywhere(held_uploads.held_jobs, patches.nobody(None)),
        scenario="neglect",
    ),
    "link-in-time": Mutant(
        guard="what links a transaction leaves its process within an hour of the row that was read",
        rule="T1",
        patch=both(attribute(service, "LINK_S", always(1e12)), attribute(transaction, "LINK_S", always(1e12))),
        scenario="late finisher",
    ),
    "life": Mutant(
        guard="messages go to the life of the topic that they were sent to",
        rule="T3",
        patch=everywhere(transaction_linker.is_of_life, always(True)),
        scenario="lives",
    ),
    "store-time": Mutant(
        guard="age is counted by the store's clock",
        rule="T7",
        patch=attribute(LogLake, "keep_time", patches.unasked),
        scenario="steps",
    ),
    "whole-acks": Mutant(
        guard="all messages of a transaction are settled, or none",
        rule="T8",
        patch=everywhere(acks.settled_by, patches.one_by_one(acks.settled_by)),
        scenario="pricings",
    ),
    "verdict-by-id": Mutant(
        guard="a queue's cell that names the transaction says that it is committed",
        rule="T5",
        patch=everywhere(acks.verdict, patches.idless(acks.verdict)),
        scenario="settled unnoted",
    ),
    "ended-by-a-write": Mutant(
        guard="a delivery is over when the cell says so, not the clock",
        rule="T5",
        patch=everywhere(acks.can_be_settled, patches.by_the_clock(acks.can_be_settled)),
        scenario="settled late",
    ),
    "noted-first": Mutant(
        guard="a queue's cell forgets a transaction when that is noted, not before",
        rule="T8",
        patch=attribute(Settlement, "_settle", patches.forgotten_first),
        scenario="pricings",
        calm=False,
    ),
    "acks-decide": Mutant(
        guard="a transaction that settles messages is decided by their cell alone",
        rule="T8",
        patch=everywhere(state.check_decidable, always(None)),
        scenario="pricings",
    ),
    "nothing-left": Mutant(
        guard="who brings all to its end at once leaves nothing of it to its next look",
        rule="T10",
        patch=attribute(Finisher, "once", patches.hesitant),
        scenario="orders",
    ),
}
