"""Single faults, told as choices: each befalls the world as it says, and is accounted for."""

from streamshard.testing.simulator import Choice, replay
from streamshard.testing.simulator.reporting import NAMES_OF_FAULTS, Tally, figures, repro
from streamshard.testing.simulator.running import Outcome, Play

QUIET: list[Choice] = [("world", 2, 1, 0, 0), ("a_member_starts", 0), ("producers_start_or_stop",), ("go_on", 2500)]


def played(*choices: Choice) -> Play:
    play = Play()
    for choice in (*QUIET, *choices):
        play.do(choice)
    return play


def test_a_torn_record_freezes_its_group_until_it_is_put_right() -> None:
    play = played(("a_record_is_torn", 0))
    before = play.world.stored

    play.do(("a_member_starts", 1))
    play.do(("go_on", 9000))

    assert play.world.stored == before
    assert all(not consumer.session.settled for consumer in play.world.alive[1:])
    play.do(("all_is_healed",))
    assert len(play.world.group.holdings) == len(play.world.stream.shards)


def test_a_deleted_record_is_never_made_anew_from_what_members_say() -> None:
    play = played(("a_record_is_deleted", 0))
    before = play.world.stored

    play.do(("go_on", 9000))

    assert play.world.stored == before
    play.do(("all_is_healed",))


def test_what_a_failover_loses_is_forgotten_and_nobody_is_blamed() -> None:
    play = played(("a_replica_stays_behind", 0), ("go_on", 2000))
    accepted = set(play.world.ledger.accepted["orders:0"])

    play.do(("a_shard_fails_over", 0))
    left = set(play.world.ledger.accepted["orders:0"])
    play.do(("all_is_healed",))

    assert left < accepted
    assert play.sum_up().faults == {"shard failover that loses writes": 1}


def test_a_retired_key_that_a_failover_brought_back_is_read_and_retired_again() -> None:
    play = played(
        ("a_replica_stays_behind", 1), ("an_operator_scales", 1, 0, 0), ("go_on", 9000), ("a_shard_fails_over", 0)
    )
    assert "orders:1" in play.world.world.streams

    play.do(("a_producer_that_slept_writes", 1))
    play.do(("all_is_healed",))
    play.do(("go_on", 9000))

    assert "orders:1" not in play.world.world.streams


def test_a_choice_that_nothing_can_be_done_about_is_idle() -> None:
    outcome = replay([*QUIET, ("a_coordinator_wakes", 3), ("go_on", 100)])

    assert outcome.idle == {len(QUIET)}


def test_a_run_without_faults_or_records_says_nothing() -> None:
    silent = replay([("world", 1, 1, 0, 0), ("go_on", 1000)])
    unharmed = replay(QUIET)

    assert (silent.void, unharmed.void) == ("no record was handled", "no fault happened")


def test_figures_are_sums_and_name_what_never_happened() -> None:
    total = Tally()
    total.add(replay([*QUIET, ("a_member_is_killed", 0)]), seconds=1.0)
    total.add(replay(QUIET), seconds=1.0)

    told = figures(total)

    assert (total.runs, total.faults, len(total.void)) == (2, {"member crash": 1}, 1)
    assert set(total.missing) == {*NAMES_OF_FAULTS} - {"member crash"}
    assert told["faults"] == f"1 of 1 kinds ({len(NAMES_OF_FAULTS) - 1} never)"


def test_one_line_says_how_to_have_a_run_again() -> None:
    line = repro(Outcome(seed=7, profile="churn"), "streamshard 1.2.3")

    assert line == "REPRO: streamshard simulate --seed 7 --profile churn  # streamshard 1.2.3"
