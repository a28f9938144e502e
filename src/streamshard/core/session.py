"""The member's side of the protocol: answers and events in, what to read and when to beat out.

A hold is a right to read one shard under one token until its deadline. A run is what the process
really does with a shard: reads and handlers, from `Start` until the runtime reports `finished`. There
is at most one run per shard, so nothing is started while handlers of an earlier grant still run, and
every heartbeat lists all holds and all runs: the coordinator can trust an omission.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

import attrs

from streamshard.core.actions import Action, BeatAfter, BeatNow, Drain, Drop, NameHeld, Reject, Rejoin, Start
from streamshard.core.commands import Heartbeat, Hold, Intent
from streamshard.core.ids import Epoch, Generation, InstanceId, Instant, MemberId, Millis, Seq, ShardIndex, Token, View
from streamshard.core.records import Access
from streamshard.core.replies import Extension, Grant, HeartbeatReply, RetryReason, Status
from streamshard.core.timing import client_lease_ms

FIRST_RETRY_MS = 100
LONG_AGO = Instant(-(2**62))


class Phase(enum.Enum):
    """Where an instance is in its life."""

    JOINING = "JOINING"
    MEMBER = "MEMBER"
    FENCED = "FENCED"  # owns nothing; says LEAVE once nothing of it runs, then joins as a new instance
    LEAVING = "LEAVING"
    LEFT = "LEFT"
    REJECTED = "REJECTED"


class Use(enum.Enum):
    """What is done with a hold."""

    WAITING = "WAITING"  # accepted, not read: an earlier run has not ended, or the lease ran out
    READING = "READING"
    DRAINING = "DRAINING"  # to be released when its run has ended; never resumed


@attrs.frozen
class Held:
    """The right to read a shard, until ``deadline`` on this process's boot clock."""

    token: Token
    generation: Generation
    deadline: Instant
    use: Use = Use.WAITING


@attrs.frozen
class Attempt:
    """The one heartbeat whose answer counts. ``parting``: a LEAVE that listed nothing."""

    seq: Seq
    sent_at: Instant
    parting: bool = False


def _held(held: Mapping[ShardIndex, Held]) -> Mapping[ShardIndex, Held]:
    return MappingProxyType(dict(sorted(held.items())))


def _tokens(tokens: Mapping[ShardIndex, Token]) -> Mapping[ShardIndex, Token]:
    return MappingProxyType(dict(sorted(tokens.items())))


@attrs.frozen
class Session:
    """One logical member as it sees itself."""

    member: MemberId
    instance: InstanceId
    phase: Phase = Phase.JOINING
    epoch: Epoch = Epoch(0)
    seq: Seq = Seq(0)
    outstanding: Attempt | None = None
    held: Mapping[ShardIndex, Held] = attrs.field(converter=_held, factory=dict)
    running: Mapping[ShardIndex, Token] = attrs.field(converter=_tokens, factory=dict)
    """The run of each shard that has not ended, also under a token that is lost by now."""
    last_tokens: Mapping[ShardIndex, Token] = attrs.field(converter=_tokens, factory=dict)
    """The highest token this instance ever took of a shard: what it let go, it takes back under a new one only."""
    settled: bool = False
    """The last answer was OK: what is held may be started."""
    stopping: bool = False
    view: View | None = None
    metadata_version: int = 0
    lease_ms: Millis = Millis(15_000)
    heartbeat_ms: Millis = Millis(3_000)
    misses: int = 0
    """Attempts without an answer, in a row."""
    name_held_since: Instant | None = None

    @property
    def beats(self) -> bool:
        """Whether a heartbeat may be sent at all; a fenced instance is silent until nothing of it runs."""
        if self.phase is Phase.FENCED:
            return not self.running
        return self.phase in (Phase.JOINING, Phase.MEMBER, Phase.LEAVING)

    @property
    def next_deadline(self) -> Instant | None:
        """When the first lease of a shard being read runs out, for `expire`."""
        return min((h.deadline for h in self.held.values() if h.use is Use.READING), default=None)


Step: TypeAlias = tuple[Session, tuple[Action, ...]]


