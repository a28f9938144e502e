"""Faults in what is done about lost writes and with shards, and what has to notice each."""

from tests.mutants.killers import Case, Machine, Node
from tests.mutants.mutant import Mutant
from tests.unit.cluster.machines import Resharding, StoreLoss, TrimmingShards

MUTANTS: tuple[Mutant, ...] = (
    # A store that forgot
    Mutant("there_is_no_quarantine", "4.7, U8", Machine(StoreLoss)),
    Mutant(
        "a_lost_hold_is_not_adopted",
        "4.7",
        Case("core.test_correction:test_a_hold_above_the_last_token_is_written_down"),
    ),
    Mutant(
        "an_adopted_hold_is_kept_for_good",
        "4.7",
        Case("core.test_correction:test_a_hold_above_the_last_token_is_written_down"),
    ),
    Mutant(
        "versions_alone_tell_what_was_lost",
        "4.7, U8",
        Case("core.test_correction:test_a_view_that_was_issued_and_is_not_in_the_ring_proves_lost_writes"),
    ),
    Mutant(
        "a_lost_view_is_passed_over",
        "4.7, T43",
        Case("core.test_decide:test_proof_of_lost_writes_comes_before_who_sends_it"),
    ),
    Mutant("a_wild_claim_stops_the_group", "4.7, U10", Case("core.test_chronicle:test_a_fenced_member_is_told")),
    Mutant(
        "a_first_load_is_trusted",
        "4.7",
        Case("core.test_desk:test_a_group_is_proven_against_its_fences_once_a_connection"),
    ),
    Mutant(
        "marks_that_can_t_be_read_prove_nothing",
        "4.7",
        Case("core.test_desk:test_a_first_load_without_redis_starts_a_lineage"),
    ),
    Mutant(
        "quarantine_ends_by_anybody_s_clock",
        "4.7",
        Case("core.test_correction:test_a_quarantine_ends_once_its_lineage_was_seen_for_the_longest_lease_of_anybody"),
    ),
    Mutant(
        "grants_are_made_in_quarantine",
        "4.7, I7",
        Case("cluster.test_schedules:test_a_store_that_forgot_a_layout_is_told_so_by_the_fences"),
    ),
    Mutant(
        "stale_holdings_survive_a_loss",
        "4.7",
        Node("unit/core/test_correction.py::test_a_holding_lapses_if_its_shards_fence_shows_another_grant"),
    ),
    Mutant(
        "a_reconnection_is_not_noticed",
        "4.7",
        Case("core.test_desk:test_what_was_seen_over_one_connection_is_not_missing_unnoticed_over_the_next"),
    ),
    Mutant("old_readers_are_forgotten_with_their_group", "4.7", Machine(StoreLoss)),
    Mutant("tokens_start_again", "I3, U30", Machine(StoreLoss)),
    Mutant(
        "a_deleted_group_leaves_no_tombstone_tokens",
        "3, U30",
        Case("cluster.test_schedules:test_an_old_reader_of_a_deleted_group_blocks_the_one_of_its_name"),
    ),
    # Commits
    Mutant(
        "an_update_creates",
        "4.8, U20",
        Node(
            "integration/stores/test_store_contract.py::TestMemoryStore::test_replacing_or_comparing_what_is_not_there_is_refused"
        ),
    ),
    Mutant(
        "a_record_is_put_without_comparing",
        "4.8",
        Case("cluster.test_schedules:test_two_members_that_join_within_one_heartbeat_never_read_one_shard"),
    ),
    Mutant(
        "an_unknown_commit_is_believed",
        "4.8, T45",
        Node("unit/core/test_heartbeats.py::test_a_join_whose_commit_went_unanswered_is_carried_out_once"),
    ),
    # Reading
    Mutant(
        "pending_is_looked_at_after_new_records",
        "I12, T21",
        Case("cluster.test_schedules:test_a_store_that_forgot_a_layout_is_told_so_by_the_fences"),
    ),
    Mutant(
        "pending_is_never_looked_at",
        "I11, U16",
        Case("cluster.test_schedules:test_a_store_that_forgot_a_layout_is_told_so_by_the_fences"),
    ),
    Mutant(
        "one_shard_is_never_polled",
        "I8, I10",
        Case("cluster.test_schedules:test_two_members_that_join_within_one_heartbeat_never_read_one_shard"),
    ),
    Mutant(
        "an_order_under_an_earlier_token_is_let_through",
        "I1b",
        Case("cluster.test_schedules:test_orders_under_an_earlier_token_are_refused_before_the_successor_has_read"),
    ),
    Mutant(
        "the_highest_mark_is_not_kept",
        "4.6",
        Case("core.test_heartbeats:test_a_mark_between_the_floor_and_the_grant_is_proof_of_a_lost_grant"),
    ),
    # Draining, sealing, making
    Mutant(
        "removed_shards_are_taken_away_at_once",
        "4.9, U11",
        Case("cluster.test_schedules:test_a_seal_that_wakes_after_a_rollback_seals_nothing"),
    ),
    Mutant(
        "an_error_while_looking_means_drained",
        "4.9, U12",
        Case("core.test_proof:test_a_registered_group_that_is_missing_comes_first"),
    ),
    Mutant(
        "an_unknown_lag_means_drained",
        "4.9, T29",
        Node("unit/core/test_proof.py::test_a_counter_that_is_off_is_named_to_be_mended"),
    ),
    Mutant("pending_records_don_t_matter", "4.9", Case("core.test_proof:test_a_registered_group_cannot_be_ignored")),
    Mutant(
        "a_registered_group_may_be_missing",
        "4.9, T30",
        Node(
            "integration/streams/test_seal_contract.py::TestSeal::test_wants_every_registered_group_to_be_there[memory]"
        ),
    ),
    Mutant("a_seal_looks_at_nothing", "4.9, I5", Machine(Resharding)),
    Mutant("a_seal_deletes_without_looking_again", "4.9, T28", Machine(Resharding)),
    Mutant(
        "a_seal_does_not_wait_for_producers",
        "4.9",
        Case("core.test_stream_wants:test_a_seal_waits_until_this_coordinator_has_seen_the_routing_for_a_lease"),
    ),
    Mutant(
        "a_seal_leaves_no_mark", "4.9, I6", Case("core.test_draining:test_a_look_finds_a_seal_that_nobody_recorded")
    ),
    Mutant(
        "a_retired_key_stays",
        "4.9, U13",
        Case("cluster.test_schedules:test_a_record_written_just_before_the_seal_prevents_it"),
    ),
    Mutant(
        "a_provisioner_compares_no_life",
        "4.8, T33",
        Case("cluster.test_schedules:test_a_provisioner_that_wakes_after_the_seal_makes_nothing"),
    ),
    Mutant(
        "late_orders_are_carried_out",
        "4.8, T33",
        Case("cluster.test_schedules:test_a_seal_that_wakes_after_a_rollback_seals_nothing"),
    ),
    Mutant(
        "an_added_shard_starts_with_its_next_record",
        "4.9, U15",
        Case("core.test_resharding:test_new_shards_are_routed_once_all_of_them_were_made_from_the_start"),
    ),
    Mutant(
        "an_added_shard_is_routed_before_it_is_made",
        "4.9, T31",
        Case("core.test_chronicle:test_a_scale_out_tells_its_states_and_the_new_routing"),
    ),
    Mutant(
        "a_rollback_opens_before_seals_are_shut_out",
        "4.9, T36",
        Case("cluster.test_schedules:test_a_seal_that_wakes_after_a_rollback_seals_nothing"),
    ),
    Mutant("a_rollback_after_the_first_seal", "4.9, T36", Node("unit/core/test_resharding_back.py")),
    Mutant(
        "a_retired_key_that_came_back_is_left_alone",
        "4.9, T34",
        Case("core.test_chronicle:test_a_key_that_came_back_is_told_by_the_coordinator_that_found_it"),
    ),
    Mutant(
        "a_resharding_ends_while_a_removed_shard_is_held",
        "4.9",
        Case("core.test_resharding:test_a_scale_in_ends_when_no_live_member_holds_a_removed_shard"),
    ),
    Mutant(
        "a_group_without_members_blocks_the_next_scale",
        "4.9",
        Case("core.test_resharding:test_a_scale_out_ends_when_live_groups_have_settled"),
    ),
    Mutant("two_scales_at_once", "4.9", Node("unit/core/test_resharding.py::test_one_resharding_at_a_time")),
    # Producers and trimming
    Mutant("an_append_makes_the_key", "I6, U13", Machine(Resharding)),
    Mutant(
        "an_append_to_redis_makes_the_key",
        "I6, U13",
        Node(
            "integration/streams/test_append_contract.py::TestAppendMany::test_a_key_that_is_not_there_is_none_and_disturbs_no_other[valkey]"
        ),
    ),
    Mutant(
        "a_routing_is_used_for_ever",
        "T41",
        Case("core.test_lease:test_a_routing_is_usable_until_its_lease_ends_counted_from_when_it_was_asked_for"),
    ),
    Mutant("what_is_pending_is_trimmed", "I11", Machine(TrimmingShards)),
    Mutant("strangers_are_not_minded", "I11", Machine(TrimmingShards)),
    Mutant(
        "a_group_that_vanished_is_not_missed",
        "I11",
        Node(
            "integration/streams/test_trim_contract.py::test_an_order_that_does_not_fit_the_shard_does_nothing"
            "[memory-with a group that is gone]",
            quick=True,
        ),
    ),
    # Scripts on a real server
    Mutant(
        "the_script_of_a_seal_looks_at_nothing",
        "4.9, T28",
        Node(
            "integration/streams/test_seal_contract.py::TestSeal::test_is_refused_while_a_record_is_undelivered[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_a_seal_forgets_the_mark",
        "4.9",
        Node("integration/streams/test_seal_contract.py::TestSeal::test_retires_a_drained_shard_for_good[valkey]"),
    ),
    Mutant(
        "the_script_of_a_seal_takes_an_unknown_lag",
        "4.9, T29",
        Node(
            "integration/streams/test_seal_contract.py::TestSeal::test_an_unknown_lag_is_no_proof_until_it_is_mended[valkey]"
        ),
    ),
    Mutant(
        "a_seal_in_two_commands",
        "4.9, T28",
        Node("integration/streams/test_races.py::test_a_record_prevents_the_seal_or_is_refused_by_it"),
    ),
    Mutant(
        "the_script_of_a_provisioner_compares_no_life",
        "4.8, T33",
        Node(
            "integration/streams/test_provision_contract.py::TestProvision::test_is_refused_below_the_known_generation[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_a_raise_compares_nothing",
        "4.6",
        Node(
            "integration/streams/test_backend_contract.py::TestRaiseFences::test_a_mark_above_the_floor_is_reported_and_left[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_a_read_compares_no_token",
        "4.6, T03",
        Node(
            "integration/streams/test_log_contract.py::TestRead::test_serves_many_shards_at_once_each_by_its_own_fence[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_an_ack_compares_no_token",
        "4.6, T04",
        Node(
            "integration/streams/test_append_contract.py::TestAcknowledgeTogether::test_each_has_its_own_answer[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_a_claim_goes_by_idle_time",
        "T21",
        Node(
            "integration/streams/test_pending_contract.py::TestClaim::test_takes_over_what_is_pending_under_any_name_page_by_page[valkey]"
        ),
    ),
    Mutant(
        "the_script_of_a_trim_forgets_what_is_pending",
        "I11",
        Node("integration/streams/test_trim_contract.py::test_what_is_pending_stays_whoever_it_was_given_to[valkey]"),
    ),
)
