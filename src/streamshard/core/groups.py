"""The first and the last version of a group's record."""

import attrs

from streamshard.core import history
from streamshard.core.group import GroupRecord, GroupTombstone, Quarantine
from streamshard.core.ids import Epoch, GroupKey, Version, next_version, remember_lineages
from streamshard.core.outcome import Context
from streamshard.core.stream import GroupEntry


def found_group(key: GroupKey, entry: GroupEntry, grave: GroupTombstone | None, context: Context) -> GroupRecord:
    """The record of a new group; over a grave it is a new lineage above every old number, in quarantine."""
    fresh = GroupRecord(
        key=key,
        version=Version(context.lineage, 1, context.nonce),
        ring=(context.nonce,),
        store=context.source.identity,
        layout_version=context.layout.version,
        layout=context.layout.shards,
        allow_legacy=entry.allow_legacy,
    )
    return history.told(None, fresh if grave is None else _over_grave(fresh, grave, context), context.wall)


def _over_grave(fresh: GroupRecord, grave: GroupTombstone, context: Context) -> GroupRecord:
    waiting = Quarantine("re-created while instances of the deleted group may still be reading", context.wall)
    return attrs.evolve(
        fresh,
        version=Version(context.lineage, grave.version.revision + 1, context.nonce),
        group_epoch=Epoch(grave.group_epoch + 1),
        assignment_epoch=Epoch(grave.group_epoch + 1),
        metadata_version=grave.metadata_version + 1,
        holdings={s: attrs.evolve(h, draining=True) for s, h in grave.holdings.items()},
        last_tokens=grave.last_tokens,
        longest_leases=grave.longest_leases,
        past_lineages=remember_lineages(grave.past_lineages, grave.version.lineage),
        quarantine=waiting if grave.longest_leases else None,
    )


def bury_group(record: GroupRecord, context: Context) -> GroupTombstone:
    """What stays of a deleted group: old readers, their leases, and the last token of each shard."""
    return GroupTombstone(
        key=record.key,
        version=next_version(record.version, context.nonce),
        group_epoch=record.group_epoch,
        metadata_version=record.metadata_version,
        holdings=record.holdings,
        last_tokens=record.last_tokens,
        longest_leases=record.longest_leases,
        past_lineages=record.past_lineages,
        deleted_at=context.wall,
    )
