"""The judges can say no: each rule broken on purpose is noticed, by a machine or by the schedule it stands for."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.unit.cluster import mutants, test_schedules
from tests.unit.cluster.hazards import hunting
from tests.unit.cluster.machines import Calm, Churn, Resharding, StoreLoss, TrimmingShards

BY_MACHINE: list[tuple[mutants.Mutation, type[RuleBasedStateMachine]]] = [
    (mutants.grants_are_told_before_they_are_committed, Churn),
    (mutants.a_taken_over_name_frees_its_shards_at_once, Churn),
    (mutants.a_grant_waits_for_nobody, Churn),
    (mutants.members_expire_early, Churn),
    (mutants.what_drains_is_not_listed, Resharding),
    (mutants.everything_held_is_extended, Resharding),
    (mutants.fences_are_never_raised, Churn),
    (mutants.a_longer_lease_is_forgotten, Churn),
    (mutants.there_is_no_quarantine, StoreLoss),
    (mutants.old_readers_are_forgotten_with_their_group, StoreLoss),
    (mutants.tokens_start_again, StoreLoss),
    (mutants.unhealthy_time_counts, Calm),
    (mutants.a_seal_looks_at_nothing, Resharding),
    (mutants.a_seal_deletes_without_looking_again, Resharding),
    (mutants.an_append_makes_the_key, Resharding),
    (mutants.what_is_pending_is_trimmed, TrimmingShards),
    (mutants.strangers_are_not_minded, TrimmingShards),
    (mutants.a_group_that_vanished_is_not_missed, TrimmingShards),
]

BY_SCHEDULE: list[tuple[mutants.Mutation, Callable[[], None]]] = [
    (mutants.a_lease_begins_when_the_answer_comes, test_schedules.test_a_slow_answer_makes_no_lease_longer),
    (mutants.late_orders_are_carried_out, test_schedules.test_a_seal_that_wakes_after_a_rollback_seals_nothing),
]


def name_of(case: object) -> str:
    return getattr(case, "__name__", "")


@pytest.mark.parametrize(("mutation", "machine"), BY_MACHINE, ids=name_of)
def test_a_machine_notices_that(
    mutation: mutants.Mutation, machine: type[RuleBasedStateMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=settings(hunting(60), phases=[Phase.generate], print_blob=False))


@pytest.mark.parametrize(("mutation", "schedule"), BY_SCHEDULE, ids=name_of)
def test_a_schedule_notices_that(
    mutation: mutants.Mutation, schedule: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    with pytest.raises(AssertionError):
        schedule()
