"""What an application's own registry is told of its listeners and producers; imported only by those who have one."""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from time import perf_counter

import attrs
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from streamshard.adapters.client.member import Member
from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.poller import Handle
from streamshard.adapters.client.producer import Failure, Fields, Key, Producer, Published, Publishing
from streamshard.core.ids import GroupKey
from streamshard.core.ports import Clock, CoordinatorApi, Entropy, ShardLog
from streamshard.core.tally import SLOW, Histogram
from streamshard.errors import ConfigurationError, MaybeWritten, NotWritten, RoutingExpired, StreamshardError

GROUP = ("stream", "group")
MEMBER = (*GROUP, "member")
PUBLISHED = "published"
REFUSED = "refused"
RESULTS = {NotWritten: "not_written", MaybeWritten: "maybe_written", RoutingExpired: "expired"}

Counts = dict[str, int]
Samples = Iterable[tuple[tuple[str, ...], float]]


@attrs.define(eq=False)
class Work:
    """What became of the records of one listener."""

    handled: int = 0
    failed: int = 0
    redelivered: int = 0
    given_up: int = 0
    durations: Histogram = attrs.field(factory=lambda: Histogram(SLOW))

    def around(self, handle: Handle) -> Handle:
        """``handle``, timed; a batch counts as so many records and one call."""

        async def timed(message: Message | Batch) -> bool:
            messages = message if isinstance(message, Batch) else (message,)
            self.redelivered += sum(each.delivery_count > 1 for each in messages)
            began = perf_counter()
            went_well = await handle(message)
            self.durations.note(perf_counter() - began)
            if went_well:
                self.handled += len(messages)
            else:
                self.failed += len(messages)
            return went_well

        return timed

    def give_up(self) -> None:
        """A record was kept in the dead-letter stream."""
        self.given_up += 1


class MeasuredProducer(Producer):
    """A producer that counts what became of each record."""

    counts: Counts

    async def publish(self, key: Key, fields: Fields) -> Published:
        """As `Producer.publish`."""
        try:
            published = await super().publish(key, fields)
        except StreamshardError as failure:
            self.counts[_result(failure)] += 1
            raise
        self.counts[PUBLISHED] += 1
        return published

    async def publish_many(self, records: Iterable[tuple[Key, Fields]]) -> list[Published | Failure]:
        """As `Producer.publish_many`."""
        kept = list(records)
        try:
            results = await super().publish_many(kept)
        except StreamshardError as failure:
            self.counts[_result(failure)] += len(kept)
            raise
        for result in results:
            self.counts[PUBLISHED if isinstance(result, Published) else _result(result)] += 1
        return results


def _result(failure: StreamshardError) -> str:
    return RESULTS.get(type(failure), REFUSED)


class Measuring(Collector):
    """Collects from any thread; nothing is made for it while the application works but plain numbers."""

    def __init__(self, members: Callable[[], tuple[Member, ...]]) -> None:
        self._members = members
        self._work: dict[GroupKey, Work] = {}
        self._producers: list[MeasuredProducer] = []
        self._registry: CollectorRegistry | None = None

    def register(self, registry: CollectorRegistry) -> None:
        """Be collected from now on; raises `ConfigurationError` if an app is that already."""
        try:
            registry.register(self)
        except ValueError as taken:
            raise ConfigurationError(f"registry: has metrics of these names: give each app its own ({taken})") from None
        self._registry = registry

    def close(self) -> None:
        """Be collected no more."""
        if self._registry is not None:
            self._registry.unregister(self)

    def work(self, key: GroupKey) -> Work:
        """Of the listener of a group."""
        return self._work.setdefault(key, Work())

    def producer(
        self, options: Publishing, api: CoordinatorApi, log: ShardLog, clock: Clock, entropy: Entropy
    ) -> Producer:
        """One whose records are counted together with those of every other producer of its stream."""
        made = MeasuredProducer(options, api, log, clock, entropy)
        same = [each.counts for each in self._producers if each.key.prefix == made.key.prefix]
        made.counts = same[0] if same else dict.fromkeys([PUBLISHED, *RESULTS.values(), REFUSED], 0)
        self._producers.append(made)
        return made

    def describe(self) -> Iterable[Metric]:
        """The names, without any number."""
        return [*_of_work({}), *_of_members(()), *_of_producers(())]

    def collect(self) -> Iterable[Metric]:
        """The numbers as they are."""
        yield from _of_work(dict(self._work))
        yield from _of_members(self._members())
        yield from _of_producers(tuple(self._producers))


def _of_work(work: dict[GroupKey, Work]) -> Iterator[Metric]:
    found = [((key.prefix, key.group), each) for key, each in sorted(work.items())]
    results = [((*at, "handled"), each.handled) for at, each in found]
    results += [((*at, "failed"), each.failed) for at, each in found]
    yield _counter("messages", "Records handed to handlers.", (*GROUP, "result"), results)
    durations = HistogramMetricFamily(
        "streamshard_client_handler_duration_seconds", "How long handlers took, for a record or a batch.", labels=GROUP
    )
    for at, each in found:
        bounds = [*map(floatToGoString, each.durations.bounds), "+Inf"]
        counts = list(zip(bounds, map(float, accumulate(each.durations.counts)), strict=True))
        durations.add_metric(at, counts, each.durations.seconds)
    yield durations
    redelivered = [(at, each.redelivered) for at, each in found]
    yield _counter("redeliveries", "Records handed over that had been delivered before.", GROUP, redelivered)
    given_up = [(at, each.given_up) for at, each in found]
    yield _counter("dead_letters", "Records that were given up, and kept.", GROUP, given_up)


def _of_members(members: tuple[Member, ...]) -> Iterator[Metric]:
    late, left = list[tuple[tuple[str, ...], float]](), list[tuple[tuple[str, ...], float]]()
    for member in members:
        session, at = member.session, (member.key.prefix, member.key.group, member.session.member)
        late.append((at, member.heartbeat_late / 1000))
        if session.next_deadline is not None:
            left.append((at, max(0, session.next_deadline - member.clock.boot()) / 1000))
    yield _gauge("heartbeat_delay_seconds", "By how much the last heartbeat left after its time.", MEMBER, late)
    yield _gauge("lease_remaining_seconds", "For how long the member may read on without an answer.", MEMBER, left)


def _of_producers(producers: tuple[MeasuredProducer, ...]) -> Iterator[Metric]:
    counts = {producer.key.prefix: producer.counts for producer in producers}
    results = [((prefix, result), count) for prefix, found in counts.items() for result, count in found.items()]
    yield _counter("publish", "Records published.", ("stream", "result"), results)
    ages = {_place(producer.key): producer.routing_age for producer in producers}
    known = [(at, age / 1000) for at, age in ages.items() if age is not None]
    yield _gauge("routing_age_seconds", "For how long the routing in use has been known.", GROUP, known)


def _place(key: GroupKey) -> tuple[str, str]:
    return key.prefix, key.group


def _counter(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    family = CounterMetricFamily(f"streamshard_client_{name}", text, labels=labels)
    for at, value in samples:
        family.add_metric(at, value)
    return family


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Samples) -> Metric:
    family = GaugeMetricFamily(f"streamshard_client_{name}", text, labels=labels)
    for at, value in samples:
        family.add_metric(at, value)
    return family
