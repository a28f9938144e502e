"""The end of a run: the faults stop, and within a bound everything is well again, first with as little as it takes."""

from streamshard.core.ids import stream_key
from streamshard.core.stream import ShardPhase
from streamshard.testing.checkers import Violation
from streamshard.testing.cluster import KEY
from streamshard.testing.recovery import settle
from streamshard.testing.simulator.choices import ANY, act, one_of
from streamshard.testing.simulator.world import STRANGER, World

LOOKS_AFTER_RETIRED_KEYS_MS = 62_000
"""How long it may take until a coordinator finds that a failover has brought a retired key back."""


@act(ANY, ANY)
def a_core_is_healed(world: World, coordinator: int, member: int) -> bool:
    """One coordinator and one member are well, everybody else stays away: all shards are read within the bound."""
    _no_more_faults(world)
    everybody = world.coordinators
    core = one_of(everybody, coordinator)
    for process in everybody:
        process.asleep = process is not core
    for consumer in [c for c in world.alive if c is not one_of(world.alive, member)] if world.alive else []:
        world.kill(consumer)
    world.coordinators = [core]
    _settle(world)
    world.coordinators = everybody
    return True


@act()
def members_stay(world: World) -> bool:
    """From now on: all is well, and whatever happens to others, no shard moves."""
    _settle(world)
    world.network.at_most_lost = 1
    world.producing = True
    world.steady = dict(world.group.targets), world.books.moves
    return True


@act()
def all_is_healed(world: World) -> bool:
    """Whoever stood in the middle of something goes on, and again all is well within the bound."""
    _no_more_faults(world)
    _settle(world)
    world.hear_answers()
    world.stream_books.kept(world.stream)
    if world.steady not in (None, (dict(world.group.targets), world.books.moves)):
        raise Violation(f"I9: members stayed, and {world.steady[0]} became {dict(world.group.targets)}")
    return True


def _settle(world: World) -> None:
    settle(world, LOOKS_AFTER_RETIRED_KEYS_MS if _came_back(world) else 0)
    if back := _came_back(world):
        raise Violation(f"I5: {', '.join(back)} came back after retirement, and are not retired again")


def _came_back(world: World) -> list[str]:
    shards = world.stream.shards.values()
    retired = [stream_key(KEY.prefix, shard.index) for shard in shards if shard.phase is ShardPhase.SEALED]
    return [key for key in retired if key in world.world.streams]


def _no_more_faults(world: World) -> None:
    world.damages.clear()
    world.reaches.clear()
    world.cuts.clear()
    world.mallories.clear()
    world.replicas.clear()
    for key in world.world.streams:
        world.world.lose_group(key, STRANGER)
