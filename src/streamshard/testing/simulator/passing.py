"""Time that passes, and messages that are lost, late, repeated, out of order, or go one way only."""

import attrs

from streamshard.testing.clock import ManualClock
from streamshard.testing.coordinating import RatedClock
from streamshard.testing.network import Fate
from streamshard.testing.simulator.choices import ANY, Range, act, one_of
from streamshard.testing.simulator.world import World

WAYS = (("there",), ("back",), ("there", "back"))
MOMENTS: Range = (10, 50, 130, 270)
SMALL_STEP_MS, LARGE_STEP_MS = 5_000, 120_000
WALL_STEPS: Range = (-LARGE_STEP_MS, -SMALL_STEP_MS, -1_000, 1_000, SMALL_STEP_MS, LARGE_STEP_MS)
LEGAL_RATES: Range = (995, 997, 1000, 1003, 1005)
ILLEGAL_RATES: Range = (950, 975, 1000, 1025, 1050)


@act()
def go_on(world: World, duration: int, *weather: str) -> bool:
    """Everybody who is awake does what he always does; the weather is the fate of the next heartbeats."""
    world.run(duration, [Fate(fate) for fate in weather])
    return True


@act(MOMENTS)
def only_time_passes(world: World, duration: int) -> bool:
    """Nobody gets to run, as on a busy machine."""
    world.pass_time(duration)
    return True


@act(ANY, ANY, range(2))
def a_late_heartbeat_arrives(world: World, which: int, to: int, stays: int) -> bool:
    """At any coordinator, perhaps long after later ones; a repeated one may stay to come again."""
    letters = world.network.letters
    if not letters or not world.awake:
        return False
    letter = one_of(letters, which)
    if letter.fate is not Fate.REPEAT or not stays:
        letters.remove(letter)
    world.deliver(attrs.evolve(letter, fate=Fate.GOOD), one_of(world.awake, to))
    return True


@act(ANY)
def a_late_answer_arrives(world: World, which: int) -> bool:
    """Perhaps after the attempt that it answers was given up."""
    waiting = [reply for reply in world.network.replies if not reply.to.asleep]
    if not waiting:
        return False
    reply = one_of(waiting, which)
    world.network.replies.remove(reply)
    reply.arrive()
    return True


@act(ANY, ANY, range(3), kind="asymmetric partition", ended_by="a_link_is_mended")
def a_link_is_cut(world: World, which: int, coordinator: int, way: int) -> bool:
    """Between one member and one coordinator, one way or both."""
    if not world.alive:
        return False
    member, other = one_of(world.alive, which).name, one_of(world.coordinators, coordinator).name
    world.cuts |= {(member, other, direction) for direction in one_of(WAYS, way)}
    return True


@act(ANY)
def a_link_is_mended(world: World, which: int) -> bool:
    """Any of those that are cut, in any order."""
    if not world.cuts:
        return False
    world.cuts.remove(one_of(sorted(world.cuts), which))
    return True


@act(ANY, ANY, kind="reorder")
def a_member_beats_twice(world: World, which: int, to: int) -> bool:
    """The first heartbeat is under way when the second arrives, and comes after it, elsewhere."""
    awake = [consumer for consumer in world.alive if not consumer.asleep and consumer.session.beats]
    if not awake or not world.awake:
        return False
    consumer = one_of(awake, which)
    world.send(consumer, consumer.beat_now(), Fate.DELAY_REQUEST)
    if not world.network.letters:
        return False
    late = world.network.letters.pop()
    world.send(consumer, consumer.beat_now(), Fate.GOOD, one_of(world.awake, to))
    world.deliver(attrs.evolve(late, fate=Fate.GOOD), one_of(world.awake, to + 1))
    return True


@act(ANY, range(len(WALL_STEPS)), kind="clock step")
def a_wall_clock_steps(world: World, whose: int, by: int) -> bool:
    """The time of day jumps by up to two minutes; the boot clock can't."""
    clock = _clock(world, whose)
    clock.step_wall(WALL_STEPS[by])
    return True


@act(ANY, range(len(LEGAL_RATES)), kind="clock rate")
def a_clock_changes_its_rate(world: World, whose: int, rate: int) -> bool:
    """Within what is promised; or ten times that, where the world says so."""
    rates = ILLEGAL_RATES if world.illegal else LEGAL_RATES
    _clock(world, whose).run_at(rates[rate])
    return True


def _clock(world: World, whose: int) -> RatedClock:
    clocks: list[ManualClock] = [process.clock for process in world.coordinators]
    clocks += [consumer.clock for consumer in world.alive]
    clock = one_of([*clocks, world.producer.clock], whose)
    assert isinstance(clock, RatedClock), "every process here has one"
    return clock
