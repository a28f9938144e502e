"""The handlers of dashboards: the same facts as flat rows. A Redis that is away makes cells empty, not panels fail."""

from collections.abc import Iterable

import msgspec

from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import RecordId, ShardIndex
from streamshard.core.inspection import Direction, Entry, Page, ShardLook, Wanted
from streamshard.core.monitoring import Monitoring
from streamshard.core.names import check_group, check_prefix
from streamshard.core.offsets import Offsets, offsets
from streamshard.core.queries import GroupView
from streamshard.core.stream_shape import readable
from streamshard.entrypoints.http.exchange import Reply, Request, json_reply
from streamshard.entrypoints.http.grafana_answers import MessageRow, Option
from streamshard.entrypoints.http.grafana_rows import (
    assignment_rows,
    group_row,
    member_rows,
    message_row,
    shard_rows,
)
from streamshard.entrypoints.http.questions import Question, question, shard_index
from streamshard.errors import InvalidRequest, NotFound, StreamUnavailable

ALL = "all"
MOST_AT_ONCE = 10_000
"""Records that one answer may have to choose from."""


class Grafana:
    """Each handler answers an array."""

    def __init__(self, coordinator: Coordinator, monitoring: Monitoring) -> None:
        self._coordinator = coordinator
        self._monitoring = monitoring

    async def groups(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/groups``."""
        views = await self._coordinator.groups()
        return json_reply(200, [group_row(await self._offsets(view)) for view in views])

    async def stream_options(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/options/streams``."""
        return json_reply(200, _options(record.prefix for record in await self._monitoring.streams()))

    async def group_options(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/options/consumer-groups``, of one stream if ``streamPrefix`` is given."""
        wanted = question(request).given.get("streamPrefix")
        prefix = check_prefix(wanted) if wanted else None
        keys = [view.record.key for view in await self._coordinator.groups()]
        return json_reply(200, _options(sorted({key.group for key in keys if prefix in (None, key.prefix)})))

    async def shard_options(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/options/shards``."""
        view = await self._coordinator.group(question(request).key())
        return json_reply(200, _options(str(shard.index) for shard in readable(view.stream)))

    async def members(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/members``."""
        view = await self._coordinator.group(question(request).key())
        timing = self._coordinator.settings.timing
        return json_reply(200, member_rows(view, self._monitoring.presences(view), timing))

    async def shards(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/shards``; a name that is left out or empty stands for all of them."""
        views = await self._chosen(question(request))
        return json_reply(200, [row for view in views for row in shard_rows(await self._offsets(view))])

    async def assignments(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/assignments``."""
        return json_reply(200, assignment_rows(await self._coordinator.group(question(request).key())))

    async def messages(self, request: Request) -> Reply:
        """GET ``/monitoring/grafana/messages``: of one shard, or the latest (or first) of all."""
        asked = question(request)
        key, selector, wanted = asked.key(), asked.given.get("shardIndex", "0"), asked.page()
        exact = asked.record_id("recordId")
        if exact is not None:
            wanted = _just(exact)
        shards = await self._selected(asked, selector, wanted)
        pages = await self._monitoring.messages(key, shards, wanted) if shards else ()
        found = _merged(shards, pages, wanted, exact)
        cursor = pages[0].cursor if len(pages) == 1 and exact is None else None
        total = await self._total(asked, shards)
        rows = [message_row(key, shard, entry, selector, wanted) for shard, entry in found]
        return json_reply(200, [_with_page(row, cursor, total) for row in rows])

    async def _offsets(self, view: GroupView) -> Offsets:
        try:
            return await self._monitoring.offsets(view.record.key)
        except (StreamUnavailable, NotFound):
            return offsets(view, [ShardLook(shard.index, exists=False) for shard in readable(view.stream)])

    async def _chosen(self, asked: Question) -> list[GroupView]:
        prefix, group = asked.given.get("streamPrefix"), asked.given.get("consumerGroup")
        if prefix and group:
            return [await self._coordinator.group(asked.key())]
        only_prefix, only_group = check_prefix(prefix) if prefix else None, check_group(group) if group else None
        return [
            view
            for view in await self._coordinator.groups()
            if only_prefix in (None, view.record.key.prefix) and only_group in (None, view.record.key.group)
        ]

    async def _selected(self, asked: Question, selector: str, wanted: Wanted) -> list[ShardIndex]:
        if selector != ALL:
            return [shard_index(selector, "shardIndex")]
        view = await self._coordinator.group(asked.key())
        shards = [shard.index for shard in readable(view.stream)]
        if asked.record_id("cursor") is not None and asked.record_id("recordId") is None:
            raise InvalidRequest("cursor: goes with one shard: leave it out, or name the shardIndex")
        if len(shards) * wanted.limit > MOST_AT_ONCE:
            most = max(1, MOST_AT_ONCE // len(shards))
            raise InvalidRequest(f"limit: must be at most {most} for all of {len(shards)} shards, or name a shardIndex")
        return shards

    async def _total(self, asked: Question, shards: list[ShardIndex]) -> int | None:
        found = await self._monitoring.offsets(asked.key())
        lengths = {s.look.shard: s.look.length for s in found.shards if s.look.exists}
        return sum(lengths[shard] for shard in shards) if set(shards) <= set(lengths) else None


def _options(values: Iterable[str]) -> list[Option]:
    return [Option(text=value, value=value) for value in values]


def _just(record: RecordId) -> Wanted:
    """The page that begins with this very record."""
    milliseconds, sequence = (int(part) for part in record.split("-"))
    before = (milliseconds, sequence - 1) if sequence else (milliseconds - 1, 2**64 - 1)
    cursor = RecordId(f"{before[0]}-{before[1]}") if before[0] >= 0 else None
    return Wanted(Direction.FORWARD, 1, cursor)


def _merged(
    shards: list[ShardIndex], pages: Iterable[Page], wanted: Wanted, exact: RecordId | None
) -> list[tuple[ShardIndex, Entry]]:
    found = [(shard, entry) for shard, page in zip(shards, pages, strict=True) for entry in page.entries]
    if exact is not None:
        return [(shard, entry) for shard, entry in found if entry.id == exact]
    found.sort(key=lambda each: _order(each[1].id), reverse=wanted.direction is Direction.BACKWARD)
    return found[: wanted.limit]


def _order(record: RecordId) -> tuple[int, int]:
    milliseconds, _, sequence = record.partition("-")
    return int(milliseconds), int(sequence)


def _with_page(row: MessageRow, cursor: str | None, total: int | None) -> MessageRow:
    return msgspec.structs.replace(row, page_next_cursor=cursor, page_total_messages=total)
