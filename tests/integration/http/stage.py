"""A group of two shards in use over HTTP: a member that owns them, and records that it has read in part."""

from typing import Any

from streamshard.adapters.streams.memory_log import MemoryShardLog
from streamshard.core.ids import Generation, GroupName, RecordId, ShardIndex, StreamPrefix, Token
from streamshard.core.records import AckMode, ShardAccess
from tests.integration.http.service import ASKED, GROUP, Running, beat

HEARTBEAT = GROUP + "/members/web-m0/heartbeat"
MONITORED = GROUP.replace("/coord/v1", "/coord/v1/monitoring")
GRAFANA = "/coord/v1/monitoring/grafana"
OF_BILLING = {"streamPrefix": "orders", "consumerGroup": "billing"}
WALL_MS = 1_700_000_000_000


async def get(service: Running, path: str, **params: Any) -> Any:
    """The answer's JSON; it has to be a good one."""
    answer = await service.http.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def owning(service: Running, *, ticked: bool = False, **fields: Any) -> dict[str, Any]:
    """Both shards owned and listed by web-m0; its last answer. ``fields`` go with every beat after the join."""
    await service.http.post(GROUP, json={**ASKED, "initialShardCount": 2})
    answer = (await service.http.post(HEARTBEAT, json=beat())).json()
    for seq in range(2, 5):
        answer = (await service.http.post(HEARTBEAT, json=holding(answer, seq, **fields))).json()
        if ticked:
            await service.tick()
    return dict(answer)


def holding(answer: dict[str, Any], seq: int, **fields: Any) -> dict[str, Any]:
    """The next heartbeat of a member that took everything its last answer granted."""
    holds = [{"shardIndex": grant["shardIndex"], "token": grant["token"]} for grant in answer["grants"]]
    present = {"memberEpoch": answer["memberEpoch"], "view": answer["view"], "seq": seq}
    owned = [{"shardIndex": hold["shardIndex"]} for hold in holds]
    return beat(**present, **{"holds": holds, "ownedShards": owned, "metadataVersion": 1, **fields})


async def publish(service: Running, shard: int, *payloads: bytes) -> list[RecordId]:
    """Append a record for each payload, a millisecond after one another."""
    found = []
    for payload in payloads:
        service.clock.step_wall(1)
        record = service.world.add(f"orders:{shard}", {b"payload": payload})
        assert record is not None
        found.append(record)
    return found


async def read(service: Running, answer: dict[str, Any], shard: int, count: int, *, acknowledged: int = 0) -> None:
    """Let web-m0 read records of a shard and acknowledge the first of them."""
    log, token = MemoryShardLog(service.world), answer["grants"][shard]["token"]
    place = (StreamPrefix("orders"), ShardIndex(shard), GroupName("billing"))
    access = ShardAccess(*place, "web-m0", Generation(1), Token(token))
    (reply,) = await log.read([(access, count)])
    await log.acknowledge(access, [record.id for record in reply.records[:acknowledged]], AckMode.ACK)
