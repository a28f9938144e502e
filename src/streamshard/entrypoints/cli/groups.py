"""``streamshard groups``."""

import click

from streamshard.core.ids import GroupKey
from streamshard.entrypoints.cli.asking import (
    adopt_option,
    allow_legacy_option,
    confirm,
    force_option,
    group_argument,
    reason_option,
    requested_by_option,
    start_from_option,
    yes_option,
)
from streamshard.entrypoints.cli.client import Json
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, table, url_option
from streamshard.entrypoints.cli.reshard import reshard_text

LIVE = ("STARTING", "ACTIVE")
COOPERATIVE = "cooperative"


@click.group()
def groups() -> None:
    """Create, list, describe and delete consumer groups."""


@groups.command(name="list")
@url_option
@output_option
def list_() -> None:
    """List every group."""
    with coordinator() as api:
        found = api.get("monitoring", "groups")
    rows = [
        (
            f"{group['streamPrefix']}/{group['consumerGroup']}",
            group["state"],
            group["shardCount"],
            len(group["targetAssignmentSummary"]),
            sum(group["currentAssignmentSummary"].values()),
            group["groupEpoch"],
        )
        for group in found["groups"]
    ]
    emit(found, table(("GROUP", "STATE", "SHARDS", "MEMBERS", "HELD", "EPOCH"), rows))


@groups.command()
@group_argument
@url_option
@output_option
def describe(group: GroupKey) -> None:
    """Show who owns which shard of STREAM/GROUP, under which token, and what is moving."""
    with coordinator() as api:
        watched = ("monitoring", "streams", group.prefix, "groups", group.group)
        found = api.get(*watched)
        assignments = api.get(*watched, "assignments")
        members = api.get(*watched, "members")["members"]
    value = {**found, "shards": assignments["shards"], "members": members}
    parts = [_summary(found, members), _shards(assignments["shards"])]
    if members:
        parts.append(_members(members))
    emit(value, "\n\n".join(parts))


def _summary(group: Json, members: list[Json]) -> str:
    active = group["activeMigration"]
    live = sum(member["state"] in LIVE for member in members)
    pairs: list[tuple[str, object]] = [
        ("GROUP", f"{group['streamPrefix']}/{group['consumerGroup']}"),
        ("STATE", group["state"]),
        ("SHARDS", group["shardCount"]),
        ("MEMBERS", f"{live} live"),
        ("EPOCHS", f"group {group['groupEpoch']}, assignment {group['assignmentEpoch']}"),
        ("METADATA", group["metadataVersion"]),
        ("RESHARDING", None if active is None else reshard_text(active)),
    ]
    if group["quarantine"] is not None:
        pairs.append(("QUARANTINE", group["quarantine"]))
    if group["exclusivity"] == COOPERATIVE:
        pairs.append(("EXCLUSIVITY", f"{COOPERATIVE}: clients without fenced reads may join"))
    return facts(pairs)


def _shards(shards: list[Json]) -> str:
    rows = [
        (
            shard["shardIndex"],
            shard["streamKey"],
            shard["owner"],
            shard["state"],
            shard["token"],
            "?" if shard["pendingCount"] is None else shard["pendingCount"],
            shard["target"] if shard["target"] != shard["owner"] else None,
            shard["phase"],
        )
        for shard in shards
    ]
    return table(("SHARD", "KEY", "OWNER", "STATE", "TOKEN", "PENDING", "NEXT-OWNER", "PHASE"), rows)


def _members(members: list[Json]) -> str:
    rows = [
        (
            member["memberId"],
            member["state"],
            member["memberEpoch"],
            _indexes(member["currentAssignment"]),
            _indexes(member["revoking"]),
            member["runtimeMaxConcurrency"],
            member["instanceId"],
        )
        for member in members
    ]
    return table(("MEMBER", "STATE", "EPOCH", "HOLDS", "REVOKING", "WORKERS", "INSTANCE"), rows)


def _indexes(shards: list[Json]) -> str:
    return ",".join(str(shard["shardIndex"]) for shard in shards)


@groups.command()
@group_argument
@click.option("--shards", "initialShardCount", type=int, help="Shards of the stream, if it has to be made too.")
@start_from_option
@adopt_option
@allow_legacy_option
@requested_by_option
@url_option
@output_option
def create(group: GroupKey, **body: object) -> None:
    """Create STREAM/GROUP, and the stream if there is none."""
    with coordinator() as api:
        made = api.post("streams", group.prefix, "groups", group.group, body=body)
    emit(made, f"created {group} over {made['shardCount']} shards")


@groups.command()
@group_argument
@reason_option
@force_option
@click.option("--keep-redis-group", "keepRedisGroups", is_flag=True, help="Leave what is pending in the Redis groups.")
@yes_option
@requested_by_option
@url_option
@output_option
def delete(group: GroupKey, **body: object) -> None:
    """Delete STREAM/GROUP; the stream and its records stay."""
    confirm("delete", str(group))
    with coordinator() as api:
        gone = api.delete("streams", group.prefix, "groups", group.group, body=body)
    emit(gone, f"deleted {group}")
