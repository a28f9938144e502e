"""What somebody sends who means harm, and has learned names, epochs and identities of others."""

from collections.abc import Callable

import attrs

from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.group import GroupRecord, ShardProgress
from streamshard.core.ids import Epoch, InstanceId, MemberId, RecordId, Seq, ShardIndex, Token, View
from streamshard.core.replies import HeartbeatReply, Status
from streamshard.testing.checkers import AnyGroup, Violation
from streamshard.testing.cluster import KEY
from streamshard.testing.processes import Consumer
from streamshard.testing.simulator.choices import ANY, act, one_of
from streamshard.testing.simulator.world import Mallory, World
from streamshard.testing.stepping import Errand, at_once

FAR = 2**52
REFUSALS = frozenset({Status.INVALID_REQUEST, Status.UNSUPPORTED_PROTOCOL, Status.FENCED_MEMBER_EPOCH})
"""After these nothing was changed."""
NOBODY = Epoch(0)


def a_newcomer(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat:
    """Who may be let in."""
    return Heartbeat(MemberId(f"mallory-{shard}"), Intent.JOIN, NOBODY, _identity(world), _seq(world))


def a_namesake(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat:
    """Another process, under a name in use."""
    return Heartbeat(victim.name, Intent.JOIN, NOBODY, _identity(world), _seq(world))


def a_goodbye_for_another(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat:
    """Of an identity that the member doesn't have."""
    return Heartbeat(victim.name, Intent.LEAVE, victim.session.epoch, _identity(world), _seq(world))


def another_epoch(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat | None:
    """The very instance, in an epoch that it was never given."""
    old = an_old_heartbeat(world, victim, shard)
    return old and attrs.evolve(old, epoch=Epoch(old.epoch + 1 + shard), seq=Seq(old.seq + 100))


def an_old_heartbeat(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat | None:
    """The very instance's last one, that now lists nothing."""
    snapshot, instance = at_once(world.shelf.load_group(KEY)), victim.session.instance
    members = snapshot.record.members if isinstance(snapshot.record, GroupRecord) else {}
    if instance not in snapshot.rows or victim.name not in members:
        return None
    epoch = members[victim.name].epoch
    return Heartbeat(victim.name, Intent.STAY, epoch, instance, snapshot.rows[instance].seq)


def a_token_from_nowhere(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat | None:
    """A member's claim to hold what others do."""
    plain = _of_a_member(world)
    return plain and attrs.evolve(plain, holds=(Hold(shard, Token(FAR + shard)),))


def a_view_of_the_future(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat | None:
    """A member's, which it made up."""
    plain = _of_a_member(world)
    return plain and attrs.evolve(plain, view=View("made-up"), metadata_version=2**53 - 1)


def a_key_cried_for(world: World, victim: Consumer, shard: ShardIndex) -> Heartbeat | None:
    """A member's alarm about a key that is there."""
    plain = _of_a_member(world)
    away = ShardProgress(shard, RecordId("9999-9"), ack_floor=RecordId("0-0"), read_state="MISSING")
    return plain and attrs.evolve(plain, progress=(away,))


HARMS: tuple[Callable[[World, Consumer, ShardIndex], Heartbeat | None], ...] = (
    a_newcomer,
    a_namesake,
    a_goodbye_for_another,
    another_epoch,
    an_old_heartbeat,
    a_token_from_nowhere,
    a_view_of_the_future,
    a_key_cried_for,
)


@act(range(len(HARMS)), ANY, ANY, range(6), kind="hostile heartbeat")
def somebody_means_harm(world: World, how: int, whom: int, to: int, shard: int) -> bool:
    """A heartbeat that no member would send."""
    if not world.awake or not world.consumers:
        return False
    beat = HARMS[how % len(HARMS)](world, one_of(world.consumers, whom), ShardIndex(shard))
    if beat is None:
        return False
    before = world.stored
    errand = world.finish(Errand(one_of(world.awake, to).coordinator.heartbeat(KEY, beat)))
    if errand.error is None:
        _judge(errand.result, beat, before, world.stored)
        _learn(world, beat, errand.result)
    return True


def _judge(reply: HeartbeatReply, beat: Heartbeat, before: AnyGroup | None, after: AnyGroup | None) -> None:
    if not isinstance(before, GroupRecord) or not isinstance(after, GroupRecord) or before.lineage != after.lineage:
        return  # the coordinator looked closely, and found that the store had lost writes
    if reply.status in REFUSALS and _of_others(before, beat) != _of_others(after, beat):
        raise Violation(f"I14: a heartbeat that was answered {reply.status.value} changed what others have")


def _of_others(record: GroupRecord, beat: Heartbeat) -> tuple[object, object]:
    members = [member for name, member in record.members.items() if name != beat.member]
    return members, [(shard, held) for shard, held in record.holdings.items() if held.instance != beat.instance]


def _learn(world: World, beat: Heartbeat, reply: HeartbeatReply) -> None:
    if beat.intent is Intent.JOIN and reply.status not in REFUSALS | {Status.RETRY} and beat.instance is not None:
        world.mallories.append(Mallory(beat.member, beat.instance, reply.epoch, beat.seq))


def _of_a_member(world: World) -> Heartbeat | None:
    if not world.mallories:
        return None
    mallory = world.mallories[-1]
    mallory.seq = Seq(mallory.seq + 1)
    return Heartbeat(mallory.name, Intent.STAY, mallory.epoch, mallory.instance, mallory.seq)


def _identity(world: World) -> InstanceId:
    return InstanceId(f"{world.fresh():032x}")


def _seq(world: World) -> Seq:
    return Seq(world.fresh() + 1)
