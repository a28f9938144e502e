"""Schedules about which attempt an answer is to, and about what a change of members may move."""

from streamshard.testing.cluster import Cluster
from streamshard.testing.network import Fate
from streamshard.testing.processes import Consumer
from streamshard.testing.recovery import settle
from tests.unit.cluster.test_schedules import beat, owners, settled


def answered_late(cluster: Cluster, consumer: Consumer, wait: int) -> None:
    """Only the answer to an attempt arrives that was given up since; what was sent later reached nobody."""
    beat(cluster, consumer, Fate.DELAY_REPLY)
    (reply,) = cluster.network.replies
    cluster.cut.add(consumer.name)
    cluster.run(wait)
    consumer.unanswered()
    beat(cluster, consumer, Fate.LOSE_REQUEST)
    reply.arrive()


def test_an_answer_to_an_attempt_that_was_given_up_makes_no_lease_longer() -> None:
    cluster, (a,) = settled(1, "a")
    cluster.join("b")
    cluster.run(100)

    answered_late(cluster, a, 1_500)
    a.asleep = True
    cluster.run(6_500)

    assert owners(cluster) == {0: "b"}


def test_an_answer_that_nobody_waits_for_is_not_taken() -> None:
    cluster, (a,) = settled(1, "a")
    before = a.session.held

    answered_late(cluster, a, 1_500)

    assert a.session.held == before
    cluster.cut.clear()
    settle(cluster)


def test_a_member_that_leaves_moves_its_own_shards_alone() -> None:
    cluster, (a, *_) = settled(6, "a", "b", "c")
    before = owners(cluster)

    a.stop()
    settle(cluster)

    stayed = {shard: owner for shard, owner in before.items() if owner != "a"}
    assert {shard: owners(cluster)[shard] for shard in stayed} == stayed


def test_shares_are_never_more_than_one_apart() -> None:
    cluster, _ = settled(5, "a", "b", "c")

    shares = sorted(list(owners(cluster).values()).count(name) for name in "abc")

    assert shares == [1, 2, 2]


def test_a_shard_of_many_is_not_forgotten() -> None:
    cluster, _ = settled(3, "a", "b")

    assert sorted(owners(cluster)) == [0, 1, 2]