def beat(session: Session, now: Instant) -> tuple[Session, Heartbeat]:
    """Make a new attempt, sent at ``now``; it replaces the outstanding one. Only while ``session.beats``."""
    assert session.beats, f"{session.member} has nothing to say while {session.phase.value}"
    seq = Seq(session.seq + 1)
    holds = _listed(session)
    intent = _intent(session)
    attempt = Attempt(seq, now, parting=intent is Intent.LEAVE and not holds)
    heartbeat = Heartbeat(
        member=session.member,
        intent=intent,
        epoch=session.epoch,
        instance=session.instance,
        seq=seq,
        holds=holds,
        view=session.view,
        metadata_version=session.metadata_version,
        owned=tuple(h.shard for h in holds if not h.draining),
        revoking=tuple(h.shard for h in holds if h.draining),
    )
    return attrs.evolve(session, seq=seq, outstanding=attempt), heartbeat


def hear(session: Session, reply: HeartbeatReply, now: Instant) -> Step:
    """Take the answer to the outstanding attempt; any other answer changes nothing.

    An answer that comes when its own lease would already be over is dropped whole.
    """
    attempt = session.outstanding
    if attempt is None or reply.seq != attempt.seq or reply.member != session.member:
        return session, ()

    session = attrs.evolve(session, outstanding=None, misses=0)
    deadline = Instant(attempt.sent_at + client_lease_ms(reply.lease_ms or session.lease_ms))
    if now >= deadline:
        return session, (BeatNow(),)
    if reply.status is Status.RETRY:
        return _retry(session, reply, attempt, now)
    return _answered(session, reply, attempt, deadline, now)


def _answered(session: Session, reply: HeartbeatReply, attempt: Attempt, deadline: Instant, now: Instant) -> Step:
    if reply.status in (Status.UNSUPPORTED_PROTOCOL, Status.INVALID_REQUEST):
        return _reject(session, reply)
    if attempt.parting:
        return _parted(session)
    if reply.status in (Status.UNKNOWN_MEMBER_ID, Status.FENCED_MEMBER_EPOCH):
        return _disowned(session, reply)
    return _served(session, reply, deadline, now)


def unanswered(session: Session) -> Step:
    """The outstanding attempt failed or timed out: nothing changes until the leases end; try again."""
    misses = session.misses + 1
    backoff = min(session.heartbeat_ms, FIRST_RETRY_MS << min(misses - 1, 16))
    return attrs.evolve(session, outstanding=None, misses=misses), (BeatAfter(Millis(backoff)),)


def finished(session: Session, shard: ShardIndex, token: Token, now: Instant) -> Step:
    """The run of ``shard`` under ``token`` has ended: no read is outstanding and no handler of it runs."""
    if session.running.get(shard) != token:
        return session, ()

    running = {s: t for s, t in session.running.items() if s != shard}
    hold = session.held.get(shard)
    if hold is not None and (hold.token != token or hold.use is Use.WAITING):
        return _start(attrs.evolve(session, running=running), now)
    held = {s: h for s, h in session.held.items() if s != shard}
    session = attrs.evolve(session, running=running, held=held)
    return session, (BeatNow(),) if session.beats else ()


def refused(session: Session, shard: ShardIndex, token: Token, access: Access) -> Step:
    """The shard's fence refused an order under ``token``: it is lost, retired, or to be reported as missing."""
    hold = session.held.get(shard)
    if access is Access.OK or hold is None or hold.token != token:
        return session, ()
    if access is Access.MISSING:
        return session, (BeatNow(),)
    held = {s: h for s, h in session.held.items() if s != shard}
    return attrs.evolve(session, held=held), (Drop(shard, token, access is Access.FENCED), BeatNow())


def expire(session: Session, now: Instant) -> Step:
    """Stop reading what the lease has run out for. Instance, epoch and holds stay: an outage moves nothing."""
    over = {s: h for s, h in session.held.items() if h.use is Use.READING and now >= h.deadline}
    if not over:
        return session, ()
    paused = {s: attrs.evolve(h, use=Use.WAITING) for s, h in over.items()}
    return attrs.evolve(session, held={**session.held, **paused}), tuple(Drop(s, h.token) for s, h in over.items())


def may_use(session: Session, shard: ShardIndex, token: Token, now: Instant) -> bool:
    """Whether a read, a handler or an acknowledgement of ``shard`` may begin under ``token`` at ``now``."""
    return now < usable_until(session, shard, token)


