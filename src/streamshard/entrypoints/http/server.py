"""One coordinator in one process, served by uvicorn until it is told to stop."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Generator
from types import FrameType

import uvicorn
from starlette.types import Scope

from streamshard.entrypoints.http.app import create_app
from streamshard.entrypoints.http.browsers import refuse_other_names, refuse_other_sites
from streamshard.entrypoints.http.gate import Gate
from streamshard.entrypoints.http.traffic import Traffic
from streamshard.entrypoints.security.settings import SecuritySettings
from streamshard.entrypoints.security.wiring import gate_of
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
    _check_certificate(settings.security)
    with contextlib.closing(_listen(settings.host, settings.port)) as listener:
        with asyncio.Runner(loop_factory=_fast_loop()) as runner:
            runner.run(_serve(settings, listener))


async def _serve(settings: ServeSettings, listener: socket.socket) -> None:
    async with service(settings) as built:
        traffic = Traffic(built.recorder)
        ticker = Ticker(
            Chronicling(built.coordinator, built.recorder.ticks), built.clock, settings.timing.tick_ms, traffic.let_pass
        )
        gate = gate_of(settings.security, built.coordinator.settings.coordinator_id)
        guard = _own_callers if gate.identities is None else refuse_other_sites
        app = create_app(built.coordinator, traffic=traffic, guard=guard, inspector=built.inspector, gate=gate)
        server = _Server(app, traffic, settings.security, gate)
        async with ticking(ticker):
            logger.info(
                "coordinator %s listens on %s (store %s, redis %s, %s)",
                built.coordinator.settings.coordinator_id,
                _address(listener, settings.security),
                without_password(settings.store),
                without_password(settings.redis),
                "accounts" if gate.identities else "no accounts: whoever can connect from here may do everything",
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

    def __init__(self, app: object, traffic: Traffic, security: SecuritySettings, gate: Gate) -> None:
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
                ssl_certfile=security.certificate,
                ssl_keyfile=security.key,
            )
        )
        self._traffic = traffic
        self._security = security
        self._gate = gate
        self._told = _told(security)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Unlike uvicorn's own, does not raise the signal again at the end: being told to stop is no failure."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        before |= {number: signal.signal(number, self.handle_news) for number in self._told}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal stops gracefully, a second SIGINT at once."""
        self._traffic.close()
        super().handle_exit(sig, frame)

    def handle_news(self, sig: int, frame: FrameType | None) -> None:
        """Accounts, certificate and key are read again; connections that stand go on as they are."""
        asyncio.get_running_loop().call_soon_threadsafe(self._read_again)

    def _read_again(self) -> None:
        if self._gate.identities is not None:
            self._gate.identities.accounts.reload()
        if self.config.ssl is not None and self._security.certificate is not None:
            try:
                self.config.ssl.load_cert_chain(self._security.certificate, self._security.key)
            except (OSError, ValueError) as error:
                logger.error("the certificate stays as it was: %s", error)

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


def _check_certificate(security: SecuritySettings) -> None:
    if security.certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(security.certificate, security.key)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--tls-cert: certificate and key can't be used: {error}") from None


def _told(security: SecuritySettings) -> tuple[signal.Signals, ...]:
    """Signals that something was changed; where nothing can have, they mean what they always do."""
    if sys.platform == "win32" or not (security.has_accounts or security.certificate):
        return ()
    return (signal.SIGHUP,)


def _address(listener: socket.socket, security: SecuritySettings) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "http" if security.certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _fast_loop() -> type[asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        from uvloop import Loop
    except ImportError:
        return None
    return Loop
