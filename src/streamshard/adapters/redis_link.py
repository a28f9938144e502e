"""One connection to a Redis server that many tasks share: what they send in one turn travels in one write.

The driver's own clients reconnect behind the caller's back. A `Line` never does: once broken it stays
broken, so that whoever holds one knows that every answer came over the same connection.
"""

import asyncio
import inspect
import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, cast

import attrs
import hiredis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    RedisSSLContext,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as SilenceError
from redis.retry import Retry

from streamshard.adapters.redis_tls import Tls
from streamshard.adapters.redis_url import Address as Address
from streamshard.adapters.redis_url import read_password
from streamshard.core.ids import Millis

Word: TypeAlias = str | bytes | int
Command: TypeAlias = tuple[Word, ...]

_LOG = logging.getLogger(__name__)

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (BusyLoadingError, "LOADING: the server is still reading its data set from disk"),
    (ReadOnlyError, "READONLY: the server is a replica and takes no writes"),
    (MasterDownError, "MASTERDOWN: the replica has lost its primary"),
    (ClusterDownError, "CLUSTERDOWN: the cluster does not serve this slot"),
    (MovedError, "MOVED: the server is a node of a cluster, and another one serves this slot"),
    (AskError, "ASK: this slot is on its way to another node"),
    (TryAgainError, "TRYAGAIN: this slot is on its way to another node"),
    (OutOfMemoryError, "OOM: the server is at its maxmemory"),
    (AuthenticationError, "AUTH: the server wants another login"),
    (AuthenticationWrongNumberOfArgsError, "AUTH: the server wants another login"),
)

# The driver packs in Python; its parser's own packer takes a tenth of the time (and misstates what it takes).
_pack: Callable[[Command], bytes] = cast(Any, hiredis.pack_command)


class NotSent(Exception):
    """Nothing of the command left this process."""


class AnswerLost(Exception):
    """The command may have reached the server; its answer did not come back."""


_TLS = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the certificate is not trusted, or is another host's: name who signed it in ssl_ca_certs",
    ),
    ("WRONG_VERSION_NUMBER", "the server speaks no TLS on this port"),
    ("RECORD_LAYER_FAILURE", "the server speaks no TLS on this port"),
)

_IN_A_SCRIPT = ("ACL failure in script", "The user executing the script can't")
"""How servers begin to say that a script lacks a permission; it comes without NOPERM."""


def lacks_permission(error: BaseException) -> bool:
    """The account may not do that, by the server's answer."""
    return isinstance(error, NoPermissionError) or str(error).startswith(_IN_A_SCRIPT)


def describe(error: BaseException) -> str:
    """Say which trouble ``error`` is, in a few words."""
    if lacks_permission(error):
        return (
            f"NOPERM: the account lacks a permission ({error}): give it what `streamshard acl-rules` prints "
            "(ACL LOG on the server says what it tried)"
        )
    for sign, reason in _TLS:
        if sign in str(error):
            return f"TLS: {reason} ({error})"
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return f"{reason} ({error})"
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return f"{error or type(error).__name__}"


class _Context(RedisSSLContext):
    """TLS as the URL has it: the driver would trust the URL's authorities beside the system's, not alone."""

    def __init__(self, tls: Tls) -> None:
        super().__init__(check_hostname=tls.check_hostname, cert_reqs="required" if tls.verify else "none")
        self._tls = tls

    def get(self) -> ssl.SSLContext:
        """Made anew for each connection, from the files of now."""
        try:
            return self._tls.context()
        except ValueError as error:
            raise ConnectionError(str(error)) from None


