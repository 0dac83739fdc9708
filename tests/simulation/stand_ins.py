"""For mutants: a cheaper test than simulated runs that fails without the guard, so that `make test` need not play them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulation.mutants import mutants_of

_TESTS: Mapping[str, Mapping[str, str]] = {
    "tests/consumers/test_dead_letters.py": {
        "test_an_owner_of_long_ago_writes_nothing_after_the_next_one_has_opened_the_name": "consumers:restores-letters",
        "test_queues_and_topics_with_the_same_sequences_do_not_meet": "letters:name-of-queue",
    },
    "tests/consumers/test_failover.py": {
        "test_a_group_whose_beginning_was_lost_begins_again": "consumers:failover-begins",
        "test_an_owner_that_has_nothing_to_do_finds_out_that_its_cell_went_back": "consumers:failover-written",
        "test_a_queue_whose_release_was_lost_is_its_former_owner_s_again": "consumers:failover-released",
    },
    "tests/consumers/test_given_up_by_receivers.py": {
        "test_the_next_owner_writes_the_letter_with_its_attempts": "repeating:refused-attempts",
        "test_of_one_receive_the_earlier_message_is_given_up_first": "repeating:refused-in-order",
        "test_a_message_given_up_is_a_dead_letter_once_and_its_group_goes_on": "repeating:letters-noticed",
    },
    "tests/consumers/test_growth.py": {
        "test_a_parked_message_group_waits_in_its_new_queue_and_nobody_else_does": "consumers:growth-passed-by",
    },
    "tests/consumers/test_lives.py": {
        "test_a_member_that_has_not_heard_of_the_topic_s_end_settles_nothing_of_the_next_one": "consumers:lives-view",
        "test_dead_letters_of_queues_that_the_next_topic_has_not_are_told_as_lost": "consumers:lives-queues",
        "test_what_a_former_topic_s_message_died_of_is_no_dead_letter_of_another_message": (
            "consumers:lives-burial consumers:lives-letters"
        ),
    },
    "tests/consumers/test_named_receives.py": {
        "test_a_repeated_receive_gives_the_same_and_nothing_else": "repeating:asked repeating:named gateways:attempt",
        "test_the_next_owner_gives_the_same_again": "repeating:inherited",
        "test_receives_at_once_look_and_take_one_after_the_other": "repeating:one-by-one",
        "test_the_repetition_of_a_cancelled_receive_is_given_nothing_beside_what_that_was_given": "repeating:unwound",
        "test_what_was_acknowledged_beside_the_owner_is_not_given_again": "repeating:read",
        "test_what_is_due_is_not_given_again_though_its_owner_sleeps": "repeating:due",
        "test_of_a_lane_only_what_the_receive_was_given_is_given_again": "repeating:end",
        "test_what_its_holder_lets_go_is_not_found_nor_renewed_at_another_consumer": "gateways:let-go gateways:held",
    },
    "tests/consumers/test_put_back.py": {
        "test_a_log_that_ends_before_what_the_group_has_settled_ends_its_consumers": "consumers:rewinds-log",
        "test_so_does_one_whose_offsets_were_used_again": "consumers:rewinds-entry",
    },
    "tests/consumers/test_redrive.py": {
        "test_a_repetition_sends_what_came_since": "letters:remembered",
    },
    "tests/consumers/test_redrive_unreadable.py": {
        "test_what_stands_in_a_file_that_cannot_be_read_is_not_written_again": "letters:unseen",
    },
    "tests/consumers/test_refused.py": {
        "test_push_and_broadcast_consumers_ride_it_out": "consumers:refusals",
    },
    "tests/consumers/test_simple.py": {
        "test_a_reset_fences_what_is_out": "receiving:generation",
    },
    "tests/coordinator/test_acknowledging.py": {
        "test_a_refused_acknowledgement_leaves_the_cell_as_it_is": "receiving:expiry",
    },
    "tests/coordinator/test_former_work.py": {
        "test_a_queue_waits_until_the_floor_has_passed_the_mark": (
            "consumers:growth-gate consumers:growth-mark consumers:growth-in-flight"
        ),
        "test_a_former_queue_without_messages_is_passed_and_the_one_before_it_is_not": "consumers:growth-chain",
        "test_another_generation_than_the_record_s_says_nothing": "consumers:growth-generation",
        "test_message_groups_that_are_blocked_below_the_mark_wait_by_name": "consumers:growth-blocked",
    },
    "tests/coordinator/test_invisibility.py": {
        "test_what_nobody_took_is_visible_again_if_it_is_the_same_delivery": "receiving:delivery",
    },
    "tests/coordinator/test_keeper.py": {
        "test_a_zombie_changes_nothing_and_hears_that_its_hold_is_over": "consumers:owner",
    },
    "tests/coordinator/test_ownership.py": {
        "test_a_write_in_doubt_that_arrives_as_the_queue_is_taken_again_costs_nobody_the_queue": "consumers:own-late",
        "test_a_take_in_doubt_that_arrives_late_is_ours_though_the_queue_is_not_our_share_any_more": "consumers:doubt-kept",
    },
    "tests/coordinator/test_watch.py": {
        "test_who_beats_again_is_not_fenced": "leases:revival leases:fence",
        "test_a_killed_worker_is_fenced_in_time": "leases:patience",
    },
    "tests/coordinator/test_worker.py": {
        "test_who_slept_past_the_deadline_starts_nothing_afterwards": "leases:deadline leases:suspend",
    },
    "tests/coordinator/timers/test_recall.py": {
        "test_recalls_leave_the_cell_though_nothing_is_let_go_for_a_month": "timers:probe",
    },
    "tests/coordinator/timers/test_retention.py": {
        "test_retention_counts_from_when_a_message_came_into_its_topic": "timers:needed",
    },
    "tests/coordinator/timers/test_waiting_count.py": {
        "test_what_waits_in_runs_is_counted_by_what_was_sent_and_let_go": "timers:order",
    },
    "tests/gateway/kafka/groups/test_stops.py": {
        "test_a_stop_is_counted_once": "classic:stops",
    },
    "tests/gateway/kafka/groups/test_takeovers.py": {
        "test_a_former_coordinator_writes_nothing": "classic:epoch",
        "test_who_asks_for_positions_is_told_what_was_accepted_before": "classic:settled",
        "test_a_commit_is_void_once_the_next_generation_has_begun": "classic:accepted",
        "test_a_reset_is_carried_out_by_whoever_takes_the_group_over": "classic:heeded",
    },
    "tests/gateway/rocketmq/consumers/test_ack_service.py": {
        "test_a_delivery_that_is_over_is_renewed_no_longer": "gateways:repeated-ack",
        "test_what_was_acknowledged_ahead_is_not_renewed_when_the_earlier_one_was_settled_elsewhere": "gateways:ahead",
    },
    "tests/gateway/rocketmq/consumers/test_deliveries.py": {
        "test_what_another_gateway_gave_of_a_queue_does_not_show_that_what_came_of_another_queue_arrived": "gateways:of-queue",
    },
    "tests/gateway/rocketmq/consumers/test_handle_renewer.py": {
        "test_a_living_clients_messages_are_renewed_again_and_again": "gateways:single gateways:renewed",
        "test_what_another_gateway_gave_is_gone_on_with_once_for_each_connection": "gateways:adopted",
        "test_what_a_gateway_gave_that_is_gone_is_looked_for_without_a_new_connection": "gateways:looked-again",
        "test_a_client_that_is_only_silent_here_is_left_to_other_gateways": "gateways:lost",
        "test_what_was_written_whole_is_kept_for_two_minutes_when_its_connection_broke_behind_it": (
            "gateways:behind gateways:doubted"
        ),
        "test_what_a_client_got_at_another_gateway_by_repeating_its_receive_is_left_to_that": "gateways:cut-short",
        "test_what_was_written_as_its_client_waited_no_longer_is_kept_for_two_minutes": "gateways:late",
        "test_what_a_client_held_that_says_goodbye_becomes_visible_after_a_second": "gateways:goodbye",
        "test_of_a_message_group_the_first_message_counts_that_was_not_settled_beside_this_gateway": "gateways:first-settled",
        "test_the_silence_of_clients_does_not_count_while_the_gateway_was_stopped_itself": "gateways:own-stop",
    },
    "tests/gateway/rocketmq/consumers/test_pool.py": {
        "test_a_consumer_is_not_closed_under_a_receive_that_waits": "gateways:in-use",
    },
    "tests/gateway/rocketmq/consumers/test_receive_service.py": {
        "test_a_gateway_that_stops_gives_what_is_out_to_an_attempt_id": "gateways:last-look",
    },
    "tests/log/test_fold.py": {
        "test_a_batch_that_does_not_count_has_no_offsets_and_leaves_no_trace": "log:validity log:generation",
        "test_a_growth_voids_the_former_routing_and_notes_where_the_queues_stood": "log:growth-generation",
    },
    "tests/log/test_idempotence.py": {
        "test_a_batch_counts_once_and_behind_the_one_before": "log:numbers-follow",
        "test_an_unknown_producer_begins_anywhere_but_not_behind_a_batch_that_is_on_its_way": "log:begins-row",
        "test_a_row_stays_for_15_minutes_of_store_time_however_many_entries_come": "log:numbered-row-kept",
        "test_only_what_was_counted_without_a_gap_is_known_to_be_there": "log:has-all",
    },
    "tests/log/test_idempotent_appender.py": {
        "test_nothing_overtakes_a_first_batch_that_failed": "log:missing-before",
    },
    "tests/log/test_idempotent_pending.py": {
        "test_only_a_look_tells_what_is_missing": "log:may-be-filled",
        "test_a_batch_that_was_numbered_before_its_round_was_known_is_numbered_anew": "log:round",
    },
    "tests/log/test_linker.py": {
        "test_a_link_without_an_answer_is_read_back_by_opening_the_name_anew": "log:link-read-back",
    },
    "tests/log/test_topic_growth.py": {
        "test_a_batch_on_its_way_is_routed_anew_and_what_named_its_queue_stays": "log:growth-rows",
    },
    "tests/simulation/consumers/test_dead_letter_tasks.py": {
        "test_two_queues_have_the_same_sequence_and_their_owner_dies": "consumers:buried consumers:letter-names",
        "test_dead_letters_that_cannot_be_written_stop_what_is_given_up_and_nothing_else": "consumers:caught-up consumers:drain",
        "test_a_later_letter_is_given_while_the_earlier_one_is_under_way_and_a_new_owner_writes_both": "consumers:letter-sequences",
        "test_letters_under_a_name_that_has_left_the_state_are_not_written_again": "consumers:conditional",
    },
    "tests/simulation/consumers/test_interleavings.py": {
        "test_a_group_that_went_on_is_read_on": "consumers:listed consumers:markers",
        "test_a_reset_waits_for_the_handler_that_still_runs": "consumers:older-handlers consumers:before-every-handler",
        "test_a_queue_that_was_consumed_to_its_end_is_read_again_after_a_reset": (
            "consumers:generation consumers:durable-attempts consumers:reset-in-memory consumers:one-by-one"
        ),
        "test_a_queue_goes_on_although_another_one_s_solo_began_and_ended_within_one_write_of_it": (
            "consumers:read-back consumers:halving"
        ),
        "test_a_new_session_waits_for_the_handlers_of_the_one_before": (
            "consumers:deadline consumers:fence consumers:solo consumers:suspects consumers:strike-alone"
        ),
    },
    "tests/simulation/consumers/test_spills.py": {
        "test_what_waits_in_an_object_that_is_gone_waits_until_it_is_restored": (
            "consumers:spill-durable consumers:spill-named consumers:spill-taken consumers:spill-leaves "
            "consumers:spill-once consumers:spill-spared"
        ),
        "test_an_object_stays_for_a_table_that_loses_its_last_commits": "consumers:failover-spilled",
        "test_the_collector_spares_what_is_named_and_what_may_be_yet": "consumers:spill-still consumers:spill-kept",
    },
    "tests/simulation/letters/test_by_hand.py": {
        "test_an_owner_dies_as_it_writes_and_the_next_one_writes_only_what_is_not_there": "letters:sequences",
    },
    "tests/simulation/log/test_interleavings.py": {
        "test_batch_six_is_not_linked_before_batch_five": "log:create-if-absent log:write-id log:previous",
        "test_openers_at_once_have_epochs_of_their_own_and_one_remains": "log:opening-id log:epoch log:repeated-opening",
        "test_a_batch_of_an_old_epoch_is_not_taken_as_proved_by_the_new_epochs_row": "log:row-of-epoch",
        "test_a_201_that_arrives_below_the_floor_acknowledges_nothing": "log:late-201 log:jump-proof",
        "test_a_writer_paused_across_a_trim_at_its_read_of_the_floor": "log:suspend-counts",
        "test_a_reader_paused_across_a_trim": "log:view-age log:late-answers",
        "test_a_hand_over_below_the_floor_is_not_deleted_before_its_validity_is_over": "log:links-margin",
        "test_a_restart_that_batches_the_same_messages_differently": "log:known-name",
        "test_a_live_hand_over_is_not_deleted": "log:links-outlive",
        "test_no_name_of_a_data_file_is_used_twice_around_a_slow_collector": "log:fresh-names",
        "test_the_floor_is_never_past_the_newest_checkpoint_nor_between_two": "log:anchor",
        "test_a_topic_deleted_and_created_again_under_a_paused_trimmer": "log:compared-first",
        "test_a_collector_with_an_old_snapshot_deletes_no_live_file": "log:fresh-snapshot",
    },
    "tests/simulation/tables/test_frozen.py": {
        "test_a_worker_that_thaws_after_a_move_hears_at_its_next_heartbeat_that_it_is_over": "tables:fenced",
    },
    "tests/simulation/test_timers_by_hand.py": {
        "test_a_lost_cell_is_seen": "timers:settled-when-durable",
    },
    "tests/simulation/timers/test_by_hand.py": {
        "test_what_waits_in_runs_goes_claim_after_claim": "timers:claim-first",
        "test_who_is_not_told_that_a_message_was_recalled_is_not_told_that_it_was_not": "timers:conditional",
        "test_a_player_that_slept_between_claim_and_append_adds_nothing": "timers:sequences timers:reach",
        "test_a_recall_that_was_written_before_the_claim_wins": "timers:recall timers:recalled",
        "test_a_run_that_was_removed_as_an_orphan_is_not_named_by_who_slept": "timers:gathered timers:run-first",
    },
}
"""By file and test: the mutants. `make test-all` sees each of them fail without the guard, and plays all mutants."""
STAND_INS: Mapping[str, tuple[str, str]] = {
    mutant: (file, test) for file, tests in _TESTS.items() for test, mutants in tests.items() for mutant in mutants.split()
}
"""By mutant: the file and the test."""


def played(world: str) -> list[Any]:
    """The parameters of a test that plays a world's mutants: those that have a stand-in are left to `make test-all`."""
    return [
        pytest.param(name, marks=pytest.mark.thorough if f"{world}:{name}" in STAND_INS else ())
        for name, mutant in mutants_of(world).items()
        if not mutant.unmet
    ]


def calm(world: str) -> list[str]:
    """Those without whose guard a run without faults goes right."""
    return [name for name, mutant in mutants_of(world).items() if mutant.calm]
