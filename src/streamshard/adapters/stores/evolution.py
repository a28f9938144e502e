"""How what is stored may grow: what was there from the first, and what may come later.

A field listed here is in every record, whichever version wrote it: should it be missing, the record is corrupt,
because an absent holding must never read as "nobody holds it". Every other field came later. It has a default,
which it also stands for where it is not stored, and is stored only while it says something else. So a record
that uses nothing new reads as ever, for older coordinators too; one that does is of a higher schema, which they
refuse, since they would drop what they don't know when they write the record next.

Rows are the exception: a renewal writes its row anew from one heartbeat and copies nothing, so nothing is lost
by passing over what is only shown. What must not be passed over in a row takes another number for the schema.
"""

from collections.abc import Mapping
from typing import Any

from streamshard.core.group import (
    GroupRecord,
    GroupTombstone,
    Holding,
    Member,
    Quarantine,
    Row,
    ShardProgress,
)
from streamshard.core.ids import GroupKey, Version
from streamshard.core.stream import GroupEntry, IdempotentAnswer, Resharding, Shard, StreamRecord, StreamTombstone
from streamshard.core.timeline import Happening, Span

_FIRST: Mapping[type[Any], str] = {
    GroupKey: "prefix group",
    Version: "lineage revision nonce",
    Happening: "at kind text member shards",
    Span: "shard member token since until",
    Shard: "index generation phase",
    GroupEntry: "name state start_from allow_legacy keep_redis_group",
    Resharding: "id from_count to_count state created_at updated_at requested_by reason ignore_foreign_groups"
    " stop_producers deprecated_after any_sealed",
    IdempotentAnswer: "key fingerprint answer at",
    StreamRecord: "prefix version ring store mac_key state routed_count layout_version shards groups routing_protocol"
    " created_at adopt resharding history idempotency drop_data events",
    StreamTombstone: "prefix version layout_version generations deleted_at idempotency",
    Member: "id name instance epoch state joined_at joined_version max_concurrency legacy advertised_url"
    " client_version ignored_claims ended_at",
    Holding: "member instance generation token floor seq draining lapsed listed since",
    Quarantine: "reason since",
    GroupRecord: "key version ring store layout_version layout group_epoch assignment_epoch metadata_version members"
    " targets holdings last_tokens longest_leases past_lineages departed quarantine allow_legacy events spans",
    GroupTombstone: "key version group_epoch metadata_version holdings last_tokens longest_leases past_lineages"
    " deleted_at",
    ShardProgress: "shard last_delivered last_acked ack_floor pending in_flight read_state",
    Row: "instance seq mark lease_ms available progress",
}

_SHOWN = frozenset({Row, ShardProgress})


def always_there(kind: type[Any]) -> frozenset[str]:
    """The fields that no record lacks; none of a class that came later."""
    return frozenset(_FIRST.get(kind, "").split())


def tolerant(kind: type[Any]) -> bool:
    """Whether fields that this version does not know may be passed over."""
    return kind in _SHOWN
