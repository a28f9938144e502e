"""A listener's options, and the application's handler made safe to call."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import attrs

from streamshard.adapters.client.message import Batch, Message
from streamshard.adapters.client.noise import Grumble
from streamshard.adapters.client.run import Pace
from streamshard.core.ids import GroupKey, GroupName, MemberId, Millis, ShardIndex, StreamPrefix, Token
from streamshard.core.names import name_problem, prefix_problem
from streamshard.core.ports import Clock
from streamshard.core.records import Abilities, AckMode
from streamshard.entrypoints.telling import Tellings
from streamshard.entrypoints.workers import Workers
from streamshard.errors import ConfigurationError, LeaseLost, StreamshardError, StreamUnavailable

_LOG = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Any], Awaitable[None] | None]
Told: TypeAlias = Callable[[MemberId, ShardIndex, Token], Awaitable[None] | None]
Acking: TypeAlias = Literal["explicit", "on_success"]
Failure: TypeAlias = Literal["leave_pending", "xnack"]
AckingMode: TypeAlias = Literal["auto", "xack", "xackdel"]

WHOLE = ("concurrency", "max_workers", "batch", "page", "max_deliveries")
OPTIONAL = ("batch", "max_deliveries")
CHOICES: dict[str, tuple[str, ...]] = {
    "ack": get_args(Acking),
    "failure": get_args(Failure),
    "ack_mode": get_args(AckingMode),
}

LIMITS: dict[str, tuple[float, float]] = {
    "concurrency": (1, 1_000),
    "max_workers": (1, 10_000),
    "batch": (1, 10_000),
    "page": (1, 10_000),
    "max_deliveries": (2, 100_000),
    "redeliver_after": (0.05, 86_400),
    "sweep_every": (0.05, 86_400),
    "drain_timeout": (0, 86_400),
    "start_timeout": (0, 86_400),
    "refresh_interval": (0.05, 86_400),
}


def check_limits(**options: float | None) -> None:
    """Raise `ConfigurationError` for an option out of its range; some may be None, which is not set."""
    for name, value in options.items():
        low, high = LIMITS[name]
        if value is None and name in OPTIONAL:
            continue
        whole = name in WHOLE
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not low <= value <= high:
            kind = "a whole number" if whole else "a number of seconds"
            raise ConfigurationError(f"{name}: must be {kind} from {low} to {high}, not {value!r}")


class Unhandled(Exception):
    """Raised by a handler of this library's own: what it was given is to come again, and nothing went wrong."""


def _check_callable(name: str, function: object, arguments: int) -> None:
    """Now, and not again and again with each record."""
    if not callable(function):
        raise ConfigurationError(f"{name}: must be a function, not {function!r}")
    if any(map(_yields, (function, getattr(function, "__call__", None)))):  # noqa: B004
        raise ConfigurationError(f"{name}: has a yield in it, so that to call it does nothing: take that out")
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError as error:
        raise ConfigurationError(f"{name}: must take {arguments} by position, but {error}") from None
    except ValueError:  # written in C: it does not say what it takes
        return


def group_key(prefix: str, group: str) -> GroupKey:
    """A checked name of a group; raises `ConfigurationError`."""
    for name, problem in (("prefix", prefix_problem(prefix)), ("group", name_problem(group))):
        if problem is not None:
            raise ConfigurationError(f"{name}: {problem}")
    return GroupKey(StreamPrefix(prefix), GroupName(group))


class ListenerOptions(TypedDict, total=False):
    """What `StreamApp.listener` takes by name."""

    concurrency: int
    max_workers: int
    batch: int | None
    ack: Acking
    page: int
    redeliver_after: float
    sweep_every: float
    member_id: str | None
    max_deliveries: int | None
    failure: Failure
    ack_mode: AckingMode
    on_assigned: Told | None
    on_revoked: Told | None
    on_lost: Told | None
    on_fenced: Told | None


