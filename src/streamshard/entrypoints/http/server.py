"""One coordinator in one process, served by uvicorn until it is told to stop."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Generator
from types import FrameType

import uvicorn
from starlette.types import Scope

from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.browsers import refuse_other_names, refuse_other_sites
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.settings import ServeSettings, without_password
from streamshard.entrypoints.ticker import Chronicling, Ticker, ticking
from streamshard.entrypoints.vitals import Vitals, watched
from streamshard.entrypoints.wiring import service
from streamshard.errors import ConfigurationError

logger = logging.getLogger(__name__)

GRACE_SECONDS = 10
"""How long requests under way may take once the coordinator is told to stop."""

LAST_SECONDS = 1
"""How long after that; by then only refusals are on their way."""

LOOK_SECONDS = 0.05

KEEP_ALIVE_SECONDS = 75
"""Longer than members and producers pause between requests, so that they need not connect anew."""


def serve(settings: ServeSettings) -> None:
    """Serve until SIGTERM or SIGINT; raises what keeps it from starting."""
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        with asyncio.Runner(loop_factory=_fast_loop()) as runner:
            runner.run(_serve(settings, listener))


async def _serve(settings: ServeSettings, listener: socket.socket) -> None:
    async with service(settings) as built:
        traffic = Traffic(built.recorder)
        ticker = Ticker(
            Chronicling(built.coordinator, built.recorder.ticks), built.clock, settings.timing.tick_ms, traffic.let_pass
        )
        server = _Server(
            create_app(built.coordinator, traffic=traffic, guard=_own_callers, inspector=built.inspector), traffic
        )
        async with ticking(ticker):
            logger.info(
                "coordinator %s listens on %s (store %s, redis %s)",
                built.coordinator.settings.coordinator_id,
                _address(listener),
                without_password(settings.store),
                without_password(settings.redis),
            )
            async with watched(Vitals(built.coordinator, built.clock, _places(settings))):
                await server.serve(sockets=[listener])
    logger.info("coordinator stopped")


def _places(settings: ServeSettings) -> dict[str, str]:
    return {"Redis": without_password(settings.redis), "the metadata store": without_password(settings.store)}


def _own_callers(scope: Scope) -> None:
    refuse_other_names(scope)
    refuse_other_sites(scope)


class _Server(uvicorn.Server):
    """uvicorn, but a signal ends it with a clean exit and turns new requests away at once."""

    def __init__(self, app: object, traffic: Traffic) -> None:
        super().__init__(
            uvicorn.Config(
                app,  # type: ignore[arg-type]
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=LAST_SECONDS,
            )
        )
        self._traffic = traffic

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Unlike uvicorn's own, does not raise the signal again at the end: being told to stop is no failure."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal stops gracefully, a second SIGINT at once."""
        self._traffic.close()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Go on listening while requests are under way: that we stop says more than a connection refused."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + GRACE_SECONDS
        while self._traffic.busy and not self.force_exit and loop.time() < ends_at:
            await asyncio.sleep(LOOK_SECONDS)
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET  # noqa: PLR2004
    listener = socket.socket(family, socket.SOCK_STREAM)
    if sys.platform != "win32":  # there it would let two servers share the port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"--port: {_why_not(error, host, port)}") from None
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use by another program: stop that one, or choose another port"
    return f"can't listen on port {port} of {host} ({error.strerror}): choose another port"


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _fast_loop() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        from uvloop import Loop
    except ImportError:
        return None
    return Loop
