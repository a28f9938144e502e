"""JSON in: a typed body, or an `InvalidRequest` that names every field to mend."""

import json
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

import msgspec

from streamshard.errors import InvalidRequest

Body = TypeVar("Body", bound=msgspec.Struct)

INT_LIMIT = 2**53 - 1
"""The largest whole number that every JSON reader keeps whole."""


class Decoder(Generic[Body]):
    """Decodes one kind of body; a second, slower look says what is wrong with a bad one."""

    def __init__(self, kind: type[Body]) -> None:
        self._kind = kind
        self._fast: msgspec.json.Decoder[Body] = msgspec.json.Decoder(kind)

    def __call__(self, body: bytes) -> Body:
        """Raise `InvalidRequest` for anything but a JSON object with the wanted fields."""
        try:
            str(body, "utf-8")  # msgspec does not look inside what it skips
            return self._decoded(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"body: is no valid JSON ({error}): send one JSON object in UTF-8") from None
        except RecursionError:
            raise InvalidRequest("body: is nested too deeply: send a flat JSON object") from None

    def _decoded(self, body: bytes) -> Body:
        try:
            return self._fast.decode(body)
        except msgspec.ValidationError:
            raise InvalidRequest(self._complaint(body)) from None

    def _complaint(self, body: bytes) -> str:
        try:
            raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        except msgspec.ValidationError:
            return "body: must be a JSON object"
        found = (_field_problem(field, raw) for field in msgspec.structs.fields(self._kind))
        return "; ".join(problem for problem in found if problem) or "body: can't be understood"


class SingleKeyDecoder(Decoder[Body]):
    """For bodies that change something: also refuses a key that comes twice, of which readers pick different ones."""

    def _decoded(self, body: bytes) -> Body:
        decoded = super()._decoded(body)
        # Numbers stay text: Python refuses to make an int of thousands of digits.
        json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)
        return decoded


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            told = name if name.isidentifier() else repr(name)
            raise InvalidRequest(f"{told}: stands there twice: send it once")
        seen.add(name)


def _field_problem(field: msgspec.structs.FieldInfo, raw: dict[str, msgspec.Raw]) -> str | None:
    name = field.encode_name
    if name not in raw:
        return f"{name}: is missing, it must be {_wanted(field.type)}" if field.required else None
    try:
        msgspec.json.decode(raw[name], type=field.type)
    except msgspec.ValidationError as error:
        why, _, path = str(error).partition(" - at `$")
        if path:
            return f"{name}{path.rstrip('`')}: {why[:1].lower()}{why[1:]}"
        return f"{name}: must be {_wanted(field.type)}"
    return None


def _wanted(kind: Any) -> str:
    for meta in get_args(kind)[1:] if get_origin(kind) is Annotated else ():
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    return "of the documented type"
