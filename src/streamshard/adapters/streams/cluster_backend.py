"""The coordinator's side of shards in a Redis Cluster."""

from streamshard.adapters.streams.cluster_link import ClusterLink
from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.errors import StreamUnavailable


class ClusterStreamBackend(RedisStreamBackend):
    """`StreamBackend` over all nodes of a cluster, one connection each: orders are one pipeline a node."""

    def __init__(self, link: ClusterLink) -> None:
        super().__init__(link)
        self._link = link

    async def away(self) -> tuple[str, ...]:
        """The nodes with slots that don't answer; raises `StreamUnavailable` if none answers."""
        told = await self._link.everywhere(("CLUSTER", "SLOTS"))
        silent = {node: outcome for node, outcome in told.items() if isinstance(outcome, StreamUnavailable)}
        if len(silent) == len(told):
            raise next(iter(silent.values()))
        return tuple(sorted(silent))
