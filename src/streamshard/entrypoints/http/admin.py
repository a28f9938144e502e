"""The handlers that change something: streams, groups, reshardings."""

from streamshard.core.coordinator import Coordinator
from streamshard.entrypoints.http import wire
from streamshard.entrypoints.http.answers import Scaled
from streamshard.entrypoints.http.exchange import Reply, Request, json_reply, new_resharding_id
from streamshard.entrypoints.http.replies import (
    group_answer,
    group_facts_answer,
    migration_answer,
    stream_facts_answer,
    stream_summary,
)
from streamshard.entrypoints.http.views import Views


class Admin:
    """Each handler decodes, asks the coordinator, and answers; refusals are raised through."""

    def __init__(self, coordinator: Coordinator, views: Views) -> None:
        self._coordinator = coordinator
        self._views = views
        self._settings = coordinator.settings

    async def create_stream(self, request: Request) -> Reply:
        """POST ``/streams/{p}``."""
        prefix = request.prefix
        body = wire.decode_create_stream(request.body)
        author = wire.author(body, request.idempotency())
        default, limit = self._settings.default_shard_count, self._settings.max_shard_count
        record = await self._coordinator.create_stream(body.command(prefix, author, default, limit))
        return json_reply(201, stream_summary(record))

    async def amend_stream(self, request: Request) -> Reply:
        """PATCH ``/streams/{p}``."""
        prefix = request.prefix
        body = wire.decode_amend_stream(request.body)
        author = wire.author(body, request.idempotency())
        record = await self._coordinator.amend_stream(body.command(prefix, author))
        return json_reply(200, await self._views.whole(record))

    async def delete_stream(self, request: Request) -> Reply:
        """DELETE ``/streams/{p}``."""
        prefix = request.prefix
        body = wire.decode_delete(request.body)
        author = wire.author(body, request.idempotency())
        facts = await self._coordinator.delete_stream(body.stream_command(prefix, author))
        return json_reply(200, stream_facts_answer(facts))

    async def scale_stream(self, request: Request) -> Reply:
        """POST ``/streams/{p}/scale``."""
        prefix = request.prefix
        body = wire.decode_scale(request.body)
        command = body.command(
            prefix,
            wire.author(body, request.idempotency()),
            new_resharding_id(),
            self._settings.max_shard_count,
        )
        # Asked first: once the scale is committed nothing may fail any more.
        groups = sorted((await self._coordinator.stream(prefix)).groups)
        migration = await self._coordinator.scale(command)
        scaled = Scaled(
            stream_prefix=prefix,
            target_shard_count=command.target,
            affected_consumer_groups=[*groups],
            migrations=[migration_answer(migration)],
        )
        return json_reply(202, scaled)

    async def create_group(self, request: Request) -> Reply:
        """POST ``/streams/{p}/groups/{g}``."""
        key = request.key
        body = wire.decode_create_group(request.body)
        author = wire.author(body, request.idempotency())
        view = await self._coordinator.create_group(body.command(key, author, self._settings.max_shard_count))
        return json_reply(201, group_answer(view, None, self._settings.timing.heartbeat_ms))

    async def delete_group(self, request: Request) -> Reply:
        """DELETE ``/streams/{p}/groups/{g}``."""
        key = request.key
        body = wire.decode_delete(request.body)
        author = wire.author(body, request.idempotency())
        facts = await self._coordinator.delete_group(body.group_command(key, author))
        return json_reply(200, group_facts_answer(facts, None))

    async def scale_group(self, request: Request) -> Reply:
        """POST ``/streams/{p}/groups/{g}/scale``: the whole stream is scaled, it has one layout."""
        key = request.key
        body = wire.decode_scale(request.body)
        command = body.command(
            key.prefix,
            wire.author(body, request.idempotency()),
            new_resharding_id(),
            self._settings.max_shard_count,
        )
        await self._views.require_group(key)
        migration = await self._coordinator.scale(command)
        return json_reply(202, migration_answer(migration))

    async def amend(self, request: Request) -> Reply:
        """POST ``…/migrations/{id}``."""
        key, resharding = request.key, request.resharding
        body = wire.decode_amend(request.body)
        author = wire.author(body, request.idempotency())
        command = body.command(key.prefix, author, resharding)
        await self._views.require_group(key)
        migration = await self._coordinator.amend(command)
        return json_reply(200, migration_answer(migration))

    async def rollback(self, request: Request) -> Reply:
        """POST ``…/migrations/{id}/rollback``."""
        key, resharding = request.key, request.resharding
        body = wire.decode_rollback(request.body)
        author = wire.author(body, request.idempotency())
        await self._views.require_group(key)
        migration = await self._coordinator.rollback(body.command(key.prefix, author, resharding))
        return json_reply(202, migration_answer(migration))
