"""The handlers that only look."""

import binascii
from base64 import b64decode
from collections.abc import Iterable
from urllib.parse import parse_qsl

from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import GroupKey, StreamPrefix
from streamshard.core.names import check_group
from streamshard.core.queries import GroupView, MigrationView
from streamshard.core.routing import route
from streamshard.core.stream import StreamRecord
from streamshard.entrypoints.http.exchange import Reply, Request, header, json_reply
from streamshard.entrypoints.http.replies import (
    Json,
    assignments_json,
    group_json,
    health_json,
    member_json,
    migration_json,
    routing_body,
    routing_tag,
    shard_place,
    stream_json,
)
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.errors import InvalidRequest, MigrationNotFound, StoreUnavailable, StreamNotFound


class Views:
    """Read-only handlers; none of them provisions or changes anything."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def stream(self, request: Request) -> Reply:
        """GET ``/streams/{p}``."""
        record = await self._coordinator.stream(request.prefix)
        return json_reply(200, stream_json(record, await self._coordinator.migrations(record.prefix)))

    async def group(self, request: Request) -> Reply:
        """GET ``/streams/{p}/groups/{g}``."""
        view = await self._coordinator.group(request.key)
        return json_reply(200, group_json(view, await self._active(view.stream)))

    async def groups(self, request: Request) -> Reply:
        """GET ``/monitoring/groups``."""
        views = await self._coordinator.groups()
        active = await self._active_by_prefix(views)
        rows = [group_json(view, active.get(view.record.key.prefix)) for view in views]
        return json_reply(200, {"groups": rows})

    async def members(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/members``."""
        view = await self._coordinator.group(request.key)
        return json_reply(200, {"members": [member_json(view, member) for member in view.record.members.values()]})

    async def assignments(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/assignments``."""
        view = await self._coordinator.group(request.key)
        health = await self._coordinator.health()
        return json_reply(200, assignments_json(view, health.invariant_violations))

    async def migrations(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/migrations``."""
        view = await self._coordinator.group(request.key)
        known = await self._coordinator.migrations(view.stream.prefix)
        active = view.stream.resharding
        listed = [migration_json(migration) for migration in known]
        return json_reply(200, {"migrations": listed, "activeReshardingId": None if active is None else active.id})

    async def migration(self, request: Request) -> Reply:
        """GET ``…/migrations/{id}``."""
        key, resharding = request.key, request.resharding
        await self.require_group(key)
        return json_reply(200, migration_json(await self._coordinator.migration(key.prefix, resharding)))

    async def routing(self, request: Request) -> Reply:
        """GET ``…/producer-routing``; 304 for a layout that the caller has already."""
        routing = await self._coordinator.routing(request.key)
        tag = routing_tag(routing)
        headers = ((b"etag", tag.encode()), (b"cache-control", b"no-cache"))
        wanted = header(request.scope, b"if-none-match")
        if wanted is not None and _names(wanted, tag):
            return Reply(304, b"", headers)
        return Reply(200, routing_body(routing), headers)

    async def route(self, request: Request) -> Reply:
        """GET ``/streams/{p}/route?key=…`` or ``?keyBase64=…``, both with ``&group=…`` if one alone is of interest."""
        prefix = request.prefix
        query = _query(request.scope["query_string"])
        key = _routed_key(query)
        only = None if "group" not in query else check_group(query["group"], "group")
        record = await self._coordinator.stream(prefix)
        groups = sorted(record.groups) if only is None else [only]
        views = [await self._coordinator.group(GroupKey(prefix, group)) for group in groups]
        return json_reply(200, _route_json(record, key, views))

    async def health(self, request: Request) -> Reply:
        """GET ``/monitoring/health``."""
        return json_reply(200, health_json(await self._coordinator.health()))

    async def require_group(self, key: GroupKey) -> None:
        """Raise `StreamNotFound` or `GroupNotFound` before anything is asked of a group that isn't there."""
        await self._coordinator.group(key)

    async def _active(self, stream: StreamRecord) -> MigrationView | None:
        if stream.resharding is None:
            return None
        try:
            return await self._coordinator.migration(stream.prefix, stream.resharding.id)
        except (StreamNotFound, MigrationNotFound):  # it went away between the two looks
            return None

    async def _active_by_prefix(self, views: Iterable[GroupView]) -> dict[StreamPrefix, MigrationView | None]:
        found: dict[StreamPrefix, MigrationView | None] = {}
        for view in views:
            if view.stream.prefix not in found:
                found[view.stream.prefix] = await self._active(view.stream)
        return found


class Probes:
    """What a load balancer or an orchestrator asks."""

    def __init__(self, coordinator: Coordinator, traffic: Traffic) -> None:
        self._coordinator = coordinator
        self._traffic = traffic

    async def live(self, request: Request) -> Reply:
        """GET ``/livez``: the event loop turns."""
        return json_reply(200, {"status": "UP"})

    async def ready(self, request: Request) -> Reply:
        """GET ``/readyz``: the store answers. (A terminating coordinator turns every request away.)"""
        health = await self._coordinator.health()
        if health.store != "UP":
            raise StoreUnavailable("the metadata store does not answer: check that it runs and can be reached")
        return json_reply(200, {"status": "UP"})


def _names(wanted: bytes, tag: str) -> bool:
    candidates = [part.strip().removeprefix("W/") for part in wanted.decode("latin-1").split(",")]
    return "*" in candidates or tag in candidates


def _query(raw: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=16)
    except ValueError:
        raise InvalidRequest("query: can't be read: percent-encode its UTF-8 bytes") from None
    return dict(pairs)


def _routed_key(query: dict[str, str]) -> bytes:
    if ("key" in query) == ("keyBase64" in query):
        raise InvalidRequest("key: give either key (text) or keyBase64 (bytes)")
    if "key" in query:
        return query["key"].encode()
    try:
        return b64decode(query["keyBase64"], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("keyBase64: is no base64: encode the key's bytes with the standard alphabet") from None


def _route_json(record: StreamRecord, key: bytes, views: Iterable[GroupView]) -> Json:
    shard = route(record.routing_protocol, key, record.routed_count) if record.routed_count else None
    nowhere: Json = {"shardIndex": None, "streamKey": None, "redisSlot": None}
    return {
        **(nowhere if shard is None else shard_place(record.prefix, shard)),
        "routingProtocol": record.routing_protocol,
        "metadataVersion": record.version.revision,
        "owners": [
            {"consumerGroup": view.record.key.group, "memberId": view.record.holdings[shard].member}
            for view in views
            if shard is not None and shard in view.record.holdings
        ],
    }
