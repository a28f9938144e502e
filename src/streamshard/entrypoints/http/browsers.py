"""What keeps the pages of other sites from reaching a coordinator through the browser of someone who may.

Without accounts, being able to connect is all the permission there is, and a browser on the same machine
can connect. A page may send some requests anywhere (hence `Origin`), and may have its own name resolved
to this machine (hence `Host`).
"""

import functools
import ipaddress

from starlette.types import Scope

from streamshard.entrypoints.http.exchange import header
from streamshard.errors import Forbidden


def refuse_other_sites(scope: Scope) -> None:
    """Raise `Forbidden` for a request that a page of another site made."""
    origin = header(scope, b"origin")
    if origin is not None and origin.rpartition(b"/")[2] != header(scope, b"host"):
        raise Forbidden("this request comes from the page of another site: send it without an Origin header")


def refuse_other_names(scope: Scope) -> None:
    """Raise `Forbidden` unless the host is called by a loopback address or ``localhost``."""
    if not _is_loopback(header(scope, b"host") or b""):
        raise Forbidden("the Host header names another machine: use http://127.0.0.1:PORT or http://localhost:PORT")


@functools.lru_cache(maxsize=64)  # every request of a caller names the same
def _is_loopback(given: bytes) -> bool:
    host = given.decode("latin-1")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False
