"""xxHash64 as its author specified it, in plain Python: what the fast one of the adapters is held against."""

from itertools import starmap
from struct import iter_unpack, unpack_from

_MASK = 2**64 - 1
_PRIME_1 = 0x9E3779B185EBCA87
_PRIME_2 = 0xC2B2AE3D27D4EB4F
_PRIME_3 = 0x165667B19E3779F9
_PRIME_4 = 0x85EBCA77C2B2AE63
_PRIME_5 = 0x27D4EB2F165667C5
_STRIPE = 32


def xxh64(data: bytes) -> int:
    """The unsigned 64-bit hash of ``data`` under seed 0.

    Source: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
    """
    striped = len(data) - len(data) % _STRIPE
    drawn = _stripes(data[:striped]) if striped else _PRIME_5
    drawn = _tail((drawn + len(data)) & _MASK, data[striped:])
    drawn = (drawn ^ (drawn >> 33)) * _PRIME_2 & _MASK
    drawn = (drawn ^ (drawn >> 29)) * _PRIME_3 & _MASK
    return drawn ^ (drawn >> 32)


def _stripes(data: bytes) -> int:
    lanes = [_PRIME_1 + _PRIME_2 & _MASK, _PRIME_2, 0, -_PRIME_1 & _MASK]
    for stripe in iter_unpack("<4Q", data):
        lanes = list(starmap(_round, zip(lanes, stripe, strict=True)))
    drawn = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        drawn = ((drawn ^ _round(0, lane)) * _PRIME_1 + _PRIME_4) & _MASK
    return drawn


def _tail(drawn: int, data: bytes) -> int:
    place = 0
    while place + 8 <= len(data):
        drawn ^= _round(0, unpack_from("<Q", data, place)[0])
        drawn = (_rotated(drawn, 27) * _PRIME_1 + _PRIME_4) & _MASK
        place += 8
    if place + 4 <= len(data):
        drawn ^= unpack_from("<I", data, place)[0] * _PRIME_1 & _MASK
        drawn = (_rotated(drawn, 23) * _PRIME_2 + _PRIME_3) & _MASK
        place += 4
    for byte in data[place:]:
        drawn = _rotated(drawn ^ byte * _PRIME_5 & _MASK, 11) * _PRIME_1 & _MASK
    return drawn


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIME_2) & _MASK, 31) * _PRIME_1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _MASK
