"""Goes to each place that was named, and gathers what is found there."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import attrs

from streamshard.adapters.redis_acl import Asked, Part, Role, Topology
from streamshard.adapters.redis_survey import Fleet, find, survey
from streamshard.adapters.redis_url import Kind, parse
from streamshard.adapters.redis_url import Place as Servers
from streamshard.adapters.stores.sqlite_survey import survey_file
from streamshard.core.ids import StreamPrefix
from streamshard.entrypoints.doctor import files, servers
from streamshard.entrypoints.doctor.findings import Finding, Place
from streamshard.entrypoints.doctor.spread import spread
from streamshard.entrypoints.settings import MEMORY, SQLITE
from streamshard.errors import StreamUnavailable

TOPOLOGIES = {Kind.ONE: Topology.STANDALONE, Kind.CLUSTER: Topology.CLUSTER, Kind.SENTINEL: Topology.SENTINEL}
READING, PUBLISHING, COORDINATING = 3, 1, 2
"""Connections to each master of a process that listens, of one that publishes, of a coordinator."""


@attrs.frozen
class Examination:
    """What is looked at."""

    redis: str
    store: str
    role: Role = Role.COORDINATOR
    streams: tuple[tuple[StreamPrefix, int], ...] = ()
    """Whose keys the account is tried with, and whose shards are looked for, with how many they are."""
    expected: int = 0
    """Connections that are still to come, to each master."""

    def run(self) -> list[Finding]:
        """Everything but the coordinator."""
        return asyncio.run(self._run())

    async def _run(self) -> list[Finding]:
        found = await self._servers(self.redis, Part.SHARDS, "redis")
        if self.store.startswith(SQLITE):
            return found + list(files.judged(survey_file(Path(self.store.removeprefix(SQLITE)))))
        if self.role is not Role.COORDINATOR:
            return found
        # Where both are one server, what holds for both is said once.
        return list(dict.fromkeys((*found, *await self._servers(self.store, Part.METADATA, "store"))))

    async def _servers(self, url: str, part: Part, what: str) -> list[Finding]:
        if url == MEMORY:
            at = Place(what)
            return [at.warn("memory", "keeps nothing when the coordinator ends", "use it to try things only")]
        place = parse(url, what)
        try:
            fleet = await find(place)
        except StreamUnavailable as error:
            return [_unreachable(place.name, error)]
        groups = await asyncio.gather(*(self._server(place, address, part) for address in fleet.masters))
        found = [finding for group in groups for finding in group]
        return found + (self._spread(fleet) if part is Part.SHARDS else [])

    async def _server(self, place: Servers, address: tuple[str, int], part: Part) -> Sequence[Finding]:
        names = tuple(prefix for prefix, _ in self.streams) or (StreamPrefix("doctor"),)
        only = part if self.role is Role.COORDINATOR else None
        asked = Asked((self.role,), names, TOPOLOGIES[place.kind], only=only)
        try:
            seen = await survey(place, address, asked)
        except StreamUnavailable as error:
            return [_unreachable(place.name, error)]
        return list(servers.judged(seen, self.role, metadata=part is Part.METADATA, expected=self.expected))

    def _spread(self, fleet: Fleet) -> list[Finding]:
        return [] if fleet.slots is None else list(spread(self.streams, fleet.masters, fleet.slots.owner))


def connections(consumers: int, producers: int, coordinators: int) -> int:
    """To each master, from so many processes."""
    return READING * consumers + PUBLISHING * producers + COORDINATING * coordinators


def _unreachable(where: str, error: StreamUnavailable) -> Finding:
    return Place(where).fail("reach", error.message, "see that it runs, and that the URL and the login are right")
