"""How the core's values look as JSON, read off their types: strict on the way in and on the way out."""

import enum
import functools
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import attrs

MAX_WHOLE = 2**53 - 1
"""The largest number that JSON and Lua keep whole."""


class Malformed(ValueError):
    """A value is not of its shape; the message says where and why."""


@attrs.frozen
class Shape:
    """Both directions of one type; each raises `Malformed`."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


def _whole(value: Any) -> int:
    if type(value) is not int or not -MAX_WHOLE <= value <= MAX_WHOLE:
        raise Malformed("not a whole number below 2**53")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Malformed("not text")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Malformed("not valid Unicode")
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise Malformed("neither true nor false")
    return value


_PLAIN = {int: Shape(_whole, _whole), str: Shape(_text, _text), bool: Shape(_flag, _flag)}


def _whole_key(key: str) -> int:
    if not (key.isascii() and key.lstrip("-").isdigit()) or str(int(key)) != key:
        raise Malformed("a key is not a whole number")
    return _whole(int(key))


_KEYS: dict[Any, Callable[[str], Any]] = {int: _whole_key, str: _text}


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise Malformed("not an object" if kind is dict else "not a list")
    return value


def _within(name: object, why: Malformed) -> Malformed:
    separator = ": " if ": " not in str(why) else "."
    return Malformed(f"{name}{separator}{why}")


def _enumeration(kind: type[enum.Enum]) -> Shape:
    def load(value: Any) -> enum.Enum:
        try:
            return kind(value)
        except ValueError as error:
            raise Malformed(f"not one of {', '.join(str(each.value) for each in kind)}") from error

    return Shape(lambda value: value.value, load)


def _optional(inner: Shape) -> Shape:
    return Shape(
        lambda value: None if value is None else inner.dump(value),
        lambda value: None if value is None else inner.load(value),
    )


def _sequence(item: Shape) -> Shape:
    return Shape(
        lambda values: [item.dump(value) for value in values],
        lambda values: tuple(item.load(value) for value in _expect(list, values)),
    )


def _mapping(read_key: Callable[[str], Any], item: Shape) -> Shape:
    def load(values: Any) -> dict[Any, Any]:
        found = {}
        for key, value in _expect(dict, values).items():
            try:
                found[read_key(key)] = item.load(value)
            except Malformed as why:
                raise _within(key, why) from why
        return found

    return Shape(lambda values: {str(key): item.dump(value) for key, value in values.items()}, load)


def _record(kind: type[Any]) -> Shape:
    hints = typing.get_type_hints(kind)
    shapes = [(field.name, shape_of(hints[field.name])) for field in attrs.fields(kind)]

    dumps = [(name, shape.dump) for name, shape in shapes]

    def dump(value: Any) -> dict[str, Any]:
        return {name: dumped(getattr(value, name)) for name, dumped in dumps}

    def load(values: Any) -> Any:
        found = {}
        known = _expect(dict, values)
        for name, shape in shapes:
            try:
                found[name] = shape.load(_present(known, name))
            except Malformed as why:
                raise _within(name, why) from why
        return kind(**found)

    return Shape(dump, load)


def _present(values: dict[str, Any], name: str) -> Any:
    try:
        return values[name]
    except KeyError as error:
        raise Malformed("missing") from error


def _bare(kind: Any) -> Any:
    while isinstance(kind, typing.NewType):
        kind = kind.__supertype__
    return kind


@functools.cache
def shape_of(kind: Hashable) -> Shape:
    """The shape of an attrs class, enum, number, text, flag, tuple, mapping or optional of those."""
    kind = _bare(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and attrs.has(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _enumeration(kind)
    return _composed(typing.get_origin(kind), typing.get_args(kind))


def _composed(origin: Any, parts: tuple[Any, ...]) -> Shape:
    if origin is tuple:
        return _sequence(shape_of(parts[0]))
    if origin in (types.UnionType, typing.Union):
        (inner,) = (part for part in parts if part is not types.NoneType)
        return _optional(shape_of(inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_KEYS[_bare(parts[0])], shape_of(parts[1]))
    raise TypeError(f"no shape for {origin}")
