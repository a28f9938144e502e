"""The handler that Prometheus asks: it takes stock on the event loop, which is quick, and writes in a thread."""

import asyncio
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from streamshard.core.coordinator import Coordinator
from streamshard.core.ids import GroupKey
from streamshard.core.inspection import StreamInspector
from streamshard.core.survey import Survey
from streamshard.entrypoints.http.exchange import Header, Reply, Request
from streamshard.entrypoints.http.metrics_groups import Scene, group_families
from streamshard.entrypoints.http.metrics_process import process_families
from streamshard.entrypoints.http.metrics_soundings import Sounder, Soundings
from streamshard.entrypoints.http.traffic import Traffic

_TEXT: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class _Stock(Collector):
    """What was taken stock of last; a registry of its own, so that nothing of anybody else's is shown."""

    def __init__(self) -> None:
        self.counted: list[Metric] = []
        self.scene: Scene | None = None
        self.registry = CollectorRegistry(auto_describe=False)

    def collect(self) -> Iterable[Metric]:
        """Made one by one, in the thread that writes."""
        yield from self.counted
        if self.scene is not None:
            yield from group_families(self.scene)

    def describe(self) -> Iterable[Metric]:
        """Nothing: one collector alone can't be in another's way."""
        return ()


class Metrics:
    """However many ask at once, one answer is written, for all of them."""

    def __init__(self, coordinator: Coordinator, traffic: Traffic, inspector: StreamInspector | None) -> None:
        self._coordinator = coordinator
        self._recorder = traffic.recorder
        self._sounder = None if inspector is None else Sounder(inspector)
        self._stock = _Stock()
        self._stock.registry.register(self._stock)
        self._writing: asyncio.Task[bytes] | None = None
        if self._sounder is not None:
            traffic.when_closed(self._sounder.stop)

    async def metrics(self, request: Request) -> Reply:
        """GET ``/metrics``."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="streamshard-metrics")
        return Reply(200, await asyncio.shield(self._writing), (_TEXT,))

    async def _write(self) -> bytes:
        found = await self._sounded(self._coordinator.survey())
        timing = self._coordinator.settings.timing
        self._stock.scene = Scene(self._coordinator.survey(), found, timing.heartbeat_ms, self._recorder.detail)
        told = self._coordinator.tally, self._coordinator.trimmed_unread()
        self._stock.counted = list(process_families(self._recorder, *told))
        return await asyncio.to_thread(generate_latest, self._stock.registry)

    async def _sounded(self, survey: Survey) -> Mapping[GroupKey, Soundings]:
        if self._sounder is None:
            return {}
        return await self._sounder.look({seen.record.key: tuple(seen.record.layout) for seen in survey.groups})
