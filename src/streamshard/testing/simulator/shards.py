"""What befalls single shards in Redis: failovers that lose writes, servers away, operators with a free hand."""

import copy
from typing import TypeVar

from streamshard.adapters.streams.memory_world import ZERO_ID, Stream
from streamshard.adapters.streams.record_ids import id_text
from streamshard.core.ids import ShardIndex
from streamshard.testing.cluster import KEY
from streamshard.testing.simulator.choices import ANY, act, one_of
from streamshard.testing.simulator.damage import Reach
from streamshard.testing.simulator.world import STRANGER, World

T = TypeVar("T")


@act(ANY, ended_by="a_shard_fails_over", lasts_ms=(50, 15_000))
def a_replica_stays_behind(world: World, which: int) -> bool:
    """From now on it hears of nothing."""
    known = sorted({*world.world.streams, *world.world.fences})
    key = one_of(known, which)
    if key in world.replicas:
        return False
    found = world.world.streams.get(key), world.world.fences.get(key)
    world.replicas[key] = copy.deepcopy(found)
    return True


@act(ANY, kind="shard failover that loses writes")
def a_shard_fails_over(world: World, which: int) -> bool:
    """To a replica that stayed behind: appends, acknowledgements, marks and retirements since then are undone."""
    if not world.replicas:
        return False
    key = one_of(sorted(world.replicas), which)
    stream, fence = world.replicas.pop(key)
    _put(world.world.streams, key, stream)
    _put(world.world.fences, key, fence)
    world.accounts.failed_over(key, world.world)
    world.lives.failed_over(key, KEY.group)
    return True


@act(ANY, range(2), kind="shard unavailable", ended_by="shards_are_reached_again")
def a_shard_is_out_of_reach(world: World, which: int, mute: int) -> bool:
    """Nothing gets there; or everything does, and no answer comes back."""
    shard = ShardIndex(which % 6)
    if shard in world.reaches:
        return False
    world.reaches[shard] = Reach.MUTE if mute else Reach.AWAY
    return True


@act()
def shards_are_reached_again(world: World) -> bool:
    """All of them."""
    world.reaches.clear()
    return True


@act(kind="redis unavailable", ended_by="redis_comes_back", lasts_ms=(200, 8_000))
def redis_goes_away(world: World) -> bool:
    """For everybody."""
    world.world.go_down()
    return True


@act()
def redis_comes_back(world: World) -> bool:
    """With everything as it was."""
    world.world.come_back()
    return True


@act(ANY, ANY, kind="operator XDEL")
def an_operator_deletes_a_record(world: World, which: int, entry: int) -> bool:
    """Read or not."""
    found = _stream(world, which)
    if found is None or not found[1].entries:
        return False
    key, stream = found
    stream.delete(one_of(sorted(stream.entries), entry))
    world.accounts.operated(key, world.world)
    return True


@act(ANY, range(1, 5), kind="operator XTRIM")
def an_operator_trims_a_stream(world: World, which: int, kept: int) -> bool:
    """To so many records, read or not."""
    found = _stream(world, which)
    if found is None or len(found[1].entries) <= kept:
        return False
    key, stream = found
    for entry in sorted(stream.entries)[:-kept]:
        del stream.entries[entry]
    world.accounts.operated(key, world.world)
    return True


@act(ANY, ANY, kind="operator DELCONSUMER")
def an_operator_deletes_a_name(world: World, which: int, whose: int) -> bool:
    """With everything that was pending under it, which nobody will be given again."""
    found = _stream(world, which)
    group = found[1].groups.get(KEY.group) if found is not None else None
    if found is None or group is None or not group.consumers:
        return False
    name = one_of(sorted(group.consumers), whose)
    gone = sorted(entry for entry, held in group.pending.items() if held.consumer == name)
    for entry in gone:
        del group.pending[entry]
    group.consumers.discard(name)
    world.accounts.not_to_come(found[0], map(id_text, gone))
    return True


@act(ANY, ANY, kind="operator SETID")
def an_operator_moves_a_group(world: World, which: int, to: int) -> bool:
    """To any record, forwards or backwards."""
    found = _stream(world, which)
    group = found[1].groups.get(KEY.group) if found is not None else None
    if found is None or group is None:
        return False
    key, stream = found
    before, group.last_delivered = group.last_delivered, one_of([ZERO_ID, *sorted(stream.entries)], to)
    group.entries_read = None
    skipped = [entry for entry in stream.entries if before < entry <= group.last_delivered]
    world.accounts.not_to_come(key, map(id_text, skipped))
    return True


@act(ANY, kind="operator XGROUP DESTROY")
def an_operator_destroys_a_group(world: World, which: int) -> bool:
    """Behind everybody's back; its records are to be delivered all the same."""
    found = _stream(world, which)
    if found is None:
        return False
    world.destroy_group(found[0])
    return True


@act(ANY, kind="operator DEL")
def an_operator_deletes_a_key(world: World, which: int) -> bool:
    """With every record on it."""
    found = _stream(world, which)
    if found is None:
        return False
    world.world.lose_shard(found[0])
    world.accounts.operated(found[0], world.world)
    return True


@act(ANY, range(6))
def a_stranger_reads(world: World, which: int, count: int) -> bool:
    """In a group of its own that nobody registered."""
    found = _stream(world, which)
    if found is None:
        return False
    if STRANGER not in found[1].groups:
        world.world.create_foreign(found[0], (STRANGER,))
    found[1].deliver(STRANGER, "s", count)
    if count % 2:
        found[1].groups[STRANGER].pending.clear()
    return True


def _stream(world: World, which: int) -> tuple[str, Stream] | None:
    streams = sorted(world.world.streams.items(), key=lambda item: item[0])
    return one_of(streams, which) if streams else None


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
