"""Schedules that broke earlier designs, each by its name; what consumers do in them is judged at every step."""

import attrs
import pytest

from streamshard.core.commands import Intent
from streamshard.core.ids import Generation, GroupName, Millis, ShardIndex
from streamshard.core.session import Phase
from streamshard.core.stream import ReshardingState, Shard, ShardPhase
from streamshard.testing.cluster import KEY, SHORT, Cluster
from streamshard.testing.network import Fate
from streamshard.testing.processes import NEVER, Consumer
from streamshard.testing.recovery import settle

ZERO, ONE = ShardIndex(0), ShardIndex(1)


def settled(shards: int, *names: str) -> tuple[Cluster, list[Consumer]]:
    """A cluster at rest, with a producer, whose members each have their shards."""
    cluster = Cluster(shards)
    consumers = [cluster.join(name) for name in names]
    cluster.producing = True
    cluster.run(2_000)
    settle(cluster)
    cluster.producing = True
    return cluster, consumers


def owners(cluster: Cluster) -> dict[int, str]:
    """Who passes the check of the lease, by shard."""
    return {shard: c.name for c in cluster.alive for shard in sorted(c.session.held) if c.may_use(shard) is not None}


def beat(cluster: Cluster, consumer: Consumer, fate: Fate = Fate.GOOD, to: int = 0) -> None:
    cluster.send(consumer, consumer.beat_now(), fate, cluster.coordinators[to])
    cluster.check()


def test_two_members_that_join_within_one_heartbeat_never_read_one_shard() -> None:
    cluster, (a,) = settled(4, "a")
    b, c = cluster.join("b"), cluster.join("c")

    beat(cluster, b, to=0)
    beat(cluster, c, to=1)
    beat(cluster, a, to=0)

    assert sorted(owners(cluster).values()) == ["a", "a", "a", "a"]
    settle(cluster)
    assert sorted(owners(cluster).values()) in (["a", "a", "b", "c"], ["a", "b", "b", "c"], ["a", "b", "c", "c"])


def test_a_lost_reply_costs_nothing() -> None:
    cluster, (a, b) = settled(2, "a", "b")
    before = owners(cluster)

    beat(cluster, a, Fate.LOSE_REPLY)
    cluster.run(2_000)

    assert owners(cluster) == before
    assert cluster.books.moves == 1


def test_a_lost_answer_to_a_join_is_answered_alike_to_the_next_attempt() -> None:
    cluster = Cluster(1)
    a = cluster.join("a")

    beat(cluster, a, Fate.LOSE_REPLY)
    beat(cluster, a, to=1)

    assert owners(cluster) == {0: "a"}


def test_a_duplicated_goodbye_does_not_disturb_the_next_instance() -> None:
    cluster, (a,) = settled(2, "a")
    a.stop()
    cluster.read(a)
    beat(cluster, a, Fate.REPEAT)
    goodbye = cluster.network.letters[-1]
    successor = cluster.join("a")
    cluster.run(1_000)

    cluster.deliver(attrs.evolve(goodbye, fate=Fate.GOOD), cluster.coordinators[1])
    cluster.run(1_000)

    assert (goodbye.beat.intent, a.session.phase) == (Intent.LEAVE, Phase.LEFT)
    assert [successor.may_use(shard) is not None for shard in (ZERO, ONE)] == [True, True]


def test_a_late_grant_is_not_taken() -> None:
    cluster = Cluster(1)
    a = cluster.join("a")
    beat(cluster, a, Fate.DELAY_REPLY)

    cluster.pass_time(3_000)
    (reply,) = cluster.network.replies
    reply.arrive()

    assert (owners(cluster), a.session.held) == ({}, {})
    settle(cluster)


def test_a_slow_answer_makes_no_lease_longer() -> None:
    cluster, (a,) = settled(1, "a")
    cluster.join("b")
    cluster.run(100)
    beat(cluster, a, Fate.DELAY_REPLY)
    cluster.run(800)
    cluster.network.replies.pop().arrive()
    a.asleep = True

    cluster.run(6_500)

    assert owners(cluster) == {0: "b"}


