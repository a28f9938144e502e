"""The handlers of monitoring: they read, and change nothing."""

from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import stream_key
from streamshard.core.monitoring import Monitoring
from streamshard.core.offsets import NOTHING_TO_DO, advise
from streamshard.core.timeline import EVENTS_KEPT
from streamshard.entrypoints.http.answers import ShardRef
from streamshard.entrypoints.http.decoding import INT_LIMIT
from streamshard.entrypoints.http.exchange import Reply, Request, json_reply
from streamshard.entrypoints.http.messages import record_answer
from streamshard.entrypoints.http.monitoring_answers import Groups, Members, Messages, Session
from streamshard.entrypoints.http.monitoring_replies import (
    assignments_answer,
    autoscale_answer,
    compatibility_answer,
    consumption_answer,
    events_answer,
    frozen_answer,
    health_answer,
    member_answer,
    migrations_answer,
    offsets_answer,
)
from streamshard.entrypoints.http.questions import question, shard_index
from streamshard.entrypoints.http.replies import group_answer
from streamshard.entrypoints.http.views import Views
from streamshard.errors import NotFound

RECORDS_A_REPLICA = 1_000
"""How many waiting records are thought to be enough for one member, unless the caller knows better."""

MOST_EVENTS = 2 * EVENTS_KEPT
"""A group's and its stream's."""


class Monitor:
    """Each handler asks the coordinator and shows what it says."""

    def __init__(self, coordinator: Coordinator, monitoring: Monitoring, views: Views) -> None:
        self._coordinator = coordinator
        self._monitoring = monitoring
        self._views = views
        self._timing = coordinator.settings.timing

    async def health(self, request: Request) -> Reply:
        """GET ``/monitoring/health``."""
        return json_reply(200, health_answer(await self._coordinator.health()))

    async def session(self, request: Request) -> Reply:
        """GET ``/monitoring/session``: without accounts nobody is anybody, and may do everything."""
        caller = request.caller
        roles = sorted(role.value for role in caller.roles)
        return json_reply(200, Session(authenticated=caller.name is not None, username=caller.name, roles=roles))

    async def compatibility(self, request: Request) -> Reply:
        """GET ``/monitoring/compatibility``."""
        return json_reply(200, compatibility_answer())

    async def groups(self, request: Request) -> Reply:
        """GET ``/monitoring/groups``."""
        found, frozen = await self._monitoring.groups()
        active = await self._views.active_by_prefix(view.stream for view in found)
        groups = [group_answer(view, active[view.stream.prefix], self._timing.heartbeat_ms) for view in found]
        return json_reply(200, Groups(groups=groups, frozen=[frozen_answer(group) for group in frozen]))

    async def members(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/members``."""
        view = await self._coordinator.group(request.key)
        seen = self._monitoring.presences(view)
        rows = [member_answer(view, member, seen, self._timing) for member in view.record.members.values()]
        return json_reply(200, Members(members=rows))

    async def assignments(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/assignments``."""
        view = await self._coordinator.group(request.key)
        broken = self._monitoring.violations(view)
        return json_reply(200, assignments_answer(view, broken, self._timing.heartbeat_ms))

    async def consumption(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/consumption``."""
        view = await self._coordinator.group(request.key)
        return json_reply(200, consumption_answer(view, self._monitoring.presences(view)))

    async def migrations(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/migrations``."""
        stream = (await self._coordinator.group(request.key)).stream
        return json_reply(200, migrations_answer(stream, await self._coordinator.migrations(stream.prefix)))

    async def offsets(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/offsets``."""
        return json_reply(200, offsets_answer(await self._monitoring.offsets(request.key)))

    async def messages(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/shards/{i}/messages``."""
        key, shard, wanted = request.key, shard_index(request.params["shard"]), question(request).page()
        (page,) = await self._monitoring.messages(key, [shard], wanted)
        found = Messages(
            stream_prefix=key.prefix,
            consumer_group=key.group,
            shard=ShardRef(shard_index=shard),
            stream_key=stream_key(key.prefix, shard),
            direction=wanted.direction,
            limit=wanted.limit,
            records=[record_answer(entry) for entry in page.entries],
            next_cursor=page.cursor,
        )
        return json_reply(200, found)

    async def autoscale(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/autoscale``: an autoscaler reads a number, also of nothing."""
        key, per_replica = request.key, question(request).whole("backlogPerReplica", RECORDS_A_REPLICA, 1, INT_LIMIT)
        try:
            advice, warning = advise(await self._monitoring.offsets(key), per_replica), None
        except NotFound as missing:
            advice, warning = NOTHING_TO_DO, missing.message
        return json_reply(200, autoscale_answer(advice, warning))

    async def events(self, request: Request) -> Reply:
        """GET ``/monitoring/streams/{p}/groups/{g}/events``."""
        limit = question(request).whole("limit", EVENTS_KEPT, 1, MOST_EVENTS)
        return json_reply(200, events_answer(await self._coordinator.group(request.key), limit))
