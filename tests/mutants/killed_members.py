"""Faults in what members and coordinators agree on, and what has to notice each."""

from tests.mutants.killers import Case, Machine, Node, Search, Seed
from tests.mutants.mutant import Mutant
from tests.unit.cluster.machines import Calm, Churn, Resharding

MUTANTS: tuple[Mutant, ...] = (
    # Leases and answers
    Mutant("a_late_answer_is_taken", "4.5, T02", Case("cluster.test_schedules:test_a_late_grant_is_not_taken")),
    Mutant(
        "an_answer_to_an_earlier_attempt_is_taken",
        "4.1",
        Case("cluster.test_attempts:test_an_answer_to_an_attempt_that_was_given_up_makes_no_lease_longer"),
    ),
    Mutant(
        "an_attempt_repeats_its_number",
        "4.1",
        Case("cluster.test_attempts:test_an_answer_to_an_attempt_that_was_given_up_makes_no_lease_longer"),
    ),
    Mutant("a_lease_begins_when_the_answer_comes", "4.5, T01", Search("2x1")),
    Mutant(
        "a_lease_is_a_bit_too_long", "1, 4.5", Case("cluster.test_schedules:test_a_slow_answer_makes_no_lease_longer")
    ),
    Mutant("everything_held_is_extended", "4.4", Machine(Resharding)),
    Mutant("what_drains_is_not_listed", "4.4, U17", Search("2x2-instant")),
    Mutant(
        "a_draining_shard_is_resumed",
        "4.4, U19",
        Case("core.test_answers:test_a_shard_given_back_while_draining_is_prolonged_and_pending"),
    ),
    Mutant(
        "a_run_that_outlives_its_hold_is_not_listed",
        "4.1",
        Case("core.test_session:TestGrants.test_a_waiting_grant_that_vanishes_is_released_at_once"),
    ),
    Mutant("a_shard_is_started_over_its_earlier_run", "4.2, U18", Seed(1, "pauses")),
    Mutant(
        "an_older_grant_is_taken_back",
        "4.4",
        Case("core.test_session:TestDraining.test_a_token_that_was_let_go_is_not_taken_back"),
    ),
    Mutant(
        "a_fenced_member_reads_on",
        "4.2, U4",
        Case("cluster.test_schedules:test_an_old_reader_of_a_deleted_group_blocks_the_one_of_its_name"),
    ),
    Mutant(
        "a_lost_lease_makes_a_new_instance",
        "4.2, I9",
        Case("cluster.test_schedules:test_coordinators_stopped_for_two_leases_move_nothing"),
    ),
    Mutant(
        "what_is_released_is_not_told_at_once",
        "I8",
        Case("cluster.test_schedules:test_an_old_reader_of_a_deleted_group_blocks_the_one_of_its_name"),
    ),
    Mutant(
        "the_lease_is_not_looked_at_before_an_order",
        "4.5, U2",
        Case("cluster.test_schedules:test_a_slow_answer_makes_no_lease_longer"),
    ),
    # Who is who
    Mutant(
        "any_instance_speaks_for_a_name",
        "4.3, U9",
        Node("unit/core/test_decide.py::test_another_epoch_is_fenced_whether_lower_or_higher"),
    ),
    Mutant(
        "a_goodbye_counts_from_anybody",
        "4.2, U6",
        Case("core.test_decide_names:test_the_old_instances_goodbye_gives_them_to_the_name_at_once"),
    ),
    Mutant(
        "a_goodbye_releases_everything",
        "4.2",
        Case("cluster.test_schedules:test_a_shard_given_back_while_it_drains_is_finished_and_granted_again"),
    ),
    Mutant(
        "a_late_join_is_admitted_again",
        "4.2, T10",
        Case("core.test_decide_names:test_a_duplicate_of_an_old_join_after_the_leave_admits_nobody"),
    ),
    Mutant(
        "a_name_is_taken_over_while_it_is_in_use",
        "4.2, T14",
        Case("core.test_decide_names:test_a_name_that_is_held_is_not_taken"),
    ),
    Mutant("a_taken_over_name_frees_its_shards_at_once", "4.2", Machine(Churn)),
    Mutant(
        "a_repeated_report_renews",
        "4.1, U7",
        Case("core.test_heartbeats:test_a_repeated_attempt_is_answered_alike_and_writes_nothing"),
    ),
    Mutant(
        "a_rebalance_makes_members_stale", "4.1, U3", Case("cluster.test_schedules:test_a_lost_reply_costs_nothing")
    ),
    # Releases and grants
    Mutant("a_grant_waits_for_nobody", "I2, U1", Search("2x2-instant")),
    Mutant("a_report_from_before_the_grant_releases", "4.4, T10", Seed(2, "lossy")),
    Mutant(
        "a_join_releases",
        "4.2, U7",
        Case("core.test_decide_names:test_a_lost_answer_to_a_join_is_made_up_for_by_the_next_attempt"),
    ),
    Mutant(
        "a_fence_frees_at_once",
        "4.4, U5",
        Case("core.test_decide:test_wild_claims_fence_only_their_sender_after_three"),
    ),
    Mutant(
        "an_overrun_rebalance_frees_at_once", "4.4, U5", Case("core.test_decide_time:test_a_stuck_drain_lapses_alone")
    ),
    Mutant(
        "what_lapsed_is_extended",
        "4.4",
        Case("core.test_handover:test_a_lapsed_hold_is_not_prolonged_while_its_holder_is_renewed"),
    ),
    Mutant(
        "what_lapsed_is_freed_at_once",
        "4.4",
        Case("core.test_handover:test_a_rebalance_timeout_frees_nothing_before_its_lapse_has_been_seen_for_a_lease"),
    ),
    Mutant(
        "an_unraised_grant_is_released",
        "4.4",
        Case("core.test_handover:test_a_grant_that_was_never_listed_nor_raised_is_not_released_by_an_omission"),
    ),
    Mutant("grants_are_told_before_they_are_committed", "I13", Machine(Churn)),
    Mutant(
        "a_grant_is_told_before_its_fence_is_raised",
        "4.4",
        Case("core.test_heartbeats:test_grants_stay_pending_while_redis_is_away"),
    ),
    Mutant(
        "a_grant_is_told_that_no_longer_stands",
        "4.3",
        Case("core.test_heartbeats:test_a_grant_is_told_after_its_fence_was_raised_and_the_record_read_again"),
    ),
    Mutant(
        "a_mark_above_is_passed_over",
        "4.4, 4.7",
        Case("core.test_heartbeats:test_a_mark_between_the_floor_and_the_grant_is_proof_of_a_lost_grant"),
    ),
    Mutant("fences_are_never_raised", "4.6", Machine(Churn)),
    Mutant(
        "assignment_is_not_sticky",
        "I9",
        Case("cluster.test_attempts:test_a_member_that_leaves_moves_its_own_shards_alone"),
    ),
    Mutant(
        "a_balance_of_two_is_good_enough", "I9", Case("cluster.test_attempts:test_shares_are_never_more_than_one_apart")
    ),
    Mutant("one_shard_is_never_targeted", "I8", Case("cluster.test_attempts:test_a_shard_of_many_is_not_forgotten")),
    # Silence
    Mutant("members_expire_early", "4.5", Machine(Churn)),
    Mutant(
        "an_expiry_comes_a_little_early",
        "1, 4.5",
        Case("cluster.test_schedules:test_a_slow_answer_makes_no_lease_longer"),
    ),
    Mutant(
        "the_drift_of_clocks_is_forgotten",
        "1",
        Case("core.test_correction:test_a_quarantine_lasts_a_lease_even_if_nobody_is_known"),
    ),
    Mutant(
        "an_instance_expires_by_a_stored_time",
        "4.5, U24",
        Case("core.test_correction_rounds:test_members_catch_up_then_wait_then_go_on"),
    ),
    Mutant(
        "expiry_does_not_compare_the_row",
        "4.5, T08",
        Case("core.test_decide_time:test_silence_expires_an_instance_if_its_row_is_still_the_same"),
    ),
    Mutant(
        "an_answer_leaves_before_the_renewal", "3, T09", Case("cluster.test_schedules:test_a_lost_reply_costs_nothing")
    ),
    Mutant("a_longer_lease_is_forgotten", "1", Machine(Churn)),
    Mutant("unhealthy_time_counts", "4.5, T07", Machine(Calm)),
    Mutant(
        "a_late_tick_trusts_its_timers",
        "4.5, T08",
        Case("core.test_ticking:test_a_late_tick_expires_nobody_although_heartbeats_went_on_reading"),
    ),
)
