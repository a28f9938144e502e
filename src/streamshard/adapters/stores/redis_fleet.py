"""The servers that take the writes: one, or a cluster's or the sentinels' masters; how changes are noticed."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
)

from streamshard.adapters.redis_link import Address, AnswerLost, Line, NotSent, Word, describe
from streamshard.adapters.redis_sentinel import Lookout, masters
from streamshard.adapters.redis_url import Place, host_and_port
from streamshard.adapters.stores.redis_greeting import Identity, greet
from streamshard.adapters.stores.redis_scripts import Call
from streamshard.core.ids import Millis
from streamshard.core.ports import StoreSource
from streamshard.core.slots import SLOT_COUNT
from streamshard.errors import ConfigurationError, StoreUnavailable

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

REST_S = 1.0
"""How long the only server there is is left alone after it could not be reached, at most."""


@attrs.frozen
class Range:
    """Slots that one server serves, both ends included."""

    first: int
    last: int
    address: Address


@attrs.frozen(eq=False)
class Primary:
    """A server that took writes when it was greeted, over the one connection it was greeted on."""

    line: Line
    identity: Identity
    address: Address
    name: str
    """The identity as records and commits name it."""

    async def run(self, call: Call) -> object:
        """Run a script, by its text if the server forgot it; a reply, or the server's error as a value."""
        outcome = await self.line.ask(*call.by_digest())
        if not isinstance(outcome, RedisError):
            return outcome
        return await self.ask(*call.by_text()) if isinstance(outcome, NoScriptError) else self._heard(outcome)

    async def ask(self, *words: Word) -> object:
        """Send one command; raises `NotSent` or `AnswerLost`."""
        return self._heard(await self.line.ask(*words))

    def _heard(self, outcome: object) -> object:
        if isinstance(outcome, ReadOnlyError | MasterDownError | BusyLoadingError):
            self.line.hang_up(describe(outcome))  # no primary any more: whoever comes next greets it anew
        return outcome