def usable_until(session: Session, shard: ShardIndex, token: Token) -> Instant:
    """Until when ``shard`` may be used under ``token``; the beginning of time if it is held no more."""
    hold = session.held.get(shard)
    return hold.deadline if hold is not None and hold.token == token else LONG_AGO


def stop(session: Session) -> Step:
    """Leave for good: drain everything, and say LEAVE until nothing is left to list."""
    if session.phase is Phase.FENCED:
        return attrs.evolve(session, stopping=True), ()
    if session.phase not in (Phase.JOINING, Phase.MEMBER):
        return session, ()
    if session.seq == 0:
        return attrs.evolve(session, phase=Phase.LEFT, stopping=True), ()
    held, drains = _let_go(session, tuple(session.held))
    return attrs.evolve(session, phase=Phase.LEAVING, stopping=True, held=held), (*drains, BeatNow())


def rejoin(session: Session, instance: InstanceId) -> Step:
    """Begin again as a new instance, after `Rejoin`; nothing of the old one is carried over."""
    fresh = Session(session.member, instance, lease_ms=session.lease_ms, heartbeat_ms=session.heartbeat_ms)
    return fresh, (BeatNow(),)


def _intent(session: Session) -> Intent:
    if session.phase in (Phase.LEAVING, Phase.FENCED):
        return Intent.LEAVE
    return Intent.JOIN if session.phase is Phase.JOINING else Intent.STAY


def _listed(session: Session) -> tuple[Hold, ...]:
    """Every hold, and every run that outlived its hold, by shard; a shard once, under its newest token."""
    holds = {s: Hold(s, h.token, h.use is Use.DRAINING) for s, h in session.held.items()}
    outlived = {s: Hold(s, token, draining=True) for s, token in session.running.items() if s not in holds}
    return tuple(hold for _, hold in sorted({**holds, **outlived}.items()))


