"""How the core's values look as JSON, read off their types: strict on the way in and on the way out."""

import enum
import functools
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs

from streamshard.adapters.stores import evolution

MAX_WHOLE = 2**53 - 1
"""The largest number that JSON and Lua keep whole."""


Later: TypeAlias = Callable[[Any], bool]


class Malformed(ValueError):
    """A value is not of its shape; the message says where and why."""


class Newer(Malformed):
    """A value that is whole, and says something this version does not know."""


@attrs.frozen
class Shape:
    """Both directions of one type; each raises `Malformed`."""

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]
    later: Later | None = None
    """Whether a value says what the first schema has no field for; None if no such value ever does."""


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
    return type(why)(f"{name}{separator}{why}")


def _enumeration(kind: type[enum.Enum]) -> Shape:
    def load(value: Any) -> enum.Enum:
        try:
            return kind(value)
        except ValueError as error:
            raise Newer(f"not one of {', '.join(str(each.value) for each in kind)}") from error

    return Shape(lambda value: value.value, load)


def _each(later: Later | None, parts: Callable[[Any], Iterable[Any]]) -> Later | None:
    return None if later is None else lambda value: any(map(later, parts(value)))


def _optional(inner: Shape) -> Shape:
    return Shape(
        lambda value: None if value is None else inner.dump(value),
        lambda value: None if value is None else inner.load(value),
        _each(inner.later, lambda value: () if value is None else (value,)),
    )


def _sequence(item: Shape) -> Shape:
    return Shape(
        lambda values: [item.dump(value) for value in values],
        lambda values: tuple(item.load(value) for value in _expect(list, values)),
        _each(item.later, tuple),
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

    return Shape(
        lambda values: {str(key): item.dump(value) for key, value in values.items()},
        load,
        _each(item.later, lambda values: values.values()),
    )


@attrs.frozen
class _Field:
    """A field of a record, and how its default is stored: not at all, if it came later."""

    name: str
    shape: Shape
    optional: bool
    default: Any = None

    @classmethod
    def of(cls, field: "attrs.Attribute[Any]", shape: Shape, needed: frozenset[str]) -> "_Field":
        if field.name in needed or (field.default is attrs.NOTHING and not needed):
            return cls(field.name, shape, optional=False)
        if field.default is attrs.NOTHING:
            raise TypeError(f"{field.name} came later and has no default: what is stored lacks it")
        factory = getattr(field.default, "factory", None)
        default = field.default if factory is None else factory()
        return cls(field.name, shape, optional=True, default=shape.dump(default))

    def told(self, record: Any) -> bool:
        """Whether a record says something in this field that came later, or within it."""
        value = getattr(record, self.name)
        if self.optional:
            return bool(self.shape.dump(value) != self.default)
        return self.shape.later is not None and self.shape.later(value)


def _record(kind: type[Any]) -> Shape:
    hints = typing.get_type_hints(kind)
    needed = evolution.always_there(kind)
    fields = [_Field.of(field, shape_of(hints[field.name]), needed) for field in attrs.fields(kind)]
    telling = [field for field in fields if field.optional or field.shape.later is not None]
    if not telling or evolution.tolerant(kind):
        return Shape(_dumping(fields), _loading(kind, fields))
    return Shape(_dumping(fields), _loading(kind, fields), lambda value: any(field.told(value) for field in telling))


def _dumping(fields: list[_Field]) -> Callable[[Any], Any]:
    always = [(field.name, field.shape.dump) for field in fields if not field.optional]
    sometimes = [(field.name, field.shape.dump, field.default) for field in fields if field.optional]

    def dump(value: Any) -> dict[str, Any]:
        written = {name: dumped(getattr(value, name)) for name, dumped in always}
        for name, dumped, default in sometimes:
            if (part := dumped(getattr(value, name))) != default:
                written[name] = part
        return written

    return dump


def _loading(kind: type[Any], fields: list[_Field]) -> Callable[[Any], Any]:
    names = {field.name for field in fields}
    tolerant = evolution.tolerant(kind)

    def load(values: Any) -> Any:
        known = _expect(dict, values)
        if not tolerant and (unknown := sorted(known.keys() - names)):
            raise Newer(f"{unknown[0]}: a field that this version does not know")
        return kind(**{field.name: _loaded(known, field) for field in fields if _stored(known, field)})

    return load


def _stored(values: dict[str, Any], field: _Field) -> bool:
    return not field.optional or field.name in values


def _loaded(values: dict[str, Any], field: _Field) -> Any:
    try:
        return field.shape.load(_present(values, field.name))
    except Malformed as why:
        raise _within(field.name, why) from why


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
