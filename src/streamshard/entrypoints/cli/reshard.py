"""``streamshard reshard``."""

import click

from streamshard.core.ids import StreamPrefix
from streamshard.core.stream import ENDED as ENDED_STATES
from streamshard.entrypoints.cli.asking import reason_option, requested_by_option, stream_argument
from streamshard.entrypoints.cli.client import Json
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import coordinator, emit, output_option, table, url_option

ENDED = frozenset(state.value for state in ENDED_STATES)


def waits_for(migration: Json) -> str:
    """What holds it up, as a tail for one line; empty if nothing is known to."""
    reasons = waiting(migration)
    return f" ({'; '.join(reasons)})" if reasons else ""


def waiting(migration: Json) -> list[str]:
    """Each reason to wait, with all the shards it holds for."""
    shards: dict[str, list[str]] = {}
    for look in migration["draining"]:
        shards.setdefault(look["reason"], []).append(str(look["shardIndex"]))
    return [f"shard{'s' * (len(on) > 1)} {','.join(on)}: {reason}" for reason, on in shards.items()]


def reshard_text(migration: Json) -> str:
    """One line about a resharding."""
    step = f"{migration['fromShardCount']} -> {migration['toShardCount']}"
    return f"{migration['reshardingId']} {step} {migration['state']}{waits_for(migration)}"


@click.group()
def reshard() -> None:
    """See what a change of the shard count waits for, or take it back."""


@reshard.command()
@stream_argument
@url_option
@output_option
def status(stream: StreamPrefix) -> None:
    """List STREAM's reshardings, oldest first, with what an active one waits for."""
    with coordinator() as api:
        migrations = api.get("streams", stream)["migrations"]
    rows = [
        (
            m["reshardingId"],
            m["fromShardCount"],
            m["toShardCount"],
            m["state"],
            f"{m['provisioning']['done']}/{m['provisioning']['total']}",
            "yes" if m["rollbackEligible"] else "no",
            m["updatedAt"],
        )
        for m in migrations
    ]
    told = table(("ID", "FROM", "TO", "STATE", "PROVISIONED", "ROLLBACK", "UPDATED"), rows)
    reasons = [reason for migration in migrations for reason in waiting(migration)]
    emit({"migrations": migrations}, "\n".join([told, *reasons]))


@reshard.command()
@stream_argument
@click.argument("resharding", metavar="[ID]", required=False)
@reason_option
@requested_by_option
@url_option
@output_option
def rollback(stream: StreamPrefix, resharding: str | None, **body: object) -> None:
    """Take STREAM's active resharding back; possible until its first shard is sealed."""
    with coordinator() as api:
        found = api.get("streams", stream)
        chosen = resharding or _active(found)
        path = ("streams", stream, "groups", _any_group(found), "migrations", chosen, "rollback")
        migration = api.post(*path, body=body)
    emit(migration, reshard_text(migration))


def _active(stream: Json) -> str:
    if stream["activeMigration"] is None:
        raise Failure(f"{stream['streamPrefix']} has no active resharding to take back", ExitCode.REFUSED)
    return str(stream["activeMigration"]["reshardingId"])


def _any_group(stream: Json) -> str:
    # The API names a resharding by one of the stream's groups; they all share it.
    if not stream["consumerGroups"]:
        step = f"streamshard groups create {stream['streamPrefix']}/GROUP"
        raise Failure(f"{stream['streamPrefix']} has no group to name the resharding by", ExitCode.REFUSED, step)
    return str(stream["consumerGroups"][0]["consumerGroup"])
