"""The metrics of what groups and streams are like: every coordinator shows the same, so they don't add up."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import attrs
from prometheus_client import Metric

from streamshard.core.group import TERMINAL, GroupRecord, MemberState
from streamshard.core.ids import GroupKey, InstanceId, Millis, ShardIndex
from streamshard.core.queries import GroupState, group_state
from streamshard.core.survey import GroupSurvey, Survey
from streamshard.core.unread import unread_shards
from streamshard.entrypoints.http.metrics_families import Values, gauge
from streamshard.entrypoints.http.metrics_recorder import Detail
from streamshard.entrypoints.http.metrics_soundings import Sounding, Soundings


@attrs.frozen
class Scene:
    """What one scrape shows of streams and groups; nothing in it changes, so that another thread may read it."""

    survey: Survey
    soundings: Mapping[GroupKey, Soundings]
    """What Redis showed of each group's shards; what is too old to be shown is left out."""
    heartbeat_ms: Millis
    detail: Detail

    @property
    def of_members(self) -> list[GroupSurvey]:
        """The groups whose members are shown one by one."""
        return [seen for seen in self.survey.groups if len(seen.record.members) <= self.detail.most_members]

    @property
    def of_shards(self) -> list[GroupSurvey]:
        """The groups whose shards are shown one by one."""
        return [seen for seen in self.survey.groups if len(seen.record.layout) <= self.detail.most_shards]


def group_families(scene: Scene) -> Iterator[Metric]:
    """Everything that is known of streams and groups; what is not known is not there."""
    survey = scene.survey
    yield gauge("up", [((), survey.up)])
    yield from _groups(survey.groups)
    yield gauge("group_lag_records", _lags(scene))
    yield from _looked_at(scene)
    yield gauge("shard_unowned_seconds", _unowned(scene))
    yield gauge("shard_unread_seconds", _unread(scene))
    yield from _members(scene)
    yield gauge("reshard_active", [((s.prefix,), s.resharding is not None) for s in survey.streams])
    yield gauge("reshard_age_seconds", _ages(survey))


def _place(record: GroupRecord) -> tuple[str, str]:
    return record.key.prefix, record.key.group


def _groups(groups: Iterable[GroupSurvey]) -> Iterator[Metric]:
    records = [(_place(seen.record), seen.record) for seen in groups]
    yield gauge("group_members", _states(records))
    yield gauge(
        "group_state",
        [((*at, state.value), group_state(record) is state) for at, record in records for state in GroupState],
    )
    yield gauge("group_epoch", [(at, record.group_epoch) for at, record in records])
    yield gauge("assignment_epoch", [(at, record.assignment_epoch) for at, record in records])
    yield gauge("metadata_version", [(at, record.metadata_version) for at, record in records])
    yield gauge("revoke_pending", [(_place(seen.record), seen.to_drain) for seen in groups])


def _states(records: Iterable[tuple[tuple[str, str], GroupRecord]]) -> Values:
    for at, record in records:
        found = Counter(member.state for member in record.members.values())
        for state in MemberState:
            yield (*at, state.value), found[state]


def _lags(scene: Scene) -> Values:
    """The sum, unless a shard's part of it is unknown."""
    for seen in scene.survey.groups:
        found = scene.soundings.get(seen.record.key, {})
        lags = [found[shard].lag if shard in found else None for shard in seen.record.layout]
        known = [lag for lag in lags if lag is not None]
        if len(known) == len(lags):
            yield _place(seen.record), sum(known)


def _looked_at(scene: Scene) -> Iterator[Metric]:
    reads: dict[str, Callable[[Sounding], float | None]] = {
        "shard_lag_records": lambda shard: shard.lag,
        "shard_lag_known": lambda shard: shard.lag is not None,
        "shard_pending_records": lambda shard: shard.pending,
        "shard_stream_records": lambda shard: shard.length,
        "shard_oldest_unacked_age_seconds": lambda shard: _seconds(shard.oldest_unacked_ms),
    }
    for name, read in reads.items():
        yield gauge(name, _read(scene, read))


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000


def _read(scene: Scene, read: Callable[[Sounding], float | None]) -> Values:
    for seen in scene.of_shards:
        at, found = _place(seen.record), scene.soundings.get(seen.record.key, {})
        for shard in seen.record.layout:
            value = read(found[shard]) if shard in found else None
            if value is not None:
                yield (*at, str(shard)), value


def _unowned(scene: Scene) -> Values:
    now = scene.survey.now
    for seen in scene.of_shards:
        if seen.vacant is not None:
            at = _place(seen.record)
            for shard in seen.record.layout:
                yield (*at, str(shard)), max(0, now - seen.vacant.get(shard, now)) / 1000


def _unread(scene: Scene) -> Values:
    """Only of shards whose holder tells when it reads."""
    for seen in scene.of_shards:
        at, unread = _place(seen.record), unread_shards(seen.record, seen.rows, scene.heartbeat_ms)
        for shard in sorted(_told(seen)):
            yield (*at, str(shard)), unread[shard].for_ms / 1000 if shard in unread else 0


def _told(seen: GroupSurvey) -> set[ShardIndex]:
    holdings = seen.record.holdings
    return {
        progress.shard
        for instance, row in seen.rows.items()
        for progress in row.progress
        if progress.read_ago is not None
        and progress.shard in holdings
        and holdings[progress.shard].instance == instance
    }


def _members(scene: Scene) -> Iterator[Metric]:
    groups, now = scene.of_members, scene.survey.now
    yield gauge("member_heartbeat_age_seconds", _times(groups, lambda seen, who: seen.silent_ms(who, now)))
    yield gauge("member_lease_remaining_seconds", _times(groups, lambda seen, who: seen.lease_ms(who, now)))
    yield gauge("member_shards", _shards(groups))


def _times(groups: Iterable[GroupSurvey], read: Callable[[GroupSurvey, InstanceId], Millis | None]) -> Values:
    for seen in groups:
        for member in seen.record.members.values():
            ms = None if member.state in TERMINAL else read(seen, member.instance)
            if ms is not None:
                yield (*_place(seen.record), member.id), ms / 1000


def _shards(groups: Iterable[GroupSurvey]) -> Values:
    for seen in groups:
        record = seen.record
        held = Counter(holding.instance for holding in record.holdings.values())
        revoking = Counter(
            h.instance for s, h in record.holdings.items() if h.draining or record.targets.get(s) != h.member
        )
        for member in record.members.values():
            if member.state not in TERMINAL:
                at = (*_place(record), member.id)
                yield (*at, "held"), held[member.instance]
                yield (*at, "revoking"), revoking[member.instance]


def _ages(survey: Survey) -> Values:
    for stream in survey.streams:
        if stream.resharding is not None:
            yield (stream.prefix,), max(0, survey.wall - stream.resharding.created_at) / 1000
