"""What operators ask for, and what producers write."""

from streamshard.core.admin import AmendStream, CreateGroup, DeleteGroup, GroupSpec
from streamshard.core.ids import stream_key
from streamshard.core.replies import Status
from streamshard.core.stream import Retention, ShardPhase
from streamshard.testing.cluster import KEY, OPERATOR
from streamshard.testing.coordinating import CoordinatorProcess
from streamshard.testing.simulator.choices import ANY, Range, act, one_of
from streamshard.testing.simulator.world import World

HELD: Range = (0, 0, *range(1, 15))
"""After how many steps an operator's command stands in the middle; 0: it does not."""
COUNTS: Range = (0, 1, 1, 2, 2, 3, 3, 4, 5)
FAR = 2**52
REFUSALS = frozenset({Status.INVALID_REQUEST, Status.UNSUPPORTED_PROTOCOL, Status.FENCED_MEMBER_EPOCH})
"""After these nothing was changed."""


@act(COUNTS, ANY, HELD)
def an_operator_scales(world: World, count: int, by: int, steps: int) -> bool:
    """To another number of shards."""
    world.start_scaling(count, _awake(world, by), steps)
    return True


@act(ANY, HELD)
def an_operator_rolls_back(world: World, by: int, steps: int) -> bool:
    """Whatever is under way."""
    world.start_rollback(_awake(world, by), steps)
    return True


@act(ANY, HELD)
def the_group_is_deleted(world: World, by: int, steps: int) -> bool:
    """Whoever is in it."""
    process = _awake(world, by)
    world.operate(process, process.coordinator.delete_group(DeleteGroup(KEY, OPERATOR, force=True)), steps or None)
    return True


@act(ANY, HELD)
def the_group_is_created(world: World, by: int, steps: int) -> bool:
    """Again; not its stream, where only that record is missing."""
    if KEY.prefix in world.damages:
        return False
    process = _awake(world, by)
    call = process.coordinator.create_group(CreateGroup(KEY, OPERATOR, GroupSpec(KEY.group)))
    world.operate(process, call, steps or None)
    return True


@act(ANY, range(2), HELD)
def an_operator_changes_what_is_kept(world: World, by: int, kept: int, steps: int) -> bool:
    """Everything, or what somebody has still to acknowledge."""
    process, retention = _awake(world, by), one_of(list(Retention), kept)
    call = process.coordinator.amend_stream(AmendStream(KEY.prefix, OPERATOR, retention))
    world.operate(process, call, steps or None)
    return True


@act(ANY, range(1, 15))
def a_command_goes_on(world: World, which: int, steps: int) -> bool:
    """One that stood in the middle."""
    standing = [process for process in world.awake if process.errands]
    if not standing:
        return False
    process = one_of(standing, which)
    world.advance(one_of(process.errands, which), steps)
    process.errands = [errand for errand in process.errands if not errand.done]
    world.hear_answers()
    return True


@act()
def producers_start_or_stop(world: World) -> bool:
    """To write all the time."""
    world.producing = not world.producing
    return True


@act(range(50), kind="producer stop", ended_by="a_producer_writes_at_last")
def a_producer_stops(world: World, name: int) -> bool:
    """Between looking a shard up and writing to it."""
    world.route(name)
    return bool(world.producer.routed)


@act()
def a_producer_writes_at_last(world: World) -> bool:
    """What it looked up longest ago."""
    world.append()
    return True


@act(ANY, kind="producer stop")
def a_producer_that_slept_writes(world: World, which: int) -> bool:
    """Whatever was routed once may be written at any time, also long after the shard has gone."""
    shards = [s.index for s in world.stream.shards.values() if s.phase is not ShardPhase.PREPARING]
    if not shards:
        return False
    world.producer.routed.insert(0, stream_key(KEY.prefix, one_of(shards, which)))
    world.append()
    return True


def _awake(world: World, by: int) -> CoordinatorProcess:
    return one_of(world.awake or world.coordinators, by)
