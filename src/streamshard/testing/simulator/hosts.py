"""What befalls coordinators and members: they crash, stop anywhere, are restarted, fork, come and go."""

import attrs

from streamshard.core.ids import Millis
from streamshard.testing.cluster import SHORT
from streamshard.testing.coordinating import CoordinatorProcess
from streamshard.testing.processes import Consumer
from streamshard.testing.simulator.choices import ANY, Range, act, one_of
from streamshard.testing.simulator.world import World

STEPS: Range = range(1, 16)
NAMES: Range = range(8)
MOST_MEMBERS = 12
LEASES: Range = (2_400, 3_000, 4_000)
ANYWHERE, WITH_CHECKED_ORDERS, HAVING_BEATEN = range(3)


@act(ANY, STEPS, kind="coordinator crash at a call")
def a_coordinator_crashes(world: World, which: int, steps: int) -> bool:
    """In the middle of a tick, between two calls of a port; it begins again with an empty memory."""
    process = one_of(world.coordinators, which)
    if not process.asleep:
        world.tick(process, steps)
    world.restart(process)
    return True


@act(ANY, LEASES, kind="coordinator restart with another lease")
def a_coordinator_is_restarted_with_another_lease(world: World, which: int, lease: int) -> bool:
    """As when its settings were changed."""
    timing = attrs.evolve(SHORT, lease_ms=Millis(lease), heartbeat_ms=Millis(400))
    world.timing = attrs.evolve(SHORT, lease_ms=Millis(max(LEASES)))
    world.restart(one_of(world.coordinators, which), timing)
    return True


@act(ANY, STEPS, kind="coordinator stop at a call", ended_by="a_coordinator_wakes")
def a_coordinator_stops(world: World, which: int, steps: int) -> bool:
    """In the middle of a tick; it goes on with that when it wakes."""
    process = one_of(world.coordinators, which)
    if process.asleep:
        return False
    world.tick(process, steps)
    process.asleep = True
    return True


@act(ANY)
def a_coordinator_wakes(world: World, which: int) -> bool:
    """Whatever it was doing, it does it now."""
    asleep = [process for process in world.coordinators if process.asleep]
    if not asleep:
        return False
    process = one_of(asleep, which)
    process.asleep = False
    if process.ticking is not None:
        world.tick(process)
    return True


@act(ANY, STEPS)
def a_tick_stands_in_the_middle(world: World, which: int, steps: int) -> bool:
    """Heartbeats are answered meanwhile."""
    process = one_of(world.coordinators, which)
    if process.asleep:
        return False
    world.tick(process, steps)
    return True


@act(ANY)
def a_tick_goes_on(world: World, which: int) -> bool:
    """To its end."""
    standing = [process for process in world.awake if process.ticking is not None]
    if not standing:
        return False
    world.tick(one_of(standing, which))
    return True


@act(STEPS)
def answers_will_stand_elsewhere(world: World, steps: int) -> bool:
    """After so many steps, those whose fate is to be held."""
    world.hold_after = steps
    return True


@act(ANY)
def an_answer_goes_on(world: World, which: int) -> bool:
    """One that stood in the middle."""
    holding: list[CoordinatorProcess] = [process for process in world.awake if process.held]
    if not holding:
        return False
    process = one_of(holding, which)
    world.go_on(process, which % len(process.held))
    return True


@act(NAMES)
def a_member_starts(world: World, name: int) -> bool:
    """Under a name that may be in use."""
    if len(world.alive) >= MOST_MEMBERS:
        return False
    world.join(f"m{name}")
    return True


@act(ANY)
def a_member_leaves(world: World, which: int) -> bool:
    """It finishes what it handles, and says goodbye."""
    awake = [consumer for consumer in world.alive if not consumer.asleep]
    if not awake:
        return False
    one_of(awake, which).stop()
    return True


@act(ANY, kind="member crash")
def a_member_is_killed(world: World, which: int) -> bool:
    """What it has sent to Redis is still on its way."""
    if not world.alive:
        return False
    world.kill(one_of(world.alive, which))
    return True


@act(ANY, kind="member restart under its name")
def a_member_is_restarted(world: World, which: int) -> bool:
    """Killed, and started again under the same name."""
    if not world.alive:
        return False
    gone = one_of(world.alive, which)
    world.kill(gone)
    world.join(gone.name)
    return True


@act(ANY, kind="member fork")
def a_member_forks(world: World, which: int) -> bool:
    """The child makes everything anew, as it must, and has its parent's name."""
    if not world.alive or len(world.alive) >= MOST_MEMBERS:
        return False
    world.join(one_of(world.alive, which).name)
    return True


@act(ANY, range(3), kind="member stop", ended_by="a_member_wakes")
def a_member_stops(world: World, which: int, where: int) -> bool:
    """Between any two of its steps: anywhere, with orders checked and not carried out, or having just beaten."""
    awake: list[Consumer] = [consumer for consumer in world.alive if not consumer.asleep]
    if not awake:
        return False
    consumer = one_of(awake, which)
    if where == WITH_CHECKED_ORDERS:
        slow = consumer.name in world.slow
        world.slow.add(consumer.name)
        world.read(consumer)
        world.slow ^= set() if slow else {consumer.name}
    elif where == HAVING_BEATEN and consumer.session.beats:
        world.send(consumer, consumer.beat_now())
    consumer.asleep = True
    return True


@act(ANY)
def a_member_wakes(world: World, which: int) -> bool:
    """It goes on where it stood; orders that it had checked reach Redis now."""
    asleep = [consumer for consumer in world.alive if consumer.asleep]
    if not asleep:
        return False
    consumer = one_of(asleep, which)
    consumer.asleep = False
    for run in list(consumer.runs.values()):
        if run.command is not None and consumer.name not in world.slow:
            world.arrive(consumer, run.command)
    return True


@act(ANY, kind="handler stuck", ended_by="handlers_go_on")
def handlers_get_stuck(world: World, which: int) -> bool:
    """One member's."""
    if not world.alive:
        return False
    one_of(world.alive, which).stuck = True
    return True


@act(ANY)
def handlers_go_on(world: World, which: int) -> bool:
    """Of one member whose handlers were stuck."""
    stuck = [consumer for consumer in world.alive if consumer.stuck]
    if not stuck:
        return False
    one_of(stuck, which).stuck = False
    return True


@act(ANY, range(1, 4), kind="handler failure")
def handlers_fail(world: World, which: int, times: int) -> bool:
    """They return without an acknowledgement."""
    if not world.alive:
        return False
    one_of(world.alive, which).fails_next = times
    return True


@act(ANY, kind="slow orders to Redis", ended_by="orders_arrive")
def orders_get_slow(world: World, which: int) -> bool:
    """Of one member: what it sends stays under way."""
    if not world.alive:
        return False
    world.slow.add(one_of(world.alive, which).name)
    return True


@act(ANY)
def orders_arrive(world: World, which: int) -> bool:
    """Of one name whose orders were slow."""
    if not world.slow:
        return False
    name = one_of(sorted(world.slow), which)
    world.slow.remove(name)
    for consumer in world.alive:
        for run in list(consumer.runs.values()):
            if run.command is not None and consumer.name == name and not consumer.asleep:
                world.arrive(consumer, run.command)
    return True


@act(ANY)
def an_order_of_a_dead_process_arrives(world: World, which: int) -> bool:
    """Nobody hears the answer."""
    if not world.strays:
        return False
    command = one_of(world.strays, which)
    world.strays.remove(command)
    world.arrive(None, command)
    return True