def test_a_shard_given_back_while_it_drains_is_finished_and_granted_again() -> None:
    cluster, (a,) = settled(2, "a")
    a.stuck = True
    cluster.run(500)
    first = {run.access.shard: run.access.token for run in a.runs.values()}
    b = cluster.join("b")
    cluster.run(1_500)
    b.stop()
    cluster.run(1_000)
    a.stuck = False
    settle(cluster)

    second = {run.access.shard: run.access.token for run in a.runs.values()}

    assert owners(cluster) == {0: "a", 1: "a"}
    assert sorted(second[shard] > first[shard] for shard in second) == [False, True]


def test_an_old_reader_of_a_deleted_group_blocks_the_one_of_its_name() -> None:
    cluster, (old,) = settled(1, "old")
    old.asleep = True
    assert cluster.delete_group()
    assert cluster.create_group()
    cluster.join("new")

    cluster.run(2_000)
    assert owners(cluster) == {0: "old"}
    cluster.run(6_500)

    assert owners(cluster) == {0: "new"}
    settle(cluster)


def test_a_lease_shortened_at_a_restart_frees_nothing_early() -> None:
    longer, shorter = attrs.evolve(SHORT, lease_ms=Millis(6_000)), SHORT
    cluster = Cluster(1, timing=longer)
    old = cluster.join("old")
    cluster.run(1_000)
    for process in list(cluster.coordinators):
        cluster.restart(process, shorter)
    old.asleep = True
    cluster.join("new")

    cluster.run(5_000)
    assert owners(cluster) == {0: "old"}
    cluster.run(5_000)

    assert owners(cluster) == {0: "new"}


def test_coordinators_stopped_for_two_leases_move_nothing() -> None:
    cluster, _ = settled(4, "a", "b")
    before, moves = owners(cluster), cluster.books.moves
    for process in cluster.coordinators:
        process.asleep = True

    cluster.run(6_100)
    assert owners(cluster) == {}
    for process in cluster.coordinators:
        process.asleep = False
    settle(cluster)

    assert (owners(cluster), cluster.books.moves) == (before, moves)


def test_a_coordinator_restarted_under_live_members_moves_nothing() -> None:
    cluster, _ = settled(4, "a", "b", "c")
    before, moves = owners(cluster), cluster.books.moves

    for process in list(cluster.coordinators):
        cluster.restart(process)
    cluster.run(4_000)

    assert (owners(cluster), cluster.books.moves) == (before, moves)


def stand_before_the_seal(cluster: Cluster) -> None:
    """Let time pass until the first coordinator, alone awake, stands before a seal."""
    process = cluster.coordinators[0]
    process.tick_at = NEVER
    for _ in range(40):
        cluster.run(200)
        errand = process.errand_of_a_tick()
        if errand.go_to("> seal"):
            return
        process.ticking = None
    pytest.fail("nothing was sealed")


def test_a_record_written_just_before_the_seal_prevents_it() -> None:
    cluster, _ = settled(2, "a")
    cluster.coordinators[1].asleep = True
    cluster.producing = False
    cluster.producer.routed.append("orders:1")
    cluster.scale(1)
    stand_before_the_seal(cluster)

    cluster.append()
    cluster.tick(cluster.coordinators[0])

    assert cluster.stream.shards[ONE].phase is ShardPhase.DRAINING
    settle(cluster)
    assert cluster.stream.shards[ONE].phase is ShardPhase.SEALED


def test_a_record_written_just_after_the_seal_is_refused() -> None:
    cluster, _ = settled(2, "a")
    cluster.producing = False
    cluster.producer.routed.append("orders:1")
    cluster.scale(1)
    settle(cluster)

    cluster.append()

    assert "orders:1" not in cluster.world.streams
    assert cluster.ledger.unhandled() == {}