def _retry(session: Session, reply: HeartbeatReply, attempt: Attempt, now: Instant) -> Step:
    again = BeatAfter(reply.retry_after_ms or Millis(max(1, session.heartbeat_ms // 4)))
    if reply.retry_reason is not RetryReason.NAME_HELD or session.phase is not Phase.JOINING:
        return session, (again,)
    since = now if session.name_held_since is None else session.name_held_since
    # A holder that died is let go of after two silent heartbeats: three mean that it has renewed.
    proven = attempt.sent_at - since >= 3 * reply.heartbeat_ms
    notice = NameHeld(reply.message or f"{session.member} is held by another instance", proven)
    return attrs.evolve(session, name_held_since=since), (notice, again)


def _reject(session: Session, reply: HeartbeatReply) -> Step:
    dropped, drops = _drop_all(session, Phase.REJECTED)
    return dropped, (*drops, Reject(reply.message or reply.status.value))


def _parted(session: Session) -> Step:
    if session.stopping:
        return attrs.evolve(session, phase=Phase.LEFT), ()
    return session, (Rejoin(),)


def _disowned(session: Session, reply: HeartbeatReply) -> Step:
    if session.phase is Phase.JOINING and reply.status is Status.UNKNOWN_MEMBER_ID:
        return session, (BeatAfter(session.heartbeat_ms),)  # there is no such group (yet)
    fenced, drops = _drop_all(session, Phase.FENCED)
    return fenced, (*drops, BeatNow()) if fenced.beats else drops


def _drop_all(session: Session, phase: Phase) -> tuple[Session, tuple[Action, ...]]:
    fenced = phase is Phase.FENCED
    drops = tuple(Drop(s, h.token, fenced) for s, h in session.held.items() if session.running.get(s) == h.token)
    return attrs.evolve(session, phase=phase, held={}, settled=False), drops


def _served(session: Session, reply: HeartbeatReply, deadline: Instant, now: Instant) -> Step:
    before = session.held
    session = attrs.evolve(_adopt(session, reply), held=_prolong(before, reply.extended, deadline))
    if session.phase is not Phase.MEMBER:
        return session, (BeatAfter(session.heartbeat_ms),)

    session, stops = _reconcile(session, reply)
    session = _accept(session, reply, deadline)
    session, starts = _start(session, now)
    changed = {s: h.token for s, h in before.items()} != {s: h.token for s, h in session.held.items()}
    return session, (*stops, *starts, BeatNow() if changed else _next_beat(session, reply))


def _adopt(session: Session, reply: HeartbeatReply) -> Session:
    joined = session.phase is Phase.JOINING and reply.epoch > 0
    return attrs.evolve(
        session,
        phase=Phase.MEMBER if joined else session.phase,
        epoch=reply.epoch if joined else session.epoch,
        settled=reply.status is Status.OK,
        view=reply.view,
        metadata_version=reply.metadata_version,
        lease_ms=reply.lease_ms or session.lease_ms,
        heartbeat_ms=reply.heartbeat_ms or session.heartbeat_ms,
        name_held_since=None,
    )


def _prolong(
    held: Mapping[ShardIndex, Held], extended: tuple[Extension, ...], deadline: Instant
) -> dict[ShardIndex, Held]:
    longer = {(e.shard, e.token) for e in extended}
    return {s: attrs.evolve(h, deadline=deadline) if (s, h.token) in longer else h for s, h in held.items()}


def _reconcile(session: Session, reply: HeartbeatReply) -> tuple[Session, tuple[Action, ...]]:
    """Drop what was granted anew under a higher token, drain what is meant for others."""
    grants = {g.shard: g for g in reply.grants}
    extended = {(e.shard, e.token) for e in reply.extended}
    replaced, gone = [], []
    for shard, hold in session.held.items():
        grant = grants.get(shard)
        if session.settled and grant is not None and grant.token > hold.token:
            replaced.append(shard)
        elif not _stays(shard, hold, grant, reply, extended):
            gone.append(shard)
    held, drains = _let_go(session, tuple(gone))
    drops = tuple(Drop(s, session.held[s].token) for s in replaced if session.running.get(s) == session.held[s].token)
    kept = {s: h for s, h in held.items() if s not in replaced}
    return attrs.evolve(session, held=kept), (*drops, *drains)


def _stays(
    shard: ShardIndex,
    hold: Held,
    grant: Grant | None,
    reply: HeartbeatReply,
    extended: set[tuple[ShardIndex, Token]],
) -> bool:
    """Assigned under the same token; or meant for us, extended, and only its fence not raised again yet."""
    if shard in reply.assigned:
        return grant is None or grant.token == hold.token
    settled = reply.status is Status.OK
    return settled and shard in reply.pending and (shard, hold.token) in extended


def _let_go(session: Session, shards: tuple[ShardIndex, ...]) -> tuple[dict[ShardIndex, Held], tuple[Action, ...]]:
    """Drain the holds that have a run of their own, release the others at once."""
    held, drains = dict(session.held), []
    for shard in shards:
        hold = held[shard]
        if session.running.get(shard) != hold.token:
            del held[shard]
        elif hold.use is not Use.DRAINING:
            held[shard] = attrs.evolve(hold, use=Use.DRAINING)
            drains.append(Drain(shard, hold.token))
    return held, tuple(drains)


def _accept(session: Session, reply: HeartbeatReply, deadline: Instant) -> Session:
    """Take the grants that are new; a token once let go is not taken back."""
    if not session.settled:
        return session
    new = [
        g
        for g in reply.grants
        if g.shard in reply.assigned and g.shard not in session.held and g.token > session.last_tokens.get(g.shard, 0)
    ]
    held = {**session.held, **{g.shard: Held(g.token, g.generation, deadline) for g in new}}
    return attrs.evolve(session, held=held, last_tokens={**session.last_tokens, **{g.shard: g.token for g in new}})


def _start(session: Session, now: Instant) -> tuple[Session, tuple[Action, ...]]:
    """Begin the runs of holds that wait for nothing any more."""
    if not session.settled or session.phase is not Phase.MEMBER:
        return session, ()
    ready = {
        s: h for s, h in session.held.items() if h.use is Use.WAITING and s not in session.running and now < h.deadline
    }
    held = {**session.held, **{s: attrs.evolve(h, use=Use.READING) for s, h in ready.items()}}
    running = {**session.running, **{s: h.token for s, h in ready.items()}}
    starts = tuple(Start(s, h.token, h.generation) for s, h in ready.items())
    return attrs.evolve(session, held=held, running=running), starts


def _next_beat(session: Session, reply: HeartbeatReply) -> BeatAfter:
    """Sooner while shards that are meant for us are still held by others."""
    return BeatAfter(Millis(max(1, session.heartbeat_ms // 2)) if reply.pending else session.heartbeat_ms)
