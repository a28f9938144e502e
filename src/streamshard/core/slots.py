"""Where Redis Cluster puts a key."""

from binascii import crc_hqx

from streamshard.core.routing import key_bytes

SLOT_COUNT = 16_384


def hash_slot(key: str | bytes) -> int:
    """The cluster slot of ``key``: CRC16-XMODEM of its hash tag, or of all of it, modulo 16384.

    Source: the Redis Cluster specification, "Key distribution model" and "Hash tags".
    """
    return crc_hqx(_hashed_part(key_bytes(key)), 0) % SLOT_COUNT


def _hashed_part(key: bytes) -> bytes:
    """What stands between the first ``{`` and the next ``}``, unless one is missing or nothing does."""
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return tag if opened and closed and tag else key
