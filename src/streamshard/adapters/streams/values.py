"""What may stand in a record."""

from collections.abc import Mapping

from streamshard.errors import InvalidRequest


def encode_fields(fields: Mapping[str | bytes, str | bytes | int | float]) -> dict[bytes, bytes]:
    """The record as Redis keeps it; raises `InvalidRequest` without fields, `TypeError` for other types."""
    if not fields:
        raise InvalidRequest("fields: a record needs at least one field")
    return {_name(name): _value(name, value) for name, value in fields.items()}


def _name(name: str | bytes) -> bytes:
    if not isinstance(name, str | bytes):
        raise TypeError(f"field {name!r}: the name must be str or bytes, not {type(name).__name__}")
    return name.encode() if isinstance(name, str) else bytes(name)


def _value(name: str | bytes, value: str | bytes | int | float) -> bytes:
    if isinstance(value, bool) or not isinstance(value, str | bytes | int | float):
        raise TypeError(f"field {name!r}: the value must be str, bytes, int or float, not {type(value).__name__}")
    if isinstance(value, bytes):
        return bytes(value)
    return value.encode() if isinstance(value, str) else repr(value).encode()


def check_max_len(max_len: int | None) -> None:
    """Raise `InvalidRequest` for a length that Redis would not take, or that would drop the record itself."""
    if max_len is not None and max_len < 1:
        raise InvalidRequest(f"max_len: must be at least 1, not {max_len}")
