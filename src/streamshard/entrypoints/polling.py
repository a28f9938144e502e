"""`Poller`: records in the caller's own loop, instead of a handler that is called."""

import asyncio
from typing import Unpack

from streamshard.adapters.client.credentials import Auth
from streamshard.adapters.client.message import Batch, Message
from streamshard.core.ports import ShardLog
from streamshard.entrypoints.app import DEFAULT_REDIS, StreamApp
from streamshard.entrypoints.connecting import Where
from streamshard.entrypoints.listening import ListenerOptions, Unhandled

_Handed = tuple[Message | Batch, "asyncio.Future[bool]"]
"""And whether the caller is done with it, which is heard later."""


class Poller:
    """Members of a group whose records are iterated over, one at a time: ``async for message in poller``.

    To ask for the next record is to be done with the last one: acknowledge it before, or it comes again after
    ``redeliver_after``. With ``ack="on_success"`` it is acknowledged then, but not if the loop was left instead. With
    ``batch`` each is a `Batch`. ``url``, ``redis``, ``token`` and ``auth`` as for
    `StreamApp`, options as for `StreamApp.listener`. Use it in an ``async with``; it raises what `StreamApp.start`
    does.
    """

    def __init__(  # noqa: PLR0913  # as for `StreamApp`
        self,
        prefix: str,
        group: str,
        url: Where = None,
        redis: str | ShardLog = DEFAULT_REDIS,
        *,
        token: str | None = None,
        auth: Auth | None = None,
        **options: Unpack[ListenerOptions],
    ) -> None:
        self.app = StreamApp(url, redis, token=token, auth=auth)
        self.app.listener(prefix, group=group, **options)(self._hand)
        self._handed: asyncio.Queue[_Handed] = asyncio.Queue()
        self._last: asyncio.Future[bool] | None = None
        self._ended: asyncio.Task[None] | None = None
        self._open = True

    async def __aenter__(self) -> "Poller":
        await self.app.start()
        self._ended = asyncio.create_task(self.app.wait())
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop reading, leave and close; what was not acknowledged stays pending."""
        self._open = False
        self._end_last(done=False)
        while not self._handed.empty():
            _settle(self._handed.get_nowait()[1], done=False)
        await self.app.stop()
        if self._ended is not None:
            self._ended.cancel()
            await asyncio.gather(self._ended, return_exceptions=True)

    def __aiter__(self) -> "Poller":
        return self

    async def __anext__(self) -> Message | Batch:
        """The next record; ends when every member has left, raises `ListenerRejected` as `StreamApp.wait` does."""
        self._end_last(done=True)
        while True:
            message, ended = await self._next()
            if self._may_use(message):
                self._last = ended
                return message
            _settle(ended, done=False)  # it waited for too long: whoever holds the shard now gets it

    async def _next(self) -> _Handed:
        assert self._ended is not None, "use the poller in an async with"
        if not self._handed.empty():
            return self._handed.get_nowait()
        handed = asyncio.ensure_future(self._handed.get())
        try:
            await asyncio.wait({handed, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._take_back(handed)
            raise
        if handed.done():
            return handed.result()
        await self._take_back(handed)
        self._ended.result()
        raise StopAsyncIteration

    async def _take_back(self, handed: "asyncio.Future[_Handed]") -> None:
        """What was got in the moment of giving up is for the next who asks."""
        handed.cancel()
        await asyncio.wait({handed})
        if not handed.cancelled():
            self._handed.put_nowait(handed.result())

    async def _hand(self, message: Message | Batch) -> None:
        if not self._open:
            raise Unhandled
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._handed.put_nowait((message, ended))
        if not await ended:
            raise Unhandled

    def _end_last(self, *, done: bool) -> None:
        if self._last is not None:
            _settle(self._last, done=done)
        self._last = None

    def _may_use(self, message: Message | Batch) -> bool:
        one = message if isinstance(message, Message) else message[0]
        return any(member.may_use(one.shard, one.fencing_token) for member in self.app.members)


def _settle(ended: "asyncio.Future[bool]", *, done: bool) -> None:
    if not ended.done():
        ended.set_result(done)
