"""The handlers that only look at what is there: streams, groups, routes."""

import binascii
from base64 import b64decode
from collections.abc import Iterable

from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import GroupKey, StreamPrefix
from streamshard.core.monitoring import Monitoring
from streamshard.core.names import check_group
from streamshard.core.queries import MigrationView
from streamshard.core.stream import StreamRecord
from streamshard.entrypoints.http.answers import Probe, Stream, Streams
from streamshard.entrypoints.http.exchange import Reply, Request, header, json_reply
from streamshard.entrypoints.http.questions import Question, question
from streamshard.entrypoints.http.replies import (
    group_answer,
    migration_answer,
    route_answer,
    routing_body,
    routing_tag,
    stream_answer,
    stream_row,
)
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.errors import InvalidRequest, MigrationNotFound, StoreUnavailable, StreamNotFound

_UP = Probe(status="UP")


class Views:
    """Read-only handlers; none of them provisions or changes anything."""

    def __init__(self, coordinator: Coordinator, monitoring: Monitoring) -> None:
        self._coordinator = coordinator
        self._monitoring = monitoring

    async def streams(self, request: Request) -> Reply:
        """GET ``/streams``."""
        records = await self._monitoring.streams()
        rows = [stream_row(record, await self.active(record)) for record in records]
        return json_reply(200, Streams(streams=rows))

    async def stream(self, request: Request) -> Reply:
        """GET ``/streams/{p}``."""
        return json_reply(200, await self.whole(await self._coordinator.stream(request.prefix)))

    async def whole(self, record: StreamRecord) -> Stream:
        """Everything about a stream."""
        prefix = record.prefix
        return stream_answer(record, await self._coordinator.migrations(prefix), self._coordinator.held_back_by(prefix))

    async def group(self, request: Request) -> Reply:
        """GET ``/streams/{p}/groups/{g}``."""
        view = await self._coordinator.group(request.key)
        heartbeat = self._coordinator.settings.timing.heartbeat_ms
        return json_reply(200, group_answer(view, await self.active(view.stream), heartbeat))

    async def migration(self, request: Request) -> Reply:
        """GET ``…/migrations/{id}``."""
        key, resharding = request.key, request.resharding
        await self.require_group(key)
        return json_reply(200, migration_answer(await self._coordinator.migration(key.prefix, resharding)))

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
        prefix, asked = request.prefix, question(request)
        key = _routed_key(asked)
        only = None if "group" not in asked.given else check_group(asked.given["group"], "group")
        record = await self._coordinator.stream(prefix)
        groups = sorted(record.groups) if only is None else [only]
        views = [await self._coordinator.group(GroupKey(prefix, group)) for group in groups]
        return json_reply(200, route_answer(record, key, views))

    async def require_group(self, key: GroupKey) -> None:
        """Raise `StreamNotFound` or `GroupNotFound` before anything is asked of a group that isn't there."""
        await self._coordinator.group(key)

    async def active(self, stream: StreamRecord) -> MigrationView | None:
        """The resharding under way, if there is one."""
        if stream.resharding is None:
            return None
        try:
            return await self._coordinator.migration(stream.prefix, stream.resharding.id)
        except (StreamNotFound, MigrationNotFound):  # it went away between the two looks
            return None

    async def active_by_prefix(self, streams: Iterable[StreamRecord]) -> dict[StreamPrefix, MigrationView | None]:
        """The same of several, each looked up once."""
        found: dict[StreamPrefix, MigrationView | None] = {}
        for stream in streams:
            if stream.prefix not in found:
                found[stream.prefix] = await self.active(stream)
        return found


class Probes:
    """What a load balancer or an orchestrator asks."""

    def __init__(self, coordinator: Coordinator, traffic: Traffic) -> None:
        self._coordinator = coordinator
        self._traffic = traffic

    async def live(self, request: Request) -> Reply:
        """GET ``/livez``: the event loop turns."""
        return json_reply(200, _UP)

    async def ready(self, request: Request) -> Reply:
        """GET ``/readyz``: the store answers. (A terminating coordinator turns every request away.)"""
        health = await self._coordinator.health()
        # One that takes no writes just now counts: without requests nothing would show that it does again.
        if health.store == "DOWN":
            raise StoreUnavailable("the metadata store does not answer: check that it runs and can be reached")
        return json_reply(200, _UP)


def _names(wanted: bytes, tag: str) -> bool:
    candidates = [part.strip().removeprefix("W/") for part in wanted.decode("latin-1").split(",")]
    return "*" in candidates or tag in candidates


def _routed_key(asked: Question) -> bytes:
    given = asked.given
    if ("key" in given) == ("keyBase64" in given):
        raise InvalidRequest("key: give either key (text) or keyBase64 (bytes)")
    if "key" in given:
        return given["key"].encode()
    try:
        return b64decode(given["keyBase64"], validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("keyBase64: is no base64: encode the key's bytes with the standard alphabet") from None
