"""Everything that is done to a run's processes and to the ways between them, by name."""

import contextlib
import signal
from collections.abc import Iterator, Mapping

from tests.chaos.actors import Actor, clock_library
from tests.chaos.meddler import WAYS, Meddler
from tests.chaos.plan import GROUP, MOST_IN_CHAOS, STREAM
from tests.chaos.servers import CLUSTERED, FILED, ON_SERVER, SINGLE
from tests.chaos.stage import BY, CONSUMER, COORDINATOR, PRODUCER, NotNow, Stage
from tests.chaos.wounds import Nemesis, Wound, a_while, ended, hurting, kill, stop, term
from tests.integration.faults.proxy import Proxy
from tests.ledger.consumer import STUCK_S

LONGEST_S = 4.0


def all_coordinators_die(stage: Stage, wound: Wound) -> Iterator[float]:
    """At once; they come back one after another."""
    coordinators = stage.of(COORDINATOR)
    with hurting(stage, wound, *coordinators):
        for one in coordinators:
            stage.kill(one)
        for one in coordinators:
            yield a_while(stage, 0.1, 1.0)
            stage.start(one)


def rolling_restart(stage: Stage, wound: Wound) -> Iterator[float]:
    """Of the coordinators, as an upgrade does it."""
    coordinators = stage.of(COORDINATOR)
    if not all(stage.listens(one) for one in coordinators):
        raise NotNow
    with hurting(stage, wound, *coordinators):
        for one in coordinators:
            yield from ended(stage, one)
            stage.start(one)
            for _ in range(100):
                if stage.listens(one):
                    break
                yield 0.1


def stuck_handler(stage: Stage, wound: Wound) -> Iterator[float]:
    """A handler hangs for longer than its shard may take to be given up, while shards come and go."""
    actor = stage.idle(CONSUMER)
    if not stage.ready(actor):
        raise NotNow
    with hurting(stage, wound, actor):
        actor.signal(signal.SIGUSR1)
        yield 0.5
        with contextlib.suppress(NotNow):
            _scale(stage)
        yield STUCK_S


def meddle(way: str) -> Nemesis:
    """Do this to what a client asks one coordinator, or all of them."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor, proxies = _ways(stage)
        with hurting(stage, wound, actor):
            try:
                for proxy in proxies:
                    assert isinstance(proxy, Meddler)
                    proxy.meddle(way, LONGEST_S)
                yield a_while(stage, 0.5, LONGEST_S)
            finally:
                _cure(proxies)

    return nemesis


def break_http(how: str) -> Nemesis:
    """Hurt a client's ways to one coordinator, or to all."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor, proxies = _ways(stage)
        with hurting(stage, wound, actor):
            yield from _broken(stage, proxies, how)

    return nemesis


def break_redis(how: str) -> Nemesis:
    """Hurt the ways of a process to its servers."""

    def nemesis(stage: Stage, wound: Wound) -> Iterator[float]:
        actor = stage.idle(COORDINATOR, CONSUMER, PRODUCER)
        with hurting(stage, wound, actor):
            yield from _broken(stage, [stage.chance.choice(actor.links)], how)

    return nemesis


def scale(stage: Stage, wound: Wound) -> Iterator[float]:
    """Another number of shards."""
    _scale(stage)
    yield 0.1


def roll_back(stage: Stage, wound: Wound) -> Iterator[float]:
    """Another number of shards, and then rather not."""
    _scale(stage)
    yield a_while(stage, 0.05, 4.0)
    active = stage.scaling()
    if active is not None:
        stage.request("POST", f"streams/{STREAM}/groups/{GROUP}/migrations/{active}/rollback", BY)


def jump(stage: Stage, wound: Wound) -> Iterator[float]:
    """A wall clock that is a minute off, and another one later."""
    actor = stage.idle(COORDINATOR, CONSUMER, PRODUCER)
    with hurting(stage, wound, actor):
        stage.clock(actor).write_text(f"{stage.chance.choice((-60, 60)):+d}")
        yield a_while(stage, 0.5, LONGEST_S)
        stage.clock(actor).write_text(f"{stage.chance.choice((-60, 0, 60)):+d}")


def _scale(stage: Stage) -> None:
    stream = stage.request("GET", f"streams/{STREAM}")
    if stream is None or not stream.is_success:
        raise NotNow
    counts = [count for count in range(2, MOST_IN_CHAOS + 1) if count != stream.json()["shardCount"]]
    body = {"targetShardCount": stage.chance.choice(counts), **BY}
    response = stage.request("POST", f"streams/{STREAM}/scale", body)
    if response is None or not response.is_success:
        raise NotNow


def _ways(stage: Stage) -> tuple[Actor, list[Proxy]]:
    actor = stage.idle(CONSUMER, PRODUCER)
    everywhere = stage.chance.random() < 0.5
    return actor, list(actor.ways) if everywhere else [stage.chance.choice(actor.ways)]


def _broken(stage: Stage, proxies: list[Proxy], how: str) -> Iterator[float]:
    try:
        for proxy in proxies:
            if how == "reset":
                proxy.cut()
            elif how == "silent":
                proxy.hush()
            elif how == "refused":
                proxy.refuse()
            else:
                proxy.slow(a_while(stage, 0.01, 0.5))
        yield 0.05 if how == "reset" else a_while(stage, 0.2, LONGEST_S)
    finally:
        _cure(proxies)


def _cure(proxies: list[Proxy]) -> None:
    for proxy in proxies:
        proxy.cure()


EVERYWHERE: Mapping[str, Nemesis] = {
    "consumer-kill": kill(CONSUMER),
    "consumer-stop": stop(CONSUMER),
    "consumer-term": term(CONSUMER),
    "producer-kill": kill(PRODUCER),
    "producer-stop": stop(PRODUCER),
    "producer-term": term(PRODUCER),
    "coordinator-kill": kill(COORDINATOR),
    "coordinator-stop": stop(COORDINATOR),
    "coordinator-term": term(COORDINATOR),
    "coordinators-die": all_coordinators_die,
    "rolling-restart": rolling_restart,
    "handler-stuck": stuck_handler,
    **{f"http-{way}": meddle(way) for way in WAYS},
    **{f"http-{how}": break_http(how) for how in ("reset", "silent", "refused", "slow")},
    "scale": scale,
    "roll-back": roll_back,
}
LINKED: Mapping[str, Nemesis] = {f"redis-{how}": break_redis(how) for how in ("reset", "silent", "refused", "slow")}


def nemeses_of(setting: str) -> dict[str, Nemesis]:
    """All that a setting has on this machine, by name."""
    clocks: Mapping[str, Nemesis] = {} if clock_library() is None else {"clock-jump": jump}
    theirs = {
        "sqlite": {**LINKED, **SINGLE, **FILED},
        "redis": {**LINKED, **SINGLE, **ON_SERVER},
        "cluster": dict(CLUSTERED),
    }
    return {**EVERYWHERE, **clocks, **theirs[setting]}
