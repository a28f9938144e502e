"""The keys of the metadata in Redis: all of one stream share a cluster slot, and no two names share a key.

``streamshard:{p:orders}:stream``            the stream's record: a hash of version, kind and body
``streamshard:{p:orders}:group:billing``     a group's record, likewise
``streamshard:{p:orders}:rows:billing``      its renewal rows: a hash by instance
``streamshard:streams``                      the prefixes of all streams: a set, a hint only

Names are percent-encoded; what an encoded name holds is neither a colon nor a brace.
"""

from functools import lru_cache
from urllib.parse import quote, unquote

import attrs

from streamshard.adapters.stores.codec import checked
from streamshard.core.ids import GroupName, Lineage, Nonce, StreamPrefix, Version
from streamshard.core.slots import hash_slot

INDEX = "streamshard:streams"
INDEX_SLOT = hash_slot(INDEX)
ANY_STREAM = "streamshard:{p:*}:stream"
"""Every stream's record, as a pattern for SCAN."""

_BEFORE, _AFTER = ANY_STREAM.split("*")
KEPT = 16_384
_NAMES_OF_A_VERSION = 2


@attrs.frozen
class StreamKeys:
    """Where one stream's record is."""

    record: str
    slot: int


@attrs.frozen
class GroupKeys:
    """Where one group's record and rows are."""

    record: str
    rows: str


@lru_cache(KEPT)
def stream_keys(prefix: StreamPrefix) -> StreamKeys:
    """Raise `InvalidRequest` for a name that is not valid Unicode."""
    record = f"{_BEFORE}{_encoded(prefix)}{_AFTER}"
    return StreamKeys(record, hash_slot(record))


@lru_cache(KEPT)
def group_keys(prefix: StreamPrefix, group: GroupName) -> GroupKeys:
    """Raise `InvalidRequest` for a name that is not valid Unicode."""
    tag = f"{_BEFORE}{_encoded(prefix)}}}"
    return GroupKeys(f"{tag}:group:{_encoded(group)}", f"{tag}:rows:{_encoded(group)}")


def prefix_of(key: str) -> StreamPrefix:
    """The stream whose record is at ``key``, one that `ANY_STREAM` matches."""
    return StreamPrefix(unquote(key.removeprefix(_BEFORE).removesuffix(_AFTER)))


@lru_cache(KEPT)
def version_text(version: Version) -> str:
    """A version as it stands beside its record."""
    return f"{version.revision} {_encoded(version.lineage)} {_encoded(version.nonce)}"


def version_from(text: str) -> Version | None:
    """What `version_text` said; None if it can't have said that."""
    revision, *names = text.split(" ")
    if len(names) != _NAMES_OF_A_VERSION or not revision.isdecimal():
        return None
    return Version(Lineage(unquote(names[0])), int(revision), Nonce(unquote(names[1])))


def _encoded(name: str) -> str:
    return quote(checked(name), safe="")
