"""Views: opaque names of committed versions that members carry back, so that lost writes are noticed."""

import hashlib
import hmac

from streamshard.core.ids import GroupKey, Lineage, Nonce, Version, View

_MAC_CHARS = 32


def _mac(key: str, group: GroupKey, text: str) -> str:
    """Names the group, so that a view sent to another group is its sender's mistake and no proof of anything."""
    message = f"{group}\n{text}".encode(errors="replace")
    return hmac.new(key.encode(), message, hashlib.sha256).hexdigest()[:_MAC_CHARS]


def mint(key: str, group: GroupKey, version: Version) -> View:
    """The view of a group's ``version``; only who knows ``key`` can make one."""
    text = f"{version.lineage}.{version.revision}.{version.nonce}"
    return View(f"{text}.{_mac(key, group, text)}")


def read(key: str, group: GroupKey, view: View) -> Version | None:
    """The version a view names, or None if it was not made with ``key`` for this group."""
    text, _, mac = view.rpartition(".")
    if not hmac.compare_digest(_mac(key, group, text).encode(), mac.encode(errors="replace")):
        return None
    lineage, revision, nonce = text.split(".")
    return Version(Lineage(lineage), int(revision), Nonce(nonce))