@attrs.frozen
class Listener:
    """A handler with what it listens to; durations in seconds."""

    key: GroupKey
    handler: Handler
    concurrency: int = 1
    max_workers: int = 16
    batch: int | None = None
    ack: Acking = "explicit"
    page: int = 64
    redeliver_after: float = 30.0
    sweep_every: float = 15.0
    member_id: str | None = None
    max_deliveries: int | None = None
    failure: Failure = "leave_pending"
    ack_mode: AckingMode = "auto"
    on_assigned: Told | None = None
    on_revoked: Told | None = None
    on_lost: Told | None = None
    on_fenced: Told | None = None

    def __attrs_post_init__(self) -> None:
        check_limits(
            concurrency=self.concurrency,
            max_workers=self.max_workers,
            batch=self.batch,
            page=self.page,
            redeliver_after=self.redeliver_after,
            sweep_every=self.sweep_every,
            max_deliveries=self.max_deliveries,
        )
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                wanted = " or ".join(map(repr, choices))
                raise ConfigurationError(f"{name}: must be {wanted}, not {getattr(self, name)!r}")

        _check_callable("handler", self.handler, arguments=1)
        for name in ("on_assigned", "on_revoked", "on_lost", "on_fenced"):
            if (told := getattr(self, name)) is not None:
                _check_callable(name, told, arguments=3)

    @property
    def demanding(self) -> bool:
        """Not every server of shards can do what the options ask for."""
        return self.max_deliveries is not None or self.failure == "xnack" or self.ack_mode == "xackdel"

    def problem(self, server: Abilities) -> str | None:
        """The option that ``server`` can't honour, and what would help."""
        if self.failure == "xnack" and not server.gives_back:
            return f"failure='xnack': {server.server} has no XNACK, which Redis has from 8.8 on: use 'leave_pending'"
        if self.ack_mode == "xackdel" and not server.deletes_acknowledged:
            return f"ack_mode='xackdel': {server.server} has no XACKDEL, which Redis has from 8.2 on: use 'auto'"
        return None

    def pace(self) -> Pace:
        """The options that a run goes by."""
        return Pace(
            page=max(self.page, self.batch or 1),
            batch=self.batch,
            redeliver_after=Millis(int(self.redeliver_after * 1000)),
            sweep_every=Millis(int(self.sweep_every * 1000)),
            max_deliveries=self.max_deliveries,
            ack_del=AckMode.ACK if self.ack_mode == "xack" else AckMode.ACK_DEL,
            acks=self.ack == "on_success",
        )


class Guard:
    """Calls the application's code; whatever it raises is logged and goes no further."""

    def __init__(self, listener: Listener, clock: Clock, leave: Callable[[SystemExit], None]) -> None:
        self._listener = listener
        self._leave = leave
        self._grumble = Grumble(_LOG, clock)
        self._workers = None if is_async(listener.handler) else self._pool()
        self._tellings = Tellings(str(listener.key))

    async def handle(self, message: Message | Batch) -> bool:
        """Hand over, and say whether that succeeded; what is not acknowledged is handed over again later."""
        try:
            if self._workers is None:
                await self._listener.handler(message)  # type: ignore[misc]  # an async function, then
            else:
                await self._run(self._workers, message)
            return True
        except (LeaseLost, StreamUnavailable) as error:
            self._say("unacknowledged", f"{message!r} was handled, but not acknowledged: {error}")
        except SystemExit as asked:
            _LOG.warning("%s: the handler asked to exit on %r, which stays pending", self._listener.key, message)
            self._leave(asked)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled the handler: something that it waited for was.
            self._say("cancelled", f"the handler of {message!r} waited for what was cancelled, and it stays pending")
        except Exception as error:  # the outermost frame of this library around the application's handler
            await self._failed(message, error)
        return False

    def on_assigned(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Tell the application."""
        self._tell(self._listener.on_assigned, member, shard, token)

    def on_revoked(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Tell the application."""
        self._tell(self._listener.on_revoked, member, shard, token)

    def on_lost(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Tell the application."""
        self._tell(self._listener.on_lost, member, shard, token)

    def on_fenced(self, member: MemberId, shard: ShardIndex, token: Token) -> None:
        """Tell the application."""
        self._tell(self._listener.on_fenced, member, shard, token)

    async def close(self) -> None:
        """Let go of the worker threads, without waiting for a handler that hangs."""
        await self._tellings.close()
        if self._workers is not None:
            self._workers.close()

    def abandon(self) -> None:
        """Wait for no thread any more."""
        if self._workers is not None:
            self._workers.abandon()

    async def _run(self, workers: Workers, message: Message | Batch) -> None:
        called = await workers.run(partial(self._listener.handler, message))
        if inspect.isawaitable(called):  # a plain function around an async one, as decorators make them
            await called

    async def _failed(self, message: Message | Batch, error: Exception) -> None:
        if isinstance(error, Unhandled):
            return
        # A handler whose database is down fails on every record: once in a while is enough.
        failed = f"{self._listener.key}: the handler failed on {message!r}, which stays pending"
        self._grumble.say(type(error).__qualname__, failed, logging.ERROR, error)
        if self._listener.failure == "xnack":
            await self._give_back(message)

    async def _give_back(self, message: Message | Batch) -> None:
        try:
            await message.nack()
        except StreamshardError as error:
            self._say("kept", f"{message!r} can't be given back, and stays pending: {error}")

    def _say(self, kind: str, what: str) -> None:
        self._grumble.say(kind, f"{self._listener.key}: {what}")

    def _pool(self) -> Workers:
        most = self._listener.max_workers * self._listener.concurrency
        return Workers(most, f"streamshard-{self._listener.key.group}")

    def _tell(self, told: Told | None, member: MemberId, shard: ShardIndex, token: Token) -> None:
        if told is not None:
            self._tellings.tell(partial(told, member, shard, token))


def is_async(handler: Handler) -> bool:
    """Whether it is known before the call that there will be something to await."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _yields(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
