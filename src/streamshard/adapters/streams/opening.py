"""What a Redis URL means for the shards: the connections to one server, or to all nodes of a cluster."""

from streamshard.adapters.redis_url import parse
from streamshard.adapters.streams.cluster_backend import ClusterStreamBackend
from streamshard.adapters.streams.cluster_link import ClusterLink
from streamshard.adapters.streams.cluster_log import ClusterShardLog
from streamshard.adapters.streams.cluster_map import ClusterMap
from streamshard.adapters.streams.connections import DEFAULT_TIMEOUT, Connections, Exchanging, address
from streamshard.adapters.streams.redis_backend import RedisStreamBackend
from streamshard.adapters.streams.redis_inspector import RedisStreamInspector
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.ids import Millis

WHOSE = "redis"


def shard_log(url: str, timeout: Millis = DEFAULT_TIMEOUT) -> RedisShardLog | ClusterShardLog:
    """The member's and the producer's side; raises `ConfigurationError` for a URL that is none."""
    place = parse(url, WHOSE)
    return ClusterShardLog(place, timeout) if place.cluster else RedisShardLog.from_url(url, timeout=timeout)


def stream_backend(url: str, timeout: Millis = DEFAULT_TIMEOUT) -> RedisStreamBackend:
    """The coordinator's side; raises `ConfigurationError` for a URL that is none."""
    connections = link(url, limit=8, timeout=timeout)
    if isinstance(connections, ClusterLink):
        return ClusterStreamBackend(connections)
    return RedisStreamBackend(connections)


def stream_inspector(url: str, timeout: Millis = DEFAULT_TIMEOUT) -> RedisStreamInspector:
    """The view of what is in the shards; raises `ConfigurationError` for a URL that is none."""
    connections = link(url, limit=2, timeout=timeout)
    if isinstance(connections, ClusterLink):
        return RedisStreamInspector(connections, connections.where)
    node = address(url)
    return RedisStreamInspector(connections, lambda key: node)


def link(url: str, *, limit: int, timeout: Millis = DEFAULT_TIMEOUT) -> Exchanging:
    """At most ``limit`` connections to a server, or one to each node of a cluster."""
    place = parse(url, WHOSE)
    if place.cluster:
        return ClusterLink(ClusterMap(place, timeout), timeout)
    return Connections(url, limit=limit, timeout=timeout)
