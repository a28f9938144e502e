"""A server process of one's own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streamshard.adapters.streams.embedded import HOST, EmbeddedServer, find_servers, preferred
from streamshard.errors import ConfigurationError
from tests.absent import skip_without
from tests.servers import FLAVOURS, Servers, command

PARENT = """
import sys, time
from streamshard.adapters.streams.embedded import EmbeddedServer
server = EmbeddedServer().start()
print(server.pid, flush=True)
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def is_gone_soon(pid: int) -> bool:
    for _ in range(500):
        if not is_running(pid):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_answers_while_started_and_is_gone_afterwards(servers: Servers, flavour: str) -> None:
    with EmbeddedServer(servers.binary(flavour)) as server:
        pid = server.pid
        answer = command(server.port, "PING")
        url = server.url

    assert answer == "+PONG"
    assert url.startswith(f"redis://{HOST}:")
    assert not is_running(pid)


def test_two_at_once_are_two_servers() -> None:
    with EmbeddedServer() as one, EmbeddedServer() as other:
        command(one.port, "SET", "key", "value")

        assert one.port != other.port
        assert command(other.port, "EXISTS", "key") == ":0"


def test_listens_on_loopback_only_and_keeps_nothing_on_disk() -> None:
    with EmbeddedServer() as server:
        command(server.port, "SET", "key", "value")

        assert command(server.port, "CONFIG", "GET", "bind") == "*2"
        assert command(server.port, "CONFIG", "SET", "save", "''") == "+OK"
        assert command(server.port, "LASTSAVE").startswith(":")


def test_comes_back_empty_on_the_same_port_after_a_crash() -> None:
    server = EmbeddedServer().start()
    try:
        port, pid = server.port, server.pid
        command(port, "SET", "key", "value")

        server.kill()
        assert not is_running(pid)
        server.start()

        assert server.port == port
        assert command(port, "EXISTS", "key") == ":0"
    finally:
        server.stop()


def test_start_and_stop_can_be_repeated() -> None:
    server = EmbeddedServer()

    server.stop()
    pid = server.start().pid
    assert server.start().pid == pid
    server.stop()
    server.stop()

    with pytest.raises(ConfigurationError, match="not started"):
        _ = server.pid


def test_has_no_address_before_it_is_started() -> None:
    with pytest.raises(ConfigurationError, match="not started"):
        _ = EmbeddedServer().url


def test_a_binary_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"/nowhere/redis-server can't be run"):
        EmbeddedServer(Path("/nowhere/redis-server")).start()


def test_a_binary_that_is_no_server_is_named() -> None:
    with pytest.raises(ConfigurationError, match="does not come up"):
        EmbeddedServer(Path("/bin/false")).start()


def test_no_binary_at_all_says_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"streamshard\[embedded\]"):
        preferred({})


def test_the_packaged_valkey_comes_first() -> None:
    assert next(iter(find_servers())) == "valkey"


def test_ctrl_c_in_the_terminal_does_not_reach_it() -> None:
    with EmbeddedServer() as server:
        assert os.getsid(server.pid) == server.pid != os.getsid(0)


def test_does_not_outlive_a_parent_that_is_killed() -> None:
    if not sys.platform.startswith("linux"):
        skip_without("Linux kernel", "nothing else ends children with their parent")

    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)

        parent.send_signal(signal.SIGKILL)
        parent.wait()

    assert is_gone_soon(pid)
