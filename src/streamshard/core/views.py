"""Views: opaque names of committed versions that members carry back, so that lost writes are noticed."""

import hashlib
import hmac

from streamshard.core.ids import Lineage, Nonce, Version, View

_MAC_CHARS = 32


def _mac(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(errors="replace"), hashlib.sha256).hexdigest()[:_MAC_CHARS]


def mint(key: str, version: Version) -> View:
    """The view of ``version``; only who knows ``key`` can make one."""
    text = f"{version.lineage}.{version.revision}.{version.nonce}"
    return View(f"{text}.{_mac(key, text)}")


def read(key: str, view: View) -> Version | None:
    """The version a view names, or None if it was not made with ``key``."""
    text, _, mac = view.rpartition(".")
    if not hmac.compare_digest(_mac(key, text).encode(), mac.encode(errors="replace")):
        return None
    lineage, revision, nonce = text.split(".")
    return Version(Lineage(lineage), int(revision), Nonce(nonce))
