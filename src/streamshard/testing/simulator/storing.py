"""What befalls the store: it is away, keeps its answers to itself, forgets, tears a record, loses a key."""

from streamshard.adapters.stores.memory import Fault
from streamshard.core.group import GroupRecord
from streamshard.core.ids import GroupKey, StreamPrefix
from streamshard.testing.cluster import KEY
from streamshard.testing.simulator.choices import ANY, act, one_of
from streamshard.testing.simulator.damage import Damage
from streamshard.testing.simulator.world import World

RECORDS: tuple[GroupKey | StreamPrefix, ...] = (KEY, KEY, KEY.prefix)
NOTICED_BY_NOBODY, NOTICED, RESTARTED = range(3)


@act(ANY, range(1, 6), kind="store unavailable")
def the_store_does_not_answer(world: World, whom: int, times: int) -> bool:
    """One coordinator, so many times."""
    for _ in range(times):
        one_of(world.coordinators, whom).store.fail_next(Fault.UNAVAILABLE)
    return True


@act(ANY, range(2), kind="store unknown outcome")
def an_answer_of_the_store_is_lost(world: World, whom: int, applied: int) -> bool:
    """The next commit of one coordinator is applied or not, and it is not told."""
    fault = Fault.UNCERTAIN_APPLIED if applied else Fault.UNCERTAIN_LOST
    one_of(world.coordinators, whom).store.fail_next(fault)
    return True


@act((1, 1, 1, 2, 2, 3, 5, 8, 20, 50), range(3), kind="store loses a suffix")
def the_store_loses_its_last_commits(world: World, commits: int, then: int) -> bool:
    """Silently, over new connections, or together with its coordinators' memory."""
    world.pass_time(10)
    lost = world.lose_writes(commits)
    for process in list(world.coordinators):
        if then == NOTICED:
            process.store.reconnect()
        elif then == RESTARTED:
            world.restart(process)
    return lost > 0


@act(kind="store loses renewals")
def the_store_forgets_the_renewals(world: World) -> bool:
    """As a crash may."""
    world.shelf.lose_rows()
    return True


@act(ANY, kind="store reconnects")
def the_store_is_reached_over_a_new_connection(world: World, whose: int) -> bool:
    """By one coordinator, which has to take it for a first look."""
    one_of(world.coordinators, whose).store.reconnect()
    return True


@act(range(3), kind="store torn record", ended_by="records_come_back")
def a_record_is_torn(world: World, which: int) -> bool:
    """It can't be decoded until somebody puts it right."""
    return _damage(world, which, Damage.TORN)


@act(range(3), kind="store key deleted", ended_by="records_come_back")
def a_record_is_deleted(world: World, which: int) -> bool:
    """It is not there until somebody puts it back."""
    return _damage(world, which, Damage.MISSING)


@act()
def records_come_back(world: World) -> bool:
    """As they were."""
    world.damages.clear()
    return True


def _damage(world: World, which: int, damage: Damage) -> bool:
    name = RECORDS[which]
    if name in world.damages or (name == KEY and not isinstance(world.stored, GroupRecord)):
        return False
    world.damages[name] = damage
    return True
