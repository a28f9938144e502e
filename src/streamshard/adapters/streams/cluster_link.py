"""Orders for shards on the nodes of a Redis Cluster: one pipeline a node, and redirects followed."""

import asyncio
from collections.abc import Sequence
from typing import cast

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    TryAgainError,
)

from streamshard.adapters.redis_link import Address
from streamshard.adapters.redis_url import host_and_port
from streamshard.adapters.streams.cluster_map import ClusterMap
from streamshard.adapters.streams.cluster_pipe import Pipe
from streamshard.adapters.streams.connections import AnswerLost, Command, NotSent
from streamshard.core.ids import Millis
from streamshard.errors import StreamUnavailable

HOPS = 6
"""How often an order is sent, each time to where the last answer said."""

SPLIT_PAUSE_S = 0.02
"""A shard and its fence are on two nodes for a moment while their slot moves."""

_KEYLESS = frozenset({"INFO", "COMMAND"})
_SCRIPTS = frozenset({"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO"})
_TROUBLES = (AnswerLost, ClusterDownError, MasterDownError, ReadOnlyError)


class ClusterLink:
    """One connection to each node that is asked something, shared by whoever asks.

    An order that was surely not carried out is sent again where its slot is now; one whose answer was
    lost is never repeated here.
    """

    def __init__(self, nodes: ClusterMap, timeout: Millis) -> None:
        self._map = nodes
        self._timeout = timeout
        self._pipes: dict[Address, Pipe] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        nodes.tell(self._drop_others)

    async def exchange(self, commands: Sequence[Command]) -> list[object]:
        """For each command its reply, its `RedisError`, `NotSent`, or `AnswerLost`; raises none of them.

        Orders for one key are carried out in their order; those for other nodes may overtake.
        """
        if not self._map.nodes and (trouble := await self._find_out()) is not None:
            return [trouble] * len(commands)
        outcomes: list[object] = [None] * len(commands)
        left: list[int] = list(range(len(commands)))
        asked: dict[int, Address] = {}
        for _ in range(HOPS):
            sent = await self._send(commands, left, asked, outcomes)
            left = await self._again(commands, sent, asked, outcomes)
            if not left:
                break
        return outcomes

    append = exchange
    """So that it stands in for an `Appender`: what tasks append at the same time shares a round trip anyway."""

    async def everywhere(self, command: Command) -> dict[str, object]:
        """Ask every node that serves slots; outcomes as of `exchange`, by ``host:port``.

        Raises `StreamUnavailable` if none says who the others are.
        """
        if not self._map.nodes and (trouble := await self._find_out()) is not None:
            raise trouble
        nodes = self._map.nodes
        answers = await asyncio.gather(*(self._pipe(node).exchange([command]) for node in nodes))
        told = {host_and_port(node): outcome for node, (outcome,) in zip(nodes, answers, strict=True)}
        for node in nodes:
            if isinstance(told[host_and_port(node)], NotSent | AnswerLost):
                self._map.suspect(node)
        return told

    async def ask_beside(self, key: str, command: Command) -> object:
        """Ask the node that serves ``key``; its outcome as of `exchange`."""
        if not self._map.nodes and (trouble := await self._find_out()) is not None:
            return trouble
        there = self._map.owner(key)
        if there is None or self._closed:
            return self._nowhere()
        (outcome,) = await self._pipe(there).exchange([command])
        if isinstance(outcome, NotSent | AnswerLost):
            self._map.suspect(there)
        return outcome

    def where(self, key: str) -> str | None:
        """``host:port`` of the node that serves ``key``, if that is known."""
        owner = self._map.owner(key)
        return None if owner is None else host_and_port(owner)

    async def close(self) -> None:
        """Let go of every connection; idempotent."""
        self._closed = True
        pipes, self._pipes = list(self._pipes.values()), {}
        for pipe in pipes:
            await pipe.close()
        if self._closing:
            await asyncio.wait(self._closing)
        await self._map.close()

    async def _find_out(self) -> NotSent | None:
        if self._closed:
            return _closed()
        try:
            await self._map.refresh()
        except StreamUnavailable as error:
            return NotSent(error.message)
        return None if self._map.nodes else NotSent("no node of the Redis Cluster says who serves what")

    async def _send(
        self, commands: Sequence[Command], left: Sequence[int], asked: dict[int, Address], outcomes: list[object]
    ) -> dict[int, Address]:
        """Send each where it belongs, all nodes at the same time; gives where each went."""
        groups: dict[Address, list[int]] = {}
        sent: dict[int, Address] = {}
        for index in left:
            there = asked.get(index) or self._owner(commands[index])
            if there is None or self._closed:
                outcomes[index] = self._nowhere()
                continue
            groups.setdefault(there, []).append(index)
            sent[index] = there
        sending = [self._send_to(there, commands, group, asked, outcomes) for there, group in groups.items()]
        if len(sending) == 1:
            await sending[0]
        elif sending:
            await asyncio.gather(*sending)
        return sent

    async def _send_to(
        self,
        there: Address,
        commands: Sequence[Command],
        group: Sequence[int],
        asked: dict[int, Address],
        outcomes: list[object],
    ) -> None:
        words: list[Command] = []
        places: list[int] = []
        for index in group:
            if index in asked:
                words.append(("ASKING",))
            places.append(len(words))
            words.append(commands[index])
        answers = await self._pipe(there).exchange(words)
        for index, place in zip(group, places, strict=True):
            outcomes[index] = answers[place]

    async def _again(
        self, commands: Sequence[Command], sent: dict[int, Address], asked: dict[int, Address], outcomes: list[object]
    ) -> list[int]:
        """Which orders to send once more; ``asked`` says where, for those that are not at home there yet."""
        asked.clear()
        again: list[int] = []
        unsent: dict[Address, list[int]] = {}
        for index, there in sent.items():
            outcome = outcomes[index]
            if type(outcome) is bytes or type(outcome) is list:
                continue
            if isinstance(outcome, NotSent):
                unsent.setdefault(there, []).append(index)
            elif isinstance(outcome, AskError | TryAgainError):
                again.append(index)
                self._redirect(commands[index], outcome, there, index, asked)
            elif isinstance(outcome, _TROUBLES):
                self._map.suspect(there)
        for there, orders in unsent.items():
            again.extend(await self._moved_since(commands, there, orders))
        if any(isinstance(outcomes[index], TryAgainError) for index in again):
            await asyncio.sleep(SPLIT_PAUSE_S)
        return sorted(again)

    def _redirect(
        self, command: Command, outcome: RedisError, there: Address, index: int, asked: dict[int, Address]
    ) -> None:
        if isinstance(outcome, MovedError):
            self._map.moved(_key(command), named(outcome, there))
        elif isinstance(outcome, AskError):  # which `MovedError` is a kind of
            asked[index] = named(outcome, there)

    async def _moved_since(self, commands: Sequence[Command], there: Address, orders: Sequence[int]) -> list[int]:
        """Which of the orders that could not be sent to a node are for another one by now."""
        if self._closed:
            return []
        try:
            await self._map.refresh(last=there)
        except StreamUnavailable:
            return []
        return [index for index in orders if self._owner(commands[index]) not in (there, None)]

    def _nowhere(self) -> NotSent:
        if self._closed:
            return _closed()
        self._map.suspect(None)  # a cluster that is being made may serve the slot soon
        return NotSent("no node of the Redis Cluster serves the slot")

    def _owner(self, command: Command) -> Address | None:
        if command[0] in _KEYLESS:
            return self._map.nodes[0] if self._map.nodes else None
        return self._map.owner(_key(command))

    def _pipe(self, address: Address) -> Pipe:
        pipe = self._pipes.get(address)
        if pipe is None:
            pipe = self._pipes[address] = Pipe(self._map.place, address, self._timeout, self._map.suspect)
        return pipe

    def _drop_others(self, served: frozenset[Address]) -> None:
        """Hang up on nodes that serve nothing any more: whoever waits for a silent one is told at once."""
        # One that answers is left until it is idle: it may be the map that is old.
        gone = [address for address, pipe in self._pipes.items() if address not in served and not pipe.answering]
        for address in gone:
            task = asyncio.get_running_loop().create_task(self._pipes.pop(address).close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _key(command: Command) -> str | bytes:
    return cast(str | bytes, command[3] if command[0] in _SCRIPTS else command[1])


def named(redirect: AskError, asked: Address) -> Address:
    """Where a redirect points; a node without a name of its own is on the host that was asked."""
    host = redirect.host if redirect.host not in ("", "?") else asked[0]
    return host, int(redirect.port)


def _closed() -> NotSent:
    return NotSent("The connections to Redis are closed")
