"""What the metrics are called, what they mean, and which labels they have: nothing is exported that is not here."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import cast

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Sample
from prometheus_client.utils import floatToGoString

from streamshard.core.tally import Histogram

Labels = Sequence[str]
Values = Iterable[tuple[Labels, float]]

GROUP = ("stream", "group")
SHARD = (*GROUP, "shard")
MEMBER = (*GROUP, "member")

_GAUGES: dict[str, tuple[Labels, str]] = {
    "build_info": (("version", "python"), "Always 1; the labels say what runs."),
    "up": ((), "1 while ticks go through and the metadata store takes what is written."),
    "group_members": ((*GROUP, "state"), "Members, by state."),
    "group_state": ((*GROUP, "state"), "1 for the state that the group is in, 0 for the others."),
    "group_epoch": (GROUP, "Grows with every change of the membership."),
    "assignment_epoch": (GROUP, "The group epoch that the targets were made for."),
    "metadata_version": (GROUP, "Grows with every change of members, targets or holdings."),
    "group_lag_records": (GROUP, "Records not yet delivered; absent unless known of every shard."),
    "revoke_pending": (GROUP, "Holdings that have to be given up and are not yet."),
    "shard_lag_records": (SHARD, "Records not yet delivered; absent while the server can't tell."),
    "shard_lag_known": (SHARD, "1 if the server can tell the lag, 0 if not."),
    "shard_pending_records": (SHARD, "Records delivered and not yet acknowledged."),
    "shard_stream_records": (SHARD, "Records in the shard."),
    "shard_oldest_unacked_age_seconds": (SHARD, "Age of the oldest record that is not acknowledged; 0 if none waits."),
    "shard_unowned_seconds": (SHARD, "For how long nobody has held the shard; 0 while somebody does."),
    "shard_unread_seconds": (SHARD, "For how long its holder has not read it though it could; 0 while it does."),
    "member_heartbeat_age_seconds": (MEMBER, "Since when nothing was heard of the member."),
    "member_lease_remaining_seconds": (MEMBER, "After how much more silence the member expires."),
    "member_shards": ((*MEMBER, "kind"), "Shards that the member holds, and how many of them it has to give up."),
    "reshard_active": (("stream",), "1 while the shard count is being changed."),
    "reshard_age_seconds": (("stream",), "For how long the change has been under way; absent if there is none."),
}
_COUNTERS: dict[str, tuple[Labels, str]] = {
    "heartbeats": (("status",), "Heartbeats, by what they were answered."),
    "members_expired": ((), "Members that were silent for their lease."),
    "members_fenced": (("reason",), "Members that were told to stop and to join as new ones, by reason."),
    "rebalances": (("reason",), "Commits that meant shards for other members than before, by reason."),
    "shard_moves": ((), "Shards that were meant for one member and then for another."),
    "scale_requests": (("outcome",), "Requests for another shard count."),
    "routing_requests": (("outcome",), "Producers' questions for the routing."),
    "store_conflicts": ((), "Commits that lost to another coordinator's, or to another request's."),
    "metadata_regressions": ((), "Times that the metadata store was found to have lost writes."),
    "invariant_violations": (("kind",), "Times that something was found that must not be."),
    "groups_recreated": ((), "Shards whose key or group had vanished from Redis and was made again."),
    "records_trimmed_unread": (GROUP, "Records that were removed before the group had read them."),
    "http_requests": (("route", "method", "status"), "Requests answered."),
}
_HISTOGRAMS: dict[str, tuple[Labels, str]] = {
    "heartbeat_duration_seconds": ((), "From a heartbeat read to its answer."),
    "rebalance_duration_seconds": ((), "From the first change until all that is meant is held and reported."),
    "store_operation_duration_seconds": (("store", "operation"), "How long the metadata store took."),
    "tick_duration_seconds": ((), "How long it took to look after everything once."),
    "http_request_duration_seconds": (("route", "method"), "From the request to its answer sent."),
}


class _Samples:
    """Made one by one while they are written.

    Kept in a list, those of ten thousand shards would make the interpreter look for garbage among everything
    that there is, and nobody would be answered for that long.
    """

    def __init__(self, name: str, labels: Labels, values: Values) -> None:
        self._name, self._labels, self._values = name, labels, values

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(self._name, dict(zip(self._labels, given, strict=True)), value) for given, value in self._values)


def gauge(name: str, values: Values) -> Metric:
    """A family of gauges; ``values`` are label values in the family's order, and numbers."""
    labels, text = _GAUGES[name]
    family = Metric("streamshard_" + name, text, "gauge")
    family.samples = cast(list[Sample], _Samples(family.name, labels, values))
    return family


def counter(name: str, values: Values) -> CounterMetricFamily:
    """A family of counters."""
    labels, text = _COUNTERS[name]
    family = CounterMetricFamily("streamshard_" + name, text, labels=labels)
    for given, value in values:
        family.add_metric(given, value)
    return family


def histogram(name: str, values: Iterable[tuple[Labels, Histogram]]) -> HistogramMetricFamily:
    """A family of histograms."""
    labels, text = _HISTOGRAMS[name]
    family = HistogramMetricFamily("streamshard_" + name, text, labels=labels)
    for given, timed in values:
        family.add_metric(given, _buckets(timed), timed.seconds)
    return family


def _buckets(timed: Histogram) -> list[tuple[str, float]]:
    """Prometheus counts everything up to a bound, not only what is above the bound before."""
    bounds = [*map(floatToGoString, timed.bounds), "+Inf"]
    return list(zip(bounds, map(float, accumulate(timed.counts)), strict=True))
