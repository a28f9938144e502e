"""What a member calls itself when nobody gave it a name."""

import os
import socket
from collections.abc import Mapping

from streamshard.core.ids import MemberId
from streamshard.core.names import name_problem
from streamshard.errors import ConfigurationError


def host_identity(environment: Mapping[str, str] = os.environ) -> str:
    """``POD_IP``, else the host's own address, else its name."""
    return environment.get("POD_IP") or _address() or socket.gethostname()


def member_ids(explicit: str | None, count: int) -> tuple[MemberId, ...]:
    """The ids of ``count`` logical members of this process: ``…-m0``, ``…-m1`` and so on."""
    base = host_identity() if explicit is None else explicit
    ids = tuple(MemberId(f"{base}-m{position}") for position in range(count))
    problem = name_problem(ids[-1])
    if problem is not None:
        raise ConfigurationError(f"member_id: {problem}")
    return ids


def _address() -> str | None:
    """The host's address, unless it is one that every host has."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return None if address.startswith("127.") else address
