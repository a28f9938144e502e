"""One member, and answers to its heartbeats."""

from typing import Any

import attrs

from streamshard.core.actions import Action
from streamshard.core.commands import Hold
from streamshard.core.ids import Epoch, Generation, InstanceId, Instant, MemberId, Millis, ShardIndex, Token, View
from streamshard.core.replies import Extension, Grant, HeartbeatReply, Status
from streamshard.core.session import (
    Session,
    beat,
    hear,
)

ME = MemberId("a-m0")
FIRST, SECOND = InstanceId("1" * 32), InstanceId("2" * 32)
LEASE, HEARTBEAT = 15_000, 3_000
USABLE = 15_000 * 99 // 100 - 750
S0, S1 = ShardIndex(0), ShardIndex(1)
GEN = Generation(1)


def fresh() -> Session:
    return Session(ME, FIRST)


def answer(session: Session, status: Status = Status.OK, /, **given: Any) -> HeartbeatReply:
    """The answer to the outstanding attempt of ``session``."""
    grants: dict[int, int] = given.pop("grants", {})
    extended: dict[int, int] = given.pop("extended", {})
    reply = HeartbeatReply(
        status=status,
        member=ME,
        epoch=Epoch(5),
        seq=session.seq,
        heartbeat_ms=Millis(HEARTBEAT),
        rebalance_timeout_ms=Millis(60_000),
        lease_ms=Millis(LEASE),
        metadata_version=9,
        assigned=tuple(ShardIndex(s) for s in grants),
        grants=tuple(Grant(ShardIndex(s), Token(t), GEN) for s, t in grants.items()),
        extended=tuple(Extension(ShardIndex(s), Token(t)) for s, t in extended.items()),
        view=View("v9"),
    )
    return attrs.evolve(reply, **given)


def exchange(
    session: Session, at: int, status: Status = Status.OK, /, **given: Any
) -> tuple[Session, tuple[Action, ...]]:
    """One heartbeat at ``at``, answered in the same millisecond."""
    session, _ = beat(session, Instant(at))
    return hear(session, answer(session, status, **given), Instant(at))


def reading(*shards: int, at: int = 0) -> Session:
    """A member that reads ``shards``, each under token 10 + index."""
    session, _ = exchange(fresh(), at, grants={s: 10 + s for s in shards})
    return session


def holds(session: Session, at: int = 99) -> tuple[Hold, ...]:
    return beat(session, Instant(at))[1].holds
