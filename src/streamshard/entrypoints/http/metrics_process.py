"""The metrics of what one process has done; several coordinators have one set each, which add up."""

import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version as installed

from prometheus_client import Metric

from streamshard.core.ids import GroupKey
from streamshard.core.outcome import Fence
from streamshard.core.replies import Status
from streamshard.core.tally import Cause, Histogram, Tally
from streamshard.entrypoints.http.metrics_families import Values, counter, gauge, histogram
from streamshard.entrypoints.http.metrics_recorder import HeartbeatRecorder, Recorder, RouteRecorder
from streamshard.entrypoints.http.operations import GROUP, STREAM

_SCALES = ((STREAM + "/scale", "POST"), (GROUP + "/scale", "POST"))
_ROUTINGS = tuple((GROUP + "/producer-routing", method) for method in ("GET", "HEAD"))

SCALED = {"accepted": (202,), "refused": (400, 404, 413, 422), "conflict": (409,), "unavailable": (503,)}
ROUTED = {"served": (200,), "unchanged": (304,), "unknown": (404,), "refused": (400, 413), "unavailable": (503,)}
FAILED = "failed"
"""The outcome of every other status."""

VIOLATIONS = {"state": "violation", "frozen": "frozen"}
"""The kinds of violations, and the events they are told by."""

REGRESSIONS = ("quarantine", "stream-lineage")
"""The events that tell of writes that the store has lost."""


def process_families(recorder: Recorder, tally: Tally, trimmed: Mapping[GroupKey, int]) -> Iterator[Metric]:
    """Everything that is counted; what can happen and has not is 0. ``trimmed`` are records that went unread."""
    yield gauge("build_info", [((installed("streamshard"), platform.python_version()), 1)])
    yield counter("heartbeats", _heartbeats(recorder.heartbeats))
    yield histogram("heartbeat_duration_seconds", [((), recorder.heartbeats)])
    yield from _happened(tally)
    yield counter("records_trimmed_unread", [((key.prefix, key.group), lost) for key, lost in sorted(trimmed.items())])
    yield counter("scale_requests", _outcomes(recorder, _SCALES, SCALED))
    yield counter("routing_requests", _outcomes(recorder, _ROUTINGS, ROUTED))
    yield histogram("store_operation_duration_seconds", _used(recorder.stores.items()))
    yield histogram("tick_duration_seconds", [((), recorder.ticks)])
    yield counter("http_requests", _requests(recorder))
    yield histogram("http_request_duration_seconds", _used(recorder.routes.items()))


def _happened(tally: Tally) -> Iterator[Metric]:
    events = tally.events
    yield counter("members_expired", [((), events["member-expired"])])
    yield counter("members_fenced", [((fence.value,), tally.fenced[fence]) for fence in Fence])
    yield counter("rebalances", [((cause.value,), tally.rebalances[cause]) for cause in Cause])
    yield histogram("rebalance_duration_seconds", [((), tally.rebalancing)])
    yield counter("shard_moves", [((), tally.moves)])
    yield counter("store_conflicts", [((), tally.conflicts)])
    yield counter("metadata_regressions", [((), sum(events[kind] for kind in REGRESSIONS))])
    yield counter("invariant_violations", [((kind,), events[event]) for kind, event in VIOLATIONS.items()])
    yield counter("groups_recreated", [((), events["recreated"])])


def _heartbeats(seen: HeartbeatRecorder) -> Values:
    counts = {**seen.statuses, Status.OK: seen.fine}
    return [((status.value,), counts.get(status, 0)) for status in Status]


def _used(timed: Iterable[tuple[tuple[str, str], Histogram]]) -> Iterator[tuple[tuple[str, str], Histogram]]:
    return ((labels, each) for labels, each in sorted(timed, key=lambda pair: pair[0]) if any(each.counts))


def _counts(route: RouteRecorder) -> dict[int, int]:
    return {**route.statuses, 200: route.good} if route.good else route.statuses


def _requests(recorder: Recorder) -> Values:
    for (path, method), route in sorted(recorder.routes.items()):
        for status, count in sorted(_counts(route).items()):
            yield (path, method, str(status)), count


def _outcomes(
    recorder: Recorder, asked: Iterable[tuple[str, str]], outcomes: dict[str, tuple[int, ...]]
) -> list[tuple[tuple[str], int]]:
    names = {status: name for name, statuses in outcomes.items() for status in statuses}
    found = dict.fromkeys([*outcomes, FAILED], 0)
    for at in asked:
        for status, count in _counts(recorder.routes[at]).items() if at in recorder.routes else ():
            found[names.get(status, FAILED)] += count
    return [((name,), count) for name, count in found.items()]
