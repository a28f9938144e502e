"""Accounts of least privilege on a real server, and what that server has to say about them."""

from collections.abc import Sequence
from typing import Any

from streamshard.adapters.redis_acl import Asked, Release, Role, Topology, rules
from streamshard.adapters.streams.connections import Connections
from streamshard.adapters.streams.opening import stream_backend
from streamshard.adapters.streams.redis_log import RedisShardLog
from streamshard.core.ids import StreamPrefix
from tests.integration.cluster import ask
from tests.integration.streams.rigs import RedisRig

SECRET = "not+for/print"
IN_A_URL = "not%2Bfor%2Fprint"


class Accounts:
    """One for each role, as ``acl-rules`` has them: on one server, or on each node of a cluster."""

    def __init__(self, url: str, nodes: Sequence[int] = ()) -> None:
        self._admin = url
        self.port = int(url.rpartition(":")[2].partition("/")[0])
        self.release = release(self.port)
        self._nodes = tuple(nodes) or (self.port,)
        self._topology = Topology.CLUSTER if nodes else Topology.STANDALONE
        for role in Role:
            self.allow((role,))
        self.refused()

    def allow(self, roles: Sequence[Role], prefixes: Sequence[str] = ("orders",)) -> None:
        """Give the account of these roles what they need, and nothing else."""
        streams = tuple(map(StreamPrefix, prefixes))
        asked = Asked(tuple(roles), streams, self._topology, self.release)
        self._set(name_of(*roles), *rules(asked, f">{SECRET}"))

    def change(self, role: Role, *words: str) -> None:
        """Give an account more, or take away."""
        self._set(name_of(role), *words)

    def url(self, *roles: Role) -> str:
        """Where the account logs in."""
        scheme, _, rest = self._admin.partition("://")
        return f"{scheme}://{name_of(*roles)}:{IN_A_URL}@{rest}"

    def refused(self) -> list[Any]:
        """What the server has denied to anybody since the last look."""
        log: list[Any] = [entry for node in self._nodes for entry in ask(node, "ACL", "LOG")]
        for node in self._nodes:
            ask(node, "ACL", "LOG", "RESET")
        return [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in log]

    def _set(self, *words: str) -> None:
        replies = {ask(node, "ACL", "SETUSER", *words) for node in self._nodes}
        assert replies == {b"OK"}, replies


class GuardedRig(RedisRig):
    """The coordinator's, the members' and the producers' side of shards, each with its own account."""

    def __init__(self, admin: str, accounts: Accounts) -> None:
        super().__init__(admin)
        self.url = accounts.url(Role.MONITOR)
        self.backend = stream_backend(accounts.url(Role.COORDINATOR))
        consumer = accounts.url(Role.CONSUMER)
        self.log = RedisShardLog(
            Connections(consumer, limit=8),
            Connections(consumer, limit=16),
            Connections(accounts.url(Role.PRODUCER), limit=1),
        )


def name_of(*roles: Role) -> str:
    """What ``acl-rules`` calls an account."""
    return f"streamshard-{'-'.join(role.value for role in roles)}"


def release(port: int) -> Release | None:
    """Of a Redis; None for a Valkey."""
    told = ask(port, "INFO", "server").decode()
    facts = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    if "valkey_version" in facts:
        return None
    major, minor, *_ = facts["redis_version"].split(".")
    return int(major), int(minor)
