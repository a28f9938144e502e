"""What may stand in a record, and how it is stored: checked and encoded before anything is sent."""

from collections.abc import Mapping
from typing import TypeAlias

from streamshard.errors import InvalidRequest

Value: TypeAlias = str | bytes | int | float

MOST_BYTES = 256 * 1024 * 1024
"""The most bytes of one record's names and values together.

A server cuts the connection at 512 MB a value and at 1 GB a command, and with it everybody else's records.
"""


def encode_fields(fields: Mapping[str | bytes, Value]) -> dict[bytes, bytes]:
    """The record as Redis keeps it: text as UTF-8, bytes as they are, numbers as Python writes them.

    Raises `InvalidRequest` without fields, for more than `MOST_BYTES`, two names of the same bytes, text or
    numbers that can't be written; `TypeError` for other types, booleans among them.
    """
    if type(fields) is not dict and not isinstance(fields, Mapping):
        raise TypeError(f"fields: must be a mapping of names to values, not {type(fields).__name__}")
    if not fields:
        raise InvalidRequest("fields: a record needs at least one field")
    record: dict[bytes, bytes] = {}
    size = 0
    for name, value in fields.items():
        stored = value if type(value) is bytes else _value(name, value)
        place = _name(name) if type(name) is not str or not name.isascii() else name.encode()
        record[place] = stored
        size += len(place) + len(stored)
    if len(record) < len(fields):
        raise InvalidRequest("fields: two names are the same bytes, once as str and once as bytes: keep one of them")
    if size > MOST_BYTES:
        raise InvalidRequest(f"fields: {size} bytes in one record, the most is {MOST_BYTES}: store a reference instead")
    return record


def _name(name: object) -> bytes:
    if isinstance(name, str):
        return _text(name, name)
    if not isinstance(name, bytes):
        raise TypeError(f"field {name!r}: the name must be str or bytes, not {type(name).__name__}")
    return bytes(name)


def _value(name: object, value: object) -> bytes:
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"field {name!r}: the value must be str, bytes, int or float, not {type(value).__name__}")
    return _number(name, value)


def _text(name: object, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"field {name!r}: has a lone surrogate at position {error.start} and so no UTF-8: "
            "mend the text or pass bytes"
        ) from error


def _number(name: object, value: int | float) -> bytes:
    # Of a subclass (an IntEnum, numpy's float64) the number is meant, not the name that it shows itself by.
    try:
        return (int.__repr__(value) if isinstance(value, int) else float.__repr__(value)).encode()
    except ValueError as error:
        raise InvalidRequest(f"field {name!r}: the number has too many digits to be written: pass text") from error
