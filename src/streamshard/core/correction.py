"""When the store lost writes: how that is noticed, and how the group gets back without two readers.

Proof is only what nobody can make up: a MACed view of a commit the record doesn't know, a fence above the
shard's last token, another store. Anything else a member says costs its sender alone. Nothing is rebuilt
from reports; a hold that the record gives to nobody is only written down, so that it blocks until released.
"""

import enum
from collections.abc import Mapping

import attrs

from streamshard.core import history, views
from streamshard.core.commands import Heartbeat, Hold
from streamshard.core.group import GroupRecord, Holding, Quarantine
from streamshard.core.ids import (
    Generation,
    InstanceId,
    Instant,
    Millis,
    ShardIndex,
    Token,
    Version,
    WallMillis,
    remember_lineages,
)
from streamshard.core.outcome import Context, LostWrites
from streamshard.core.sight import GroupSight
from streamshard.core.timing import expiry_wait_ms

PLAUSIBLE_AHEAD_MS = 366 * 24 * 3_600_000
"""Tokens follow the wall clock; one further ahead than this is nobody's grant."""


HIGHEST_MARK = 2**52
"""Tokens follow the wall clock; a mark above this was never raised for a grant, and none can be issued above it."""


class Claim(enum.Enum):
    """What the version that a member names says about it, or about us."""

    NONE = "NONE"  # it names none
    PRESENT = "PRESENT"  # of this lineage
    PAST = "PAST"  # of an earlier lineage: it has to catch up
    WILD = "WILD"  # nobody issued it: the sender's own trouble
    LOST = "LOST"  # we issued it and don't know it: the store forgot


def judge(record: GroupRecord, beat: Heartbeat, mac_key: str) -> tuple[Claim, Version | None]:
    """Classify the view (or, without one, the bare number) that a heartbeat carries; with the version, if genuine."""
    if beat.view is None:
        return Claim.WILD if beat.metadata_version > record.metadata_version else Claim.NONE, None
    version = views.read(mac_key, record.key, beat.view)
    return _compare(record, version) if version is not None else Claim.WILD, version


def _compare(record: GroupRecord, version: Version) -> Claim:
    if version.lineage == record.lineage:
        return Claim.PRESENT if _known(record, version) else Claim.LOST
    return Claim.PAST if version.lineage in record.past_lineages else Claim.LOST


def _known(record: GroupRecord, version: Version) -> bool:
    oldest_remembered = record.version.revision - len(record.ring) + 1
    return version.nonce in record.ring or version.revision < oldest_remembered


def regressed(record: GroupRecord, seen: Version) -> bool:
    """Whether this record is older than, or not a successor of, one that was seen before."""
    if record.lineage != seen.lineage:
        return seen.lineage not in record.past_lineages
    return not _known(record, seen) or record.version.revision < seen.revision


def gone_back(record: GroupRecord, seen: Version | None) -> LostWrites | None:
    """The proof, if this record is no successor of the one that was seen before."""
    if seen is None or not regressed(record, seen):
        return None
    return LostWrites("the record is not a successor of one that was read before", seen.lineage)


def is_later(known: GroupRecord, record: GroupRecord) -> bool:
    """Whether the known record is a successor of the other one."""
    return record.version != known.version and not regressed(known, record.version)


def above_last(record: GroupRecord, marks: Mapping[ShardIndex, Token]) -> dict[ShardIndex, Token]:
    """The fence marks that are above what the record says was issued, or stand where a grant of its was to go."""
    return {s: mark for s, mark in marks.items() if _is_above(record, s, mark)}


def _is_above(record: GroupRecord, shard: ShardIndex, mark: Token) -> bool:
    holding = record.holdings.get(shard)
    return mark > record.last_tokens.get(shard, Token(0)) or (holding is not None and _stale(holding, mark))


def start_lineage(
    record: GroupRecord, marks: Mapping[ShardIndex, Token], proof: LostWrites, context: Context
) -> GroupRecord:
    """Begin a new lineage in quarantine; holdings below their shard's mark are stale and lapse."""
    ended = [record.lineage] if proof.lineage is None else [record.lineage, proof.lineage]
    last = {s: max(record.last_tokens.get(s, Token(0)), t) for s, t in marks.items()}
    holdings = {
        s: attrs.evolve(h, lapsed=h.lapsed or _stale(h, marks.get(s, Token(0)))) for s, h in record.holdings.items()
    }
    begun = attrs.evolve(
        record,
        version=Version(context.lineage, record.version.revision + 1, context.nonce),
        ring=(context.nonce,),
        past_lineages=remember_lineages(record.past_lineages, *ended),
        store=context.source.identity,
        metadata_version=record.metadata_version + 1,
        holdings=holdings,
        last_tokens={**record.last_tokens, **last},
        quarantine=Quarantine(proof.reason, context.wall),
    )
    return history.told(record, begun, context.wall)


def _stale(holding: Holding, mark: Token) -> bool:
    """A later token was out already, or (a mark between floor and token) this one never was."""
    return holding.token != mark and holding.floor < mark


def quarantine_over(record: GroupRecord, sight: GroupSight, now: Instant, lease: Millis) -> bool:
    """Whether this coordinator has itself seen this lineage for the longest L_s that anyone may rely on."""
    if record.quarantine is None:
        return False
    longest = max([lease, *record.longest_leases.values()])
    return sight.lineage == record.lineage and now - sight.lineage_since >= expiry_wait_ms(longest)


def implausible(record: GroupRecord, beat: Heartbeat, wall: WallMillis) -> ShardIndex | None:
    """A shard listed under a token that no coordinator can have issued."""
    for hold in beat.holds:
        if hold.token > max(record.last_tokens.get(hold.shard, Token(0)), wall + PLAUSIBLE_AHEAD_MS):
            return hold.shard
    return None


def adopt(record: GroupRecord, beat: Heartbeat, instance: InstanceId) -> GroupRecord:
    """Write down, to be drained, what the sender lists and the record gives to nobody.

    Only in quarantine, or under a token above the shard's last: the grant itself was lost then. It blocks,
    but it lapses at once: a later grant of the shard may have been lost too, and its holder may be reading.
    """
    adopted = {h.shard: _adopted(record, beat, h, instance) for h in beat.holds if _lost(record, h, instance)}
    if not adopted:
        return record
    tokens = {s: max(h.token, record.last_tokens.get(s, Token(0))) for s, h in adopted.items()}
    return attrs.evolve(record, holdings={**record.holdings, **adopted}, last_tokens={**record.last_tokens, **tokens})


def _lost(record: GroupRecord, hold: Hold, instance: InstanceId) -> bool:
    holding = record.holdings.get(hold.shard)
    above = hold.token > record.last_tokens.get(hold.shard, Token(0))
    if holding is None:
        return above or record.quarantine is not None
    return holding.instance == instance and above


def _adopted(record: GroupRecord, beat: Heartbeat, hold: Hold, instance: InstanceId) -> Holding:
    return Holding(
        member=beat.member,
        instance=instance,
        generation=record.layout.get(hold.shard, Generation(0)),
        token=hold.token,
        floor=hold.token,
        seq=beat.seq,
        draining=True,
        lapsed=True,
        listed=True,
    )
