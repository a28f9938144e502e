"""What happens in the demo, chapter by chapter."""

from redis import Redis

from streamshard.entrypoints.demo.plan import (
    FIRST_SHARDS,
    GROUP,
    LAST_SHARDS,
    LEASE_S,
    MEMBERS_A_CONSUMER,
    MOST_SHARDS,
    RATE,
    STREAM,
)
from streamshard.entrypoints.demo.stage import Stage

STEADY_S = 2.0
DOWN_S = 0.3
BY = "streamshard demo"


def play(stage: Stage) -> None:
    """The whole story; afterwards only the server and the coordinator run."""
    _open(stage)
    _scale_out(stage)
    _join(stage)
    _kill_consumer(stage)
    _kill_coordinator(stage)
    _scale_in(stage)
    _stop(stage)


def _say(stage: Stage, text: str) -> None:
    stage.timeline.say(text, "bold")


def _open(stage: Stage) -> None:
    stage.start_coordinator()
    with stage.api() as api:
        wanted = {"initialShardCount": FIRST_SHARDS, "consumerGroups": [GROUP], "requestedBy": BY}
        api.post("streams", STREAM, body=wanted)
    stage.expect(FIRST_SHARDS)
    _say(stage, f"coordinator at {stage.url}; created {STREAM} with {FIRST_SHARDS} shards, group {GROUP}")
    _say(stage, f"consumers a and b start, {MEMBERS_A_CONSUMER} members each: every member gets its share")
    stage.start_consumer("a")
    stage.start_consumer("b")
    stage.until(lambda: len(stage.readers) == FIRST_SHARDS, f"{FIRST_SHARDS} shards to be read")
    _say(stage, f"a producer starts: {RATE:,} records/s")
    stage.start_producer()
    stage.pause(STEADY_S)


def _scale_out(stage: Stage) -> None:
    _say(stage, f"scale out, {FIRST_SHARDS} -> {MOST_SHARDS} shards: the new ones are handed out, no other one moves")
    resharding = _scale(stage, MOST_SHARDS, "more load is expected")
    stage.expect(MOST_SHARDS)
    stage.resharded(resharding)
    stage.until(lambda: len(stage.readers) == MOST_SHARDS, f"{MOST_SHARDS} shards to be read")
    stage.pause(STEADY_S)


def _join(stage: Stage) -> None:
    _say(stage, "consumer c joins: the fewest shards move that even it out, each after its reader let go")
    stage.start_consumer("c")
    stage.until(lambda: _share(stage, "c") >= MEMBERS_A_CONSUMER and _all_read(stage), "c to get its share")
    stage.pause(STEADY_S)


def _kill_consumer(stage: Stage) -> None:
    _say(stage, "consumer b is killed: nobody else may read its shards before its lease is surely over")
    stage.kill_consumer("b")
    stage.until(lambda: _all_read(stage), "others to take the shards of b")
    stage.pause(STEADY_S / 2)


def _kill_coordinator(stage: Stage) -> None:
    _say(stage, "the coordinator is killed (kill -9): consumers and producer go on while their leases last")
    before = stage.readers
    stage.kill_coordinator()
    stage.pause(DOWN_S)
    stage.start_coordinator()
    _say(stage, f"it is back, on the same database; watching for {LEASE_S + 1:.0f} s whether it expires anybody")
    stage.pause(LEASE_S + 1)
    stage.story.note("coordinator-watched")
    _say(stage, "nothing moved" if stage.readers == before else "shards moved, which they should not")


def _scale_in(stage: Stage) -> None:
    removed = ", ".join(str(shard) for shard in range(LAST_SHARDS, MOST_SHARDS))
    _say(stage, f"scale in, {MOST_SHARDS} -> {LAST_SHARDS}: {removed} are read until nothing is left, then sealed")
    resharding = _scale(stage, LAST_SHARDS, "the load went away")
    stage.resharded(resharding)
    stage.until(lambda: set(stage.readers) == set(range(LAST_SHARDS)), "the removed shards to be let go")
    stage.expect(LAST_SHARDS)
    stage.pause(STEADY_S / 2)


def _stop(stage: Stage) -> None:
    _say(stage, "the producer stops; the consumers read what is left, give their shards back and leave")
    assert stage.producer is not None
    stage.dismiss(stage.producer)
    with Redis.from_url(stage.redis) as redis:
        stage.until(lambda: _nothing_waits(redis), "everything to be handled")
        for name in sorted(stage.consumers):
            stage.dismiss(stage.consumers.pop(name))
        _take_stock(stage, redis)


def _scale(stage: Stage, shards: int, reason: str) -> str:
    with stage.api() as api:
        body = {"targetShardCount": shards, "requestedBy": BY, "reason": reason}
        started = api.post("streams", STREAM, "scale", body=body)
    stage.story.note("scaled", shards=shards)
    return str(started["migrations"][0]["reshardingId"])


def _share(stage: Stage, name: str) -> int:
    return sum(member.startswith(f"{name}-m") for member in stage.readers.values())


def _all_read(stage: Stage) -> bool:
    return len(stage.readers) == MOST_SHARDS


def _nothing_waits(redis: Redis) -> bool:
    return all(_waiting(redis, shard) == (0, 0) for shard in range(LAST_SHARDS))


def _take_stock(stage: Stage, redis: Redis) -> None:
    """Ask Redis itself, not the library under test."""
    for shard in range(MOST_SHARDS):
        fence = redis.hgetall(f"{{{STREAM}:{shard}}}:fence")
        exists = bool(redis.exists(f"{STREAM}:{shard}"))
        pending, lag = _waiting(redis, shard) if exists else (None, None)
        mark = int(fence.get(f"t:{GROUP}".encode(), 0))
        facts = {"shard": shard, "exists": exists, "sealed": fence.get(b"sealed") == b"1", "mark": mark}
        stage.story.note("remains", **facts, pending=pending, lag=lag)


def _waiting(redis: Redis, shard: int) -> tuple[int | None, int | None]:
    groups = {group["name"]: group for group in redis.xinfo_groups(f"{STREAM}:{shard}")}
    group = groups[GROUP.encode()]
    return group["pending"], group["lag"]
