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
from streamshard.entrypoints.cli.client import Api, Json
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, table, url_option
from streamshard.entrypoints.cli.reshard import reshard_text
from streamshard.errors import Unavailable

LIVE = ("STARTING", "ACTIVE")
EVENTS = 5
"""How many of the last changes are shown."""

MINUTE = 60
UNKNOWN: Json = {
    "lag": None,
    "pendingCount": None,
    "oldestUnackedAgeSeconds": None,
    "lastGeneratedId": None,
    "trimmedUnreadCount": None,
    "trimmedUnreadEstimated": False,
}
"""What is said of a shard that Redis can't be asked about."""
COOPERATIVE = "cooperative"
UNREAD = "UNREAD"
"""A shard that is held and not read; how it came to be held is of less interest then."""


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
    rows: list[tuple[object, ...]] = [
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
    rows += [_frozen(group) for group in found.get("frozen", ())]
    emit(found, table(("GROUP", "STATE", "SHARDS", "MEMBERS", "HELD", "EPOCH"), rows))


def _frozen(group: Json) -> tuple[object, ...]:
    return f"{group['streamPrefix']}/{group['consumerGroup']}", group["state"], None, None, None, None


@groups.command()
@group_argument
@url_option
@output_option
def describe(group: GroupKey) -> None:
    """Show who owns which shard of STREAM/GROUP, how far behind it is, what is moving, and what happened last."""
    with coordinator() as api:
        watched = ("monitoring", "streams", group.prefix, "groups", group.group)
        found = api.get(*watched)
        assignments = api.get(*watched, "assignments")
        members = api.get(*watched, "members")["members"]
        events = api.get(*watched, "events", params={"limit": str(EVENTS)})["events"]
        behind = _behind(api, watched)
    shards = [{**shard, **behind.get(shard["shardIndex"], UNKNOWN)} for shard in assignments["shards"]]
    parts = [_summary(found, members, shards), _shards(shards)]
    if members:
        parts.append(_members(members))
    if events:
        parts.append(table(("AT", "EVENT", "MEMBER", "WHAT"), [_event(event) for event in events]))
    emit({**found, "shards": shards, "members": members, "events": events}, "\n\n".join(parts))


def _behind(api: Api, watched: tuple[str, ...]) -> dict[int, Json]:
    """What Redis shows, by shard; nothing while it does not answer."""
    try:
        offsets = api.get(*watched, "offsets")
    except Unavailable:
        return {}
    return {row["shard"]["shardIndex"]: {name: row[name] for name in UNKNOWN} for row in offsets["shards"]}


def _summary(group: Json, members: list[Json], shards: list[Json]) -> str:
    active = group["activeMigration"]
    live = sum(member["state"] in LIVE for member in members)
    standby = sum(member["standby"] for member in members)
    pairs: list[tuple[str, object]] = [
        ("GROUP", f"{group['streamPrefix']}/{group['consumerGroup']}"),
        ("STATE", group["state"]),
        ("SHARDS", group["shardCount"]),
        ("MEMBERS", f"{live} live" + (f", {standby} standby" if standby else "")),
        ("LAG", total(shards, "lag")),
        ("PENDING", total(shards, "pendingCount")),
        ("OLDEST", age(oldest(shards))),
        ("EPOCHS", f"group {group['groupEpoch']}, assignment {group['assignmentEpoch']}"),
        ("METADATA", group["metadataVersion"]),
        ("RESHARDING", None if active is None else reshard_text(active)),
    ]
    if (lost := missed(shards)) is not None:
        pairs.append(("MISSED", lost))
    if group["quarantine"] is not None:
        pairs.append(("QUARANTINE", group["quarantine"]))
    if group.get("unreadShards"):
        pairs.append(("UNREAD", f"shards {_indexes(group['unreadShards'])}: held, and not read"))
    if group["exclusivity"] == COOPERATIVE:
        pairs.append(("EXCLUSIVITY", f"{COOPERATIVE}: clients without fenced reads may join"))
    return facts(pairs)


def total(shards: list[Json], what: str) -> str:
    """A sum; where something is unknown it is a lower bound, and says so."""
    known = [shard[what] for shard in shards if shard[what] is not None]
    unknown = len(shards) - len(known)
    if shards and not known:
        return "?"
    return f">= {sum(known)} ({unknown} unknown)" if unknown else str(sum(known))


def missed(shards: list[Json]) -> str | None:
    """Records that were trimmed before this group had read them, ``~`` where it may be more; None if there are none."""
    found = [shard for shard in shards if shard["trimmedUnreadCount"]]
    if not found:
        return None
    about = "~" if any(shard["trimmedUnreadEstimated"] for shard in found) else ""
    where = ", ".join(f"shard {shard['shardIndex']}: {shard['trimmedUnreadCount']}" for shard in found)
    return f"{about}{sum(shard['trimmedUnreadCount'] for shard in found)} trimmed unread ({where})"


def oldest(shards: list[Json]) -> float | None:
    """The greatest age in seconds; None if any is unknown."""
    ages = [shard["oldestUnackedAgeSeconds"] for shard in shards]
    return None if None in ages else max(ages, default=0)


def age(seconds: float | None) -> str:
    """In words as short as they are sure."""
    if seconds is None:
        return "?"
    if seconds < MINUTE:
        return f"{seconds:.1f}s" if seconds else "0s"
    minutes, rest = divmod(int(seconds), MINUTE)
    return f"{minutes}m{rest}s" if minutes < MINUTE else f"{minutes // MINUTE}h{minutes % MINUTE}m"


def _shards(shards: list[Json]) -> str:
    rows = [
        (
            shard["shardIndex"],
            shard["streamKey"],
            shard["owner"],
            shard["state"] if shard.get("unreadMs") is None else UNREAD,
            shard["token"],
            _known(shard["lag"]),
            _known(shard["pendingCount"]),
            age(shard["oldestUnackedAgeSeconds"]),
            shard["target"] if shard["target"] != shard["owner"] else None,
            shard["phase"],
        )
        for shard in shards
    ]
    return table(("SHARD", "KEY", "OWNER", "STATE", "TOKEN", "LAG", "PENDING", "AGE", "NEXT-OWNER", "PHASE"), rows)


def _known(value: object) -> object:
    return "?" if value is None else value


def _event(event: Json) -> tuple[object, ...]:
    return event["at"], event["kind"], event["memberId"], event["text"]


def _members(members: list[Json]) -> str:
    rows = [
        (
            member["memberId"],
            member["state"],
            member["memberEpoch"],
            _indexes(member["currentAssignment"]),
            _indexes(member["revoking"]),
            member["runtimeMaxConcurrency"],
            _busy(member),
            member["instanceId"],
        )
        for member in members
    ]
    return table(("MEMBER", "STATE", "EPOCH", "HOLDS", "REVOKING", "WORKERS", "BUSY", "INSTANCE"), rows)


def _busy(member: Json) -> str | None:
    """How long the handler has been running that runs longest."""
    handling = member.get("handlingMs")
    return None if handling is None else age(handling / 1000)


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