class Fleet:
    """Connections to every primary; each change of any of them begins a new generation.

    A generation is over with every connection made anew and with every change in who serves what. An
    answer of an older generation is a different store's, as far as anybody knows.
    """

    def __init__(self, place: Place, timeout: Millis) -> None:
        self.place = place
        self.generation = 1
        self._timeout = timeout
        self._map: tuple[Range, ...] = ()
        self._primaries: dict[Address, Primary] = {}
        self._names: set[str] = set()
        self._under_way: dict[object, asyncio.Task[Any]] = {}
        self._resting: dict[Address, tuple[float, str]] = {}
        self._warned: set[str] = set()
        self._stale = False
        self._opened = False
        self._closed = False
        self._lookout = Lookout(place, self._leave)

    async def open(self) -> None:
        """Connect to every primary; raises `ConfigurationError`, or `StoreUnavailable` if none answers."""
        try:
            self._map = await self._ask_around()
            await self._connect_all()
        except BaseException:
            await self.close()
            raise
        self._opened = True

    async def _connect_all(self) -> None:
        # A coordinator may have to start while a failover is under way.
        connecting = (self._connect(address) for address in self._addresses())
        outcomes = await asyncio.gather(*connecting, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        serious = [failure for failure in failures if not isinstance(failure, StoreUnavailable)]
        if serious or len(failures) == len(outcomes):
            raise [*serious, *failures][0]

    def source(self, primary: Primary) -> StoreSource:
        """What a read over ``primary`` names as its source."""
        return StoreSource(primary.name, self.generation)

    def is_current(self, source: StoreSource) -> bool:
        """No connection was made anew and nothing moved since ``source`` was read from."""
        return source.connection == self.generation and source.identity in self._names

    def ready(self, slot: int) -> Primary | None:
        """The primary of a slot, if nothing has to be waited for."""
        if self._stale or self._closed:
            return None
        for each in self._map:
            if each.first <= slot <= each.last:
                found = self._primaries.get(each.address)
                return found if found is not None and not found.line.broken else None
        return None

    async def primary(self, slot: int) -> Primary:
        """The connected primary of a slot; raises `StoreUnavailable`."""
        if self._stale:
            await self._shared("map", self._refresh)
        address = self._owner(slot)
        found = self._primaries.get(address)
        if found is not None and not found.line.broken:
            return found
        if self.place.sentinel:
            await self._shared("map", self._refresh)
            address = self._owner(slot)
        try:
            return await self._shared(address, partial(self._connect, address))
        except StoreUnavailable:
            if not self.place.cluster:
                raise
        await self._shared("map", self._refresh)
        address = self._owner(slot)
        return await self._shared(address, partial(self._connect, address))

    async def primaries(self) -> tuple[Primary, ...]:
        """Every primary, connected."""
        return tuple([await self.primary(each.first) for each in self._map_by_address()])

    def note(self, outcome: object) -> None:
        """Look at the map again before the next order if a server's error says that it has changed."""
        if self.place.cluster and isinstance(outcome, MovedError | ClusterDownError | ReadOnlyError | MasterDownError):
            self._stale = True

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        self._closed = True
        await self._lookout.close()
        under_way = list(self._under_way.values())
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        primaries, self._primaries = list(self._primaries.values()), {}
        for primary in primaries:
            await primary.line.close("the metadata store has been closed")

    def _owner(self, slot: int) -> Address:
        self._check_open()
        for each in self._map:
            if each.first <= slot <= each.last:
                return each.address
        self._stale = True
        raise StoreUnavailable(f"no node of the metadata store's cluster serves slot {slot}")

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the metadata store has been closed")

    def _addresses(self) -> list[Address]:
        return sorted({each.address for each in self._map})

    def _map_by_address(self) -> Sequence[Range]:
        return list({each.address: each for each in self._map}.values())

    async def _shared(self, what: object, work: Callable[[], Awaitable[T]]) -> T:
        """Join whoever is at the same work already, so that a crowd makes one connection."""
        self._check_open()
        task = self._under_way.get(what)
        if task is None:
            task = self._under_way[what] = asyncio.ensure_future(work())
            task.add_done_callback(partial(self._done, what))
        done: T = await asyncio.shield(task)
        return done

    def _done(self, what: object, task: "asyncio.Task[Any]") -> None:
        del self._under_way[what]
        if not task.cancelled():
            task.exception()  # everybody who wanted to know may have been cancelled

    async def _connect(self, address: Address) -> Primary:
        line = await self._dial(address)
        try:
            identity = await greet(line, host_and_port(address), cluster=self.place.cluster)
            self._warn(identity.doubts)
            self._check_open()
        except ConfigurationError as error:
            await line.close()
            if not self._opened:
                raise
            raise StoreUnavailable(error.message) from error
        except BaseException:
            await line.close()
            raise
        self._primaries[address] = primary = Primary(line, identity, address, str(identity))
        self._begin_generation()
        return primary

    def _warn(self, doubts: Sequence[str]) -> None:
        """Once, and not again with each connection that breaks."""
        for doubt in doubts:
            if doubt not in self._warned:
                self._warned.add(doubt)
                _LOG.warning("%s", doubt)

    async def _dial(self, address: Address) -> Line:
        began = asyncio.get_running_loop().time()
        until, trouble = self._resting.get(address, (began, ""))
        if until > began:
            raise StoreUnavailable(trouble)
        try:
            return await Line.open(self.place.at(address), self._timeout)
        except NotSent as error:
            trouble = f"the metadata store at {host_and_port(address)} can't be reached: {error}"
            # Left alone for as long as it took to fail: one silent node must not hold up every other's streams.
            now = asyncio.get_running_loop().time()
            took = now - began
            self._resting[address] = (now + (took if self.place.cluster else min(took, REST_S)), trouble)
            raise StoreUnavailable(trouble) from error

    def _begin_generation(self) -> None:
        self._names = {primary.name for primary in self._primaries.values()}
        if self._opened:
            self.generation += 1

    async def _refresh(self) -> None:
        found = await self._ask_around()
        self._stale = False
        if found == self._map:
            return
        self._map = found
        served = set(self._addresses())
        for address in [address for address in self._primaries if address not in served]:
            self._primaries.pop(address).line.hang_up("this node serves no slots any more")
        self._begin_generation()

    async def _ask_around(self) -> tuple[Range, ...]:
        if not self.place.cluster:
            return (Range(0, SLOT_COUNT - 1, await self._only_master()),)
        trouble = ""
        for address in dict.fromkeys((*self._addresses(), *self.place.seeds)):
            try:
                return await self._ask_map(address)
            except StoreUnavailable as error:
                trouble = error.message
        raise StoreUnavailable(f"no node of the metadata store's cluster knows who serves what: {trouble}")

    async def _only_master(self) -> Address:
        if not self.place.sentinel:
            return self.place.seeds[0]
        try:
            first, *_ = await masters(self.place, self._timeout)
        except NotSent as error:
            raise StoreUnavailable(f"the metadata store can't be found: {error}") from error
        self._lookout.watch(first)
        return first

    async def _leave(self) -> None:
        for primary in self._primaries.values():
            primary.line.hang_up("the sentinels name another master")

    async def _ask_map(self, address: Address) -> tuple[Range, ...]:
        known = self._primaries.get(address)
        if known is not None and not known.line.broken:
            return await _read_map(known.line, address)
        line = await self._dial(address)
        try:
            return await _read_map(line, address)
        finally:
            await line.close()


async def _read_map(line: Line, address: Address) -> tuple[Range, ...]:
    try:
        reply = await line.ask("CLUSTER", "SLOTS")
    except (NotSent, AnswerLost) as error:
        raise StoreUnavailable(f"{host_and_port(address)} does not answer: {error}") from error
    if isinstance(reply, RedisError):
        raise StoreUnavailable(f"{host_and_port(address)} is no node of a cluster: {describe(reply)}")
    assert isinstance(reply, list), "CLUSTER SLOTS answers with a list"
    if not reply:
        raise StoreUnavailable(f"{host_and_port(address)} knows no cluster yet")
    return tuple(sorted((_range(entry, address) for entry in reply), key=lambda each: each.first))


def _range(entry: Any, asked: Address) -> Range:
    first, last, (host, port, *_), *_ = entry
    return Range(int(first), int(last), (host.decode() if host else asked[0], int(port)))