def test_a_provisioner_that_wakes_after_the_seal_makes_nothing() -> None:
    cluster, _ = settled(1, "a")
    late = cluster.coordinators[0]
    cluster.scale(2, by=0, steps=1)
    while late.errands and late.errands[0].at != "> provision":
        late.errands[0].step()
    late.asleep = True
    cluster.run(2_000)
    assert cluster.scale(1, by=1)
    cluster.run(8_000)
    assert cluster.stream.shards[ONE].phase is ShardPhase.SEALED

    late.asleep = False
    cluster.finish(late.errands.pop())

    assert "orders:1" not in cluster.world.streams
    settle(cluster)


def test_a_seal_that_wakes_after_a_rollback_seals_nothing() -> None:
    cluster, _ = settled(2, "a")
    cluster.producing = False
    cluster.coordinators[1].asleep = True
    cluster.scale(1)
    stand_before_the_seal(cluster)
    cluster.coordinators[1].asleep = False
    assert cluster.roll_back(by=1)
    cluster.run(100)

    cluster.tick(cluster.coordinators[0])

    assert cluster.stream.history[-1].state is ReshardingState.ROLLED_BACK
    assert cluster.stream.shards[ONE] == Shard(ONE, Generation(1), ShardPhase.OPEN)
    settle(cluster)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_store_that_loses_its_last_commits_makes_no_second_reader(*, noticed: bool) -> None:
    cluster = Cluster(1)
    a = cluster.join("a")
    cluster.pass_time(10)
    beat(cluster, a)
    assert owners(cluster) == {0: "a"}
    cluster.pass_time(10)

    cluster.lose_writes(1)
    for process in cluster.coordinators if noticed else ():
        process.store.reconnect()
    cluster.join("b")
    cluster.run(4_000)

    settle(cluster)


def test_a_store_that_forgot_a_layout_is_told_so_by_the_fences() -> None:
    cluster, _ = settled(2, "a")
    layout = cluster.stream.layout_version
    assert cluster.delete_group()
    assert cluster.create_group()
    cluster.run(7_000)

    cluster.lose_writes(cluster.commits)
    cluster.run(500)

    settle(cluster)
    assert cluster.stream.layout_version > layout
    assert owners(cluster) == {0: "a", 1: "a"}


def test_orders_under_an_earlier_token_are_refused_before_the_successor_has_read() -> None:
    cluster, (old,) = settled(1, "old")
    cluster.slow.add(old.name)
    cluster.run(500)
    (run,) = old.runs.values()
    assert run.command is not None
    cluster.kill(old)
    new = cluster.join("new")
    cluster.slow.add(new.name)
    cluster.run(7_000)
    assert owners(cluster) == {0: "new"}

    for command in cluster.strays:
        cluster.arrive(None, command)

    assert cluster.world.fences["orders:0"].tokens[KEY.group] == new.may_use(ZERO)
    settle(cluster)


def test_a_seal_that_only_the_fence_remembers_is_past_return_all_the_same() -> None:
    cluster, _ = settled(3, "a")
    stranger = GroupName("stranger")
    cluster.producer.routed.insert(0, "orders:1")
    cluster.append()
    cluster.world.create_foreign("orders:1", (stranger,))
    assert cluster.scale(1)
    cluster.run(8_000)
    assert [shard.phase.value for shard in cluster.stream.shards.values()] == ["OPEN", "DRAINING", "SEALED"]

    while cluster.stream.shards[ShardIndex(2)].phase is ShardPhase.SEALED:
        cluster.lose_writes(1)
    for process in cluster.coordinators:
        process.store.reconnect()
    cluster.run(8_000)

    assert cluster.stream.shards[ShardIndex(2)].phase is ShardPhase.SEALED
    assert not cluster.roll_back()
    cluster.world.lose_group("orders:1", stranger)
    settle(cluster)
