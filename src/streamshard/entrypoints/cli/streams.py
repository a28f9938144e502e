"""``streamshard streams``."""

import time
from collections.abc import Sequence

import click

from streamshard.core.ids import StreamPrefix
from streamshard.core.stream import Retention
from streamshard.entrypoints.cli.asking import (
    adopt_option,
    allow_legacy_option,
    confirm,
    force_option,
    reason_option,
    requested_by_option,
    retention_option,
    routing_option,
    start_from_option,
    stream_argument,
    yes_option,
)
from streamshard.entrypoints.cli.client import Api, Json
from streamshard.entrypoints.cli.failures import ExitCode, Failure
from streamshard.entrypoints.cli.output import coordinator, emit, facts, output_option, table, url_option
from streamshard.entrypoints.cli.reshard import ENDED, reshard_text, waits_for
from streamshard.entrypoints.settings import duration

POLL_SECONDS = 0.5
KEPT = {"none": "every record", "acknowledged": "what is not acknowledged by every group"}


@click.group()
def streams() -> None:
    """Create, scale, change, list, describe and delete streams."""


@streams.command()
@stream_argument
@click.option("--shards", "initialShardCount", type=int, help="How many; the coordinator's default if left out.")
@click.option("--group", "consumerGroups", multiple=True, metavar="GROUP", help="Create this group too; repeatable.")
@start_from_option
@routing_option
@retention_option()
@adopt_option
@allow_legacy_option
@requested_by_option
@url_option
@output_option
def create(stream: StreamPrefix, **body: object) -> None:
    """Create STREAM and its shards."""
    with coordinator() as api:
        made = api.post("streams", stream, body=body)
        groups = [group["consumerGroup"] for group in api.get("streams", stream)["consumerGroups"]]
    emit(made, f"created {stream} with {made['shardCount']} shards{_for_groups(groups)}")


def _for_groups(groups: Sequence[str]) -> str:
    return f" for {', '.join(groups)}" if groups else ""


@streams.command()
@stream_argument
@click.argument("count", type=int)
@reason_option
@click.option("--wait", is_flag=True, help="Return when it is done; show what it waits for.")
@click.option("--timeout", default="10m", show_default=True, help="How long to wait.")
@click.option("--ignore-group", "ignoreForeignGroups", multiple=True, help="A foreign Redis group that may lag.")
@click.option("--stop-producers", "stopProducers", is_flag=True, help="With COUNT 0: stop routing at once.")
@requested_by_option
@url_option
@output_option
def scale(stream: StreamPrefix, count: int, *, wait: bool, timeout: str, **body: object) -> None:
    """Change STREAM to COUNT shards, up or down; 0 drains it."""
    patience = _patience(timeout)
    with coordinator() as api:
        started = api.post("streams", stream, "scale", body={"targetShardCount": count, **body})
        migration = started["migrations"][0]
        if wait:
            migration = _wait(api, stream, migration["reshardingId"], patience)
            started = {**started, "migrations": [migration]}
    emit(started, reshard_text(migration))


def _patience(text: str) -> float:
    try:
        return duration(text) / 1000
    except ValueError as error:
        raise Failure(f"--timeout: {error}", ExitCode.USAGE) from None


def _wait(api: Api, stream: StreamPrefix, resharding: str, patience: float) -> Json:
    deadline, told = time.monotonic() + patience, ""
    while True:
        migration = _migration(api.get("streams", stream), resharding)
        now = f"{migration['state']}{waits_for(migration)}"
        if now != told:
            click.echo(now, err=True)
            told = now
        if migration["state"] in ENDED:
            return migration
        if time.monotonic() >= deadline:
            step = f"streamshard reshard status {stream}"
            raise Failure(f"{stream} is still {now}; it goes on without this command", ExitCode.TIMED_OUT, step)
        time.sleep(POLL_SECONDS)


def _migration(stream: Json, resharding: str) -> Json:
    found = [migration for migration in stream["migrations"] if migration["reshardingId"] == resharding]
    if not found:
        raise Failure(f"{resharding} is no longer on record: the stream was deleted meanwhile", ExitCode.NOT_FOUND)
    migration: Json = found[0]
    return migration


@streams.command(name="list")
@url_option
@output_option
def list_() -> None:
    """List every stream."""
    with coordinator() as api:
        found = api.get("streams")
    rows = [
        (s["streamPrefix"], s["shardCount"], len(s["consumerGroups"]), _migration_cell(s["activeMigration"]))
        for s in found["streams"]
    ]
    emit(found, table(("STREAM", "SHARDS", "GROUPS", "RESHARDING"), rows))


def _migration_cell(migration: Json | None) -> str | None:
    return None if migration is None else f"{migration['state']}->{migration['toShardCount']}"


@streams.command()
@stream_argument
@url_option
@output_option
def describe(stream: StreamPrefix) -> None:
    """Show STREAM's layout, groups and resharding."""
    with coordinator() as api:
        found = api.get("streams", stream)
    emit(found, _description(found))


def _description(stream: Json) -> str:
    active = stream["activeMigration"]
    told = facts(
        [
            ("STREAM", stream["streamPrefix"]),
            ("STATE", stream["state"]),
            ("SHARDS", stream["shardCount"]),
            ("LAYOUT", stream["layoutVersion"]),
            ("ROUTING", stream["routingProtocol"]),
            ("RETENTION", stream["retention"]),
            ("GROUPS", ",".join(group["consumerGroup"] for group in stream["consumerGroups"])),
            ("RESHARDING", None if active is None else reshard_text(active)),
        ]
    )
    columns = {
        "SHARD": "shardIndex",
        "KEY": "streamKey",
        "PHASE": "phase",
        "GENERATION": "generation",
        "SLOT": "redisSlot",
    }
    if stream["retention"] == Retention.ACKNOWLEDGED.value:
        columns["HELD-BACK-BY"] = "heldBackBy"
    rows = [tuple(shard[name] for name in columns.values()) for shard in stream["shards"]]
    return f"{told}\n\n{table(tuple(columns), rows)}"


@streams.command(name="set")
@stream_argument
@retention_option(required=True)
@reason_option
@requested_by_option
@url_option
@output_option
def set_(stream: StreamPrefix, **body: object) -> None:
    """Change what is kept of STREAM, from now on."""
    with coordinator() as api:
        changed = api.patch("streams", stream, body=body)
    emit(changed, f"{stream} keeps {KEPT[changed['retention']]}")


@streams.command()
@stream_argument
@reason_option
@force_option
@click.option("--drop-data", "dropData", is_flag=True, help="Delete its Redis keys too, with every record in them.")
@yes_option
@requested_by_option
@url_option
@output_option
def delete(stream: StreamPrefix, **body: object) -> None:
    """Delete STREAM and its groups; its Redis keys and what is in them stay, unless --drop-data."""
    confirm("delete", stream)
    with coordinator() as api:
        gone = api.delete("streams", stream, body=body)
    emit(gone, f"deleted {stream}")
