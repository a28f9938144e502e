"""A proxy before a coordinator that knows requests: it loses, repeats and holds them, and doles answers out."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

from tests.integration.faults.proxy import HOST, Proxy
from tests.integration.fleet.front import message

WAYS = ("drop", "forget", "duplicate", "hold", "drip")
"""Lose the request; lose the answer; ask twice, the second time later and perhaps elsewhere; hang up on the sender
and deliver the request later all the same; hand the answer out byte by byte."""

SUFFERS = 0.6
DRIP_S = 0.01


class Meddler(Proxy):
    """One way to one coordinator; ``others`` are the ports of all, for what is asked twice;
    ``suffers`` is the share of requests that something is done to."""

    def __init__(self, port: int, others: Sequence[int], seed: int, suffers: float = SUFFERS) -> None:
        self._way: str | None = None
        self._held_s = 0.0
        self._others, self._suffers = others, suffers
        self._chance = random.Random(seed)
        self._late: set[asyncio.Task[None]] = set()
        super().__init__(port)

    def meddle(self, way: str, held_s: float) -> None:
        """Treat most requests so from now on; what is held or repeated comes up to ``held_s`` later."""
        self._way, self._held_s = way, held_s

    def cure(self) -> None:
        """Do as if nothing had been; what is held is still delivered."""
        self._way = None
        super().cure()

    async def _shut(self) -> None:
        for task in list(self._late):
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)
        await super()._shut()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await message(reader):
            await self._open.wait()
            if self._delay:
                await asyncio.sleep(self._delay)
            way = self._way if self._chance.random() < self._suffers else None
            if way in ("drop", "hold"):
                if way == "hold":
                    self._send_later(request, self._target)
                return
            answer = await _ask(self._target, request)
            await self._open.wait()
            if way == "forget" or not answer:
                return
            if way == "duplicate":
                self._send_later(request, self._chance.choice(self._others))
            await _hand_over(answer, writer, 1 if way == "drip" else len(answer))

    def _send_later(self, request: bytes, port: int) -> None:
        task = asyncio.get_running_loop().create_task(_late(request, port, self._chance.uniform(0, self._held_s)))
        self._late.add(task)
        task.add_done_callback(self._late.discard)


async def _late(request: bytes, port: int, seconds: float) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        await _ask(port, request)


async def _ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request)
        await writer.drain()
        return await message(reader)
    finally:
        writer.transport.abort()


async def _hand_over(answer: bytes, writer: asyncio.StreamWriter, size: int) -> None:
    for begin in range(0, len(answer), size):
        writer.write(answer[begin : begin + size])
        await writer.drain()
        if size < len(answer):
            await asyncio.sleep(DRIP_S)
