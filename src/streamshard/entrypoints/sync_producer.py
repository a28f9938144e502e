"""`SyncProducer`: publishing from threads, with an event loop in a thread of its own."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar, Unpack

import attrs

from streamshard.adapters.client.credentials import Auth
from streamshard.adapters.client.producer import Failure, Fields, Key, Producer, Published
from streamshard.core.ports import ShardLog
from streamshard.core.replies import Routing
from streamshard.entrypoints.app import DEFAULT_REDIS, StreamApp
from streamshard.entrypoints.connecting import Where
from streamshard.entrypoints.publishing import ProducerOptions
from streamshard.errors import NotWritten

_Result = TypeVar("_Result")


@attrs.define(eq=False)
class _Engine:
    """One process's event loop with a producer on it; it runs until `closing` is set on the loop."""

    app: StreamApp
    producer: Producer
    loop: asyncio.AbstractEventLoop | None = None
    closing: asyncio.Event = attrs.field(factory=asyncio.Event)
    running: "set[asyncio.Task[Any]]" = attrs.field(factory=set)
    thread: threading.Thread | None = None

    def start(self) -> None:
        """Return once the loop takes orders."""
        up: Future[None] = Future()
        # A daemon: a program that forgets to close its producer ends all the same.
        self.thread = threading.Thread(target=lambda: asyncio.run(self._serve(up)), daemon=True, name="streamshard")
        self.thread.start()
        up.result()

    def ask(self, work: Coroutine[Any, Any, _Result]) -> "Future[_Result]":
        """Run on the loop; raises `RuntimeError` if that has ended."""
        assert self.loop is not None, "the engine is started"
        return asyncio.run_coroutine_threadsafe(self._kept(work), self.loop)

    def stop(self) -> None:
        """Close, with an answer for whoever waits, and wait for the end."""
        assert self.loop is not None, "the engine is started"
        assert self.thread is not None, "the engine is started"
        self.loop.call_soon_threadsafe(self.closing.set)
        self.thread.join()

    async def _serve(self, up: "Future[None]") -> None:
        self.loop = asyncio.get_running_loop()
        async with self.app:
            up.set_result(None)
            await self.closing.wait()
        await asyncio.gather(*self.running, return_exceptions=True)

    async def _kept(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        task = asyncio.current_task()
        assert task is not None, "it runs as a task"
        self.running.add(task)
        try:
            return await work
        finally:
            self.running.discard(task)


class SyncProducer:
    """A `Producer` for threads: any number of them may use it, and what they publish at the same time is sent together.

    ``url``, ``redis``, ``token`` and ``auth`` as for `StreamApp`, options as for `StreamApp.producer`. It connects
    at its first use, once in each process that is forked. Raises `ConfigurationError`. Close it, or use it in a
    ``with``.
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
        **options: Unpack[ProducerOptions],
    ) -> None:
        def make() -> _Engine:
            app = StreamApp(url, redis, token=token, auth=auth)
            return _Engine(app, app.producer(prefix, group, **options))

        self._make: Callable[[], _Engine] = make
        self._engine: _Engine | None = make()
        self._lock = threading.Lock()
        self._closed = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_renewing(weakref.ref(self)))

    def publish(self, key: Key, fields: Fields) -> Published:
        """Append one record and wait for its id; raises as `Producer.publish` does."""
        return self._run(lambda producer: producer.publish(key, fields))

    def publish_many(self, records: Iterable[tuple[Key, Fields]]) -> list[Published | Failure]:
        """Publish each and wait for all; results and errors as of `Producer.publish_many`."""
        listed = list(records)
        return self._run(lambda producer: producer.publish_many(listed))

    def check(self) -> Routing:
        """Fetch the routing now, to fail early; raises as `Producer.check` does."""
        return self._run(lambda producer: producer.check())

    def close(self) -> None:
        """Let go of the thread and of every connection; idempotent. What is under way is told how it ended."""
        with self._lock:
            self._closed = True
            engine, self._engine = self._engine, None
            if engine is not None and engine.thread is not None:
                engine.stop()

    def __enter__(self) -> "SyncProducer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def renew(self) -> None:
        """Begin anew in a forked process, where neither the thread nor the connections may be used."""
        self._lock = threading.Lock()
        if not self._closed:
            self._engine = None

    def _run(self, order: Callable[[Producer], Coroutine[Any, Any, _Result]]) -> _Result:
        with self._lock:
            if self._closed:
                raise NotWritten("the producer is closed")
            engine = self._started()
            answer = engine.ask(order(engine.producer))
        try:
            return answer.result()
        except CancelledError:
            raise NotWritten("the producer was closed before anything was sent") from None
        except BaseException:
            answer.cancel()  # Ctrl-C in the waiting thread: what is not sent yet is not sent any more
            raise

    def _started(self) -> _Engine:
        engine = self._engine or self._make()
        if engine.thread is None:
            engine.start()
        self._engine = engine
        return engine


def _renewing(producer: "weakref.ref[SyncProducer]") -> Callable[[], None]:
    def renew() -> None:
        if (alive := producer()) is not None:
            alive.renew()

    return renew