class _TlsConnection(SSLConnection):
    def __init__(self, tls: Tls, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context = _Context(tls)


@attrs.frozen
class _FromFile(CredentialProvider):
    """A login whose password may be changed while this runs."""

    username: str
    path: str

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """As the driver wants it."""
        try:
            password = read_password(self.path)
        except OSError as error:
            raise ConnectionError(f"password_file: can't be read: {error.strerror}") from None
        return (self.username, password) if self.username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """The same; a file this small is not waited for."""
        return self.get_credentials()


# The driver would tell every server its own name, for which an account needs a permission more.
_SILENT: Mapping[str, None] = (
    {"driver_info": None}
    if "driver_info" in inspect.signature(AbstractConnection.__init__).parameters
    else {"lib_name": None, "lib_version": None}
)


def connection_to(options: Mapping[str, Any], timeout: Millis) -> AbstractConnection:
    """A driver's connection, not connected yet, that has no deadlines and no retries of its own.

    ``options`` are a `Place`'s for one server.
    """
    # The deadline of an exchange is ours alone: a second one per read, or a silent retry, would blur
    # what was sent. RESP2 and bytes are what replies are read as.
    settled = dict(
        options,
        **_SILENT,
        protocol=2,
        decode_responses=False,
        socket_timeout=None,
        socket_connect_timeout=timeout / 1000,
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        health_check_interval=0,
    )
    path = settled.pop("password_file", None)
    if path is not None:
        settled["credential_provider"] = _FromFile(settled.pop("username", ""), path)
    make: Callable[..., AbstractConnection] = Connection
    if "path" in settled:
        make = UnixDomainSocketConnection
    elif "tls" in settled:
        make = _TlsConnection
        _warn(f"{settled['host']}:{settled['port']}", settled["tls"].unchecked)
    return make(**settled)


async def open_connection(options: Mapping[str, Any], timeout: Millis) -> AbstractConnection:
    """Connect, log in, and hear an answer; raises `NotSent`."""
    return (await open_with_role(options, timeout))[0]


async def open_with_role(options: Mapping[str, Any], timeout: Millis) -> tuple[AbstractConnection, str]:
    """As `open_connection`, and what the server says it is: ``master``, ``replica``, or nothing."""
    connection = connection_to(options, timeout)
    connect: Callable[[], Any] = connection.connect
    try:
        async with asyncio.timeout(timeout / 1000):
            await connect()
            role = await _role(connection)
    except (RedisError, OSError) as error:
        await connection.disconnect(nowait=True)
        silent = "tls" in options and isinstance(error, TimeoutError | SilenceError)
        raise NotSent("no answer in time: does it speak TLS on this port?" if silent else describe(error)) from error
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    return connection, role


async def _role(connection: AbstractConnection) -> str:
    # A socket opens also to a process that is stopped: what is sent to it then would be carried out some day.
    # No account can be refused this question.
    await connection.send_command("HELLO", 2, check_health=False)
    try:
        told: Any = await connection.read_response(disconnect_on_error=False)
    except ResponseError:
        return ""
    facts = dict(zip(told[::2], told[1::2], strict=False)) if isinstance(told, list) else {}
    role = facts.get(b"role", b"")
    return role.decode() if isinstance(role, bytes) else ""


@cache
def _warn(where: str, unchecked: str) -> None:
    if unchecked:
        _LOG.warning("TLS to Redis at %s does not check %s", where, unchecked)


@attrs.frozen(eq=False)
class _Asked:
    """A command that was sent, and when by the event loop's clock."""

    answer: "asyncio.Future[object]"
    at: float


class Line:
    """A connection's one life. Commands are answered in the order they were sent in; nothing is ever repeated."""

    def __init__(self, connection: AbstractConnection, timeout: Millis) -> None:
        self._connection = connection
        self._timeout = timeout / 1000
        self._loop = asyncio.get_running_loop()
        self._unsent: list[tuple[bytes, asyncio.Future[object]]] = []
        self._asked: deque[_Asked] = deque()
        self._work = asyncio.Event()
        self._why = ""
        self._reader = asyncio.create_task(self._read())
        self._writer = asyncio.create_task(self._write())
        self._watch = self._loop.call_later(self._timeout, self._look_at_the_time)

    @classmethod
    async def open(cls, options: Mapping[str, Any], timeout: Millis) -> "Line":
        """Connect and log in; raises `NotSent` if that fails."""
        line = cls(await open_connection(options, timeout), timeout)
        await asyncio.sleep(0)  # a task that is cancelled before it began would not close the connection
        return line

    @property
    def broken(self) -> bool:
        """Nothing can be sent any more."""
        return bool(self._why)

    def ask(self, *words: Word) -> "asyncio.Future[object]":
        """Send one command; its reply, or the error the server answered with as a value.

        The future raises `NotSent` or `AnswerLost` if there is no reply.
        """
        answer: asyncio.Future[object] = self._loop.create_future()
        if self._why:
            answer.set_exception(NotSent(self._why))
        else:
            self._unsent.append((_pack(words), answer))
            self._work.set()
        return answer

    def hang_up(self, why: str) -> None:
        """Break the line; whoever waits for an answer is told that it is lost."""
        if self._why:
            return
        self._why = why or "the connection was closed"
        self._watch.cancel()
        for task in (self._reader, self._writer):
            if task is not asyncio.current_task():
                task.cancel()
        for _, answer in self._unsent:
            _fail(answer, NotSent(self._why))
        for asked in self._asked:
            _fail(asked.answer, AnswerLost(self._why))
        self._unsent.clear()
        self._asked.clear()

    async def close(self, why: str = "the connection was closed") -> None:
        """Break the line and wait until nothing of it is left; idempotent."""
        self.hang_up(why)
        await asyncio.wait([self._reader, self._writer])

    async def _write(self) -> None:
        while not self._why:
            await self._work.wait()
            self._work.clear()
            batch = [(packed, answer) for packed, answer in self._unsent if not answer.done()]
            self._unsent.clear()
            now = self._loop.time()
            self._asked.extend(_Asked(answer, now) for _, answer in batch)
            try:
                await self._connection.send_packed_command([packed for packed, _ in batch], check_health=False)
            except (RedisError, OSError) as error:
                self.hang_up(describe(error))

    async def _read(self) -> None:
        try:
            while True:
                reply = await self._reply()
                asked = self._asked.popleft()
                if not asked.answer.done():
                    asked.answer.set_result(reply)
        except (RedisError, OSError) as error:
            self.hang_up(describe(error))
        except IndexError:
            self.hang_up("the server said something that nobody had asked")
        finally:
            await self._connection.disconnect()

    async def _reply(self) -> object:
        try:
            return await self._connection.read_response(disconnect_on_error=False)
        except (ResponseError, BusyLoadingError) as refusal:
            return refusal

    def _look_at_the_time(self) -> None:
        due = (self._asked[0].at if self._asked else self._loop.time()) + self._timeout
        if due <= self._loop.time():
            self.hang_up("no answer in time")
        else:
            self._watch = self._loop.call_at(due, self._look_at_the_time)


def _fail(answer: "asyncio.Future[object]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
